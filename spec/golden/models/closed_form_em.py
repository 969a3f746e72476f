"""EM of factor analysis and of Gaussian mixtures on data with gaps and weights, written out row by row with conditional
Gaussians of the whole covariance matrix. Writes closed_form_em.lua beside itself."""
import math
from pathlib import Path

import numpy as np

rng = np.random.default_rng(3)
N, D = 14, 3
x = np.round(rng.normal(size=(N, D)) @ np.array([[1, 0.5, 0], [0, 1, -0.7], [0.2, 0, 1]]) + [1, -2, 0.5], 3)
x[7:] += [3, 0, -2]
for n, d in [(0, 1), (3, 0), (3, 2), (9, 2), (12, 0)]:
    x[n, d] = math.nan
x[5] = math.nan  # a row of which nothing is known
w = np.array([1, 2, 0.5, 1, 1, 3, 1, 0, 1, 1, 2, 1, 0.25, 1])


def log_normal(v, mean, cov):
    off = v - mean
    return -0.5 * (off @ np.linalg.solve(cov, off) + np.linalg.slogdet(cov)[1] + len(v) * math.log(2 * math.pi))


def given_seen(row, mean, cov):
    """Log density of what was seen of a row; mean and covariance of the whole row given it."""
    o = ~np.isnan(row)
    m, c = ~o, np.zeros((D, D))
    full = np.where(o, row, mean)
    if not o.any():
        return 0.0, mean.copy(), cov.copy()
    soo = cov[np.ix_(o, o)]
    if m.any():
        gain = cov[np.ix_(m, o)] @ np.linalg.inv(soo)
        full[m] = mean[m] + gain @ (row[o] - mean[o])
        c[np.ix_(m, m)] = cov[np.ix_(m, m)] - gain @ cov[np.ix_(o, m)]
    return log_normal(row[o], mean[o], soo), full, c


def mixture_step(weights, means, covs, kind):
    K = len(weights)
    total, value = np.zeros(K), 0.0
    first, second = np.zeros((K, D)), np.zeros((K, D, D))
    for n in range(N):
        parts = [given_seen(x[n], means[k], covs[k]) for k in range(K)]
        joint = np.array([math.log(weights[k]) + parts[k][0] for k in range(K)])
        top = joint.max()
        evidence = top + math.log(np.exp(joint - top).sum())
        value += w[n] * evidence
        r = w[n] * np.exp(joint - evidence)
        for k in range(K):
            total[k] += r[k]
            first[k] += r[k] * parts[k][1]
            second[k] += r[k] * (np.outer(parts[k][1], parts[k][1]) + parts[k][2])
    means = first / total[:, None]
    new = [second[k] / total[k] - np.outer(means[k], means[k]) for k in range(K)]
    if kind == "diagonal":
        new = [np.diag(np.diag(c)) for c in new]
    if kind == "spherical":
        new = [np.eye(D) * np.trace(c) / D for c in new]
    return value / w.sum(), total / total.sum(), means, new


def factor_step(loc, load, psi, kind):
    """Each number of a row is a regression on z and 1, over the rows where it was seen."""
    K = load.shape[1]
    a, b, square, count = np.zeros((D, K + 1, K + 1)), np.zeros((D, K + 1)), np.zeros(D), np.zeros(D)
    value = 0.0
    for n in range(N):
        o = ~np.isnan(x[n])
        cov = load[o] @ load[o].T + np.diag(psi[o])
        mean, rest = np.zeros(K), np.eye(K)
        if o.any():
            value += w[n] * log_normal(x[n][o], loc[o], cov)
            gain = load[o].T @ np.linalg.inv(cov)
            mean, rest = gain @ (x[n][o] - loc[o]), np.eye(K) - gain @ load[o]
        z = np.append(mean, 1)
        zz = np.outer(z, z)
        zz[:K, :K] += rest
        for d in np.flatnonzero(o):
            a[d] += w[n] * zz
            b[d] += w[n] * x[n, d] * z
            square[d] += w[n] * x[n, d] ** 2
            count[d] += w[n]
    beta = np.array([np.linalg.solve(a[d], b[d]) for d in range(D)])
    left = square - (beta * b).sum(1)
    psi = np.full(D, left.sum() / count.sum()) if kind == "isotropic" else left / count
    return value / w.sum(), beta[:, K], beta[:, :K], psi


def lua(v):
    v = np.asarray(v)
    if v.ndim == 0:
        return "0 / 0" if math.isnan(v.item()) else repr(v.item())
    return "{" + ", ".join(lua(u) for u in v) + "}"


values = dict(x=x, w=w)
start = dict(loc=np.array([[1.0, -2, 0.5], [4, -1, -1]]), weights=np.array([0.4, 0.6]))
values["start_loc"] = start["loc"]
for kind in ("full", "diagonal", "spherical"):
    state = start["weights"], start["loc"], [np.eye(D) * 1.5, np.eye(D) * 0.7]
    history = []
    for step in range(4):
        value, *state = mixture_step(*state, kind)
        history.append(value)
    values[f"mixture_{kind}"] = [history, state[0], state[1].ravel(), np.array(state[2]).ravel()]
load = np.array([[0.5], [-0.3], [0.8]])
values["start_load"] = load
for kind in ("diagonal", "isotropic"):
    state = np.array([1.0, -1, 0]), load, np.array([1.0, 1.2, 0.8]) if kind == "diagonal" else np.full(D, 1.1)
    history = []
    for step in range(4):
        value, *state = factor_step(*state, kind)
        history.append(value)
    values[f"factor_{kind}"] = [history, state[0], state[1].ravel(), state[2]]


def entry(v):
    return "{" + ", ".join(lua(u) for u in v) + "}" if isinstance(v, list) else lua(v)


text = "-- Made by closed_form_em.py.\nreturn {\n" + "".join(f"  {k} = {entry(v)},\n" for k, v in values.items()) + "}\n"
Path(__file__).with_suffix(".lua").write_text(text)
