"""The rows of inference.lua in NumPyro: steps in one compiled loop, as SVI.run makes them; of Trace_ELBO and
TraceMeanField_ELBO (RenyiELBO with alpha = 0) the faster counts."""
import functools
import time

import clock
import jax
import numpyro
import numpyro.distributions as dist
import posteriors
from jax import lax, random
from jax import numpy as jnp
from jax.example_libraries import stax
from numpyro import infer, optim
from numpyro.infer.autoguide import AutoNormal

STEPS = 20  # of one call


def logistic(d):
    beta = numpyro.sample("beta", dist.Normal(jnp.zeros(15), 1).to_event(1))
    with numpyro.plate("rows", 690):
        numpyro.sample("y", dist.Bernoulli(logits=d["x"] @ beta), obs=d["y"])


def eight_schools(d):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        eta = numpyro.sample("eta", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * eta, d["sigma"]), obs=d["y"])


def vae():
    def net(*sizes):
        layers = [f for n in sizes for f in (stax.Dense(n), stax.Tanh)]
        init, apply = stax.serial(*layers[:-1])

        def init32(key, shape):
            out, values = init(key, shape)
            return out, jax.tree.map(lambda v: v.astype(jnp.float32), values)

        return init32, apply

    encoder, decoder = net(200, 200, 80), net(200, 200, 784)

    def model(x):
        f = numpyro.module("decoder", decoder, (100, 40))
        with numpyro.plate("rows", 100):
            z = numpyro.sample("z", dist.Normal(jnp.zeros(40, jnp.float32), jnp.ones(40, jnp.float32)).to_event(1))
            numpyro.sample("x", dist.Bernoulli(logits=f(z)).to_event(1), obs=x)

    def guide(x):
        mean, log_variance = jnp.split(numpyro.module("encoder", encoder, (100, 784))(x), 2, 1)
        with numpyro.plate("rows", 100):
            numpyro.sample("z", dist.Normal(mean, jnp.exp(0.5 * log_variance)).to_event(1))

    return model, guide, jnp.round(random.uniform(random.key(1), (100, 784), jnp.float32))


def measure(name, model, guide, given, draws):
    losses = {"elbo": [infer.Trace_ELBO(), infer.TraceMeanField_ELBO()],
              "iwae": [infer.RenyiELBO(alpha=0, num_particles=draws)]}
    for estimator, list_ in losses.items():
        for loss in list_:
            start = time.process_time()
            svi = infer.SVI(model, guide(model) if guide is AutoNormal else guide, optim.Adam(1e-4), loss)
            held = [svi.init(random.key(0), given)]

            @functools.partial(jax.jit, static_argnums=1)
            def steps(state, n):
                return lax.scan(lambda s, _: svi.update(s, given), state, length=n)

            jax.block_until_ready(steps(held[0], 1))
            if loss is list_[0]:
                print(f"{estimator} {name} first\tNumPyro\t{time.process_time() - start:.6g}", flush=True)

            def several():
                held[0], _ = jax.block_until_ready(steps(held[0], STEPS))

            print(f"{estimator} {name}\tNumPyro\t{clock.best(several) / STEPS:.6g}", flush=True)


measure("eight_schools", eight_schools, AutoNormal, posteriors.data("eight_schools"), 10)
measure("logistic", logistic, AutoNormal, posteriors.data("logistic"), 10)
measure("VAE", *vae(), 50)
