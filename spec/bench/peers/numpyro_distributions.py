"""log_prob, its gradient and draws of each distribution in NumPyro, jitted, float64, on the numbers that ours.lua
wrote."""
import os
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from jax import numpy as jnp  # noqa: E402
from numpyro import distributions  # noqa: E402

import clock  # noqa: E402
from names import NAMES, arguments  # noqa: E402

folder = os.environ.get("BUILD", "build") + "/peers-data"


def row(key, f, *x):
    f = jax.jit(f)
    clock.row(key, "NumPyro", lambda: jax.block_until_ready(f(*x)), 0.12)


def measure(name, n):
    file = f"{folder}/{name}-{n}.npz"
    theirs = NAMES.get(name, (None, None))[1]
    if not theirs or not os.path.exists(file):
        return
    x, given = arguments("NumPyro", name, np.load(file), jnp.asarray)
    kind = getattr(distributions, theirs)
    fixed = {k: v for k, v in given.items() if isinstance(v, int)}
    given = {k: v for k, v in given.items() if k not in fixed}

    def log_prob(given, x):
        return kind(**given, **fixed).log_prob(x)

    def draw(key, given):
        return kind(**given, **fixed).sample(key)

    both = jnp.issubdtype(x.dtype, jnp.floating) and not kind(**given, **fixed).is_discrete
    row(f"{name} log_prob {n}", log_prob, given, x)
    row(f"{name} sample {n}", draw, jax.random.key(1), given)
    row(f"{name} gradient {n}", jax.grad(lambda g, v: log_prob(g, v).sum(), argnums=(0, 1) if both else 0), given, x)


for name in sys.argv[1:] or NAMES:
    for n in (100, 1000000):
        try:
            measure(name, n)
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
