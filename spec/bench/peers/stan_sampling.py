"""NUTS of Stan through pystan: processor time of its workers, which run the chains. Blocks are those of one long run,
charged by their share of it. Building a model takes minutes of a compiler and counts in `cold` alone."""
import json
import os
import pathlib
import resource
import shutil

FOLDER = pathlib.Path(os.environ.get("BUILD", "build")).resolve() / "peers-data"
os.environ["XDG_CACHE_HOME"] = str(FOLDER / "stan")  # where pystan keeps what it has built
shutil.rmtree(FOLDER / "stan", ignore_errors=True)

import posteriors  # noqa: E402
import stan  # noqa: E402

MODELS = {
    "eight_schools": """
data { int J; vector[J] y; vector[J] sigma; }
parameters { real mu; real<lower=0> tau; vector[J] eta; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); eta ~ std_normal(); y ~ normal(mu + tau * eta, sigma); }""",
    "logistic": """
data { int N; int K; matrix[N, K] x; array[N] int y; }
parameters { vector[K] beta; }
model { beta ~ std_normal(); y ~ bernoulli_logit_glm(x, 0, beta); }""",
    "kidiq": """
data { int N; vector[N] kid_score; matrix[N, 1] mom_iq; }
parameters { vector[2] beta; real<lower=0> sigma; }
model { sigma ~ cauchy(0, 2.5); kid_score ~ normal_id_glm(mom_iq, beta[1], beta[2:2], sigma); }""",
    "arK": """
data { int T; int K; vector[T] y; matrix[T, K] lags; }
parameters { real alpha; vector[K] beta; real<lower=0> sigma; }
model { alpha ~ normal(0, 10); beta ~ normal(0, 10); sigma ~ cauchy(0, 2.5);
        y ~ normal_id_glm(lags, alpha, beta, sigma); }""",
    "gp_regr": """
data { int N; array[N] real x; vector[N] y; }
parameters { real<lower=0> rho; real<lower=0> alpha; real<lower=0> sigma; }
model { matrix[N, N] cov = gp_exp_quad_cov(x, alpha, rho) + diag_matrix(rep_vector(sigma, N));
        rho ~ gamma(25, 4); alpha ~ normal(0, 2); sigma ~ normal(0, 1);
        y ~ multi_normal_cholesky(rep_vector(0, N), cholesky_decompose(cov)); }""",
}


def data(name):
    d = json.loads((FOLDER / f"{name}.json").read_text())
    if name == "eight_schools":
        d["J"] = len(d["y"])
    elif name == "logistic":
        d.update(N=len(d["y"]), K=len(d["x"][0]), y=[int(v) for v in d["y"]])
    elif name == "kidiq":
        d.update(N=len(d["mom_iq"]), mom_iq=[[v] for v in d["mom_iq"]])
    elif name == "arK":
        n, k, y = len(d["y"]), d["K"], d["y"]
        d.update(T=n - k, y=y[k:], lags=[[y[t - j] for j in range(1, k + 1)] for t in range(k, n)])
    elif name == "gp_regr":
        d["N"] = len(d["x"])
    return d


def children():
    """Nanoseconds of processor time that each living child has had."""
    spent = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
            if parent == os.getpid():
                spent[path] = int((path.parent / "schedstat").read_text().split()[0])
        except OSError:  # it has gone
            pass
    return spent


def sample(model, warmup, draws):
    """Draws [chains, draws, ...] of the parameters, leapfrogs, seconds of warm-up and of sampling."""
    before = children()
    fit = model.sample(num_chains=4, num_warmup=warmup, num_samples=draws, refresh=0)
    spent = sum(v - before.get(k, 0) for k, v in children().items()) * 1e-9
    elapsed = {"(Warm-up)": 0, "(Sampling)": 0}  # by Stan's own clock
    for output in fit.stan_outputs:
        for line in output.decode().splitlines():
            for word in elapsed:
                if word in line:
                    elapsed[word] += float(line.split(" seconds ")[0].split()[-1].strip('"').removeprefix("info:"))
    share = elapsed["(Sampling)"] / sum(elapsed.values())
    names = list(fit.sample_and_sampler_param_names)
    x = fit._draws.transpose(2, 1, 0)
    return ({"all": x[:, :, len(names):]}, x[:, :, names.index("n_leapfrog__")].sum(), spent * (1 - share),
            spent * share)


def until_mixed(model):
    draws, _, warmup, sampling = sample(model, 500, 5000)
    n = next((n for n in range(100, 5000, 100) if posteriors.worst({"all": draws["all"][:, :n]}, "r_hat") < 1.01), 5000)
    return warmup + sampling * n / 5000


def compiled():
    return sum(getattr(resource.getrusage(resource.RUSAGE_CHILDREN), f) for f in ("ru_utime", "ru_stime"))


for name, code in MODELS.items():
    if name not in posteriors.MODELS:
        continue
    before = compiled()
    models = [stan.build(code, data(name), random_seed=1)]
    built = compiled() - before
    models += [stan.build(code, data(name), random_seed=seed) for seed in range(2, posteriors.SEEDS + 1)]
    sample(models[0], 100, 100)  # workers load the model
    posteriors.report(f"{name} cold", "Stan", built + until_mixed(models[0]))
    posteriors.report(f"{name} warm", "Stan", posteriors.median([until_mixed(m) for m in models]))
    leapfrog, ess = [], []
    for m in models:
        draws, leapfrogs, _, spent = sample(m, 1000, 1000)
        leapfrog.append(spent / leapfrogs)
        ess.append(spent / posteriors.worst(draws, "ess"))
    posteriors.report(f"{name} leapfrog", "Stan", posteriors.median(leapfrog))
    posteriors.report(f"{name} ess", "Stan", posteriors.median(ess))
