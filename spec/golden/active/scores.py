"""Golden values of acquisition scores: writes scores.lua beside it.

Entropies and BALD of probits by mpmath (quadrature), BatchBALD by enumeration of all joint outcomes with itertools, in
mpmath's numbers. Run: python3 scores.py > scores.lua
"""
import itertools
import random

import mpmath as mp

mp.mp.dps = 30


def xlogx(p):
    return p * mp.log(p) if p > 0 else mp.mpf(0)


def binary(p):
    return -xlogx(p) - xlogx(1 - p)


def show(v):
    return mp.nstr(v, 17)


def rows(list_):
    return "{ " + ", ".join(show(v) for v in list_) + " }"


def probit_bald(m, v):
    m, v = mp.mpf(m), mp.mpf(v)
    if v == 0:
        return mp.mpf(0)
    s = mp.sqrt(v)
    points = [m + s * k for k in (-12, -6, -3, -1, 0, 1, 3, 6, 12)] + [-8, -2, 0, 2, 8]
    points = sorted(set(points))
    second = mp.quad(lambda f: binary(mp.ncdf(f)) * mp.npdf(f, m, s), points)
    return binary(mp.ncdf(m / mp.sqrt(1 + v))) - second


def softmax_information(m, v, n=40):
    """Two classes: the difference of two logits is normal, so that one quadrature suffices."""
    d, s = mp.mpf(m[0]) - m[1], mp.sqrt(mp.mpf(v[0]) + v[1])
    sig = lambda f: 1 / (1 + mp.exp(-f))
    pts = [d + s * k for k in (-14, -7, -3, 0, 3, 7, 14)]
    mean = mp.quad(lambda f: sig(f) * mp.npdf(f, d, s), pts)
    return binary(mean) - mp.quad(lambda f: binary(sig(f)) * mp.npdf(f, d, s), pts)


def joint(draws, chosen):
    K, C = len(draws), len(draws[0][0])
    total = mp.mpf(0)
    for outcome in itertools.product(range(C), repeat=len(chosen)):
        p = mp.mpf(0)
        for k in range(K):
            q = mp.mpf(1)
            for n, c in zip(chosen, outcome):
                q *= draws[k][n][c]
            p += q / K
        total -= xlogx(p)
    return total


def conditional(draws, n):
    return -sum(xlogx(p) for k in draws for p in k[n]) / len(draws)


def greedy(draws, B):
    chosen, values = [], []
    for _ in range(B):
        best = max((joint(draws, chosen + [n]) - sum(conditional(draws, i) for i in chosen + [n]), -n)
                   for n in range(len(draws[0])) if n not in chosen)
        chosen.append(-best[1])
        values.append(best[0])
    return chosen, values


random.seed(4)
K, N, C = 7, 6, 3
draws = []
for k in range(K):
    draws.append([])
    for n in range(N):
        w = [random.random() ** 3 for _ in range(C)]
        if n == 2 and k % 2 == 0:
            w[1] = 0.0  # probability 0
        if n == 4:
            w = [1.0 if c == k % C else 0.0 for c in range(C)]  # certain, each draw of its own class
        t = mp.fsum(w)
        draws[-1].append([mp.mpf(float(x / t)) for x in w])
chosen, values = greedy(draws, 4)

print("-- Made by scores.py.")
print("return {")
print("  probit = {")
for m, v in ((0, 1), (1.2, 0.5), (-0.7, 1.5), (3, 0.25), (-2, 9), (0.3, 25), (0.5, 1e-4)):
    print("    { %s, %s, %s }," % (m, v, show(probit_bald(m, v))))
print("  },")
print("  softmax = {")
for m, v in (((0.3, -0.2), (1e-4, 2e-4)), ((1.0, 0.0), (1e-3, 1e-3)), ((0.5, -1.0), (0.7, 0.4))):
    print("    { %s, %s, %s }," % ("{ %s, %s }" % m, "{ %s, %s }" % v, show(softmax_information(m, v))))
print("  },")
print("  batch = {")
print("    draws = {")
for k in draws:
    print("      {")
    for n in k:
        print("        " + rows(n) + ",")
    print("      },")
print("    },")
print("    chosen = { " + ", ".join(map(str, chosen)) + " },")
print("    values = " + rows(values) + ",")
print("    joint = %s," % show(joint(draws, range(N))))
print("  },")
print("}")
