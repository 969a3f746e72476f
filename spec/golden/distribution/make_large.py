"""Entropies, divergences, variances and log tails where their terms cancel or underflow: spec/golden/distribution/large.lua, from
formulas in mpmath at 60 digits.

Run: python3 make_large.py   (needs mpmath; writes beside itself)
"""
import os
from mpmath import mp, mpf, besseli, betainc, cos, digamma, exp, log, loggamma, pi, quad, sqrt

mp.dps = 60
rows = []


def lua(v):
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(lua(x) for x in v) + "}"
    return repr(float(v))


def table(d):
    return "{" + ", ".join("%s = %s" % (k, lua(v)) for k, v in d.items()) + "}"


def add(row, of, params, value, **more):
    extra = "".join(", %s = %s" % (k, v if isinstance(v, str) else lua(v)) for k, v in more.items())
    rows.append('{row = "%s", of = "%s", params = %s%s, value = %s}' % (row, of, table(params), extra, lua(value)))


def bregman(q, p):
    return loggamma(q) - loggamma(p) - (q - p) * digamma(p)


def gamma_entropy(a, b):
    return a - log(b) + loggamma(a) + (1 - a) * digamma(a)


def dirichlet_entropy(a):
    n = sum(a)
    return sum(loggamma(x) for x in a) - loggamma(n) + (n - len(a)) * digamma(n) - sum((x - 1) * digamma(x) for x in a)


LARGE = [0.01, 2.5, 40.0, 4e5, 1e8, 1e12, 1e15]
for a in LARGE:
    v = mpf(a)
    add("gamma", "entropy", dict(concentration=a, rate=2.0), gamma_entropy(v, mpf(2)))
    add("inverse_gamma", "entropy", dict(concentration=a, rate=2.0), v + log(mpf(2)) + loggamma(v) - (1 + v) * digamma(v))
    add("chi2", "entropy", dict(df=a), gamma_entropy(v / 2, mpf(1) / 2))
    add("beta", "entropy", dict(concentration1=a, concentration0=2 * a), dirichlet_entropy([v, 2 * v]))
    add("dirichlet", "entropy", dict(concentration=[a, 2 * a, 3.0]), dirichlet_entropy([v, 2 * v, mpf(3)]))
    add("normal_inverse_gamma", "entropy", dict(loc=0.0, count=2.0, concentration=a, rate=3.0),
        (1 + log(2 * pi) - log(mpf(2))) / 2 + log(mpf(3)) * 3 / 2 + v + loggamma(v) - (v + mpf(3) / 2) * digamma(v))
    # Student's t: (v + 1)/2 (psi((v + 1)/2) - psi(v/2)) + log(sqrt(v) B(v/2, 1/2))
    half, step = mpf(1) / 2, (v + 1) / 2
    beta = loggamma(v / 2) + loggamma(half) - loggamma(step)
    add("student_t", "entropy", dict(df=a), step * (digamma(step) - digamma(v / 2)) + log(v) / 2 + beta)
    if a > 2:
        n, nu = 2, v
        psi = digamma(nu / 2) + digamma((nu - 1) / 2)
        log_gamma_n = log(pi) / 2 + loggamma(nu / 2) + loggamma((nu - 1) / 2)
        # scale matrix diag(2, 3)
        det = log(mpf(6))
        norm = nu * n / 2 * log(mpf(2)) + nu / 2 * det + log_gamma_n
        add("wishart", "entropy", dict(df=a, scale_matrix=[[2, 0], [0, 3]]),
            norm - (nu - n - 1) / 2 * (psi + n * log(mpf(2)) + det) + nu * n / 2)
        expected = det - n * log(mpf(2)) - psi
        factor = nu / 2 * det - nu * n / 2 * log(mpf(2)) - log_gamma_n
        add("inverse_wishart", "entropy", dict(df=a, scale_matrix=[[2, 0], [0, 3]]),
            (nu * n + (nu + n + 1) * expected) / 2 - factor)
    for factor in (1.25, 1.0 + 2.0 ** -10, 3.0):
        b = a * factor
        w = mpf(b)
        gamma_kl = bregman(w, v) + w * log(mpf(2) / mpf(2.5)) + v * (mpf(2.5) / 2 - 1)
        add("gamma", "kl", dict(concentration=a, rate=2.0), gamma_kl, other=table(dict(concentration=b, rate=2.5)))
        add("inverse_gamma", "kl", dict(concentration=a, rate=2.0), gamma_kl,
            other=table(dict(concentration=b, rate=2.5)))
        add("chi2", "kl", dict(df=a), bregman(w / 2, v / 2), other=table(dict(df=b)))
        # the shares are the same: large parts cancel
        p, q = [v, 2 * v, 4 * v], [w, 2 * w, 4 * w]
        add("beta", "kl", dict(concentration1=a, concentration0=2 * a),
            bregman(q[0], p[0]) + bregman(q[1], p[1]) - bregman(3 * w, 3 * v),
            other=table(dict(concentration1=b, concentration0=2 * b)))
        add("dirichlet", "kl", dict(concentration=[a, 2 * a, 4 * a]),
            sum(bregman(y, x) for x, y in zip(p, q)) - bregman(7 * w, 7 * v),
            other=table(dict(concentration=[b, 2 * b, 4 * b])))
        if a > 2:
            add("wishart", "kl", dict(df=a, scale_matrix=[[2, 0], [0, 3]]),
                bregman(w / 2, v / 2) + bregman((w - 1) / 2, (v - 1) / 2),
                other=table(dict(df=b, scale_matrix=[[2, 0], [0, 3]])))
