"""Writes convergence.lua: summaries of draws as arviz (below 0.23) computes them.

Run with numpy and arviz: python3 convergence.py > convergence.lua
"""
import warnings

import arviz
import numpy as np

warnings.filterwarnings("ignore")
rng = np.random.default_rng(20260102)


def autoregressive(chains, n, rho, shift=0.0):
    x = np.zeros((chains, n))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + rng.normal(size=chains)
    return x + shift * np.arange(chains)[:, None]


cases = {
    "independent": rng.normal(size=(4, 50)),
    "slow": autoregressive(4, 60, 0.9),
    "antithetic": autoregressive(4, 60, -0.7),
    "apart": autoregressive(3, 40, 0.3, 1.0),
    "heavy tails": rng.standard_cauchy(size=(4, 50)),
    "scales differ": rng.normal(size=(4, 50)) * np.array([1, 1, 1, 5])[:, None],
    "an odd number": autoregressive(2, 31, 0.5),
    "ties": np.round(rng.normal(size=(4, 50))),
    "short": rng.normal(size=(2, 10)),
    "shortest": rng.normal(size=(2, 5)),
}

cases |= {f"short {n}": rng.normal(size=(2, n)) for n in range(4, 16)}
cases |= {f"turning {n}": autoregressive(2, n, -0.9) for n in range(8, 15)}

# correlations of hundreds of lags, of halves whose length is even, odd, or a prime
cases["wandering"] = autoregressive(2, 600, 0.997)
cases["wandering, odd"] = autoregressive(2, 503, 0.995)
cases["wandering, prime"] = autoregressive(2, 2 * 251, 0.99)
# 0, 1, 2 ... by chains, which the spec makes itself
rising = {f"rising {n}": np.arange(2 * n, dtype=float).reshape(2, n) for n in (501, 200000)}

print("-- Written by convergence.py.\nreturn {")
for name, x in (cases | rising).items():
    x = np.round(x, 4)
    summary = {
        "mean": x.mean(),
        "sd": x.std(ddof=1),
        "q05": np.quantile(x, 0.05),
        "median": np.median(x),
        "q95": np.quantile(x, 0.95),
        "r_hat": float(arviz.rhat(x, method="rank")),
        "ess_bulk": float(arviz.ess(x, method="bulk")),
        "ess_tail": float(arviz.ess(x, method="tail")),
        "mcse": float(arviz.mcse(x, method="mean")),
    }
    rows = "" if name in rising else ", ".join("{" + ", ".join(f"{v:.4f}" for v in row) + "}" for row in x)
    values = ", ".join(f"{float(v)!r}" for v in summary.values())
    draws = f"rising = {x.shape[1]}" if name in rising else f"draws = {{{rows}}}"
    print(f'  {{name = "{name}", {draws},\n   summary = {{{values}}}}},')
print("}")
