"""Reference values for spec/golden/distribution/kl.lua: Kullback-Leibler divergences of two kinds by quadrature of the densities
to 30 digits, not by anybody's closed form.

Run: python3 make_kl.py   (needs mpmath, numpy; writes beside itself)
"""
import os
import sys
from mpmath import mp, mpf, inf, quad, log, exp, sqrt, pi, gamma, loggamma, beta, erfc, log1p

mp.dps = 30
HERE = os.path.dirname(os.path.abspath(__file__))

# name -> (parameter names, log density(params), support(params), interior points that split the quadrature)
LOG_ROOT = log(2 * pi) / 2


def phi(z):
    return erfc(-z / sqrt(2)) / 2


def tn_mass(m, s, l, h):
    return phi((h - m) / s) - phi((l - m) / s)


def gumbel(t):
    """t - e^t, of huge t something as small."""
    return t - exp(min(t, mpf(60))) * (1 + max(t - 60, mpf(0)))


def cb_norm(p):
    return log(2) if p == mpf(1) / 2 else log(2 * mp.atanh(1 - 2 * p) / (1 - 2 * p))


kinds = {
    "normal": (["loc", "scale"], lambda m, s: lambda x: -((x - m) / s) ** 2 / 2 - log(s) - LOG_ROOT,
               lambda m, s: (-inf, inf), lambda m, s: [m - 3 * s, m, m + 3 * s]),
    "laplace": (["loc", "scale"], lambda m, s: lambda x: -abs(x - m) / s - log(2 * s),
                lambda m, s: (-inf, inf), lambda m, s: [m - 4 * s, m, m + 4 * s]),
    "student_t": (["df", "loc", "scale"],
                  lambda v, m, s: lambda x: (loggamma((v + 1) / 2) - loggamma(v / 2) - log(v * pi) / 2 - log(s)
                                             - (v + 1) / 2 * log1p(((x - m) / s) ** 2 / v)),
                  lambda v, m, s: (-inf, inf), lambda v, m, s: [m - 20 * s, m - 3 * s, m, m + 3 * s, m + 20 * s]),
    "truncated_normal": (["loc", "scale", "low", "high"],
                         lambda m, s, l, h: lambda x: (-((x - m) / s) ** 2 / 2 - log(s) - LOG_ROOT
                                                       - log(tn_mass(m, s, l, h))),
                         lambda m, s, l, h: (l, h), lambda m, s, l, h: [m]),
    "continuous_bernoulli": (["probs"], lambda p: lambda x: x * log(p) + (1 - x) * log(1 - p) + cb_norm(p),
                             lambda p: (0, 1), lambda p: []),
    "gamma": (["concentration", "rate"],
              lambda a, b: lambda x: a * log(b) + (a - 1) * log(x) - b * x - loggamma(a),
              lambda a, b: (0, inf), lambda a, b: [a / b / 50, a / b, 8 * (a + 3) / b]),
    "chi2": (["df"], lambda k: lambda x: (k / 2 - 1) * log(x) - x / 2 - k / 2 * log(2) - loggamma(k / 2),
             lambda k: (0, inf), lambda k: [k / 50, k, 8 * (k + 6)]),
    "exponential": (["rate"], lambda r: lambda x: log(r) - r * x, lambda r: (0, inf),
                    lambda r: [1 / r / 50, 1 / r, 20 / r]),
    "inverse_gamma": (["concentration", "rate"],
                      lambda a, b: lambda x: a * log(b) - (a + 1) * log(x) - b / x - loggamma(a),
                      lambda a, b: (0, inf), lambda a, b: [b / (a + 1) / 10, b / (a + 1), 10 * b, 100 * b]),
    "log_normal": (["loc", "scale"],
                   lambda m, s: lambda x: -((log(x) - m) / s) ** 2 / 2 - log(x * s) - LOG_ROOT,
                   lambda m, s: (0, inf), lambda m, s: [exp(m - 4 * s), exp(m), exp(m + 4 * s)]),
    "half_normal": (["scale"], lambda s: lambda x: log(2) - (x / s) ** 2 / 2 - log(s) - LOG_ROOT,
                    lambda s: (0, inf), lambda s: [s / 10, s, 6 * s]),
    "beta": (["concentration1", "concentration0"],
             lambda a, b: lambda x: (a - 1) * log(x) + (b - 1) * log1p(-x) - log(beta(a, b)),
             lambda a, b: (0, 1), lambda a, b: [mpf("0.5")]),
    "uniform": (["low", "high"], lambda l, h: lambda x: -log(h - l), lambda l, h: (l, h), lambda l, h: []),
    "log_uniform": (["low", "high"], lambda l, h: lambda x: -log(x) - log(log(h / l)), lambda l, h: (l, h),
                    lambda l, h: []),
    "logistic": (["loc", "scale"], lambda m, s: lambda x: -abs(x - m) / s - 2 * log1p(exp(-abs(x - m) / s)) - log(s),
                 lambda m, s: (-inf, inf), lambda m, s: [m - 6 * s, m, m + 6 * s]),
    "gumbel": (["loc", "scale"], lambda m, s: lambda x: gumbel(-(x - m) / s) - log(s),
               lambda m, s: (-inf, inf), lambda m, s: [m - 2 * s, m, m + 3 * s, m + 30 * s]),
    "cauchy": (["loc", "scale"], lambda m, s: lambda x: -log(pi * s) - log1p(((x - m) / s) ** 2),
               lambda m, s: (-inf, inf), lambda m, s: [m - s, m, m + s]),
    "half_cauchy": (["scale"], lambda s: lambda x: log(2 / (pi * s)) - log1p((x / s) ** 2),
                    lambda s: (0, inf), lambda s: [s / 10, s, 10 * s]),
    "weibull": (["scale", "concentration"],
                lambda s, k: lambda x: log(k) - log(x) + k * log(x / s) - (x / s) ** k,
                lambda s, k: (0, inf), lambda s, k: [s / 10, s, 3 * s]),
    "pareto": (["scale", "alpha"], lambda s, a: lambda x: log(a) + a * log(s) - (a + 1) * log(x),
               lambda s, a: (s, inf), lambda s, a: [2 * s, 20 * s]),
    "kumaraswamy": (["concentration1", "concentration0"],
                    lambda a, b: lambda x: log(a * b) + (a - 1) * log(x) + (b - 1) * log1p(-x ** a),
                    lambda a, b: (0, 1), lambda a, b: [mpf("0.5")]),
}

