"""Log likelihood and gradient of 64 series of 1000 observations in dynamax, vmap of one filter, jitted, float64."""
import jax

jax.config.update("jax_enable_x64", True)

from dynamax.linear_gaussian_ssm.inference import lgssm_filter, make_lgssm_params  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import clock  # noqa: E402


def measure(n, p, steps=1000, batch=64):
    keys = jax.random.split(jax.random.key(1), 2)
    x = (0.9 * jnp.eye(n), jnp.eye(n), jax.random.normal(keys[0], (p, n)), jnp.eye(p))
    y = jax.random.normal(keys[1], (batch, steps, p))

    def total(a, q, c, r):
        params = make_lgssm_params(jnp.zeros(n), jnp.eye(n), a, q, c, r)
        return jax.vmap(lambda own: lgssm_filter(params, own).marginal_loglik)(y).sum()

    key = f"sequence {n}, {p}"
    forward, gradient = jax.jit(total), jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))
    clock.row(key, "dynamax", lambda: jax.block_until_ready(forward(*x)))
    clock.row(key + ", gradient", "dynamax", lambda: jax.block_until_ready(gradient(*x)))


measure(4, 2)
measure(10, 4)
