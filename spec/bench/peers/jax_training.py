"""The rows of training.lua in JAX: the whole step jitted, parameters and Adam's state donated, float32, one thread."""
import math

import jax
from jax import numpy as jnp

import clock
from stepping import adam


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


# ---- larger layers ----

def uniform(key, bound, *shapes):
    return [jax.random.uniform(k, s, minval=-bound, maxval=bound) for k, s in zip(jax.random.split(key, len(shapes)), shapes)]


def scanned(gates, step, states):
    """Squares of the outputs of a recurrent layer 64-128 over 100 steps, 32 sequences; step(given, carried, states)."""
    weights = uniform(KEY, 128**-0.5, (64, gates * 128), (128, gates * 128), (gates * 128,), (gates * 128,))

    def loss(p, noise, x):
        wi, wh, bi, bh = p
        first = tuple(jnp.zeros((32, 128)) for _ in range(states))
        cell = lambda s, given: step(given, s[0] @ wh + bh, s)
        return jnp.square(jax.lax.scan(cell, first, x @ wi + bi)[1]).mean()

    return weights, (jax.random.normal(KEY, (100, 32, 64)),), loss


def gru128():
    def step(given, carried, state):
        h, = state
        gates = jax.nn.sigmoid(given[:, :256] + carried[:, :256])
        n = jnp.tanh(given[:, 256:] + gates[:, :128] * carried[:, 256:])
        h = n + gates[:, 128:] * (h - n)
        return (h,), h

    return scanned(3, step, 1)


def lstm128():
    def step(given, carried, state):
        i, f, g, o = jnp.split(given + carried, 4, 1)
        c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return scanned(4, step, 2)


def attention():
    def loss(p, noise, x):
        w, b, wo, bo = p
        q, k, v = jnp.split(x @ w + b, 3, 2)
        q, k, v = (t.reshape(8, 128, 4, 64).transpose(0, 2, 1, 3) for t in (q, k, v))
        weights = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / 8)
        return jnp.square((weights @ v).transpose(0, 2, 1, 3).reshape(8, 128, 256) @ wo + bo).mean()

    return uniform(KEY, 1 / 16, (256, 768), (768,), (256, 256), (256,)), (jax.random.normal(KEY, (8, 128, 256)),), loss


def conv(x, w, b):
    y = jax.lax.conv_general_dilated(x, w, (2, 2), "VALID")
    return y if b is None else y + b[:, None, None]


def linear(x, w, b):
    y = x @ w
    return y if b is None else y + b


SHAPES = ((20, 1, 5, 5), 20, 25), ((50, 20, 5, 5), 50, 500), ((800, 500), 500, 800), ((500, 10), 10, 500)


def cross_entropy(scores, label):
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), label[:, None], 1)


def images():
    return jax.random.uniform(KEY, (100, 1, 28, 28)), jnp.arange(100) % 10


def lenet():
    def loss(net, noise, x, label):
        for k, (w, b) in enumerate(net):
            x = conv(x, w, b) if k < 2 else linear(x.reshape(100, -1), w, b)
            x = jax.nn.relu(x) if k < 3 else x
        return cross_entropy(x, label).mean()

    return [uniform(KEY, fan**-0.5, w, (b,)) for w, b, fan in SHAPES], images(), loss


def normal(key, shape, fan):
    return jax.random.normal(key, shape) / math.sqrt(fan), jnp.full(shape, -3.0)


def kl(posterior, prior):
    mean, log_scale = posterior
    return (0.5 * ((jnp.exp(2 * log_scale) + jnp.square(mean)) / prior**2 - 1) - log_scale + math.log(prior)).sum()


def lenet_moments():
    def loss(net, noise, m, label):
        v = None
        for k, ((w, ls), (b, lt)) in enumerate(net):
            apply_map = conv if k < 2 else linear
            if k == 2:
                m, v = m.reshape(100, -1), v.reshape(100, -1)
            mean = apply_map(m, w, b)
            second = jnp.square(m) if v is None else jnp.square(m) + v
            variance = apply_map(second, jnp.exp(2 * ls), jnp.exp(2 * lt))
            if v is not None:
                variance = variance + apply_map(v, jnp.square(w), None)
            if k == 3:
                m, v = mean, variance
                break
            scale = jnp.sqrt(variance)
            a = mean / scale
            cdf, pdf = jax.scipy.special.ndtr(a), jnp.exp(-0.5 * jnp.square(a)) / math.sqrt(2 * math.pi)
            m = mean * cdf + scale * pdf
            v = (jnp.square(mean) + variance) * cdf + mean * scale * pdf - jnp.square(m)
        z = jax.nn.softmax(m)
        nll = cross_entropy(m, label)[:, 0] + 0.5 * (v * (z - jnp.square(z))).sum(-1)
        return nll.mean() + sum(kl(w, 0.1) + kl(b, 0.1) for w, b in net) / 60000

    return [(normal(KEY, w, fan), normal(KEY, (b,), fan)) for w, b, fan in SHAPES], images(), loss


