"""Scores of point forecasts and of rolling evaluation, written out with loops over numbers. Writes forecast_score.lua
beside itself."""
import math
from pathlib import Path

import numpy as np

rng = np.random.default_rng(5)
T, H, B, S, SEASON = 13, 4, 3, 6, 3
level = np.array([1.0, 30.0, 0.2])
history = np.round(level * rng.normal(size=(T, B)).cumsum(0), 3)
y = np.round(level * rng.normal(size=(H, B)), 3)
point = np.round(level * rng.normal(size=(H, B)), 3)
draws = np.round(level * rng.normal(size=(S, H, B)), 3)
history[2, 0] = history[7, 1] = y[1, 2] = y[3, 0] = math.nan  # not observed
y[0, 0] = point[0, 0] = 0.0


def cells():
    return [(h, b) for h in range(H) for b in range(B) if not math.isnan(y[h, b])]


def median(v):
    v = sorted(v)
    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2


def change(series, season):
    pairs = [abs(series[t] - series[t - season]) for t in range(season, len(series))]
    pairs = [p for p in pairs if not math.isnan(p)]
    return sum(pairs) / len(pairs)


def mase(p, season):
    return sum(abs(y[c] - p[c]) / change(history[:, c[1]], season) for c in cells()) / len(cells())


def smape(p):
    total = 0.0
    for c in cells():
        size = abs(y[c]) + abs(p[c])
        total += 2 * abs(y[c] - p[c]) / size if size else 0.0
    return total / len(cells())


def nd(p):
    return sum(abs(y[c] - p[c]) for c in cells()) / sum(abs(y[c]) for c in cells())


middle = np.array([[median(draws[:, h, b]) for b in range(B)] for h in range(H)])

# rolling evaluation of one series by draws around its last value
series = np.round(rng.normal(size=17).cumsum(), 3)
series[11] = math.nan
offsets = np.round(rng.normal(size=(5, 3)), 3)  # [S, steps]
STEPS, FIRST, EVERY = 3, 8, 2
origins, by_origin, sums, counts = [], {k: [] for k in ("crps", "mase", "smape", "nd")}, [0.0] * STEPS, [0] * STEPS
for t in range(FIRST, len(series) - STEPS + 1, EVERY):
    origins.append(t)
    last = [v for v in series[:t] if not math.isnan(v)][-1]
    paths = last + offsets
    crps, scaled, relative, over, under = [], [], [], 0.0, 0.0
    for h in range(STEPS):
        actual, x = series[t + h], paths[:, h]
        if math.isnan(actual):
            continue
        n = len(x)
        apart = sum(abs(a - b) for a in x for b in x) / (2 * n * (n - 1))
        score = sum(abs(a - actual) for a in x) / n - apart
        crps.append(score)
        sums[h] += score
        counts[h] += 1
        m = median(x)
        scaled.append(abs(actual - m) / change(series[:t], 1))
        relative.append(2 * abs(actual - m) / (abs(actual) + abs(m)))
        over += abs(actual - m)
        under += abs(actual)
    by_origin["crps"].append(np.mean(crps))
    by_origin["mase"].append(np.mean(scaled))
    by_origin["smape"].append(np.mean(relative))
    by_origin["nd"].append(over / under)


def lua(v):
    v = np.asarray(v)
    if v.ndim == 0:
        return "0 / 0" if isinstance(v.item(), float) and math.isnan(v.item()) else repr(v.item())
    return "{" + ", ".join(lua(u) for u in v) + "}"


values = dict(history=history, y=y, point=point, draws=draws, mase_1=mase(point, 1), mase_3=mase(point, SEASON),
              mase_draws=mase(middle, 1), smape=smape(point), smape_draws=smape(middle), nd=nd(point), nd_draws=nd(middle),
              series=series, offsets=offsets, origins=origins, crps=by_origin["crps"], rolling_mase=by_origin["mase"],
              rolling_smape=by_origin["smape"], rolling_nd=by_origin["nd"],
              by_step=[s / c for s, c in zip(sums, counts)])
text = "-- Made by forecast_score.py.\nreturn {\n" + "".join(f"  {k} = {lua(v)},\n" for k, v in values.items()) + "}\n"
Path(__file__).with_suffix(".lua").write_text(text)
