"""Writes kalman_sequence.lua: rows, densities and gradients of whole sequences (operations packed_kalman_sequence,
kalman_sequence_density, kalman_sequence_adjoint, kalman_path) from a plain filter in JAX, and what statsmodels makes of structural
models at fixed parameters, on generated series and, with --nile FILE, on the Nile's flow.

Run with jax and statsmodels: python3 kalman_sequence.py [--nile nile.csv] > kalman_sequence.lua
"""
import argparse
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import statsmodels.api as sm
from statsmodels.tsa.statespace.initialization import Initialization

jax.config.update("jax_enable_x64", True)
warnings.filterwarnings("ignore")
rng = np.random.default_rng(20261122)


def lua(x):
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k} = {lua(v)}" for k, v in x.items()) + "}"
    x = np.asarray(x)
    return "{" + ", ".join(lua(v) for v in x) + "}" if x.ndim else repr(float(x))


# ---- rows, densities, gradients ----

def covariance(*shape):
    x = rng.normal(size=shape)
    return x @ np.swapaxes(x, -1, -2) / shape[-1] + 0.3 * np.eye(shape[-1])


def run(s, y):
    """One series, operands with an axis of time: rows [mean, cov, log density]."""
    mean, cov, rows = s["mean"], s["cov"], []
    for t in range(len(y)):
        a, b, q, c, d, r = (s[k][t] for k in "abqcdr")
        mean, cov = a @ mean + b, a @ cov @ a.T + q
        v, f = y[t] - c @ mean - d, c @ cov @ c.T + r
        gain = jnp.linalg.solve(f, c @ cov).T
        density = -0.5 * (v @ jnp.linalg.solve(f, v) + jnp.linalg.slogdet(f)[1] + len(v) * jnp.log(2 * jnp.pi))
        mean, cov = mean + gain @ v, cov - gain @ c @ cov
        rows.append(jnp.concatenate([mean, cov.ravel(), density[None]]))
    return jnp.stack(rows)


steps, n, p = 6, 3, 2
system = {"mean": rng.normal(size=n), "cov": covariance(n, n), "a": 0.5 * rng.normal(size=(steps, n, n)),
          "b": rng.normal(size=(steps, n)), "q": covariance(steps, n, n), "c": rng.normal(size=(steps, p, n)),
          "d": rng.normal(size=(steps, p)), "r": covariance(steps, p, p)}
y = rng.normal(size=(steps, p))
weight = rng.normal(size=(steps, n + n * n + 1))
rows = run(system, y)
symmetric = lambda g: (g + np.swapaxes(g, -1, -2)) / 2  # covariances are read as their symmetric parts


def gradients(f):
    g = dict(jax.grad(lambda s: f(s, y))(system), y=jax.grad(lambda y: f(system, y))(y))
    return {k: symmetric(np.asarray(v)) if k in ("cov", "q", "r") else v for k, v in g.items()}


def weighed(s, y):
    x = run(s, y)
    v = x[:, n:n + n * n].reshape(-1, n, n)
    x = jnp.concatenate([x[:, :n], ((v + jnp.swapaxes(v, -1, -2)) / 2).reshape(-1, n * n), x[:, -1:]], 1)
    return jnp.sum(x * weight)


print("-- Written by kalman_sequence.py from JAX and statsmodels.")
print("-- luacheck: ignore 631")
print("return {")
print("system =", lua(dict(system, y=y)) + ",")
print("weight =", lua(weight) + ",")
print("packed_kalman_sequence =", lua(rows) + ",")
path, paths = system["mean"], []
for t in range(steps):
    path = system["a"][t] @ path + system["b"][t]
    paths.append(path)
print("kalman_path =", lua(paths) + ",")
print("kalman_sequence_density =", lua(rows[:, -1]) + ",")
print("kalman_sequence_adjoint =", lua({"rows": gradients(weighed),
                                        "density": gradients(lambda s, y: jnp.sum(run(s, y)[:, -1]))}) + ",")

# ---- structural models of statsmodels ----


