"""Reference values for spec/golden/distribution/composite.lua: distributions made of distributions whose law is known in
closed form elsewhere (SciPy), or is a sum of such.

Run: python3 make_composite.py   (needs numpy, scipy; writes beside itself)
"""
import os
import numpy as np
from scipy import optimize, stats
from make import HERE, lua

t = {}


def of_scipy(d, x, **more):
    p = [0.01, 0.3, 0.5, 0.9]
    more.update(log_cdf=[d.logcdf(v) for v in x], log_survival=[d.logsf(v) for v in x])
    return dict(x=x, log_prob=[d.logpdf(v) for v in x], cdf=[d.cdf(v) for v in x], p=p, icdf=[d.ppf(v) for v in p],
                **more)


def logit_normal(x, m, s):
    return stats.norm.logpdf(np.log(x / (1 - x)), m, s) - np.log(x) - np.log1p(-x)


x = [1e-3, 0.4, 1.0, 7.5]
y = [1e-4, 0.2, 0.5, 0.97]
t["transformed"] = dict(
    exp_of_normal=of_scipy(stats.lognorm(0.7, scale=np.exp(0.3)), x),
    affine_of_laplace=of_scipy(stats.laplace(2, 3), x),
    falling_affine_of_exponential=of_scipy(stats.gumbel_r(1, 2), [-3.0, 0.5, 6.0]),
    power_of_exponential=of_scipy(stats.weibull_min(1.6, scale=1), x),
    sigmoid_of_normal=dict(x=y, log_prob=[logit_normal(v, -0.5, 1.2) for v in y]),
    affine_tril_of_normal=dict(
        x=[[0.0, 0.0], [1.0, -2.0]],
        log_prob=list(stats.multivariate_normal([0.5, -1], np.array([[4, -1.0], [-1.0, 1.25]])).logpdf(
            [[0.0, 0.0], [1.0, -2.0]]))),
)


def mixture(weights, parts, x, **more):
    """By summing densities."""
    if hasattr(parts[0].dist, "logpmf"):
        density = lambda d, v: d.pmf(v)
    else:
        density = lambda d, v: d.pdf(v)
    total = lambda f: [sum(w * f(d, v) for w, d in zip(weights, parts)) for v in x]
    m = sum(w * d.mean() for w, d in zip(weights, parts))
    second = sum(w * (d.var() + d.mean() ** 2) for w, d in zip(weights, parts))
    level = [0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 1.0]

    def quantile(p):
        ends = [d.ppf(p) for d in parts]
        low, high = min(ends), max(ends)
        whole = hasattr(parts[0].dist, "logpmf")
        if p in (0, 1) or low == high:
            return max(low if p < 1 else high, 0) if whole else low if p < 1 else high
        value = lambda v: sum(w * d.cdf(v) for w, d in zip(weights, parts)) - p
        if whole:
            return next(float(k) for k in range(int(max(low, 0)), int(high) + 1) if value(k) >= 0)
        return optimize.brentq(value, low, high, xtol=1e-300, rtol=1e-15)
    return dict(p=level, icdf=[quantile(v) for v in level], x=x, log_prob=list(np.log(total(density))), cdf=total(lambda d, v: d.cdf(v)), mean=m,
                log_cdf=list(np.log(total(lambda d, v: d.cdf(v)))), log_survival=list(np.log(total(lambda d, v: d.sf(v)))),
                variance=second - m ** 2, **more)


t["mixture"] = dict(
    normals=mixture([0.3, 0.7], [stats.norm(-1, 0.5), stats.norm(2, 1.5)], [-4.0, -1.0, 0.0, 2.5, 9.0]),
    normal_and_gamma=mixture([0.25, 0.75], [stats.norm(0, 1), stats.gamma(3, scale=0.5)], [-2.0, 0.1, 3.0]),
    bernoullis=mixture([0.5, 0.5], [stats.bernoulli(0.1), stats.bernoulli(0.8)], [0.0, 1.0]),
)
d = stats.norm(1, 2)
t["masked"] = dict(normal=dict(x=x, log_prob=list(d.logpdf(x)), mean=1.0, variance=4.0, entropy=float(d.entropy())))