def estimated(estimator):
    def layer(x, p, noise):
        (w, s), (b, t) = p
        one, two, three, four = jax.random.split(noise, 4)
        if estimator == "local":
            variance = jnp.square(x) @ jnp.exp(2 * s) + jnp.exp(2 * t)
            return x @ w + b + jnp.sqrt(variance) * jax.random.normal(one, variance.shape)
        drawn = b + jnp.exp(t) * jax.random.normal(one, b.shape)
        spread = jnp.exp(s) * jax.random.normal(two, w.shape)
        if estimator == "weights":
            return x @ (w + spread) + drawn
        into = jax.random.rademacher(three, x.shape, x.dtype)
        out = jax.random.rademacher(four, (x.shape[0], w.shape[1]), x.dtype)
        return x @ w + drawn + ((x * into) @ spread) * out

    def loss(net, noise, x, label):
        one, two = jax.random.split(noise)
        scores = layer(jax.nn.relu(layer(x, net[0], one)), net[1], two)
        return cross_entropy(scores, label).mean() + sum(kl(w, 1.0) + kl(b, 1.0) for w, b in net) / 60000

    net = [(normal(KEY, (i, o), i), normal(KEY, (o,), i)) for i, o in ((784, 400), (400, 10))]
    return net, (jax.random.uniform(KEY, (100, 784)), jnp.arange(100) % 10), loss


def per_example():
    net, (x, label), _ = classifier(512, 784, 100, 10)

    def loss(p, a, b):
        return -jax.nn.log_softmax(apply(p, a, jax.nn.relu))[b]

    each = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    return lambda: jax.block_until_ready(each(net, x, label))


def gaussian_process():
    """SciPy's L-BFGS-B, ten iterations, on a compiled value and gradient."""
    import numpy
    from scipy.optimize import minimize

    jax.config.update("jax_enable_x64", True)
    x = jnp.linspace(0, 4, 400)[:, None]
    y = jnp.sin(3 * x)[:, 0] + 0.1 * jnp.sin(50 * x)[:, 0]
    distance, eye = jnp.square(x - x.T), jnp.eye(400)

    def loss(w):
        length, scale, noise = jnp.exp(w)
        k = jnp.exp(distance * (-0.5 / length**2)) * scale**2 + eye * (noise**2 + 1e-6)
        lower = jnp.linalg.cholesky(k)
        z = jax.scipy.linalg.solve_triangular(lower, y, lower=True)
        return 0.5 * jnp.square(z).sum() + jnp.log(jnp.diagonal(lower)).sum()

    both = jax.jit(jax.value_and_grad(loss))

    def values(w):
        value, gradient = both(w)
        return float(value), numpy.asarray(gradient)

    return lambda: minimize(values, numpy.zeros(3), jac=True, method="L-BFGS-B", options={"maxiter": 10})


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


# Names as in training.lua: key, net, whether the loss draws.
STEPS = {
    "small": ("1-50-1", lambda: regression(1, 50), False),
    "deep": ("64-64-64-1", lambda: regression(64, 64, 64), False),
    "bayesian": ("Bayesian 13-50-1", bayesian, True),
    "classifier": ("784-64-10", lambda: classifier(64, 784, 64, 10), False),
    "wide_classifier": ("784-400-20", lambda: classifier(100, 784, 400, 20), False),
    "vae": ("VAE", vae, True),
    "iwae": ("IWAE K=50", iwae, True),
    "gru": ("GRU 8-32", gru, False),
    "gru128": ("GRU 64-128", gru128, False),
    "lstm128": ("LSTM 64-128", lstm128, False),
    "attention": ("attention 4x64", attention, False),
    "lenet": ("LeNet5", lenet, False),
    "lenet_moments": ("LeNet5 moments", lenet_moments, False),
    "bayesian_local": ("Bayesian 784-400-10, local", lambda: estimated("local"), True),
    "bayesian_weights": ("Bayesian 784-400-10, weights", lambda: estimated("weights"), True),
    "bayesian_flipout": ("Bayesian 784-400-10, flipout", lambda: estimated("flipout"), True),
}


def product():
    """Shows whether the processor level that was asked for is kept: a product of 768 x 768."""
    x = jax.random.normal(KEY, (768, 768))
    multiplied = jax.jit(jnp.matmul)
    return lambda: jax.block_until_ready(multiplied(x, x))


OTHERS = {
    "product": ("product 768", product),
    "per_example": ("per-example gradients", per_example),
    "gaussian_process": ("L-BFGS on a GP", gaussian_process),
}

for name, (key, make, draws) in STEPS.items():
    if clock.wanted(name):
        measure(key, make(), update=name != "gru", draws=draws)
for name, (key, make) in OTHERS.items():
    if clock.wanted(name):
        clock.row(key, "JAX", make())
