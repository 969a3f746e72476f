"""Comparison of three models by ArviZ, for spec/infer/compare_spec.lua. Prints comparison.lua.

The draws are formulas, so that no draws need to be stored: of model k, chain c and draw d
  mu = a_k + 0.3 sin((12.9898 + k) (100 c + d + 1)),    y_n ~ N(mu + b_k x_n, s_k).
The weights by stacking are also found to 1e-12 by Newton's method on the conditions of optimality (mpmath).
"""
import arviz
import mpmath
import numpy as np
from scipy.stats import norm

X = np.linspace(-1, 1, 12)
Y = np.array([-1.4, -0.2, -0.9, 1.3, -0.4, 1.2, 0.5, -1.1, 1.9, 0.4, 2.2, -1.7])
A, B, S = [0.0, 0.1, 0.9], [0.0, 1.2, 0.8], [1.6, 0.35, 0.5]


def idata(k):
    mu = A[k] + 0.3 * np.sin((12.9898 + k) * (np.arange(400).reshape(4, 100) + 1))
    ll = norm.logpdf(Y, mu[..., None] + B[k] * X, S[k])
    return arviz.from_dict(posterior={"mu": mu}, log_likelihood={"y": ll})


data = {name: idata(k) for k, name in enumerate("abc")}
waic = {name: arviz.waic(d, pointwise=True, scale="log") for name, d in data.items()}
pointwise = np.array([waic[name].waic_i.values for name in "abc"])
table = arviz.compare(data, ic="waic", method="stacking", scale="log")
pseudo = arviz.compare(data, ic="waic", method="pseudo-BMA", scale="log")
np.random.seed(1)
boot = arviz.compare(data, ic="waic", method="BB-pseudo-BMA", scale="log", b_samples=200000, alpha=1)

# the weights that are not 0 solve mean_n p_kn / sum_j w_j p_jn = 1
alive = [k for k, name in enumerate("abc") if table.loc[name, "weight"] > 1e-6]
mpmath.mp.dps = 30
p = [[mpmath.e ** mpmath.mpf(float(v)) for v in pointwise[k]] for k in alive]


def slopes(*w):
    w = list(w) + [1 - sum(w)]
    mix = [sum(w[j] * p[j][n] for j in range(len(w))) for n in range(12)]
    mean = [sum(p[j][n] / mix[n] for n in range(12)) / 12 for j in range(len(w))]
    return [mean[j] - mean[-1] for j in range(len(w) - 1)]


start = [float(table.loc["abc"[k], "weight"]) for k in alive[:-1]]
found = mpmath.findroot(slopes, start)
found = [float(v) for v in found] if len(alive) > 2 else [float(found)]
weights = np.zeros(3)
weights[alive] = found + [1 - sum(found)]


def row(values):
    return "{ " + ", ".join(repr(float(v)) for v in np.atleast_1d(values)) + " }"


print("-- Made by comparison.py with ArviZ", arviz.__version__)
print("return {")
print("  x =", row(X) + ",")
print("  y =", row(Y) + ",")
print("  a =", row(A) + ", b =", row(B) + ", s =", row(S) + ",")
print("  pointwise = {", ", ".join(row(v) for v in pointwise), "},")
print("  p_waic =", row([waic[name].p_waic for name in "abc"]) + ",")
for field, frame, column in [("elpd", table, "elpd_waic"), ("se", table, "se"), ("difference", table, "elpd_diff"),
                             ("difference_se", table, "dse"), ("arviz_weight", table, "weight"),
                             ("pseudo_bma", pseudo, "weight"), ("pseudo_bma_plus", boot, "weight")]:
    print(f"  {field} =", row([frame.loc[name, column] for name in "abc"]) + ",")
second = data["b"].log_likelihood["y"].values.reshape(400, 12)
print("  above =", int((second.var(axis=0, ddof=1) > 0.4).sum()), end=",  -- variances of the second model above 0.4\n")
print("  weight =", row(weights) + ",")
print("}")
