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
from names import NAMES, Example, differ  # noqa: E402

folder = os.environ.get("BUILD", "build") + "/peers-data"


def row(key, f, *x):
    f = jax.jit(f)
    clock.row(key, "NumPyro", lambda: jax.block_until_ready(f(*x)), 0.12)


def measure(name, n):
    file = f"{folder}/{name}-{n}.npz"
    theirs = NAMES.get(name, (None, None))[1]
    if not theirs or not os.path.exists(file):
        return
    e = Example("NumPyro", name, distributions, np.load(file), jnp.asarray)
    x = e.x
    # what has a gradient, and the rest
    given = {k: v for k, v in e.given.items() if jnp.issubdtype(v.dtype, jnp.floating)}
    rest = {k: v for k, v in e.given.items() if k not in given}

    def log_prob(given, x):
        return e.make({**given, **rest}).log_prob(x)

    def draw(key, given):
        return e.make({**given, **rest}).sample(key)

    if differ(e.log_prob, log_prob(given, x)):
        print(f"{name}: NumPyro's log_prob is another one", file=sys.stderr)
    both = jnp.issubdtype(x.dtype, jnp.floating) and not e.make().is_discrete
    row(f"{name} log_prob {n}", log_prob, given, x)
    row(f"{name} sample {n}", draw, jax.random.key(1), given)
    row(f"{name} gradient {n}", jax.grad(lambda g, v: log_prob(g, v).sum(), argnums=(0, 1) if both else 0), given, x)


for name in sys.argv[1:] or NAMES:
    for n in (100, 1000000):
        try:
            measure(name, n)
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
