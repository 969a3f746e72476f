"""The same in cuthbert: one compiled call for all observations, float64."""
import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from cuthbert import filter as run_filter  # noqa: E402
from cuthbert.smc import particle_filter  # noqa: E402
from cuthbertlib.resampling import systematic  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import clock  # noqa: E402


def measure(n, steps):
    y = jnp.asarray(np.random.default_rng(1).standard_normal(steps))
    built = particle_filter.build_filter(
        lambda key: jax.random.normal(key), lambda key, x, y_t: 0.9 * x + 0.5 * jax.random.normal(key),
        lambda before, x, y_t: jax.scipy.stats.norm.logpdf(y_t, x, 0.7), n, systematic.resampling)

    @jax.jit
    def run(key):
        first, later = jax.random.split(key)
        states = run_filter(built, y, built.init_prepare(key=first), key=later)
        return states.log_normalizing_constant[-1]

    key = jax.random.key(1)
    clock.row(f"bootstrap {n}", "cuthbert", lambda: jax.block_until_ready(run(key)), 1)


measure(1000, 100)
measure(100000, 20)
measure(1000000, 5)
