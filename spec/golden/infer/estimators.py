"""Writes estimators.lua: values and gradients of the estimators, in plain numpy float64, from the papers' formulas.

The gradient is that of the estimator, by log_p and log_q (or log_w); where the papers give it in closed form it is
written so, never by differentiating the value. The layer's operations are seen through the rows that use them: live_mean
and require_weights through elbo, reported and others_log_mean through vimco, pareto_smooth through psis.
Run with numpy and arviz (psislw is the reference of psis): python3 estimators.py > estimators.lua
"""
import numpy as np

rng = np.random.default_rng(20260101)
K, B = 4, 3
log_p = np.round(rng.normal(-2, 1.5, (K, B)), 3)
log_q = np.round(rng.normal(-1, 1.0, (K, B)), 3)
log_w = log_p - log_q


def lse(x, axis=0):
    m = x.max(axis=axis, keepdims=True)
    return (m + np.log(np.exp(x - m).sum(axis=axis, keepdims=True))).squeeze(axis)


def softmax(x):
    return np.exp(x - lse(x)[None])


cases = []


def case(row, value, inputs, gradients, options=None, second=None):
    cases.append((row, value, inputs, gradients, options or {}, second))


paths = []


# elbo: mean of log w; iwae: Burda et al. 2016, gradient sum_k w~_k d log w_k
case("elbo", log_w.mean(), {"log_p": log_p, "log_q": log_q},
     {"log_p": np.full((K, B), 1 / (K * B)), "log_q": np.full((K, B), -1 / (K * B))})
ll, kl, N = log_p, 2.5, 30
case("elbo", N * ll.mean() - kl, {"log_likelihood": ll, "kl": np.array(kl)},
     {"log_likelihood": np.full((K, B), N / (K * B)), "kl": np.array(-1.0)}, {"num_data": N})
case("iwae", (lse(log_w) - np.log(K)).mean(), {"log_w": log_w}, {"log_w": softmax(log_w) / B})

case("map", N * ll[0].mean() - 4.5, {"log_likelihood": ll[0], "log_prior": np.array(-4.5)},
     {"log_likelihood": np.full(B, N / B), "log_prior": np.array(1.0)}, {"num_data": N})
# elbo: log_joint + entropy, and local latents with a divergence of each datum
H = np.round(rng.uniform(0.5, 2, B), 3)
case("elbo", ll.mean() + H.mean(), {"log_joint": ll, "entropy": H},
     {"log_joint": np.full((K, B), 1 / (K * B)), "entropy": np.full(B, 1 / B)})
klb = np.round(rng.uniform(0.1, 3, B), 3)
case("elbo", ll.mean() - klb.mean(), {"log_likelihood": ll, "kl": klb},
     {"log_likelihood": np.full((K, B), 1 / (K * B)), "kl": np.full(B, -1 / B)})
# annealed: the value is the bound, the gradient that of fit - beta kl
beta = 0.25
case("elbo", ll.mean() - klb.mean(), {"log_likelihood": ll, "kl": klb, "beta": np.array(beta)},
     {"log_likelihood": np.full((K, B), 1 / (K * B)), "kl": np.full(B, -beta / B), "beta": np.array(-klb.mean())})
# free bits per dimension and per group: dimension d of [B, D] counts where its mean over the batch is above lambda
D = 4
kld = np.array([[0.1, 0.9, 2.0, 0.3], [0.2, 1.1, 1.0, 0.7], [0.1, 0.4, 0.5, 0.2]])
live = (kld.mean(0) > 0.5).astype(float)
case("elbo", ll.mean() - kld.sum(1).mean(), {"log_likelihood": ll, "kl": kld},
     {"kl": np.broadcast_to(-live / B, (B, D))}, {"free_bits": 0.5})
group = (kld.reshape(B, 2, 2).sum(2).mean(0) > 1.0).astype(float)
case("elbo", ll.mean() - kld.sum(1).mean(), {"log_likelihood": ll, "kl": kld},
     {"kl": np.broadcast_to(-np.repeat(group, 2) / B, (B, D))}, {"free_bits": 1.0, "groups": 2})
