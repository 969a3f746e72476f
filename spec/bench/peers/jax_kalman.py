"""Predict and update of 3200 Kalman filters in JAX, vmap of one filter, jitted, float64, one thread."""
import jax

jax.config.update("jax_enable_x64", True)

from jax import numpy as jnp  # noqa: E402
from jax.scipy import linalg  # noqa: E402

import clock  # noqa: E402


def one(mean, cov, a, b, q, y, c, d, r):
    mean = a @ mean + b
    cov = a @ cov @ a.T + q
    innovation = y - c @ mean - d
    half = c @ cov
    lower = jnp.linalg.cholesky(half @ c.T + r)
    gain = linalg.cho_solve((lower, True), half).T
    white = linalg.solve_triangular(lower, innovation, lower=True)
    log_prob = (-0.5 * white @ white - jnp.log(jnp.diagonal(lower)).sum() - 0.5 * len(y) * jnp.log(2 * jnp.pi))
    left = jnp.eye(len(mean)) - gain @ c
    return mean + gain @ innovation, left @ cov @ left.T + gain @ r @ gain.T, log_prob


step = jax.vmap(one, (0, 0, None, None, None, 0, None, None, None))


def total(*x):
    mean, cov, log_prob = step(*x)
    return mean.sum() + cov.sum() + log_prob.sum()


def measure(n, p, batch=3200):
    normal = jax.random.normal
    keys = jax.random.split(jax.random.key(1), 6)
    x = [normal(keys[0], (batch, n)), jnp.tile(jnp.eye(n), (batch, 1, 1)), 0.3 * normal(keys[1], (n, n)),
         normal(keys[2], (n,)), jnp.eye(n), normal(keys[3], (batch, p)), normal(keys[4], (p, n)),
         normal(keys[5], (p,)), jnp.eye(p)]
    key = f"Kalman {n}, {p}"
    forward, gradient = jax.jit(step), jax.jit(jax.grad(total, argnums=tuple(range(9))))
    clock.row(key, "JAX", lambda: jax.block_until_ready(forward(*x)))
    clock.row(key + ", gradient", "JAX", lambda: jax.block_until_ready(gradient(*x)))


measure(4, 2)
measure(10, 4)
