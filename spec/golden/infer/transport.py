"""Exact transport of mass: spec/golden/infer/transport.lua, by SciPy: linprog (HiGHS) for weights of any kind,
linear_sum_assignment for equal ones, wasserstein_distance on the line. transport_plan: values of the cheapest plans of random
problems; image_transport: distances of images as distributions over pixels.

Run: python3 transport.py   (needs scipy; writes beside itself)
"""
import os

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

rng = np.random.default_rng(3)


def text(x):
    if isinstance(x, (list, tuple)):
        return "{" + ", ".join(text(v) for v in x) + "}"
    if isinstance(x, np.ndarray):
        return text(x.tolist())
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k} = {text(v)}" for k, v in x.items()) + "}"
    return repr(float(x)) if isinstance(x, float) else repr(x)


def least(cost, a, b):
    n, m = cost.shape
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    r = linprog(cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]), method="highs",
                options={"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10})
    assert r.status == 0
    return float(r.fun)


def problem(n, m):
    cost = rng.integers(0, 2 ** 20, (n, m)) / 2 ** 18 - 1  # exact in few digits
    a, b = rng.integers(0, 9, n), rng.integers(1, 9, m)
    a[0] = 3
    return {"cost": cost, "a": a.astype(float), "b": b.astype(float), "value": least(cost, a / a.sum(), b / b.sum())}


def assignment(n):
    x, y = rng.integers(0, 1000, (n, 2)) / 16, rng.integers(0, 1000, (n, 2)) / 16
    cost = cdist(x, y)
    i, j = linear_sum_assignment(cost)
    return {"x": x, "y": y, "value": float(cost[i, j].mean())}


def images(rows, columns, binary):
    place = np.array([[i, j] for i in range(rows) for j in range(columns)])
    a, b = (rng.integers(0, 2 if binary else 5, (rows, columns)).astype(float) for _ in range(2))
    return {"a": a, "b": b, "value": least(cdist(place, place), a.ravel() / a.sum(), b.ravel() / b.sum())}


def line(n, m):
    x, y = rng.integers(0, 1000, n) / 16, rng.integers(0, 1000, m) / 16
    u, v = rng.integers(1, 9, n).astype(float), rng.integers(1, 9, m).astype(float)
    return {"x": x, "y": y, "u": u, "v": v, "value": float(wasserstein_distance(x, y, u, v)),
            "equal": float(wasserstein_distance(x, y))}


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "transport.lua"), "w") as out:
    out.write("-- Made by transport.py: do not edit.\nreturn {\n")
    for name, cases in {
        "transport_plan": [problem(1, 1), problem(1, 4), problem(5, 1), problem(6, 9), problem(12, 12), problem(20, 7)],
        "assignment": [assignment(2), assignment(10), assignment(40)],
        "image_transport": [images(3, 5, False), images(6, 6, True), images(8, 7, False)],
        "line": [line(1, 1), line(7, 4), line(20, 20)],
    }.items():
        out.write(f"  {name} = {text(cases)},\n")
    out.write("}\n")
