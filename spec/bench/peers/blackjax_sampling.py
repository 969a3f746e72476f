"""NUTS of BlackJAX on NumPyro's densities, chains side by side (vmap) and one after another (map); the better counts."""
import functools

import blackjax
import jax
import posteriors
from jax import random
from numpyro.infer.util import initialize_model


def maker(model, d, over_chains):
    def make():
        info = initialize_model(random.key(0), model, model_args=(d,))

        def log_density(z):
            return -info.potential_fn(z)

        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        start = info.param_info.z

        @functools.partial(jax.jit, static_argnums=1)
        def adapt(keys, n):
            def one(key):
                at, key = random.split(key)
                z = jax.tree.map(lambda v: random.uniform(at, v.shape, v.dtype, -2, 2), start)
                result, _ = adaptation.run(key, z, num_steps=n)
                return result.state, result.parameters
            return over_chains(one, keys)

        @functools.partial(jax.jit, static_argnums=3)
        def go(keys, state, parameters, n):
            def one(x):
                key, s, p = x
                step = blackjax.nuts(log_density, **p).step

                def body(s, key):
                    s, more = step(key, s)
                    return s, (s.position, more.num_integration_steps)
                return jax.lax.scan(body, s, random.split(key, n))
            return over_chains(one, (keys, state, parameters))

        held = [None, None]

        def warm(seed, n):
            held[:] = jax.block_until_ready(adapt(random.split(random.key(seed), 4), n))

        def block(seed, n):
            keys = random.split(random.key(seed + 7), 4)
            held[0], (draws, steps) = jax.block_until_ready(go(keys, held[0], held[1], n))
            return draws, int(steps.sum())

        return warm, block

    return make


for name, model in posteriors.MODELS.items():
    for over_chains in (lambda f, x: jax.vmap(f)(x), lambda f, x: jax.lax.map(f, x)):
        posteriors.measure(name, "BlackJAX", maker(model, posteriors.data(name), over_chains))
