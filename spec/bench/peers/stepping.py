"""A training step in JAX: jitted as a whole, parameters, Adam's state and the key donated."""
import jax
from jax import numpy as jnp


def adam(parameters, gradients, state, rate=1e-4, b1=0.9, b2=0.999, eps=1e-8):
    count, first, second = state
    count = count + 1
    first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
    c1, c2 = 1 - b1**count, 1 - b2**count
    parameters = jax.tree.map(
        lambda p, m, v: p - rate * (m / c1) / (jnp.sqrt(v / c2) + eps), parameters, first, second)
    return parameters, (count, first, second)


def step_of(loss, parameters, *data, clip=None):
    """A function that makes one step of loss(parameters, key, *data); `clip`: the most that gradients' norm may be."""

    def step(parameters, state, key, *data):
        key, now = jax.random.split(key)
        value, gradients = jax.value_and_grad(loss)(parameters, now, *data)
        if clip:
            norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(gradients)))
            gradients = jax.tree.map(lambda g: g * jnp.minimum(1, clip / norm), gradients)
        return *adam(parameters, gradients, state), key, value

    step = jax.jit(step, donate_argnums=(0, 1, 2))
    held = [jax.tree.map(jnp.array, parameters),
            (jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters)),
            jax.random.key(1)]

    def call():
        *held[:], value = step(*held, *data)
        value.block_until_ready()

    return call
