"""Reference values for spec/golden/distribution/*.lua, from SciPy, NumPy and mpmath.

Run: python3 make.py   (needs numpy, scipy, mpmath; writes beside itself)
"""
import math
import os
import numpy as np
from scipy import integrate, special, stats

HERE = os.path.dirname(os.path.abspath(__file__))


def lua(v):
    if isinstance(v, dict):
        return "{" + ", ".join("%s = %s" % (k, lua(x)) for k, x in v.items() if x is not None) + "}"
    if isinstance(v, (list, tuple, np.ndarray)):
        return "{" + ", ".join(lua(x) for x in v) + "}"
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (int, np.integer)):
        return str(int(v))
    v = float(v)
    if math.isinf(v):
        return "math.huge" if v > 0 else "-math.huge"
    if math.isnan(v):
        return "0 / 0"
    return repr(v)


def write(name, cases, kl, script="make.py"):
    with open(os.path.join(HERE, name + ".lua"), "w") as f:
        f.write("-- Written by " + script + ".\nreturn {\n  cases = {\n")
        for case in cases:
            f.write("    {\n")
            for key, value in case.items():
                if value is not None:
                    f.write("      %s = %s,\n" % (key, lua(value)))
            f.write("    },\n")
        f.write("  },\n  kl = {\n")
        for p, q, value in kl:
            f.write("    {p = %s, q = %s, value = %s},\n" % (lua(p), lua(q), lua(value)))
        f.write("  },\n}\n")


def log_share(part, rest):
    """log of a probability from its own and its complement's logarithm: from the complement's where that is smaller."""
    return part if part < -0.7 else math.log1p(-math.exp(rest))


def scalar(d, params, x, p, mode, extreme=False):
    """A case of a SciPy distribution of numbers."""
    return dict(params=params, extreme=extreme or None, x=x, log_prob=[d.logpdf(v) for v in x],
                cdf=[d.cdf(v) for v in x], tail_x=x, log_cdf=[log_share(d.logcdf(v), d.logsf(v)) for v in x],
                log_survival=[log_share(d.logsf(v), d.logcdf(v)) for v in x], p=p, icdf=[d.ppf(v) for v in p], mean=d.mean(), variance=d.var(),
                entropy=float(d.entropy()), mode=mode)


