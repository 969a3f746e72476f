"""Rao-Blackwellised filters in JAX: 64 particles for each of 50 series, 3 labels, 10 steps in a scan, jitted, float64,
one thread."""
import jax

jax.config.update("jax_enable_x64", True)

from jax import numpy as jnp  # noqa: E402
from jax.scipy import linalg  # noqa: E402

import clock  # noqa: E402

LABELS, NUM, BATCH, STEPS = 3, 64, 50, 10
FLOOR = 0.5 * NUM


def one(mean, cov, a, q, y, c, r):
    mean = a @ mean
    cov = a @ cov @ a.T + q
    innovation = y - c @ mean
    half = c @ cov
    lower = jnp.linalg.cholesky(half @ c.T + r)
    gain = linalg.cho_solve((lower, True), half).T
    white = linalg.solve_triangular(lower, innovation, lower=True)
    log_prob = (-0.5 * white @ white - jnp.log(jnp.diagonal(lower)).sum() - 0.5 * len(y) * jnp.log(2 * jnp.pi))
    left = jnp.eye(len(mean)) - gain @ c
    return mean + gain @ innovation, left @ cov @ left.T + gain @ r @ gain.T, log_prob


kalman = jax.vmap(jax.vmap(one), (0, 0, 0, 0, None, 0, 0))


def resample(key, log_w, s, mean, cov):
    w = jnp.exp(jax.lax.stop_gradient(log_w))
    due = 1 / (w * w).sum(0) <= FLOOR
    cumulative = jnp.cumsum(w, 0)
    at = (jnp.arange(NUM)[:, None] + jax.random.uniform(key, (1, BATCH))) / NUM * cumulative[-1]
    ancestors = jax.vmap(jnp.searchsorted, (1, 1), 1)(cumulative, at).clip(0, NUM - 1)
    ancestors = jnp.where(due, ancestors, jnp.arange(NUM)[:, None])
    series = jnp.arange(BATCH)
    return (jnp.where(due, -jnp.log(float(NUM)), log_w), s[ancestors, series], mean[ancestors, series],
            cov[ancestors, series])


def draw(key, log_p):
    """A label each by its cumulative probabilities; the slope of its log-probability, of value 0."""
    cumulative = jnp.cumsum(jnp.exp(jax.lax.stop_gradient(log_p)), -1)
    u = jax.random.uniform(key, log_p.shape[:-1] + (1,)) * cumulative[..., -1:]
    s = (u > cumulative).sum(-1)
    chosen = jnp.take_along_axis(log_p, s[..., None], -1)[..., 0]
    return s, chosen - jax.lax.stop_gradient(chosen)


def run(x, y, key):
    a, c, q, r, logits = x
    n = a.shape[-1]
    log_p = jax.nn.log_softmax(logits, -1)

    def weigh(log_w, mean, cov, s, y, slope):
        mean, cov, log_prob = kalman(mean, cov, a[s], q[s], y, c[s], r[s])
        log_w = log_w + log_prob + slope
        increment = jax.nn.logsumexp(log_w, 0)
        return log_w - increment, mean, cov, increment

    def step(state, given):
        y, key = given
        first, second = jax.random.split(key)
        log_w, s, mean, cov = resample(first, *state)
        s, slope = draw(second, log_p[s])
        log_w, mean, cov, increment = weigh(log_w, mean, cov, s, y, slope)
        return (log_w, s, mean, cov), increment

    keys = jax.random.split(key, STEPS)
    s = jax.random.randint(keys[0], (NUM, BATCH), 0, LABELS)
    mean, cov = jnp.zeros((NUM, BATCH, n)), jnp.tile(jnp.eye(n), (NUM, BATCH, 1, 1))
    log_w, mean, cov, first = weigh(jnp.full((NUM, BATCH), -jnp.log(float(NUM))), mean, cov, s, y[0], 0)
    _, increments = jax.lax.scan(step, (log_w, s, mean, cov), (y[1:], keys[1:]))
    return first + increments.sum(0)


def measure(n, p):
    normal = jax.random.normal
    keys = jax.random.split(jax.random.key(1), 5)
    x = (0.5 / n ** 0.5 * normal(keys[0], (LABELS, n, n)), normal(keys[1], (LABELS, p, n)),
         jnp.tile(jnp.eye(n), (LABELS, 1, 1)), jnp.tile(jnp.eye(p), (LABELS, 1, 1)),
         normal(keys[2], (LABELS, LABELS)))
    y = normal(keys[3], (STEPS, BATCH, p))
    key = f"RBPF {n}, {p}"
    forward, gradient = jax.jit(run), jax.jit(jax.grad(lambda *given: run(*given).sum()))
    clock.row(key, "JAX", lambda: jax.block_until_ready(forward(x, y, keys[4])))
    clock.row(key + ", gradient", "JAX", lambda: jax.block_until_ready(gradient(x, y, keys[4])))


measure(4, 2)
measure(10, 4)
