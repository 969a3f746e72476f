"""Writes layers.lua: outputs of every layer for given inputs and parameters, from NumPy and SciPy.

Also the divergence and the moments of layers that have a posterior: the sum over weights of
KL(normal(m, s) | normal(0, p)) (closed form checked against quadrature below) and mean and variance of x W + b.
Run: python3 layers.py > layers.lua
"""
import numpy as np
from scipy import integrate, special, stats

rng = np.random.default_rng(8)
X = np.round(rng.normal(size=(4, 3)), 3)
W, B = np.round(rng.normal(size=(3, 2)), 3), np.round(rng.normal(size=2), 3)
LOG_S, LOG_SB = np.round(rng.normal(-1, 0.3, size=(3, 2)), 3), np.round(rng.normal(-1, 0.3, size=2), 3)
PRIOR = 0.7


def kl(m, s, p):
    return np.log(p / s) + (s * s + m * m) / (2 * p * p) - 0.5


def kl_by_quadrature(m, s, p):
    q = stats.norm(m, s)
    return integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - stats.norm(0, p).logpdf(w)), m - 12 * s, m + 12 * s)[0]


def lua(a):
    a = np.asarray(a)
    return repr(float(a)) if a.ndim == 0 else "{" + ", ".join(lua(b) for b in a) + "}"


S, SB = np.exp(LOG_S), np.exp(LOG_SB)
total = kl(W, S, PRIOR).sum() + kl(B, SB, PRIOR).sum()
check = sum(kl_by_quadrature(m, s, PRIOR) for m, s in zip(np.r_[W.ravel(), B], np.r_[S.ravel(), SB]))
assert abs(total - check) < 1e-8 * total

rows = {
    "linear": {"state": {"weight": W, "bias": B}, "mean": X @ W + B},
    "bayes_linear": {
        "options": {"prior_scale": PRIOR},
        "state": {"weight_loc": W, "weight_log_scale": LOG_S, "bias_loc": B, "bias_log_scale": LOG_SB},
        "mean": X @ W + B,
        "variance": X**2 @ S**2 + SB**2,
        "kl": total,
    },
    "relu": {"mean": np.maximum(X, 0)},
    "leaky_relu": {"options": {"slope": 0.2}, "mean": np.where(X > 0, X, 0.2 * X)},
    "elu": {"options": {"alpha": 1.5}, "mean": np.where(X > 0, X, 1.5 * np.expm1(X))},
    "gelu": {"mean": X * stats.norm.cdf(X)},
    "silu": {"mean": X * special.expit(X)},
    "tanh": {"mean": np.tanh(X)},
    "sigmoid": {"mean": special.expit(X)},
    "softplus": {"mean": np.logaddexp(0, X)},
}

print("-- Written by layers.py; do not edit.")
print("return {")
print(f"  x = {lua(X)},")
for name, entry in rows.items():
    print(f"  {name} = {{")
    for key, value in entry.items():
        if isinstance(value, dict):
            print(f"    {key} = {{" + ", ".join(f"{k} = {lua(v)}" for k, v in value.items()) + "},")
        else:
            print(f"    {key} = {lua(value)},")
    print("  },")
print("}")