def kl_by_quadrature(p, q, low, high):
    """Integral of p (log p - log q) split at quantiles of p."""
    cuts = [low] + [p.ppf(t) for t in (1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12)] + [high]
    f = lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x))
    return sum(integrate.quad(f, a, b, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
               for a, b in zip(cuts, cuts[1:]) if b > a)


P = [1e-10, 0.001, 0.2, 0.5, 0.77, 0.999]


def normal():
    cases, dists = [], []
    for loc, scale in [(0.3, 1.7), (0.0, 1.0), (-2.5, 0.04), (1e3, 1e-3), (-1e-4, 1e6)]:
        d = stats.norm(loc, scale)
        x = [loc + scale * z for z in (-30.0, -3.1, -0.4, 0.0, 1.3, 8.0, 1500.0)]
        cases.append(scalar(d, dict(loc=loc, scale=scale), x, P, loc))
    kl = []
    for a, b in [((0.3, 1.7), (-0.2, 0.9)), ((1.0, 0.5), (1.0, 2.0)), ((-3.0, 1.0), (2.0, 4.0))]:
        value = math.log(b[1] / a[1]) + (a[1] ** 2 + (a[0] - b[0]) ** 2) / (2 * b[1] ** 2) - 0.5
        assert abs(value - kl_by_quadrature(stats.norm(*a), stats.norm(*b), a[0] - 12 * a[1], a[0] + 12 * a[1])) < 1e-10
        kl.append((dict(loc=a[0], scale=a[1]), dict(loc=b[0], scale=b[1]), value))
    write("normal", cases, kl)


def gamma():
    cases = []
    for a, b, extreme in [(2.3, 1.4, False), (0.7, 3.0, False), (1.0, 0.5, False), (30.0, 0.2, False),
                          (1e-3, 1.0, True), (1e4, 7.0, True)]:
        d = stats.gamma(a, scale=1 / b)
        m = a / b
        x = [m * t for t in (1e-6, 0.05, 0.6, 1.0, 1.5, 4.0)] + ([] if extreme else [1.05e6 / b])
        case = scalar(d, dict(concentration=a, rate=b), x, P if not extreme else [0.6, 0.9, 0.999],
                      max(a - 1, 0) / b, extreme)
        case["coarse"] = True if a < 0.01 else None  # draws are cut off at the smallest normal number
        case["entropy"] = a - math.log(b) + special.gammaln(a) + (1 - a) * special.digamma(a)
        if not extreme:
            assert abs(case["entropy"] - float(d.entropy())) < 1e-9
        cases.append(case)
    kl = []
    for p, q in [((2.3, 1.4), (3.0, 2.0)), ((5.0, 1.0), (1.0, 0.3)), ((1.5, 2.0), (4.0, 2.0))]:
        value = kl_by_quadrature(stats.gamma(p[0], scale=1 / p[1]), stats.gamma(q[0], scale=1 / q[1]), 0, 100)
        kl.append((dict(concentration=p[0], rate=p[1]), dict(concentration=q[0], rate=q[1]), value))
    write("gamma", cases, kl)


def bernoulli():
    cases = []
    for p in (0.3, 0.5, 0.9, 1e-12):
        d = stats.bernoulli(p)
        cases.append(dict(params=dict(probs=p), x=[0, 1], log_prob=[math.log1p(-p), math.log(p)], at=[-0.5, 0, 0.5, 1, 2],
                          cdf=[d.cdf(v) for v in (-0.5, 0, 0.5, 1, 2)], mean=p, variance=p * (1 - p),
                          entropy=-p * math.log(p) - (1 - p) * math.log1p(-p), mode=1 if p > 0.5 else 0,
                          extreme=True if p < 1e-6 else None))
    for l in (-0.8, 0.0, 2.2, 30.0, -700.0):
        p, q = special.expit(l), special.expit(-l)
        lp, lq = special.log_expit(l), special.log_expit(-l)
        cases.append(dict(params=dict(logits=l), x=[0, 1], log_prob=[lq, lp], mean=p, variance=p * q,
                          entropy=-p * lp - q * lq, mode=1 if l > 0 else 0, extreme=True if abs(l) > 20 else None))
    for edge in (0.0, 1.0):
        cases.append(dict(params=dict(probs=edge), extreme=True, x=[0, 1],
                          log_prob=[0.0, -math.inf] if edge == 0 else [-math.inf, 0.0], mean=edge, variance=0.0,
                          entropy=0.0, mode=int(edge)))
    kl = []
    for p, q in [(0.3, 0.6), (0.9, 0.2), (0.0, 0.25), (1.0, 0.25), (0.0, 0.0)]:
        value = special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)
        kl.append((dict(probs=p), dict(probs=q), value))
    kl.append((dict(probs=0.3), dict(probs=0.0), math.inf))
    for p, q in [(-0.8, 1.1), (3.0, 2.0)]:
        value = special.rel_entr(special.expit(p), special.expit(q)) + special.rel_entr(special.expit(-p), special.expit(-q))
        kl.append((dict(logits=p), dict(logits=q), value))
    write("bernoulli", cases, kl)


def categorical():
    cases = []
    for p in ([0.2, 0.5, 0.3], [0.1, 0.15, 0.25, 0.05, 0.45], [0.4, 0.0, 0.6]):
        n = len(p)
        cases.append(dict(params=dict(probs=p), x=list(range(n)), log_prob=[math.log(v) if v else -math.inf for v in p],
                          entropy=stats.entropy(p), mode=int(np.argmax(p)), extreme=True if 0.0 in p else None))
    for l in ([0.3, -1.2, 0.9], [100.0, 101.0, 99.5, 98.0], [-1e3, 0.0, 1.0], [0.0, -math.inf, 0.7]):
        l = np.array(l)
        lp = l - special.logsumexp(l)
        cases.append(dict(params=dict(logits=l), x=list(range(len(l))), log_prob=lp, entropy=stats.entropy(np.exp(lp)),
                          mode=int(np.argmax(l)), extreme=True if np.min(lp) < -500 else None))
    kl = []
    for p, q in [([0.2, 0.5, 0.3], [0.6, 0.3, 0.1]), ([0.4, 0.0, 0.6], [0.2, 0.2, 0.6])]:
        kl.append((dict(probs=p), dict(probs=q), stats.entropy(p, q)))
    kl.append((dict(probs=[0.5, 0.5]), dict(probs=[1.0, 0.0]), math.inf))
    p, q = np.array([0.3, -1.2, 0.9]), np.array([-0.4, 2.0, 0.1])
    kl.append((dict(logits=p), dict(logits=q), stats.entropy(special.softmax(p), special.softmax(q))))
    write("categorical", cases, kl)


if __name__ == "__main__":
    for make in (normal, gamma, bernoulli, categorical):
        make()
