#!/usr/bin/env python3
"""Golden values of the Kalman filter's steps (rows packed_kalman_predict, packed_kalman_update,
packed_kalman_step) from NumPy and SciPy: writes kalman_golden.h beside this file.

    python3 kalman.py

The gradients of these rows, kalman_adjoint, are checked against differences. An update is checked against conditioning the joint Gaussian of state and observation; its density is SciPy's.
"""
from pathlib import Path

import numpy as np
from scipy.stats import multivariate_normal

rng = np.random.default_rng(11)
out = ["/* kalman_golden.h: written by kalman.py from NumPy and SciPy. */", "/* clang-format off */"]


def emit(name, values):
    flat = np.asarray(values, dtype=np.float64).ravel()
    body = ", ".join(float(v).hex() for v in flat)
    out.append(f"static const double golden_{name}[{flat.size}] = {{{body}}};")


def positive(*shape):
    x = rng.normal(size=shape + shape[-1:])
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


batch, n, p = 5, 4, 2
m, cov, y = rng.normal(size=(batch, n)), positive(batch, n), rng.normal(size=(batch, p))
a, b, q = rng.normal(size=(n, n)), rng.normal(size=n), positive(n)
c, d, r = rng.normal(size=(p, n)), rng.normal(size=p), positive(p)
for name in ("m", "cov", "y", "a", "b", "q", "c", "d", "r"):
    emit(name, globals()[name])
emit("predict_mean", m @ a.T + b)
emit("predict_cov", a @ cov @ a.T + q)


def condition(name, m, cov):
    means, covs, densities = [], [], []
    for i in range(batch):
        cross, s = cov[i] @ c.T, c @ cov[i] @ c.T + r
        expected = c @ m[i] + d
        means.append(m[i] + cross @ np.linalg.solve(s, y[i] - expected))
        covs.append(cov[i] - cross @ np.linalg.solve(s, cross.T))
        densities.append(multivariate_normal(expected, s).logpdf(y[i]))
    emit(name + "_mean", means)
    emit(name + "_cov", covs)
    emit(name + "_log_prob", densities)


condition("update", m, cov)
condition("step", m @ a.T + b, a @ cov @ a.T + q)

Path(__file__).with_name("kalman_golden.h").write_text("\n".join(out) + "\n")