for a in ([1e10, 1.0, 2.0], [1e17, 3.0, 0.5], [5.0, 5.0, 5.0], [1e17, 1e17, 2.0]):
    v = [mpf(x) for x in a]
    n = sum(v)
    add("dirichlet", "variance", dict(concentration=a), [x * (n - x) / n ** 2 / (n + 1) for x in v])

# log shares of Student's t: I_w(v/2, 1/2) / 2, w = v / (v + z^2)
for df, z in [(0.0037, 10.0), (1.5, 1e30), (20.0, -300.0), (1e4, -60.0), (1e6, -50.0), (300.0, 1e5), (3.0, 0.25), (3.0, -1.0)]:
    with mp.workdps(50):
        v, t = mpf(df), mpf(z)
        w = v / (v + t * t)
        if w < mpf(10) ** -4 or v < 1000:
            tail = w ** (v / 2) * mp.hyp2f1(v / 2, mpf(1) / 2, v / 2 + 1, w) / (v / 2) / mp.beta(v / 2, mpf(1) / 2) / 2
        else:
            f = lambda x: exp(-(v + 1) / 2 * (mp.log1p(x * x / v) - mp.log1p(t * t / v)))
            scale = v / abs(t) / (v + 1) * (1 + t * t / v)
            size = quad(f, [abs(t) + scale * k for k in (0, 1, 2, 4, 8, 16, 32, 64, 128)])
            norm = loggamma((v + 1) / 2) - loggamma(v / 2) - log(v * pi) / 2
            tail = size * exp(norm - (v + 1) / 2 * mp.log1p(t * t / v))
        lower, upper = (tail, 1 - tail) if z < 0 else (1 - tail, tail)
        add("student_t", "log_cdf", dict(df=df), log(lower) if lower < 0.5 else mp.log1p(-upper), x=z)
        add("student_t", "log_survival", dict(df=df), log(upper) if upper < 0.5 else mp.log1p(-lower), x=z)


# arcs of von Mises laws: integral over those parts that matter
def arc(k, m, a, b):
    m = m - 2 * pi * mp.nint(m / (2 * pi))
    turns = [m + 2 * pi * j for j in (-1, 0, 1)]
    drop = lambda t: -2 * k * mp.sin((t - m) / 2) ** 2
    near = [a, b] + [t for t in turns if a < t < b]
    best = max(drop(t) for t in near)
    cuts = {a, b}
    for t in near:
        for j in range(14):
            for s in (-1, 1):
                u = t + s * mpf(2) ** (j - 8) * (1 / sqrt(k) if k > 1 else 1)
                if a < u < b:
                    cuts.add(u)
    return log(quad(lambda t: exp(drop(t) - best), sorted(cuts))) + best - log(2 * pi) - log(besseli(0, k) * exp(-k))


with mp.workdps(30):
    for k in (0.01, 1.0, 58.7, 900.0):
        for m in (0.0, 1.0, -3.0):
            for x in (-3.0, -1.2, 0.4, 1.2, 3.1):
                lower, upper = arc(mpf(k), mpf(m), -pi, mpf(x)), arc(mpf(k), mpf(m), mpf(x), pi)
                params = dict(loc=m, concentration=k)
                add("von_mises", "log_cdf", params, mp.log1p(-exp(upper)) if upper < lower else lower, x=x)
                add("von_mises", "log_survival", params, mp.log1p(-exp(lower)) if lower < upper else upper, x=x)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "large.lua"), "w") as f:
    f.write("-- Written by make_large.py.\nreturn {\n  " + ",\n  ".join(rows) + ",\n}\n")