case("elbo", N * ll.mean() - 3.6, {"log_likelihood": ll, "kl": np.array([0.1, 3.5])},
     {"kl": np.array([0.0, -1.0])}, {"num_data": N, "free_bits": 0.2})

# renyi, Li & Turner 2016: weights ~ w^(1 - alpha); cubo, Dieng et al. 2017
for alpha in (0.5, 0.0, -2.0, 3.0, 1.0, 1 - 1e-7, 1 + 1e-7, 1 - 1e-4):
    s = 1 - alpha
    if alpha == 1:
        value, slope = log_w.mean(), np.full((K, B), 1 / (K * B))
    elif abs(s) < 1e-3:  # by the cumulants of log w: mean + s var / 2 + s^2 third / 6 + ...
        d = log_w - log_w.mean(0)
        m2, m3, m4 = (d**2).mean(0), (d**3).mean(0), (d**4).mean(0)
        value = (log_w.mean(0) + s * m2 / 2 + s**2 * m3 / 6 + s**3 * (m4 - 3 * m2**2) / 24).mean()
        slope = softmax(s * log_w) / B
    else:
        value, slope = ((lse(s * log_w) - np.log(K)) / s).mean(), softmax(s * log_w) / B
    case("renyi", value, {"log_w": log_w}, {"log_w": slope}, {"alpha": alpha})
for n in (2, 4):
    case("cubo", ((lse(n * log_w) - np.log(K)) / n).mean(), {"log_w": log_w}, {"log_w": softmax(n * log_w) / B},
         {"order": n})

# score function: sum (log w - baseline) grad log q, plus grad log p; baselines, and a trained one's squared error
sign = np.full((K, B), 1 / (K * B))
case("score_function", log_w.mean(), {"log_p": log_p, "log_q": log_q}, {"log_p": sign, "log_q": log_w * sign})
others = (log_w.sum(0) - log_w) / (K - 1)
case("score_function", log_w.mean(), {"log_p": log_p, "log_q": log_q},
     {"log_p": sign, "log_q": (log_w - others) * sign}, {"leave_one_out": True})
base = np.round(rng.normal(-1, 0.5, B), 3)
case("score_function", log_w.mean(), {"log_p": log_p, "log_q": log_q, "baseline": base},
     {"log_p": sign, "log_q": (log_w - base) * sign, "baseline": ((log_w - base) * sign).sum(0)})

# VIMCO, Mnih & Rezende 2016, equations 8 and 10, written with the K - 1 others spelt out
share = softmax(log_w)
for mean in ("geometric", "arithmetic"):
    signal = np.zeros((K, B))
    for k in range(K):
        rest = np.delete(log_w, k, axis=0)
        stand_in = rest.mean(0) if mean == "geometric" else lse(rest) - np.log(K - 1)
        signal[k] = lse(log_w) - lse(np.vstack([rest, stand_in[None]]))
    case("vimco", (lse(log_w) - np.log(K)).mean(), {"log_p": log_p, "log_q": log_q},
         {"log_p": share / B, "log_q": (signal - share) / B}, {"mean": mean})

# reweighted wake-sleep, Bornschein & Bengio 2015
dream = np.round(rng.normal(-2, 1, 5), 3)
bound = (lse(log_w) - np.log(K)).mean()
case("reweighted_wake_sleep", bound, {"log_p": log_p, "log_q": log_q}, {"log_p": share / B, "log_q": share / B})
case("reweighted_wake_sleep", bound, {"log_p": log_p, "log_q": log_q, "sleep_log_q": dream},
     {"log_p": share / B, "log_q": np.zeros((K, B)), "sleep_log_q": np.full(5, 0.2)}, {"wake_phi": False})

