"""The rows of training.lua in JAX: the whole step jitted, parameters and Adam's state donated, float32, one thread."""
import math

import jax
from jax import numpy as jnp

import clock


def dense(key, inputs, outputs):
    bound = 1 / math.sqrt(inputs)
    return jax.random.uniform(key, (inputs, outputs), minval=-bound, maxval=bound), jnp.zeros(outputs)


def network(key, *sizes):
    keys = jax.random.split(key, len(sizes))
    return [dense(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:])]


def apply(net, x, activation):
    for w, b in net[:-1]:
        x = activation(x @ w + b)
    w, b = net[-1]
    return x @ w + b


def adam(parameters, gradients, state, rate=1e-4, b1=0.9, b2=0.999, eps=1e-8):
    count, first, second = state
    count = count + 1
    first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
    c1, c2 = 1 - b1**count, 1 - b2**count
    parameters = jax.tree.map(
        lambda p, m, v: p - rate * (m / c1) / (jnp.sqrt(v / c2) + eps), parameters, first, second)
    return parameters, (count, first, second)


KEY = jax.random.key(1)


def regression(inputs, *hidden):
    x, y = jax.random.normal(KEY, (32, inputs)), jax.random.normal(KEY, (32, 1))
    return (network(KEY, inputs, *hidden, 1), (x, y),
            lambda net, noise, x, y: jnp.square(apply(net, x, jax.nn.relu) - y).mean())


def bayesian():
    def layer(key, inputs, outputs):
        return [jax.random.normal(key, (inputs, outputs)) / math.sqrt(inputs), jnp.full((inputs, outputs), -5.0),
                jnp.zeros(outputs), jnp.full(outputs, -5.0)]

    def draw(p, x, noise):
        mean = x @ p[0] + p[2]
        variance = jnp.square(x) @ jnp.square(jax.nn.softplus(p[1])) + jnp.square(jax.nn.softplus(p[3]))
        return mean + jnp.sqrt(variance) * jax.random.normal(noise, mean.shape)

    def kl(mean, rho):
        scale = jax.nn.softplus(rho)
        return (0.5 * (jnp.square(mean) + jnp.square(scale) - 1) - jnp.log(scale)).sum()

    def loss(net, noise, x, y):
        one, two = jax.random.split(noise)
        out = draw(net[1], jax.nn.relu(draw(net[0], x, one)), two)
        ll = -50 * jnp.square(out - y).sum() - 32 * (math.log(0.1) + 0.5 * math.log(2 * math.pi))
        total = sum(kl(p[0], p[1]) + kl(p[2], p[3]) for p in net)
        return -(ll * (506 / 32) - total) / 506

    x, y = jax.random.normal(KEY, (32, 13)), jax.random.normal(KEY, (32, 1))
    return [layer(KEY, 13, 50), layer(KEY, 50, 1)], (x, y), loss


def classifier(batch, inputs, hidden, outputs):
    def loss(net, noise, x, label):
        scores = jax.nn.log_softmax(apply(net, x, jax.nn.relu))
        return -jnp.take_along_axis(scores, label[:, None], 1).mean()

    data = jax.random.uniform(KEY, (batch, inputs)), jnp.arange(batch) % outputs
    return network(KEY, inputs, hidden, outputs), data, loss


def log_bernoulli(logits, x):
    return (x * logits - jax.nn.softplus(logits)).sum(-1)


def autoencoder():
    nets = network(KEY, 784, 200, 200, 80), network(KEY, 40, 200, 200, 784)
    return nets, (jnp.round(jax.random.uniform(KEY, (100, 784))),)


def vae():
    def loss(nets, noise, x):
        mean, log_variance = jnp.split(apply(nets[0], x, jnp.tanh), 2, 1)
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(noise, mean.shape)
        kl = 0.5 * (jnp.square(mean) + jnp.exp(log_variance) - 1 - log_variance).sum()
        return (kl - log_bernoulli(apply(nets[1], z, jnp.tanh), x).sum()) / 100

    return *autoencoder(), loss


def iwae():
    def loss(nets, noise, x):
        mean, log_variance = jnp.split(apply(nets[0], x, jnp.tanh), 2, 1)
        draws = jax.random.normal(noise, (50, 100, 40))
        z = mean + jnp.exp(0.5 * log_variance) * draws
        log_w = log_bernoulli(apply(nets[1], z, jnp.tanh), x)
        log_w = log_w + 0.5 * (jnp.square(draws) + log_variance - jnp.square(z)).sum(2)
        return -(jax.nn.logsumexp(log_w, 0).mean() - math.log(50))

    return *autoencoder(), loss


def gru():
    hidden = 32
    bound = 1 / math.sqrt(hidden)
    shapes = (8, 3 * hidden), (hidden, 3 * hidden), (3 * hidden,), (3 * hidden,)
    weights = [jax.random.uniform(k, s, minval=-bound, maxval=bound) for k, s in zip(jax.random.split(KEY, 4), shapes)]

    def loss(p, noise, x):
        wi, wh, bi, bh = p

        def cell(h, given):
            carried = h @ wh + bh
            gates = jax.nn.sigmoid(given[:, :2 * hidden] + carried[:, :2 * hidden])
            r, z = gates[:, :hidden], gates[:, hidden:]
            n = jnp.tanh(given[:, 2 * hidden:] + r * carried[:, 2 * hidden:])
            h = n + z * (h - n)
            return h, h

        return jnp.square(jax.lax.scan(cell, jnp.zeros((16, hidden)), x @ wi + bi)[1]).mean()

    return weights, (jax.random.normal(KEY, (50, 16, 8)),), loss


def measure(key, made, update=True, draws=True):
    parameters, data, loss = made
    if not update:
        gradient = jax.jit(jax.grad(loss))
        return clock.row(key, "JAX", lambda: jax.block_until_ready(gradient(parameters, KEY, *data)))

    def step(parameters, state, noise, *data):
        noise, now = jax.random.split(noise) if draws else (noise, noise)
        value, gradients = jax.value_and_grad(loss)(parameters, now, *data)
        return *adam(parameters, gradients, state), noise, value

    step = jax.jit(step, donate_argnums=(0, 1, 2))
    # each array its own buffer, since they are given away
    held = [jax.tree.map(jnp.array, parameters),
            (jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters)),
            jax.random.clone(KEY)]

    def call():
        held[0], held[1], held[2], value = step(*held, *data)
        value.block_until_ready()

    clock.row(key, "JAX", call)


measure("1-50-1", regression(1, 50), draws=False)
measure("64-64-64-1", regression(64, 64, 64), draws=False)
measure("Bayesian 13-50-1", bayesian())
measure("784-64-10", classifier(64, 784, 64, 10), draws=False)
measure("784-400-20", classifier(100, 784, 400, 20), draws=False)
measure("VAE", vae())
measure("IWAE K=50", iwae())
measure("GRU 8-32", gru(), update=False)
