"""NUTS of NumPyro by its kernel, which MCMC drives, too: chains side by side (vmap) and one after another (map); the
better counts."""
import functools

import jax
import posteriors
from jax import lax, random
from numpyro.infer.hmc import hmc
from numpyro.infer.util import initialize_model


def maker(model, d, over_chains):
    def make():
        info = initialize_model(random.key(0), model, model_args=(d,))
        start = info.param_info.z

        @functools.cache
        def compiled(warmup):  # a kernel remembers how long its warm-up is
            init, sample = hmc(info.potential_fn, algo="NUTS")

            @jax.jit
            def adapt(keys):
                def one(key):
                    at, key = random.split(key)
                    z = jax.tree.map(lambda v: random.uniform(at, v.shape, v.dtype, -2, 2), start)
                    return lax.fori_loop(0, warmup, lambda _, s: sample(s), init(z, warmup, rng_key=key))
                return over_chains(one, keys)

            @functools.partial(jax.jit, static_argnums=1)
            def go(states, n):
                def step(s, _):
                    s = sample(s)
                    return s, (s.z, s.num_steps)
                return over_chains(lambda s: lax.scan(step, s, length=n), states)

            return adapt, go

        held = [None, None]

        def warm(seed, n):
            adapt, held[1] = compiled(n)
            held[0] = jax.block_until_ready(adapt(random.split(random.key(seed), 4)))

        def block(_, n):
            held[0], (draws, steps) = jax.block_until_ready(held[1](held[0], n))
            return draws, int(steps.sum())

        return warm, block

    return make


for name, model in posteriors.MODELS.items():
    for over_chains in (lambda f, x: jax.vmap(f)(x), lambda f, x: lax.map(f, x)):
        posteriors.measure(name, "NumPyro", maker(model, posteriors.data(name), over_chains))
