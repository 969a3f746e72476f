"""Writes linear_posterior.lua: exact posteriors and evidences of Bayesian linear regression.

y = X w + e, e ~ normal(0, noise^2), w ~ normal(0, prior^2 I). With L = X'X / noise^2 + I / prior^2 the posterior
is normal(L^-1 X'y / noise^2, L^-1) (Bishop 2006, 3.49 to 3.51); the evidence is the density of y under
normal(0, noise^2 I + prior^2 X X').
Run: python3 linear_posterior.py > linear_posterior.lua
"""
import numpy as np
from scipy.stats import multivariate_normal


def lua(a):
    if a.ndim == 0:
        return repr(float(a))
    return "{" + ", ".join(lua(b) for b in a) + "}"


def case(name, x, noise, prior, rng):
    n, d = x.shape
    y = x @ rng.normal(0, prior, d) + rng.normal(0, noise, n)
    precision = x.T @ x / noise**2 + np.eye(d) / prior**2
    cov = np.linalg.inv(precision)
    mean = np.linalg.solve(precision, x.T @ y / noise**2)
    evidence = multivariate_normal(np.zeros(n), noise**2 * np.eye(n) + prior**2 * x @ x.T).logpdf(y)
    print(f"  {name} = {{")
    print(f"    noise = {noise}, prior = {prior}, evidence = {float(evidence)!r},")
    for key, value in (("x", x), ("y", y), ("mean", mean), ("cov", cov)):
        print(f"    {key} = {lua(value)},")
    print("  },")


rng = np.random.default_rng(5)
print("-- Written by linear_posterior.py; do not edit.")
print("return {")
q, _ = np.linalg.qr(rng.normal(size=(24, 3)))
case("orthogonal", q * np.array([3.0, 2.0, 5.0]), 0.4, 1.3, rng)
case("general", rng.normal(size=(20, 3)) @ np.array([[1, 0.6, 0], [0, 1, 0.5], [0.3, 0, 1]]), 0.5, 0.9, rng)
print("}")
