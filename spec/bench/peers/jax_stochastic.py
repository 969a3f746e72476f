"""The equations of stochastic.lua by diffrax, jitted, all paths at once, its Brownian path without a tree; float32."""
import time

import diffrax
import jax
import jax.numpy as jnp
import nearby

PATHS, STEPS = 100000, 1000


def lorenz(t, h, args):
    x, y, z = h
    return jnp.stack([10 * (y - x), 28 * x - y - x * z, x * y - 2.67 * z])


def ones(t, h, args):
    return lineax_diagonal(jnp.ones(3, h.dtype))


try:
    import lineax
    lineax_diagonal = lineax.DiagonalLinearOperator
except ImportError:
    lineax_diagonal = jnp.diag


def solve(drift, diffusion, solver, y0, end, area):
    def one(key):
        path = diffrax.UnsafeBrownianPath(shape=y0.shape, key=key, levy_area=area)
        terms = diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(diffusion, path))
        out = diffrax.diffeqsolve(terms, solver, 0.0, end, end / STEPS, y0, max_steps=STEPS + 8,
                                  adjoint=diffrax.DirectAdjoint(), saveat=diffrax.SaveAt(t1=True))
        return out.ys[0]
    return jax.jit(jax.vmap(one))


def gbm(t, y, args):
    return 0.5 * y


def gbm_noise(t, y, args):
    return lineax_diagonal(0.3 * y)


one = jnp.ones(1)
start = jnp.array([1.0, 1.0, 28.0])
plain, area = diffrax.BrownianIncrement, diffrax.SpaceTimeLevyArea
for key, f in (
        ("GBM Euler-Maruyama", solve(gbm, gbm_noise, diffrax.Euler(), one, 1.0, plain)),
        ("GBM Milstein", solve(gbm, gbm_noise, diffrax.ItoMilstein(), one, 1.0, plain)),
        ("Lorenz Euler-Maruyama", solve(lorenz, ones, diffrax.Euler(), start, 0.1, plain)),
        ("Lorenz SRA1", solve(lorenz, ones, diffrax.SRA1(), start, 0.1, area))):
    keys, best = jax.random.split(jax.random.PRNGKey(1), PATHS), float("inf")
    y = f(keys).block_until_ready()
    for _ in range(2):
        began = time.process_time()
        y = f(keys).block_until_ready()
        best = min(best, time.process_time() - began)
    nearby.check(key, y)
    print(f"{key}\tdiffrax\t{best:.6g}", flush=True)
