"""The posteriors of sampling.lua in NumPyro, with the same data, float64, and what is measured of a sampler."""
import json
import os
import pathlib
import time
import warnings

import jax

jax.config.update("jax_enable_x64", True)
warnings.filterwarnings("ignore")

import arviz  # noqa: E402
import clock  # noqa: E402
import numpy as np  # noqa: E402
import numpyro  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from jax import numpy as jnp  # noqa: E402

SEEDS = 9
FOLDER = pathlib.Path(os.environ.get("BUILD", "build")) / "peers-data"


def data(name):
    return {k: np.array(v, dtype=float) if isinstance(v, list) else v
            for k, v in json.loads((FOLDER / f"{name}.json").read_text()).items()}


def eight_schools(d):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    eta = numpyro.sample("eta", dist.Normal(0, 1).expand([8]))
    numpyro.sample("y", dist.Normal(mu + tau * eta, d["sigma"]), obs=d["y"])


def logistic(d):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([15]))
    numpyro.sample("y", dist.Bernoulli(logits=d["x"] @ beta), obs=d["y"])


def kidiq(d):
    x = np.stack([np.ones(len(d["mom_iq"])), d["mom_iq"]], 1)
    beta = numpyro.sample("beta", dist.ImproperUniform(dist.constraints.real_vector, (), (2,)))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=d["kid_score"])


def arK(d):
    order, y = d["K"], d["y"]
    lags = np.stack([y[order - k: len(y) - k] for k in range(1, order + 1)], 1)
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([order]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(alpha + lags @ beta, sigma), obs=y[order:])


def gp_regr(d):
    x = d["x"]
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    square = (x[:, None] - x[None, :]) ** 2
    cov = alpha**2 * jnp.exp(-0.5 * square / rho**2) + sigma * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), cov), obs=d["y"])


MODELS = {f.__name__: f for f in (eight_schools, logistic, kidiq, arK, gp_regr) if clock.wanted(f.__name__)}


def worst(draws, what):
    """Over all variables of {name: [chains, draws, ...]}: the largest R-hat or least effective sample size."""
    columns = [x.reshape(x.shape[0], x.shape[1], -1) for x in map(np.asarray, draws.values())]
    x = np.concatenate(columns, 2)
    f = (lambda v: float(arviz.rhat(v, method="rank"))) if what == "r_hat" else \
        (lambda v: -float(arviz.ess(v, method="bulk")))
    return abs(max(f(x[:, :, j]) for j in range(x.shape[2])))


def median(values):
    return sorted(values)[len(values) // 2]


def report(key, who, seconds):
    print(f"{key}\t{who}\t{seconds:.6g}", flush=True)


def measure(key, who, make):
    """make() -> (warm(seed, n), block(seed, n) -> (draws, leapfrogs)); both wait for their results. What is compiled at
    the first call stands in the row `cold` alone; how long sampling takes until it has mixed is luck: medians."""
    now, warmed = time.process_time, []
    warm = block = None
    for seed in range(SEEDS + 1):
        spent, start = 0, now()
        if seed == 0:
            warm, block = make()
        warm(seed, 500)
        parts = []
        while True:
            draws, _ = block(seed * 1000 + len(parts), 100)
            spent += now() - start
            parts.append(draws)
            joined = {k: np.concatenate([p[k] for p in parts], 1) for k in draws}
            if worst(joined, "r_hat") < 1.01 or len(parts) == 50:
                break
            start = now()
        if seed == 0:
            report(f"{key} cold", who, spent)
        else:
            warmed.append(spent)
    report(f"{key} warm", who, median(warmed))
    leapfrog, ess = [], []
    for seed in range(SEEDS):
        warm(seed, 1000)
        if seed == 0:
            block(100, 1000)
        start = now()
        draws, leapfrogs = block(seed, 1000)
        spent = now() - start
        leapfrog.append(spent / leapfrogs)
        ess.append(spent / worst(draws, "ess"))
    report(f"{key} leapfrog", who, median(leapfrog))
    report(f"{key} ess", who, median(ess))
