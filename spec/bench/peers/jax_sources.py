"""The rows of sources.lua in JAX: the whole step jitted, parameters and Adam's state donated, float32, one thread."""
import math

import jax
from jax import numpy as jnp

import clock
from agreement import Record
from stepping import step_of

DRAWS, NAMES = 16, ("q1", "q2", "q3", "q4")


def apply(p, name, x):
    for layer in (1, 3, 5):
        x = x @ p[f"{name}.net.{layer}.weight"] + p[f"{name}.net.{layer}.bias"]
        x = jax.nn.elu(x) if layer < 5 else x
    return x


def log_bernoulli(logits, x):
    return (x * logits - jax.nn.softplus(logits)).sum(-1)


def loss_of(p, x, objective, noise):
    beliefs, laws = [], {}
    for k in NAMES:
        mean, raw = jnp.split(apply(p, "encoders." + k, x[k]), 2, -1)
        beliefs.append((mean, jax.nn.sigmoid(raw)))
    if objective != "poe":
        laws = {str(i + 1): q for i, q in enumerate(beliefs)}
    if objective != "ind":
        precisions = [scale**-2 for _, scale in beliefs]
        precision = sum(precisions) - (len(NAMES) - 1)
        mean = sum(q * m for q, (m, _) in zip(precisions, beliefs)) / precision
        laws["poe"] = mean, precision**-0.5
    z, ratio = [], []
    for name, (mean, scale) in laws.items():
        eps = noise(name, (DRAWS,) + mean.shape)
        z.append(mean + scale * eps)
        ratio.append((0.5 * (jnp.square(eps) - jnp.square(z[-1])) + jnp.log(scale)).sum(-1))
    z = jnp.concatenate(z)
    log_w = jnp.concatenate(ratio) + sum(log_bernoulli(apply(p, "decoders." + k, z), x[k]) for k in NAMES)
    bounds = jax.nn.logsumexp(log_w.reshape(len(laws), DRAWS, -1), 1).mean(-1) - math.log(DRAWS)
    if objective == "hybrid":
        return -0.5 * (bounds[:-1].mean() + bounds[-1])
    return -bounds.mean()


def load(objective):
    record = Record("sources", "sources " + objective)
    p = jax.tree.map(jnp.asarray, record.parameters)
    x = {k: jnp.asarray(record.data[k]) for k in NAMES}
    record.check(*jax.jit(jax.value_and_grad(
        lambda p: loss_of(p, x, objective, lambda name, shape: record.data["noise." + name])))(p))
    return p, x


for objective in ("ind", "poe", "hybrid"):
    if clock.wanted(objective):
        p, x = load(objective)

        def loss(p, key, x, objective=objective):
            keys = dict(zip(("1", "2", "3", "4", "poe"), jax.random.split(key, 5)))
            return loss_of(p, x, objective, lambda name, shape: jax.random.normal(keys[name], shape))

        clock.row("sources " + objective, "JAX", step_of(loss, p, x))
