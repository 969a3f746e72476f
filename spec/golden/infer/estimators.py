"""Writes estimators.lua: values and gradients of the estimators, in plain numpy float64, from the papers' formulas.

The gradient is that of the estimator, by log_p and log_q (or log_w); where the papers give it in closed form it is
written so, never by differentiating the value. live_mean and require_weights are seen through elbo and iwae.
Run: python3 estimators.py > estimators.lua
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


def case(row, value, inputs, gradients, options=None):
    cases.append((row, value, inputs, gradients, options or {}))


# elbo: mean of log w; iwae: Burda et al. 2016, gradient sum_k w~_k d log w_k
case("elbo", log_w.mean(), {"log_p": log_p, "log_q": log_q},
     {"log_p": np.full((K, B), 1 / (K * B)), "log_q": np.full((K, B), -1 / (K * B))})
ll, kl, N = log_p, 2.5, 30
case("elbo", N * ll.mean() - kl, {"log_likelihood": ll, "kl": np.array(kl)},
     {"log_likelihood": np.full((K, B), N / (K * B)), "kl": np.array(-1.0)}, {"num_data": N})
case("iwae", (lse(log_w) - np.log(K)).mean(), {"log_w": log_w}, {"log_w": softmax(log_w) / B})


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
for row, value, inputs, gradients, options in cases:
    print(f"  {{row = \"{row}\", value = {lua(value)},\n   inputs = {table(inputs)},\n   gradients = {table(gradients)},"
          f"\n   options = {table(options)}}},")
print("}")