# ---- Gaussian factors and divergences of two Gaussians, by quadrature ----

from scipy import integrate  # noqa: E402


def line(f):
    return integrate.quad(f, -18, 18, points=[-3, 0, 3], epsabs=0, epsrel=1e-12, limit=800)[0]


def plane(f):
    """The trapezoidal rule, which converges geometrically for a function that decays like a Gaussian."""
    v = np.linspace(-25, 25, 2001)
    a, b = np.meshgrid(v, v, indexing="ij")
    return f(np.stack([a, b], -1)).sum() * (v[1] - v[0]) ** 2


def log_factor(eta, lam):
    eta, lam = np.array(eta), np.array(lam)
    return lambda z: z @ eta - 0.5 * np.einsum("...i,ij,...j->...", z, lam, z)


eta, lam = [0.7, -0.4], [[1.5, 0.3], [0.3, 0.8]]
p2 = stats.multivariate_normal([0.2, -0.5], [[1.0, 0.4], [0.4, 2.0]])
q2 = stats.multivariate_normal([1.0, 0.3], [[1.5, -0.2], [-0.2, 1.2]])
p1, q1 = stats.norm(0.3, 0.8), stats.norm(-0.4, 1.3)
experts = [(0.8, 0.5), (-0.3, 0.7), (1.5, 0.9)]
pdf = lambda z: np.exp(sum(stats.norm.logpdf(z, *e) for e in experts) - 2 * stats.norm.logpdf(z))
norm = line(pdf)
poe_mean = line(lambda z: z * pdf(z)) / norm
log_half = lambda z: np.logaddexp(p1.logpdf(z), q1.logpdf(z)) - np.log(2)
natural = dict(
    scalar=dict(eta=0.7, lam=1.6, log_normaliser=float(np.log(line(lambda z: np.exp(0.7 * z - 0.8 * z * z)))),
                expected_log=line(lambda z: p1.pdf(z) * (0.7 * z - 0.8 * z * z)), loc=0.3, scale=0.8),
    full=dict(eta=eta, lam=lam, log_normaliser=float(np.log(plane(lambda z: np.exp(log_factor(eta, lam)(z))))),
              expected_log=plane(lambda z: p2.pdf(z) * log_factor(eta, lam)(z)),
              loc=list(p2.mean), covariance=p2.cov.tolist()),
    experts=dict(list=[list(e) for e in experts], mean=poe_mean,
                 variance=line(lambda z: (z - poe_mean) ** 2 * pdf(z)) / norm),
    renyi_numbers=[dict(order=a, value=np.log(line(lambda z: np.exp(a * p1.logpdf(z) + (1 - a) * q1.logpdf(z))))
                        / (a - 1)) for a in (0.1, 0.5, 0.99, 1.01, 2.0, 2.5)],
    renyi_vectors=[dict(order=a, value=np.log(plane(lambda z: np.exp(a * p2.logpdf(z) + (1 - a) * q2.logpdf(z))))
                        / (a - 1)) for a in (0.3, 0.5, 1.5)],
    jensen_shannon=line(lambda z: 0.5 * p1.pdf(z) * (p1.logpdf(z) - log_half(z)) +
                        0.5 * q1.pdf(z) * (q1.logpdf(z) - log_half(z))),
    kl=line(lambda z: p1.pdf(z) * (p1.logpdf(z) - q1.logpdf(z))),
)


def table(v):
    if isinstance(v, dict):
        return "{" + ", ".join("%s = %s" % (k, table(x)) for k, x in v.items()) + "}"
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(table(x) for x in v) + "}"
    return lua(v)


with open(os.path.join(HERE, "natural.lua"), "w") as f:
    f.write("-- Written by make_composite.py.\nreturn {\n")
    for key, value in natural.items():
        f.write("  %s = %s,\n" % (key, table(value)))
    f.write("}\n")

with open(os.path.join(HERE, "composite.lua"), "w") as f:
    f.write("-- Written by make_composite.py.\nreturn {\n")
    for name, cases in t.items():
        f.write("  %s = {\n" % name)
        for key, value in cases.items():
            f.write("    %s = %s,\n" % (key, lua(value)))
        f.write("  },\n")
    f.write("}\n")
