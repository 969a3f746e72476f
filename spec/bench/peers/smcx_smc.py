"""The same in smcx: one compiled call for all observations, without history, float64."""
import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
import smcx  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import clock  # noqa: E402


def measure(n, steps):
    y = jnp.asarray(np.random.default_rng(1).standard_normal(steps))

    @jax.jit
    def run(key):
        result = smcx.bootstrap_filter(
            key, lambda k, count: jax.random.normal(k, (count, 1)),
            lambda k, x: 0.9 * x + 0.5 * jax.random.normal(k, x.shape),
            lambda y_t, x: jax.scipy.stats.norm.logpdf(y_t[0], x[0], 0.7),
            y, n, resampling_threshold=2.0, store_history=False)
        return result.marginal_loglik

    key = jax.random.key(1)
    clock.row(f"bootstrap {n}", "smcx", lambda: jax.block_until_ready(run(key)), 1)


measure(1000, 100)
measure(100000, 20)
measure(1000000, 5)
