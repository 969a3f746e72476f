"""Scores of forecasts by paths, written out with NumPy's loops and sums. Writes forecast.lua beside itself."""
import numpy as np
from pathlib import Path

rng = np.random.default_rng(11)
S, T, B = 7, 4, 3
draws = np.round(rng.normal(size=(S, T, B)).cumsum(1), 3)
draws[2, 1] = draws[5, 1]  # ties
y = np.round(rng.normal(size=(T, B)).cumsum(0), 3)


def crps(fair):
    first = np.mean([np.abs(x - y) for x in draws], axis=0)
    pairs = sum(np.abs(a - b) for a in draws for b in draws)
    return first - pairs / (2 * S * (S - 1 if fair else S))


def energy():
    """Vectors along the last axis."""
    def norm(v):
        return np.sqrt((v**2).sum(-1))
    pairs = sum(norm(a - b) for a in draws for b in draws)
    return np.mean([norm(x - y) for x in draws], axis=0) - pairs / (2 * S * S)


def weighted_quantile_loss(levels, method):
    """GluonTS's mean_wQuantileLoss."""
    total = 0
    for a in levels:
        if method == "nearest":
            q = np.sort(draws, axis=0)[int(np.round((S - 1) * a))]
        else:
            q = np.quantile(draws, a, axis=0)
        total += 2 * np.sum(np.abs((q - y) * ((y <= q) - a))) / np.abs(y).sum()
    return total / len(levels)


def lua(v):
    v = np.asarray(v)
    return repr(v.item()) if v.ndim == 0 else "{" + ", ".join(lua(u) for u in v) + "}"


tenths, twentieths = np.arange(1, 10) / 10, np.arange(1, 20) / 20
values = dict(draws=draws, y=y, fair=crps(True), plain=crps(False), energy=energy(),
              tenths_linear=weighted_quantile_loss(tenths, "linear"),
              tenths_nearest=weighted_quantile_loss(tenths, "nearest"),
              twentieths_nearest=weighted_quantile_loss(twentieths, "nearest"))
text = "-- Made by forecast.py.\nreturn {\n" + "".join(f"  {k} = {lua(v)},\n" for k, v in values.items()) + "}\n"
Path(__file__).with_suffix(".lua").write_text(text)
