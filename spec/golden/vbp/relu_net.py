"""Coordinate ascent on the variational ReLU network, one number at a time, and its bound as a sum of expectations of
log densities: reference values of relu_net.lua. Nothing is a matrix update here: each post-activation is set to the
maximum of the bound in it alone, found by three evaluations of the bound, which is a parabola in its mean; likewise
each pre-activation; each column of weights by the normal equations in explicit sums.

    python relu_net.py > relu_net.lua
"""
import numpy as np
from math import log, pi

rng = np.random.default_rng(5)
SIZES, N, ALPHA, BETA, GAMMA, SWEEPS = [2, 3, 2, 1], 6, 0.8, 6.0, 9.0, 3
X = np.round(rng.normal(size=(N, 2)), 2)
Y = np.round(X[:, :1] - np.abs(X[:, 1:]) + 0.1 * rng.normal(size=(N, 1)), 2)
START = [np.round(rng.normal(size=(SIZES[l] + 1, SIZES[l + 1])), 2) for l in range(len(SIZES) - 1)]
L = len(START)


class State:
    pass


def inputs(s, l, n):
    """Means and variances of the inputs of layer l for datum n, the constant last."""
    if l == 0:
        return np.append(X[n], 1), np.zeros(SIZES[0] + 1)
    return np.append(s.hm[l - 1][n], 1), np.append(s.hv[l - 1][n], 0)


def log_normal(square, precision):
    return 0.5 * (log(precision) - log(2 * pi) - precision * square)


def bound(s):
    total = 0.0
    for l in range(L):
        size = SIZES[l] + 1
        for j in range(SIZES[l + 1]):
            m, c = s.wm[l][:, j], s.wc[l]
            # E log N(w; 0, 1/alpha) + entropy
            total += sum(log_normal(m[i] ** 2 + c[i, i], ALPHA) for i in range(size))
            total += 0.5 * np.linalg.slogdet(2 * pi * np.e * c)[1]
            for n in range(N):
                hm, hv = inputs(s, l, n)
                fm, fv = (s.fm[l][n, j], s.fv[l][n, j]) if l < L - 1 else (Y[n, j], 0.0)
                second = 0.0  # E (w'h)^2 by all pairs
                for a in range(size):
                    for b in range(size):
                        eww = m[a] * m[b] + c[a, b]
                        ehh = hm[a] * hm[b] + (hv[a] if a == b else 0)
                        second += eww * ehh
                square = fm ** 2 + fv - 2 * fm * (m @ hm) + second
                total += log_normal(square, BETA)
                if l < L - 1:
                    z, h, v = s.z[l][n, j], s.hm[l][n, j], s.hv[l][n, j]
                    total += log_normal(h ** 2 + v - 2 * z * h * fm + z * (fm ** 2 + fv), GAMMA)
                    total += 0.5 * log(2 * pi * np.e * fv) + 0.5 * log(2 * pi * np.e * v)
    return total


def best_normal(s, means, variances, n, j):
    """Sets mean and variance of one normal factor to the bound's maximum: a parabola in the mean; in the variance v it is
    log(v) / 2 - precision v / 2 + constant, whose precision two evaluations give."""
    m0, v0 = means[n, j], variances[n, j]
    y = []
    for d in (-1.0, 0.0, 1.0):
        means[n, j] = m0 + d
        y.append(bound(s))
    curve = y[0] - 2 * y[1] + y[2]
    means[n, j] = m0 + (y[0] - y[2]) / (2 * curve)
    variances[n, j] = 1.0
    one = bound(s)
    variances[n, j] = 2.0
    two = bound(s)
    precision = -2 * (two - one - 0.5 * log(2.0))
    variances[n, j] = 1 / precision


def run():
    s = State()
    s.wm = [w.copy() for w in START]
    s.wc = [np.eye(SIZES[l] + 1) / ALPHA for l in range(L)]
    s.fm, s.fv, s.z, s.hm, s.hv = [], [], [], [], []
    for l in range(L - 1):
        f = np.array([inputs(s, l, n)[0] @ s.wm[l] for n in range(N)])
        z = (f > 0).astype(float)
        s.fm.append(f)
        s.fv.append(1 / (BETA + GAMMA * z))
        s.z.append(z)
        s.hm.append(z * f)
        s.hv.append(np.full_like(f, 1 / GAMMA))
    bounds = []
    for _ in range(SWEEPS):
        for l in range(L):
            precision = ALPHA * np.eye(SIZES[l] + 1)
            for n in range(N):
                hm, hv = inputs(s, l, n)
                precision += BETA * (np.outer(hm, hm) + np.diag(hv))
            s.wc[l] = np.linalg.inv(precision)
            for j in range(SIZES[l + 1]):
                right = sum(BETA * (s.fm[l][n, j] if l < L - 1 else Y[n, j]) * inputs(s, l, n)[0] for n in range(N))
                s.wm[l][:, j] = s.wc[l] @ right
            if l < L - 1:
                for n in range(N):
                    for j in range(SIZES[l + 1]):
                        best_normal(s, s.fm[l], s.fv[l], n, j)
                s.z[l] = (s.fm[l] > 0).astype(float)
                for n in range(N):
                    for j in range(SIZES[l + 1]):
                        best_normal(s, s.hm[l], s.hv[l], n, j)
        bounds.append(bound(s))
    return s, bounds


def table(a):
    a = np.asarray(a)
    return "{ " + ", ".join(table(x) if x.ndim else "%.17g" % x for x in a) + " }"


s, bounds = run()
print("-- By relu_net.py.")
print("return {")
print("  sizes = %s, alpha = %g, beta = %g, gamma = %g," % ("{ 2, 3, 2, 1 }", ALPHA, BETA, GAMMA))
print("  x = %s,\n  y = %s," % (table(X), table(Y)))
print("  start = { %s }," % ",\n    ".join(table(w) for w in START))
print("  bounds = %s," % table(bounds))
print("  mean = { %s }," % ",\n    ".join(table(w) for w in s.wm))
print("}")