# Parameters of p and of q: two of each, the second less ordinary.
as_p = {
    "normal": [("0.3", "0.8"), ("-4", "0.05")],
    "laplace": [("0.2", "0.7"), ("-3", "2.5")],
    "student_t": [("4.5", "0.1", "0.8"), ("60", "-2", "0.3")],
    "truncated_normal": [("0.3", "0.8", "0.1", "0.9"), ("2", "0.5", "0.2", "0.7")],
    "continuous_bernoulli": [("0.3",), ("0.98",)],
    "gamma": [("2.5", "1.7"), ("40", "100")],
    "chi2": [("3.3",), ("9",)],
    "exponential": [("1.4",), ("30",)],
    "inverse_gamma": [("3.6", "1.3"), ("25", "4")],
    "log_normal": [("0.2", "0.5"), ("-2", "0.1")],
    "half_normal": [("1.2",), ("0.05",)],
    "beta": [("2.2", "1.6"), ("30", "7")],
    "uniform": [("0.2", "0.7"), ("0", "0.3")],
    "log_uniform": [("0.3", "0.8"), ("0.05", "0.09")],
    "logistic": [("0.3", "0.6"), ("-4", "0.05")],
    "gumbel": [("0.3", "0.6"), ("-2", "1.5")],
    "cauchy": [("0.3", "0.6"), ("-4", "0.05")],
    "half_cauchy": [("0.8",), ("5",)],
    "weibull": [("0.8", "1.7"), ("3", "6")],
    "pareto": [("0.3", "3.5"), ("0.06", "9")],
    "kumaraswamy": [("2.2", "1.6"), ("9", "4")],
}
as_q = {
    "normal": [("-0.4", "1.3"), ("1", "20")],
    "laplace": [("0.6", "1.1"), ("-1", "0.5")],
    "truncated_normal": [("0.4", "0.9", "0", "inf"), ("-3", "1.5", "-inf", "inf")],
    "continuous_bernoulli": [("0.6",), ("0.1",)],
    "gamma": [("1.5", "0.7"), ("12", "9")],
    "chi2": [("2.5",), ("7",)],
    "exponential": [("0.6",), ("5",)],
    "inverse_gamma": [("2", "0.4"), ("0.5", "3")],
    "log_normal": [("-0.5", "1.1"), ("1", "0.6")],
    "half_normal": [("0.9",), ("4",)],
    "beta": [("1.3", "2.5"), ("0.4", "0.6")],
    "uniform": [("-0.5", "1.5"), ("0", "1")],
    "log_uniform": [("0.01", "2"), ("0.05", "1")],
    "gumbel": [("-0.2", "1.4"), ("1", "2")],
    "weibull": [("1.4", "0.7"), ("2", "3.5")],
    "pareto": [("0.1", "1.2"), ("0.05", "4")],
    "logistic": [("0.6", "1.1"), ("-1", "0.5")],
    "cauchy": [("0.6", "1.1"), ("-1", "0.5")],
    "half_cauchy": [("0.9",), ("4",)],
    "student_t": [("3.3", "0.6", "1.1"), ("30", "-1", "0.5")],
}


