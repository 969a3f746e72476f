"""Reference values for spec/golden/distribution/documents.lua: divergences of processes, gates and mixtures, by quadrature,
enumeration and NumPy.

Run: python3 make_documents.py   (needs mpmath, numpy; writes beside itself)
"""
import itertools
import os
import numpy as np
from mpmath import mp, mpf, quad, log, exp, sqrt, pi, erfc, inf, log1p
from make import HERE, lua

mp.dps = 30


def softplus(x):
    return x + log1p(exp(-x)) if x > 0 else log1p(exp(x))


def gates():
    out = []
    for c, m, s in [(1, 0, 1), (1, 0, 2), (1, 1, 1), (10, 0, 1), (10, 1, 1), (10, 0.3, 0.2), (100, 0, 1), (1, -1, 1), (0.5, 3, 7.9), (2, -4, 2.1), (50, -0.2, 0.3),
                    (1, 20, 1), (3, 2, 1e-2), (1, 0.7, 1e-4), (1, 5, 0.019), (1, 5, 0.021), (1000, 0.5, 2), (30, 1.5, 0.25)]:
        c, m, s = mpf(c), mpf(m), mpf(s)
        cuts = sorted({m + s * k for k in range(-16, 17)} | {mpf(k) / c for k in (-40, -20, -10, -5, 0, 5, 10, 20, 40) if abs(mpf(k) / c - m) < 16 * s})
        mean = quad(lambda a: softplus(c * a) * exp(-((a - m) / s) ** 2 / 2) / (s * sqrt(2 * pi)), cuts)
        r = m / s
        approx = c * (m * erfc(-r / sqrt(2)) / 2 + s * exp(-r * r / 2) / sqrt(2 * pi) - max(mpf(0), m))
        out.append(dict(sharpness=float(c), loc=float(m), scale=float(s), value=float(mean - softplus(c * m)), approximate=float(approx)))
    return out


def normal(x, m, v):
    return exp(-(x - m) ** 2 / (2 * v)) / sqrt(2 * pi * v)


def kl(a, b):
    return (log(b[1] / a[1]) + (a[1] + (a[0] - b[0]) ** 2) / b[1] - 1) / 2


def matching(pw, qw, d, iterations):
    phi = psi = np.outer(pw, qw)
    for k in range(iterations):
        fit = psi * np.exp(-d)
        phi = pw[:, None] * fit / fit.sum(1, keepdims=True)
        if k < iterations - 1:
            psi = qw[None, :] * phi / phi.sum(0, keepdims=True)
    used = phi > 0
    return float((phi[used] * (np.log(phi[used] / psi[used]) + d[used])).sum())


def mixtures():
    out = []
    for p, q in [(([0.4, 0.6], [-1.0, 2.0], [0.5, 1.5]), ([0.3, 0.3, 0.4], [-1.5, 0.5, 2.5], [1.0, 2.0, 0.7])),
                 (([1.0], [0.3], [1.2]), ([0.5, 0.5], [-1.0, 1.0], [0.6, 0.6])),
                 (([0.5, 0.5], [-1.0, 1.0], [0.6, 0.6]), ([1.0], [0.0], [1.4])),
                 (([0.2, 0.8], [0.0, 10.0], [1.0, 1.0]), ([0.8, 0.2], [10.0, 0.0], [1.0, 1.0])),
                 (([0.2, 0.8], [0.0, 1.0], [1.0, 2.0]), ([0.2, 0.8], [0.0, 1.0], [1.0, 2.0]))]:
        f = [(mpf(m), mpf(s) ** 2) for m, s in zip(p[1], p[2])]
        g = [(mpf(m), mpf(s) ** 2) for m, s in zip(q[1], q[2])]
        pw, qw = [mpf(v) for v in p[0]], [mpf(v) for v in q[0]]
        cuts = sorted({m + sqrt(v) * k for m, v in f for k in range(-14, 15)})
        density = lambda x, w, h: sum(a * normal(x, *b) for a, b in zip(w, h))
        true = quad(lambda x: density(x, pw, f) * log(density(x, pw, f) / density(x, qw, g)), cuts)
        near = lambda a, w, h: log(sum(v * exp(-kl(a, b)) for v, b in zip(w, h)))
        over = lambda a, w, h: log(sum(v * normal(a[0], b[0], a[1] + b[1]) for v, b in zip(w, h)))
        entropy = lambda a: log(2 * pi * mp.e * a[1]) / 2
        total = lambda term: float(sum(w * term(a) for w, a in zip(pw, f)))
        d = np.array([[float(kl(a, b)) for b in g] for a in f])
        pn, qn = np.array(p[0]), np.array(q[0])
        case = dict(p=dict(weights=p[0], loc=p[1], scale=p[2]), q=dict(weights=q[0], loc=q[1], scale=q[2]), value=float(true),
                    variational=total(lambda a: near(a, pw, f) - near(a, qw, g)), product=total(lambda a: over(a, pw, f) - over(a, qw, g)),
                    upper=total(lambda a: over(a, pw, f) - near(a, qw, g) + entropy(a)), lower=total(lambda a: near(a, pw, f) - over(a, qw, g) - entropy(a)),
                    matching=matching(pn, qn, d, 100), convexity=float((np.outer(pn, qn) * d).sum()))
        assert case["lower"] <= case["value"] + 1e-12 and case["value"] <= case["upper"] + 1e-12 and case["value"] <= case["matching"] + 1e-9, case
        out.append(case)
    return out