# weighted draws
case("normalised_weights", share, {"log_w": log_w}, {})
case("effective_sample_size", 1 / (share**2).sum(0), {"log_w": log_w}, {})
f = np.round(rng.normal(0, 1, (K, B, 2)), 3)
w = np.exp(log_w)[:, :, None]
product = w * f
case("importance", product.mean(0), {"log_w": log_w, "f": f}, {}, second=product.std(0, ddof=1) / np.sqrt(K))
mean = (share[:, :, None] * f).sum(0)
case("self_normalised", mean, {"log_w": log_w, "f": f}, {},
     second=np.sqrt((share[:, :, None]**2 * (f - mean)**2).sum(0)))

# Pareto smoothing: arviz (psislw), weights of q = N(0, 1) for p = Student's t, of several tails; one tail is too short
import arviz
draws = rng.standard_normal((80, 4))
target = [-0.5 * (draws[:, 0] / 1.1)**2, -0.5 * (draws[:, 1] - 1.2)**2, -np.log1p(draws[:, 2]**2 / 3) * 2, 0 * draws[:, 3]]
lw = np.round(np.stack(target, 1) + 0.5 * draws**2, 6)
lw[:, 3] = 0.0
smoothed, k = arviz.psislw(lw.T.copy())
k = np.asarray(k)
k[3] = 0  # equal weights have no tail, and none is fitted: no alarm (arviz says inf)
case("psis", smoothed.T, {"log_w": lw}, {}, second=k)
r = np.array([0.5, 0.45, 1.5, 0.9])  # of draws from a chain
parts = [arviz.psislw(lw[:, b].copy(), reff=r[b]) for b in range(4)]
case("psis", np.stack([p[0] for p in parts], 1), {"log_w": lw, "relative_efficiency": r}, {},
     second=np.array([float(p[1]) for p in parts[:3]] + [0]))

# the gradients through draws, z = a e + b with log p = -(z - 1)^2 / 2, log q = -(z - b)^2 / (2 a^2) - log a:
# Roeder et al. 2017 (the slope of log p - log q by z) and Tucker et al. 2019 (squares of the weights)
e = np.round(rng.normal(0, 1, (K, B)), 3)
a, b, theta = 0.7, 0.4, 1.0
z = a * e + b
lp, lq = -0.5 * (z - theta)**2, -0.5 * ((z - b) / a)**2 - np.log(a)
slope = -(z - theta) + (z - b) / a**2
sw = softmax(lp - lq)
path = {"sticking_the_landing": (slope, 1 / K + 0 * sw, (lp - lq).mean()),
        "dreg": (slope, sw**2, (lse(lp - lq) - np.log(K)).mean())}
for row, (s, weight, value) in path.items():
    plain = 1 / K + 0 * sw if row != "dreg" else sw
    paths.append((row, value, {"a": (weight * s * e).sum(0).mean(), "b": (weight * s).sum(0).mean(),
                               "theta": (plain * (z - theta)).sum(0).mean()}))


def number(v):
    return repr(float(v)).replace("inf", "math.huge").replace("nan", "0/0")


def lua(a):
    a = np.asarray(a)
    return number(a) if a.ndim == 0 else "{" + ", ".join(lua(v) for v in a) + "}"


def table(d):
    return "{" + ", ".join(f"{k} = {repr(v) if isinstance(v, str) else str(v).lower() if isinstance(v, bool) else lua(v)}"
                           for k, v in d.items()) + "}"


print("-- Written by estimators.py.")
print("return {")
for row, value, inputs, gradients, options, second in cases:
    print(f"  {{row = \"{row}\", value = {lua(value)},\n   inputs = {table(inputs)},\n   gradients = {table(gradients)},"
          f"\n   options = {table(options)}{'' if second is None else ', second = ' + lua(second)}}},")
print(f"  path = {{noise = {lua(e)}, a = {a}, b = {b}, theta = {theta},")
for row, value, gradients in paths:
    print(f"    {row} = {{value = {lua(value)}, gradients = {table(gradients)}}},")
print("  },")
print("}")
