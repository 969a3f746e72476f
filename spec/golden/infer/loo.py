"""Leave-one-out predictive densities of spec/infer/nuts_spec.lua, by ArviZ. Prints loo.lua.

The draws are formulas, so that no draws need to be stored: of chain c and draw d
  mu = 0.3 + 0.4 sin(12.9898 (100 c + d + 1)),    ll_n = -(y_n - mu)^2 / 2 - log(2 pi) / 2.
"""
import arviz
import numpy as np
from scipy.special import logsumexp

Y = np.array([-0.5, 0.1, 0.4, 1.2, 3.0, -4.5])
mu = 0.3 + 0.4 * np.sin(12.9898 * (np.arange(400).reshape(4, 100) + 1))
ll = -((Y - mu[..., None]) ** 2) / 2 - np.log(2 * np.pi) / 2
# the relative efficiency of each observation's likelihood, as the R package loo has it; arviz.loo takes one for all
efficiency = [float(arviz.ess(np.exp(ll[:, :, n]), method="mean")) / 400 for n in range(6)]
parts = [arviz.psislw(-ll[:, :, n].reshape(-1), reff=efficiency[n]) for n in range(6)]
flat = ll.reshape(400, 6)
pointwise = np.array([logsumexp(parts[n][0] + flat[:, n]) for n in range(6)])
p = logsumexp(flat, axis=0) - np.log(400) - pointwise


def row(values):
    return "{ " + ", ".join(repr(float(v)) for v in np.atleast_1d(values)) + " }"


print("-- Made by loo.py with ArviZ", arviz.__version__)
print("return {")
print("  y =", row(Y) + ",")
print("  elpd =", repr(float(pointwise.sum())) + ", se =", repr(float(np.sqrt(6 * pointwise.var()))) + ", p =",
      repr(float(p.sum())) + ",")
print("  efficiency =", row(efficiency) + ",")
print("  pointwise =", row(pointwise) + ",")
print("  k =", row([float(k) for _, k in parts]) + ",")
print("}")
