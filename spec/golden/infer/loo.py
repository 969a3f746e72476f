"""Leave-one-out predictive densities of spec/infer/nuts_spec.lua, by ArviZ. Prints loo.lua.

The draws are formulas, so that no draws need to be stored: of chain c and draw d
  mu = 0.3 + 0.4 sin(12.9898 (100 c + d + 1)),    ll_n = -(y_n - mu)^2 / 2 - log(2 pi) / 2.
"""
import arviz
import numpy as np

Y = np.array([-0.5, 0.1, 0.4, 1.2, 3.0, -4.5])
mu = 0.3 + 0.4 * np.sin(12.9898 * (np.arange(400).reshape(4, 100) + 1))
ll = -((Y - mu[..., None]) ** 2) / 2 - np.log(2 * np.pi) / 2
data = arviz.from_dict(posterior={"mu": mu}, log_likelihood={"y": ll})
loo = arviz.loo(data, pointwise=True, reff=1.0)
waic = arviz.waic(data)


def row(values):
    return "{ " + ", ".join(repr(float(v)) for v in np.atleast_1d(values)) + " }"


print("-- Made by loo.py with ArviZ", arviz.__version__)
print("return {")
print("  y =", row(Y) + ",")
print("  elpd =", repr(float(loo.elpd_loo)) + ", se =", repr(float(loo.se)) + ", p =", repr(float(loo.p_loo)) + ",")
print("  pointwise =", row(loo.loo_i.values) + ",")
print("  k =", row(loo.pareto_k.values) + ",")
print("}")
