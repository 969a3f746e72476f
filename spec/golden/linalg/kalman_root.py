#!/usr/bin/env python3
"""Golden values of filters on roots (rows packed_kalman_root_predict, packed_kalman_root_update) and of tria, from mpmath:
writes kalman_root_golden.h beside this file.

    python3 kalman_root.py

A position that is observed with variance 1e-12, its slope and its curvature, all with variance 1e12 at first: mean,
covariance and sum of log densities after some steps in 60 digits; and in the steady state of a filter whose matrices
float32 holds exactly. tria: the Cholesky factor of x x^T in 60 digits.
"""
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 60
out = ["/* kalman_root_golden.h: written by kalman_root.py from mpmath. */", "/* clang-format off */"]


def emit(name, values):
    flat = [float(v) for v in values]
    out.append(f"static const double golden_{name}[{len(flat)}] = {{{', '.join(v.hex() for v in flat)}}};")


def step(m, p, a, q, y, c, r):
    m, p = a * m, a * p * a.T + q
    s = (c * p * c.T)[0] + r
    k = p * c.T / s
    v = y - (c * m)[0]
    return m + k * v, p - k * s * k.T, -(mp.log(2 * mp.pi * s) + v * v / s) / 2


def diffuse():
    a, c = mp.matrix([[1, 1, 0.5], [0, 1, 1], [0, 0, 1]]), mp.matrix([[1, 0, 0]])
    q, r = mp.eye(3) * mp.mpf(1e-4) ** 2, mp.mpf(1e-6) ** 2
    m, p, total = mp.zeros(3, 1), mp.eye(3) * mp.mpf(1e6) ** 2, mp.mpf(0)
    ys, means, covs, totals = [], [], [], []
    for t in range(30):
        y = float(np.sin(0.1 * t) + 1e-3 * t * t)
        m, p, density = step(m, p, a, q, mp.mpf(y), c, r)
        total += density
        ys.append(y)
        means += list(m)
        covs += list(p)
        totals.append(total)
    for name, values in (("y", ys), ("mean", means), ("cov", covs), ("total", totals)):
        emit("diffuse_" + name, values)


def steady():
    """Powers of two in float32: turn and shrink by 0.5 and 0.75, q = 2^-14, r = 2^-20."""
    a, c = mp.matrix([[0.75, 0.5], [-0.5, 0.75]]), mp.matrix([[1, 0]])
    q, r = mp.eye(2) * mp.mpf(2) ** -14, mp.mpf(2) ** -20
    m, p = mp.zeros(2, 1), mp.eye(2) * mp.mpf(2) ** 20
    for _ in range(400):
        m, p, _ = step(m, p, a, q, mp.mpf(0), c, r)
    emit("steady_cov", list(p))


def tria():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 7)) * np.array([[1], [1e3], [1e-3], [1]])
    x[3] = x[0] + 1e-7 * x[3]  # nearly dependent rows
    emit("tria_x", x.ravel())
    emit("tria_l", list(mp.cholesky(mp.matrix(x.tolist()) * mp.matrix(x.tolist()).T)))


diffuse()
steady()
tria()
Path(__file__).with_name("kalman_root_golden.h").write_text("\n".join(out) + "\n")