def inside(p, q):
    return q[0] <= p[0] and p[1] <= q[1]


def diverges(p, pv, q, qv):
    """Is E_p[log q] minus infinity though the supports are inside each other?"""
    heavy = {"cauchy": 1, "half_cauchy": 1, "student_t": pv[0], "pareto": pv[-1], "inverse_gamma": pv[0]}.get(p, inf)
    moment = {"normal": 2, "half_normal": 2, "truncated_normal": 2, "laplace": 1, "exponential": 1, "gamma": 1,
              "chi2": 1, "gumbel": 1, "logistic": 1, "weibull": qv[-1]}.get(q, 0)
    if moment >= heavy:
        return True
    if q == "gumbel" and ((p in ("laplace", "logistic") and pv[1] >= qv[1]) or p in ("student_t", "cauchy")):
        return True
    below_one = {"gamma": pv[0], "chi2": pv[0] / 2, "weibull": pv[-1], "beta": pv[0], "kumaraswamy": pv[0]}.get(p, inf)
    return q == "inverse_gamma" and (below_one <= 1 or p in ("half_normal", "exponential", "half_cauchy",
                                     "continuous_bernoulli") or (p == "uniform" and pv[0] == 0))


def kl(p, pv, q, qv):
    """None where it is infinite."""
    _, fp, sp, cp = kinds[p]
    _, fq, sq, cq = kinds[q]
    support = sp(*pv)
    if not inside(support, sq(*qv)):
        return None
    if diverges(p, pv, q, qv):
        return None
    a, b = fp(*pv), fq(*qv)
    cuts = sorted({mpf(v) for v in cp(*pv) + cq(*qv)[:] if support[0] < v < support[1]})

    def f(x):
        if x <= support[0] or x >= support[1]:
            return mpf(0)
        la = a(x)
        return exp(la) * (la - b(x)) if la > -1500 else mpf(0)

    value, error = quad(f, [support[0]] + cuts + [support[1]], error=True, maxdegree=10)
    if not error < mpf("1e-13") * max(1, abs(value)):
        print("inaccurate", p, pv, q, qv, mp.nstr(value, 10), mp.nstr(error, 3), file=sys.stderr)
    return value


def text(v):
    v = mpf(v)
    return "math.huge" if v == inf else "-math.huge" if v == -inf else repr(float(v))


def params(kind, values):
    return "{ %s }" % ", ".join("%s = %s" % (n, text(v)) for n, v in zip(kinds[kind][0], values))


def main():
    lines = []
    for p in as_p:
        for q in as_q:
            if p == q:
                continue
            for pv, qv in zip(as_p[p], as_q[q]):
                x, y = tuple(mpf(v) for v in pv), tuple(mpf(v) for v in qv)
                value = kl(p, x, q, y)
                shown = "math.huge" if value is None else repr(float(value))
                lines.append('  { "%s", "%s", p = %s, q = %s, value = %s },' % (p, q, params(p, x), params(q, y), shown))
    with open(os.path.join(HERE, "kl.lua"), "w") as f:
        f.write("-- Written by make_kl.py.\nreturn {\n%s\n}\n" % "\n".join(lines))


main()
