"""The seventeen posteriors of reference_posteriors.lua in Stan's language: the same densities, written as Stan's manual
advises (likelihoods of regressions as one function), and the data that they ask for."""
import json

import numpy as np

FLAT = """
data { int N; int K; matrix[N, K] x; vector[N] y; }
parameters { vector[K] beta; real<lower=0> sigma; }
model { PRIOR y ~ normal_id_glm(x, 0, beta, sigma); }"""

PROGRAMS = {
    "kidscore_momiq": FLAT.replace("PRIOR", "sigma ~ cauchy(0, 2.5);"),
    "kidscore_interaction": FLAT.replace("PRIOR", "sigma ~ cauchy(0, 2.5);"),
    "logearn_height": FLAT.replace("PRIOR", ""),
    "logmesquite": FLAT.replace("PRIOR", ""),
    "nes": FLAT.replace("PRIOR", ""),
    "blr": FLAT.replace("PRIOR", "beta ~ normal(0, 10); sigma ~ normal(0, 10);"),
    "diamonds": """
data { int N; int K; matrix[N, K] x; vector[N] y; }
parameters { vector[K] b; real Intercept; real<lower=0> sigma; }
model { b ~ std_normal(); Intercept ~ student_t(3, 8, 10); sigma ~ student_t(3, 0, 10);
        y ~ normal_id_glm(x, Intercept, b, sigma); }""",
    "kilpisjarvi": """
data { int N; vector[N] x; vector[N] y; real pmualpha; real psalpha; real pmubeta; real psbeta; }
parameters { real alpha; real beta; real<lower=0> sigma; }
model { alpha ~ normal(pmualpha, psalpha); beta ~ normal(pmubeta, psbeta); y ~ normal(alpha + beta * x, sigma); }""",
    "arK": """
data { int N; int K; matrix[N, K] x; vector[N] y; }
parameters { real alpha; vector[K] beta; real<lower=0> sigma; }
model { alpha ~ normal(0, 10); beta ~ normal(0, 10); sigma ~ cauchy(0, 2.5);
        y ~ normal_id_glm(x, alpha, beta, sigma); }""",
    "garch11": """
data { int N; array[N] real y; real sigma1; }
parameters { real mu; real<lower=0> alpha0; real<lower=0, upper=1> alpha1; real<lower=0, upper=1 - alpha1> beta1; }
model { real h = square(sigma1);
        for (t in 1:N) { y[t] ~ normal(mu, sqrt(h)); h = alpha0 + alpha1 * square(y[t] - mu) + beta1 * h; } }""",
    "hmm_drive_0": """
data { int N; array[N] real u; array[N] real v; matrix[2, 2] alpha; }
parameters { simplex[2] theta1; simplex[2] theta2; positive_ordered[2] phi; positive_ordered[2] lambda; }
model {
  matrix[2, 2] step = log(append_row(theta1', theta2'));
  vector[2] forward;
  theta1 ~ dirichlet(alpha[1]'); theta2 ~ dirichlet(alpha[2]');
  phi ~ normal([0, 3]', 1); lambda ~ normal([0, 3]', 1);
  for (t in 1:N) {
    vector[2] next;
    for (k in 1:2) {
      next[k] = exponential_lpdf(u[t] | phi[k]) + exponential_lpdf(v[t] | lambda[k]);
      if (t > 1) next[k] += log_sum_exp(forward + step[, k]);
    }
    forward = next;
  }
  target += log_sum_exp(forward); }""",
    "eight_schools_noncentered": """
data { int N; vector[N] y; vector[N] sigma; }
parameters { real mu; real<lower=0> tau; vector[N] eta; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); eta ~ std_normal(); y ~ normal(mu + tau * eta, sigma); }""",
    "low_dim_gauss_mix": """
data { int N; vector[N] y; }
parameters { ordered[2] mu; array[2] real<lower=0> sigma; real<lower=0, upper=1> theta; }
model { mu ~ normal(0, 2); sigma ~ normal(0, 2); theta ~ beta(5, 5);
        for (n in 1:N) target += log_mix(theta, normal_lpdf(y[n] | mu[1], sigma[1]),
                                         normal_lpdf(y[n] | mu[2], sigma[2])); }""",
    "gp_regr": """
data { int N; array[N] real x; vector[N] y; }
parameters { real<lower=0> rho; real<lower=0> alpha; real<lower=0> sigma; }
model { matrix[N, N] cov = gp_exp_quad_cov(x, alpha, rho) + diag_matrix(rep_vector(sigma, N));
        rho ~ gamma(25, 4); alpha ~ normal(0, 2); sigma ~ normal(0, 1);
        y ~ multi_normal_cholesky(rep_vector(0, N), cholesky_decompose(cov)); }""",
    "gp_pois_regr": """
data { int N; array[N] real x; array[N] int k; }
parameters { real<lower=0> rho; real<lower=0> alpha; vector[N] z; }
model { matrix[N, N] cov = gp_exp_quad_cov(x, alpha, rho) + diag_matrix(rep_vector(1e-10, N));
        rho ~ gamma(25, 4); alpha ~ normal(0, 2); z ~ std_normal();
        k ~ poisson_log(cholesky_decompose(cov) * z); }""",
    "lotka_volterra": """
functions { vector rate(real t, vector z, vector p) {
  return [(p[1] - p[2] * z[2]) * z[1], (p[4] * z[1] - p[3]) * z[2]]'; } }
data { int N; array[N] real ts; array[2] real y_init; array[N, 2] real y; }
parameters { vector<lower=0>[4] theta; vector<lower=0>[2] z_init; array[2] real<lower=0> sigma; }
model {
  array[N] vector[2] z = ode_rk45_tol(rate, z_init, 0, ts, 1e-6, 1e-6, 1000000, theta);
  theta ~ normal([1, 0.05, 1, 0.05]', [0.5, 0.05, 0.5, 0.05]');
  z_init ~ lognormal(log(10), 1); sigma ~ lognormal(-1, 1);
  for (k in 1:2) { y_init[k] ~ lognormal(log(z_init[k]), sigma[k]); y[, k] ~ lognormal(log(z[, k]), sigma[k]); } }""",
    "one_comp_mm_elim_abs": """
functions { vector rate(real t, vector c, real k_a, real K_m, real V_m, real D, real V) {
  return [k_a * exp(-k_a * t) * D / V - V_m / V * c[1] / (K_m + c[1])]'; } }
data { int N; real t0; real D; real V; array[N] real times; vector[N] C_hat; }
parameters { real<lower=0> k_a; real<lower=0> K_m; real<lower=0> V_m; real<lower=0> sigma; }
model {
  array[N] vector[1] c = ode_bdf_tol(rate, [0]', t0, times, 1e-6, 1e-6, 1000000, k_a, K_m, V_m, D, V);
  k_a ~ cauchy(0, 1); K_m ~ cauchy(0, 1); V_m ~ cauchy(0, 1); sigma ~ cauchy(0, 1);
  for (n in 1:N) C_hat[n] ~ lognormal(log(c[n][1]), sigma); }""",
}