def markov():
    p = dict(initial=[0.2, 0.5, 0.3], transition=[[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.3, 0.3, 0.4]])
    q = dict(initial=[0.4, 0.3, 0.3], transition=[[0.5, 0.25, 0.25], [0.1, 0.6, 0.3], [0.25, 0.5, 0.25]])
    out = []
    for steps in (1, 2, 5):
        value = 0.0
        for z in itertools.product(range(3), repeat=steps):
            chance = lambda c: c["initial"][z[0]] * np.prod([c["transition"][a][b] for a, b in zip(z, z[1:])])
            if chance(p) > 0:
                value += chance(p) * np.log(chance(p) / chance(q))
        out.append(dict(p=p, q=q, steps=steps, value=value))
    return out


def chains():
    """The joint law of all steps is one normal: its divergence."""
    a = np.array([[0.9, 0.2], [-0.1, 0.8]])
    b = np.array([[0.7, 0.0], [0.1, 0.9]])
    n = np.array([[0.3, 0.1], [0.1, 0.2]])
    m = np.array([[0.5, 0.0], [0.0, 0.3]])
    p = dict(loc=[1.0, -0.5], covariance=[[0.4, 0.1], [0.1, 0.3]], matrix=a, offset=[0.1, 0.0], noise=n)
    q = dict(loc=[0.8, 0.0], covariance=[[0.6, 0.0], [0.0, 0.5]], matrix=b, offset=[0.0, 0.2], noise=m)

    def joint(c, steps):
        size = 2 * steps
        mean, lift, noise = np.zeros(size), np.zeros((size, size)), np.zeros((size, size))
        mean[:2], noise[:2, :2], lift[:2, :2] = c["loc"], c["covariance"], np.eye(2)
        for t in range(1, steps):
            here, before = slice(2 * t, 2 * t + 2), slice(2 * t - 2, 2 * t)
            mean[here] = c["matrix"] @ mean[before] + c["offset"]
            lift[here] = c["matrix"] @ lift[before]
            lift[here, here] = np.eye(2)
            noise[here, here] = c["noise"]
        return mean, lift @ noise @ lift.T

    out = []
    for steps in (1, 2, 6):
        (mp_, vp), (mq, vq) = joint(p, steps), joint(q, steps)
        inverse = np.linalg.inv(vq)
        value = 0.5 * (np.trace(inverse @ vp) + (mq - mp_) @ inverse @ (mq - mp_) - len(mp_) + np.linalg.slogdet(vq)[1] - np.linalg.slogdet(vp)[1])
        out.append(dict(p=p, q=q, steps=steps, value=value))
    return out


def inverses():
    out = []
    for q, c in [(0.1, 0.05), (0.0, 0.2), (0.3, 1e-6), (0.5, 2.0), (0.9, 0.01), (1e-5, 0.5)]:
        q, c = mpf(q), mpf(c)
        value = lambda p: (q * log(q / p) if q else 0) + (1 - q) * log((1 - q) / (1 - p)) - c
        low, high = q, mpf(1)
        for _ in range(95):
            middle = (low + high) / 2
            low, high = (middle, high) if value(middle) <= 0 else (low, middle)
        out.append(dict(q=float(q), c=float(c), value=float(low)))
    return out


def shared():
    """KL of logistic laws of one scale at a distance of d scales."""
    out = []
    for d in ("0", "1e-6", "0.0999", "0.1001", "0.5", "3", "-7", "40", "800"):
        d = mpf(d)
        lp = lambda x: -abs(x) - 2 * log1p(exp(-abs(x)))
        out.append(dict(distance=float(d), value=float(quad(lambda x: exp(lp(x)) * (lp(x) - lp(x - d)), sorted({-60, -20, -5, 0, 5, 20, 60} | ({d} if abs(d) < 60 else set()))))))
    return out


with open(os.path.join(HERE, "documents.lua"), "w") as f:
    f.write("-- Written by make_documents.py.\nreturn {\n")
    for name, cases in (("gates", gates()), ("mixtures", mixtures()), ("markov", markov()), ("chains", chains()), ("inverses", inverses()), ("shared", shared())):
        f.write("  %s = {\n%s  },\n" % (name, "".join("    %s,\n" % lua(case) for case in cases)))
    f.write("}\n")