def series(model, params, every=1):
    """Likelihood, states and forecasts at fixed parameters, of all observations and without a steady state's shortcut."""
    model.ssm.loglikelihood_burn = 0
    model.ssm.tolerance = 0
    filtered, smoothed = model.filter(params), model.smooth(params)
    ahead = filtered.get_forecast(3)
    return {"log_likelihood": filtered.llf, "smoothed": smoothed.smoothed_state.T[::every],
            "smoothed_cov": np.moveaxis(smoothed.smoothed_state_cov, 2, 0)[::every],
            "filtered_last": filtered.filtered_state[:, -1], "filtered_cov_last": filtered.filtered_state_cov[:, :, -1],
            "forecast": ahead.predicted_mean, "forecast_variance": np.asarray(ahead.se_mean) ** 2}


def components(data, params, every=10, **kinds):
    model = sm.tsa.UnobservedComponents(data, use_exact_diffuse=True, **kinds)
    return series(model, [params[k] for k in model.param_names], every)


data = np.cumsum(rng.normal(size=60)) + 3 * np.sin(np.arange(60) * np.pi / 6) + rng.normal(size=60)
holes = data.copy()
holes[20:28] = np.nan
x = rng.normal(size=(60, 2))
print("series =", lua(data) + ",")
print("regressors =", lua(x) + ",")
print("holes = {21, 28},")
level = {"sigma2.irregular": 0.9, "sigma2.level": 0.6}
print("structural = {")
print("local_level =", lua(components(data, level, level="local level", every=1)) + ",")
print("local_level_holes =", lua(components(holes, level, level="local level")) + ",")
known = sm.tsa.UnobservedComponents(data, level="local level")
known.ssm.initialize_known(np.array([1.5]), np.array([[4.0]]))
print("local_level_known =", lua(series(known, [0.9, 0.6], 10)) + ",")
trend = dict(level, **{"sigma2.trend": 0.05})
print("trend =", lua(components(data, trend, level="local linear trend")) + ",")
print("seasonal_dummy =", lua(components(data, dict(level, **{"sigma2.seasonal": 0.2}), level="local level",
                                         seasonal=4)) + ",")
print("seasonal_trigonometric =", lua(components(
    data, dict(level, **{"sigma2.freq_seasonal_12(5)": 0.2}), level="local level",
    freq_seasonal=[{"period": 12, "harmonics": 5}])) + ",")
print("seasonal_even =", lua(components(
    data, dict(level, **{"sigma2.freq_seasonal_4(2)": 0.2}), level="local level",
    freq_seasonal=[{"period": 4, "harmonics": 2}])) + ",")
cycle = sm.tsa.UnobservedComponents(data, level="local level", cycle=True, stochastic_cycle=True, damped_cycle=True,
                                    use_exact_diffuse=True)
start = Initialization(3)
start.set(0, "diffuse")
start.set((1, 3), "stationary")  # (statsmodels takes it to be diffuse too)
cycle.ssm.initialize(start)
print("cycle =", lua(series(cycle, [dict(level, **{"sigma2.cycle": 0.3, "frequency.cycle": 0.5, "damping.cycle": 0.9})[k]
                                    for k in cycle.param_names], 10)) + ",")
arma = sm.tsa.SARIMAX(data, order=(2, 0, 1))
print("arma =", lua(series(arma, [0.6, 0.2, 0.4, 1.3], 10)) + ",")
print("},")
regression = sm.OLS(data, x).fit()
print("regression =", lua({"coefficients": regression.params}) + ",")

parser = argparse.ArgumentParser()
parser.add_argument("--nile")
path = parser.parse_args().nile
if path:
    flow = np.loadtxt(path, delimiter=",", skiprows=1)[:, -1]
    nile = {"sigma2.irregular": 15099.0, "sigma2.level": 1469.1}
    known = sm.tsa.UnobservedComponents(flow, level="local level")
    known.ssm.initialize_known(np.array([0.0]), np.array([[1e7]]))
    fit = sm.tsa.UnobservedComponents(flow, level="local level", use_exact_diffuse=True)
    best = fit.fit(disp=0, method="lbfgs", pgtol=1e-10, maxiter=1000)
    print("nile =", lua({"diffuse": components(flow, nile, level="local level"),
                         "known": series(known, [nile[k] for k in known.param_names], 10),
                         "fit": {"log_likelihood": best.llf, "irregular": best.params[0], "level": best.params[1]}}) + ",")
print("}")
