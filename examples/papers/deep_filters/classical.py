#!/usr/bin/env python3
"""Exponential smoothing and ARIMA of statsmodels on the series of exchange.lua and hourly.lua, scored as there.

    python3 classical.py exchange_rate_nips_test.json.gz --results exchange.txt
    python3 classical.py electricity_321x840.csv.gz --hourly --items 40 --results hourly.txt
    python3 classical.py ETTh1.csv.gz,ETTh2.csv.gz --hourly --name ett --results hourly.txt

For each series both are fitted once, on the last --history steps before the test steps; at each rolling window the state
is brought up to date with the parameters as they are. Models are those of least AIC among

    ets     additive errors; no trend or a damped one; with --hourly a season of 24
    arima   (p, 1, q), p and q up to 2; with --hourly (p, 0, q) with an intercept and Fourier terms of a day and a week

Forecasts are 100 simulated paths; the lines that it appends are those of forecasting.lua.
"""
import argparse
import gzip
import inspect
import json
import time
import warnings

import numpy as np
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.exponential_smoothing.ets import ETSModel

PATHS = 100


def read(paths, items):
    """Series as rows of one length; of a table with a head, the columns after the first, which is the date."""
    found = []
    for path in paths.split(","):
        text = gzip.open(path, "rt").read() if path.endswith(".gz") else open(path).read()
        if ".json" in path:
            rows = [json.loads(line)["target"] for line in text.splitlines() if line.strip()]
            longest = max(len(row) for row in rows)
            found.append(np.array([row for row in rows if len(row) == longest]))
            continue
        lines = [line.split(",") for line in text.splitlines()]
        if lines[0][0] == "date":
            lines = [line[1:] for line in lines[1:]]
        series = np.array([[float(v) for v in line] for line in lines]).T
        found.append(series[np.abs(series).sum(1) > 0])
    series = np.concatenate(found)
    return series[:items] if items else series


def quantile_loss(y, paths, levels):
    """Twice the quantile losses, summed over y and meant over the levels; quantiles nearest to the level."""
    ordered, total = np.sort(paths, axis=0), 0.0
    for a in levels:
        q = ordered[int(np.round((PATHS - 1) * a))]
        total += 2 * np.maximum(a * (y - q), (a - 1) * (y - q)).sum()
    return total / len(levels)


def exact_crps(y, paths):
    """Sum of the CRPS of the paths' own distribution."""
    ordered = np.sort(paths, axis=0)
    rank = 2 * np.arange(PATHS) - (PATHS - 1)
    apart = (ordered * rank.reshape((-1,) + (1,) * y.ndim)).sum(0) / PATHS**2
    return (np.abs(paths - y).mean(0) - apart).sum()


def fourier(first, count):
    t = np.arange(first, first + count)
    columns = [f(2 * np.pi * k * t / 168) for k in (1, 2, 7, 14, 21, 28) for f in (np.sin, np.cos)]
    return np.column_stack(columns)


def best(fits):
    """The fitted model of least AIC among those that could be fitted."""
    found = None
    for make in fits:
        try:
            f = make()
        except Exception:  # some orders have no start that is stationary
            continue
        if np.isfinite(f.aic) and (found is None or f.aic < found.aic):
            found = f
    return found


def seeded(results, seed):
    """statsmodels has had two names for it."""
    names = inspect.signature(results.simulate).parameters
    return {"rng" if "rng" in names else "random_state": seed}


def fit_ets(y, hourly):
    season = dict(seasonal="add", seasonal_periods=24) if hourly else {}
    trends = [{}] if hourly else [{}, dict(trend="add", damped_trend=True)]
    return best([lambda t=t: ETSModel(y, error="add", **t, **season).fit(disp=False) for t in trends])


def paths_ets(f, y, _first, steps, seed):
    """Paths after y: the states by the parameters of f."""
    m = f.model
    again = ETSModel(y, error="add", trend=m.trend, damped_trend=m.damped_trend, seasonal=m.seasonal,
                     seasonal_periods=m.seasonal_periods if m.seasonal else None)
    r = again.smooth(f.params)
    return np.asarray(r.simulate(steps, repetitions=PATHS, anchor="end", **seeded(r, seed))).reshape(steps, PATHS).T


def fit_arima(y, hourly):
    if hourly:
        x = fourier(0, len(y))
        orders = [(1, 0, 0), (2, 0, 1)]
        return best([lambda o=o: ARIMA(y, exog=x, order=o).fit() for o in orders])
    return best([lambda p=p, q=q: ARIMA(y, order=(p, 1, q)).fit() for p in range(3) for q in range(3)])


def paths_arima(f, y, first, steps, seed):
    """Paths after y, whose first step is step `first` of what f was fitted to."""
    hourly = f.model.k_exog > 0
    r = f.apply(y, exog=fourier(first, len(y)) if hourly else None)
    more = dict(exog=fourier(first + len(y), steps)) if hourly else {}
    out = r.simulate(steps, repetitions=PATHS, anchor="end", **seeded(r, seed), **more)
    return np.asarray(out).reshape(steps, PATHS).T


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--hourly", action="store_true")
    parser.add_argument("--items", type=int, default=0)
    parser.add_argument("--history", type=int, default=1000)
    parser.add_argument("--name", default=None)
    parser.add_argument("--results", default=None)
    o = parser.parse_args()
    warnings.simplefilter("ignore")
    series = read(o.data, o.items)
    horizon, test = (24, 168) if o.hourly else (30, 150)
    starts = list(range(0, test, horizon))
    for name, fit, paths_of in (("ets", fit_ets, paths_ets), ("arima", fit_arima, paths_arima)):
        begun = time.time()
        rolling = [[], []]
        long = [[], []]
        for k, y in enumerate(series):
            cut = len(y) - test
            begin = max(0, cut - o.history)
            f = fit(y[begin:cut], o.hourly)
            for start in starts:
                at = cut + start
                rolling[0].append(y[at:at + horizon])
                rolling[1].append(paths_of(f, y[begin:at], 0, horizon, 1000 + k))
            long[0].append(y[cut:])
            long[1].append(paths_of(f, y[begin:cut], 0, test, 2000 + k))
        numbers = []
        for score in (lambda y, p: quantile_loss(y, p, np.arange(1, 10) / 10),
                      lambda y, p: quantile_loss(y, p, np.arange(1, 20) / 20), exact_crps):
            for truth, paths in (rolling, long):
                y, p = np.stack(truth), np.stack(paths, axis=1)
                numbers.append(score(y, p) / np.abs(y).sum())
        line = "%s %s 1 %s %.2f" % (o.name or ("electricity" if o.hourly else "exchange"), name,
                                    " ".join("%.6f" % v for v in numbers), (time.time() - begun) / 60)
        print(line, flush=True)
        if o.results:
            with open(o.results, "a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
