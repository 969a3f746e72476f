"""Expected log-likelihoods under independent normal outputs, by quadrature and numerical differentiation (mpmath), for
spec/infer/normal_outputs_spec.lua. Run: python normal_outputs.py > normal_outputs.lua"""
import itertools
from mpmath import mp, mpf, quad, npdf, ncdf, log, exp, sqrt, pi, diff, inf, matrix

mp.dps = 30


def normal(y, m, v, beta):  # E log normal(y; f, 1 / beta), f ~ normal(m, v)
    s = sqrt(v)
    return quad(lambda f: npdf(f, m, s) * (log(beta / (2 * pi)) / 2 - beta / 2 * (y - f) ** 2),
                [m - 14 * s, m - 3 * s, m, m + 3 * s, m + 14 * s])


def second_order(g, m, v):  # g(m) + sum v_i g_ii / 2, derivatives taken numerically
    out = g(*m)
    for i in range(len(m)):
        out += v[i] / 2 * diff(g, tuple(m), tuple(2 if k == i else 0 for k in range(len(m))))
    return out


def log_softmax(k):
    return lambda *f: f[k] - log(sum(exp(x) for x in f))


def softmax(k):
    return lambda *f: exp(f[k]) / sum(exp(x) for x in f)


def exact(g, m, v, order=24):  # Gauss-Hermite
    import numpy as np
    x, w = np.polynomial.hermite_e.hermegauss(order)
    total = mpf(0)
    for places in itertools.product(range(order), repeat=len(m)):
        weight = mpf(1)
        f = []
        for k, p in enumerate(places):
            weight *= mpf(float(w[p])) / sqrt(2 * pi)
            f.append(m[k] + sqrt(v[k]) * mpf(float(x[p])))
        total += weight * g(*f)
    return total


def probit(t, m, v, beta):  # log of the integral of Phi(s y) e^(E log normal(y; f, 1 / beta)) over y
    s = 1 if t else -1
    return log(quad(lambda y: ncdf(s * y) * sqrt(beta / (2 * pi)) * exp(-beta / 2 * ((y - m) ** 2 + v)),
                    [m - 40 / sqrt(beta), m - 4 / sqrt(beta), m, m + 4 / sqrt(beta), m + 40 / sqrt(beta)]))


def show(x):
    return mp.nstr(x, 17)


m, v = [mpf(1), mpf(0), mpf(-1)], [mpf("0.3"), mpf("0.2"), mpf("0.5")]
print("-- Written by normal_outputs.py: do not edit.")
print("return {")
print("  normal = { -- y, mean, variance, precision, value")
for row in [("1", "0.8", "0.236", "2"), ("-3", "2.5", "4", "0.1"), ("0.5", "0.5", "1e-6", "30")]:
    a = [mpf(x) for x in row]
    print("    { %s, %s }," % (", ".join(row), show(normal(*a))))
print("  },")
print("  probit = { -- t, mean, variance, precision, value")
for row in [("1", "0.8", "0.236", "2"), ("0", "0.8", "0.236", "2"), ("0", "3", "0.5", "0.7")]:
    a = [mpf(x) for x in row]
    print("    { %s, %s }," % (", ".join(row), show(probit(*a))))
print("  },")
print("  logits = { mean = { 1, 0, -1 }, variance = { 0.3, 0.2, 0.5 },")
print("    categorical = { %s }," % ", ".join(show(second_order(log_softmax(k), m, v)) for k in range(3)))
print("    exact = { %s }," % ", ".join(show(exact(log_softmax(k), m, v)) for k in range(3)))
print("    softmax = { %s } }," % ", ".join(show(second_order(softmax(k), m, v)) for k in range(3)))
print("}")
