"""Gaussian sites as in sites.lua, in JAX: vmap over draws and data of grad, and for the sums vjp and jvp of all data at once;
scan over chunks of draws, jitted, float32, one thread. The best of some chunk sizes counts."""
import jax
from jax import numpy as jnp

import clock

CASES = [("Yacht", [6, 16, 16, 1], 25, "normal", 2048, [4, 16, 64]),
         ("Spam", [57, 32, 32, 1], 50, "bernoulli", 512, [1, 4, 16]),
         ("MNIST", [784, 64, 64, 10], 400, "categorical", 4, [1, 2])]


def log_p(likelihood, layers, x, y):
    for k, (w, b) in enumerate(layers):
        x = x @ w + b
        x = jnp.tanh(x) if k + 1 < len(layers) else x
    if likelihood == "normal":
        return -0.5 * ((y - x[..., 0]) / 0.5) ** 2
    if likelihood == "bernoulli":
        return -jax.nn.softplus((1 - 2 * y) * x[..., 0])
    return jnp.take_along_axis(jax.nn.log_softmax(x), y[..., None], -1)[..., 0]


def measure(name, widths, n, likelihood, draws, chunks):
    keys = jax.random.split(jax.random.key(1), 4)
    shapes = [((a, b), (b,)) for a, b in zip(widths, widths[1:])]
    mean = [tuple(0.1 * jax.random.normal(keys[0], s) for s in pair) for pair in shapes]
    scale = jax.tree.map(lambda m: jnp.full_like(m, 0.1), mean)
    x = jax.random.normal(keys[1], (n, widths[0]))
    y = (jax.random.randint(keys[2], (n,), 0, 10) if likelihood == "categorical"
         else jax.random.normal(keys[2], (n,)) if likelihood == "normal"
         else (jax.random.normal(keys[2], (n,)) > 0).astype(jnp.float32))
    tree = jax.tree.map

    def noise(key):
        leaves, structure = jax.tree.flatten(mean)
        split = jax.random.split(key, len(leaves))
        return jax.tree.unflatten(structure, [jax.random.normal(k, m.shape) for k, m in zip(split, leaves)])

    def weights(eps):
        return tree(lambda m, s, e: m + s * e, mean, scale, eps)

    def each(key):
        eps = noise(key)
        w = weights(eps)
        value, g = jax.vmap(jax.value_and_grad(lambda w, a, b: log_p(likelihood, w, a, b)), (None, 0, 0))(w, x, y)
        return value, g, tree(lambda a, e: a * e, g, eps)

    def total(key):
        eps = noise(key)
        w = weights(eps)
        f = lambda w: log_p(likelihood, w, x, y)  # noqa: E731
        along = tree(lambda m, s, e: m - e * (m * m / s - s) / 2, mean, scale, eps)
        _, site = jax.jvp(f, (w,), (along,))
        value, back = jax.vjp(f, w)
        g, = back(jnp.ones(n))
        return value, site, g, tree(lambda a, e: a * e, g, eps)

    for key, one in (("sites, " + name, each), ("sums of sites, " + name, total)):
        best = float("inf")
        for chunk in chunks:
            def add(sums, key, one=one, chunk=chunk):
                drawn = jax.vmap(one)(jax.random.split(key, chunk))
                return tree(lambda s, v: s + v.sum(0), sums, drawn), None

            def run(key, one=one, chunk=chunk):
                zero = tree(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(one, key))
                return jax.lax.scan(add, zero, jax.random.split(key, draws // chunk))[0]

            run = jax.jit(run)
            best = min(best, clock.best(lambda: jax.block_until_ready(run(keys[3]))) / draws)
        print(f"{key}\tJAX\t{best:.6g}", flush=True)


for case in CASES:
    measure(*case)
