"""Functions of arrays and draws in JAX, jitted, one thread: the rows of ours.lua."""
import jax

jax.config.update("jax_enable_x64", True)

from jax import numpy as jnp  # noqa: E402
from jax.scipy import special  # noqa: E402

import clock  # noqa: E402

MILLION = 1000000


def row(key, f, *x):
    f = jax.jit(f)
    clock.row(key, "JAX", lambda: f(*x).block_until_ready())


KEY = jax.random.key(1)
for dtype in ("float32", "float64"):
    for n in (65536, MILLION):
        x = 0.05 + 5 * jax.random.uniform(KEY, (n,), dtype)
        for name, f in (("exp", jnp.exp), ("log", jnp.log), ("tanh", jnp.tanh), ("erf", special.erf),
                        ("lgamma", special.gammaln), ("digamma", special.digamma)):
            row(f"{name} {dtype} {n}", f, x)
    row(f"normals {dtype}", lambda key, dtype=dtype: jax.random.normal(key, (MILLION,), dtype), KEY)
    row(f"chain {dtype}", lambda t: jnp.exp(jnp.tanh(t * 2 + 1) * t - jnp.square(t)).sum(),
        jax.random.normal(KEY, (1000, 1000), dtype))

row("add of 8", jnp.add, jnp.ones(8), jnp.ones(8))
