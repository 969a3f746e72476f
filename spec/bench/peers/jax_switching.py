"""The rows of switching.lua in JAX: the whole step jitted, time in a scan, parameters and Adam's state donated, one
thread."""
import functools
import os
import resource
import subprocess
import sys

import jax

jax.config.update("jax_enable_x64", True)

from jax import numpy as jnp  # noqa: E402
from jax.scipy import linalg  # noqa: E402

import clock  # noqa: E402
import deep_filters  # noqa: E402

FOLDER = os.environ.get("BUILD", "build") + "/peers-data"


class ops:
    log, exp, sqrt, softplus = jnp.log, jnp.exp, jnp.sqrt, jax.nn.softplus
    leaky = staticmethod(jax.nn.leaky_relu)
    diag = staticmethod(lambda x: x[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype))
    cat = staticmethod(lambda list: jnp.concatenate(list, -1))
    expand = staticmethod(jnp.broadcast_to)
    softmax = staticmethod(lambda x: jax.nn.softmax(x, -1))
    logsumexp = staticmethod(lambda x: jax.nn.logsumexp(x, 0))
    cholesky = staticmethod(jnp.linalg.cholesky)
    cholesky_solve = staticmethod(lambda lower, x: linalg.cho_solve((lower, True), x))
    solve = staticmethod(lambda lower, x: linalg.solve_triangular(lower, x, lower=True))
    diagonal = staticmethod(lambda x: jnp.diagonal(x, axis1=-2, axis2=-1))
    eye = staticmethod(lambda x: jnp.eye(x.shape[-1], dtype=x.dtype))
    linear = staticmethod(lambda x, w, b: x @ w if b is None else x @ w + b)

    @staticmethod
    def weigh(w, x):
        """sum_k w[p, b, k] x[b, k, :]."""
        return jnp.einsum("pbk,bkr->pbr", w, x)

    @staticmethod
    def scan(step, carry, rest):
        return jax.lax.scan(step, carry, rest)

    @staticmethod
    def take(log_w, state, u, count, due=None):
        log_w = jax.lax.stop_gradient(log_w)
        cumulative = jnp.cumsum(jnp.exp(log_w), 0)
        at = (jnp.arange(count, dtype=log_w.dtype)[:, None] + u) / count * cumulative[-1:]
        at = jax.vmap(jnp.searchsorted, (1, 1), 1)(cumulative, at).clip(0, len(log_w) - 1)
        if due is not None:
            at = jnp.where(due, at, jnp.arange(count)[:, None])
        series = jnp.arange(log_w.shape[1])
        return {k: x[at, series] for k, x in state.items()}

    @staticmethod
    def resample(log_w, state, u, log_n):
        due = 1 / jnp.exp(2 * jax.lax.stop_gradient(log_w)).sum(0) <= 0.5 * len(log_w)
        return jnp.where(due, jnp.asarray(-log_n, log_w.dtype), log_w), ops.take(log_w, state, u, len(log_w), due)

    @staticmethod
    def ancestors(log_w, state, count, u):
        return ops.take(log_w, state, u, count)


def adam(p, gradients, state, rate=1e-4, b1=0.9, b2=0.95, eps=1e-8):
    count, first, second = state
    count = count + 1
    first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
    c1, c2 = 1 - b1**count, 1 - b2**count
    p = jax.tree.map(lambda x, m, v: (x - rate * (m / c1) / (jnp.sqrt(v / c2) + eps)).astype(x.dtype), p, first, second)
    return p, (count, first, second)


def norm_of(gradients):
    return jnp.sqrt(sum(jnp.square(g).sum() for g in gradients.values()))


def load(key, particles):
    parameters, given = deep_filters.read(FOLDER, key)
    p = {k: jnp.asarray(x) for k, x in parameters.items()}
    tensors = {k: jnp.asarray(x) for k, x in given.items() if k in ("y", "u", "c", "series")}
    if "loss" not in given:
        return p, tensors
    noise = {k[-1]: jnp.asarray(x) for k, x in given.items() if k.startswith("noise")}
    noise["u"] = jnp.zeros((len(tensors["y"]), 1, tensors["y"].shape[1]), tensors["y"].dtype)
    loss = jax.jit(jax.value_and_grad(lambda p: deep_filters.Filter(ops, p, particles).loss(tensors, noise, False)))
    value, gradients = loss(p)
    deep_filters.check(key, value, norm_of(gradients), given)
    return p, tensors


def drawing(key, dtype):
    keys = iter(jax.random.split(key, 16))
    return (lambda *shape: jax.random.normal(next(keys), shape, dtype),
            lambda *shape: jax.random.uniform(next(keys), shape, dtype))


def step_of(p, tensors, particles):
    shape, dtype = tensors["y"].shape, tensors["y"].dtype

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(p, state, key):
        key, now = jax.random.split(key)
        draws = drawing(now, dtype)

        def loss(p):
            filter = deep_filters.Filter(ops, p, particles)
            return filter.loss(tensors, deep_filters.noise_of(filter, *shape[:2], *draws))

        value, gradients = jax.value_and_grad(loss)(p)
        factor = jnp.minimum(1, 10 / norm_of(gradients)).astype(dtype)
        p, state = adam(p, {k: g * factor for k, g in gradients.items()}, state)
        return p, state, key, value

    zeros = jax.tree.map(jnp.zeros_like, p)
    live = [jax.tree.map(jnp.copy, p), (jnp.zeros((), dtype), zeros, jax.tree.map(jnp.zeros_like, p)), jax.random.key(1)]

    def once():
        *live[:], value = step(*live)
        value.block_until_ready()

    return once


def train(key, particles):
    p, tensors = load(key, particles)
    clock.row(key, "JAX", step_of(p, tensors, particles))


def forecast(kind):
    key = kind + " forecast"
    p, tensors = load(key, 10)
    shape = tensors["y"].shape
    future = {k: x for k, x in tensors.items() if k != "y"}

    @jax.jit
    def paths(p, key):
        filter, draws = deep_filters.Filter(ops, p, 10), drawing(key, jnp.float32)
        return filter.paths(tensors, deep_filters.noise_of(filter, *shape[:2], *draws), future, 100,
                            deep_filters.more_noise_of(filter, *shape[:2], 100, *draws))

    clock.row(key, "JAX", lambda: paths(p, jax.random.key(1)).block_until_ready())


def memory(kind):
    p, tensors = load(kind + " memory", 10)
    step = step_of(p, tensors, 10)
    for _ in range(3):
        step()
    print(f"{kind} memory\tJAX\t{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}", flush=True)


if sys.argv[1:2] == ["memory_of"]:
    memory(sys.argv[2])
    sys.exit()
for row in deep_filters.keys(clock.wanted):
    train(*row)
for kind in deep_filters.KINDS:
    if clock.wanted("forecast"):
        forecast(kind)
    if clock.wanted("memory"):
        subprocess.run([sys.executable, __file__, "memory_of", kind], check=True)
