"""Reference values for spec/golden/dist/composite.lua: distributions made of distributions whose law is known in
closed form elsewhere (SciPy), or is a sum of such.

Run: python3 make_composite.py   (needs numpy, scipy; writes beside itself)
"""
import os
import numpy as np
from scipy import stats
from make import HERE, lua

t = {}


def of_scipy(d, x, **more):
    p = [0.01, 0.3, 0.5, 0.9]
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
    return dict(x=x, log_prob=list(np.log(total(density))), cdf=total(lambda d, v: d.cdf(v)), mean=m,
                variance=second - m ** 2, **more)


t["mixture"] = dict(
    normals=mixture([0.3, 0.7], [stats.norm(-1, 0.5), stats.norm(2, 1.5)], [-4.0, -1.0, 0.0, 2.5, 9.0]),
    normal_and_gamma=mixture([0.25, 0.75], [stats.norm(0, 1), stats.gamma(3, scale=0.5)], [-2.0, 0.1, 3.0]),
    bernoullis=mixture([0.5, 0.5], [stats.bernoulli(0.1), stats.bernoulli(0.8)], [0.0, 1.0]),
)
d = stats.norm(1, 2)
t["masked"] = dict(normal=dict(x=x, log_prob=list(d.logpdf(x)), mean=1.0, variance=4.0, entropy=float(d.entropy())))

with open(os.path.join(HERE, "composite.lua"), "w") as f:
    f.write("-- Written by make_composite.py.\nreturn {\n")
    for name, cases in t.items():
        f.write("  %s = {\n" % name)
        for key, value in cases.items():
            f.write("    %s = %s,\n" % (key, lua(value)))
        f.write("  },\n")
    f.write("}\n")
