"""Log likelihood and gradient of 64 series of 1000 observations in cuthbert, vmap of one filter (on square roots, one
step after the other), jitted, float64."""
import jax

jax.config.update("jax_enable_x64", True)

from cuthbert import filter as run_filter  # noqa: E402
from cuthbert.gaussian import kalman  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import clock  # noqa: E402


def measure(n, p, steps=1000, batch=64):
    keys = jax.random.split(jax.random.key(1), 2)
    x = (0.9 * jnp.eye(n), jnp.eye(n), jax.random.normal(keys[0], (p, n)), jnp.eye(p))
    y = jax.random.normal(keys[1], (batch, steps, p))

    def total(a, q, c, r):
        root_q, root_r = jnp.linalg.cholesky(q), jnp.linalg.cholesky(r)

        def one(own):
            f = kalman.build_filter(jnp.zeros(n), jnp.eye(n), lambda _: (a, jnp.zeros(n), root_q),
                                    lambda t: (c, jnp.zeros(p), root_r, own[t]))
            states = run_filter(f, jnp.arange(steps), f.init_prepare(), parallel=False)
            return states.log_normalizing_constant[-1]

        return jax.vmap(one)(y).sum()

    key = f"sequence {n}, {p}"
    forward, gradient = jax.jit(total), jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))
    clock.row(key, "cuthbert", lambda: jax.block_until_ready(forward(*x)))
    clock.row(key + ", gradient", "cuthbert", lambda: jax.block_until_ready(gradient(*x)))


measure(4, 2)
measure(10, 4)