def columns(*parts):
    """Columns beside a first one of ones."""
    return np.stack([np.ones(len(parts[0])), *map(np.asarray, parts)], 1)


def regression(d, name):
    """x and y of the regressions."""
    if name == "kidscore_momiq":
        return columns(d["mom_iq"]), d["kid_score"]
    if name == "kidscore_interaction":
        hs, iq = map(np.array, (d["mom_hs"], d["mom_iq"]))
        return columns(hs, iq, hs * iq), d["kid_score"]
    if name == "logearn_height":
        return columns(d["height"]), np.log(d["earn"])
    if name == "logmesquite":
        logs = [np.log(d[k]) for k in ("diam1", "diam2", "canopy_height", "total_height", "density")]
        return columns(*logs, d["group"]), np.log(d["weight"])
    if name == "nes":
        age = [np.array(d["age_discrete"]) == k for k in (2, 3, 4)]
        return columns(d["real_ideo"], d["race_adj"], *age, d["educ1"], d["gender"], d["income"]), d["partyid7"]
    if name == "blr":
        return np.array(d["X"]), d["y"]
    if name == "diamonds":
        x = np.array(d["X"])[:, 1:]
        return x - x.mean(0), d["Y"]
    if name == "arK":
        y, k = np.array(d["y"]), d["K"]
        return np.stack([y[k - j: len(y) - j] for j in range(1, k + 1)], 1), y[k:]
    return None


def data(path, name):
    """What the program asks for, from the JSON that reference_posteriors.lua has written."""
    d = json.loads(path.read_text())
    found = regression(d, name)
    if found:
        x, y = (np.asarray(v, dtype=float) for v in found)
        return {"N": len(y), "K": x.shape[1], "x": x.tolist(), "y": y.tolist()}
    d["N"] = len(next(d[k] for k in ("times", "ts", "u", "y") if k in d))
    return d
