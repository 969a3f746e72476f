"""The rows of residual.lua in JAX: the whole step jitted, time in a scan, parameters and Adam's state donated, float32,
one thread."""
import resource
import subprocess
import sys

import jax
from jax import numpy as jnp

import clock
import state_space
from agreement import Record
from stepping import step_of


class ops:
    exp, log, tanh, sigmoid, softplus, ones_like = jnp.exp, jnp.log, jnp.tanh, jax.nn.sigmoid, jax.nn.softplus, jnp.ones_like
    activation = dict(softplus=jax.nn.softplus, tanh=jnp.tanh, relu=jax.nn.relu, softsign=jax.nn.soft_sign)
    constant = staticmethod(jnp.array)
    flip = staticmethod(lambda x: x[..., ::-1])
    cat = staticmethod(lambda list: jnp.concatenate(list, -1))
    join = staticmethod(lambda first, rest: jnp.concatenate([first[None], rest]))
    linear = staticmethod(lambda x, w, b: x @ w + b)
    log_bernoulli = staticmethod(lambda logits, y: y * logits - jax.nn.softplus(logits))
    scan = staticmethod(jax.lax.scan)

    @staticmethod
    def gru(x, p, name):
        def one(way):
            wi, wh, bi, bh = (p[f"{name}{way}.{k}"] for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            units = wh.shape[1]

            def cell(h, given):
                carried = h @ wh.T + bh
                gates = jax.nn.sigmoid(given[:, :2 * units] + carried[:, :2 * units])
                n = jnp.tanh(given[:, 2 * units:] + gates[:, :units] * carried[:, 2 * units:])
                h = n + gates[:, units:] * (h - n)
                return h, h

            first = jnp.zeros((x.shape[1], units), x.dtype)
            return jax.lax.scan(cell, first, x @ wi.T + bi, reverse=way == "backward")[1]

        return jnp.concatenate([one("forward"), one("backward")], -1)


def step(key):
    record = Record("residual", key)
    p, data = jax.tree.map(jnp.asarray, record.parameters), jax.tree.map(jnp.asarray, record.data)
    model = state_space.Model(ops, key, {k: x.shape for k, x in p.items()})
    record.check(*jax.jit(jax.value_and_grad(lambda p: model.loss(p, data["y"], data["noise"], data.get("scale"))))(p))

    def loss(p, now, y):
        return model.loss(p, y, jax.random.normal(now, data["noise"].shape), data.get("scale"))

    return step_of(loss, p, data["y"], clip=10)


if sys.argv[1:2] == ["memory_of"]:
    run = step(sys.argv[2])
    for _ in range(3):
        run()
    print(f"{sys.argv[2]}\tJAX\t{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}", flush=True)
    sys.exit()
for key in state_space.keys(clock.wanted):
    clock.row(key, "JAX", step(key))
for key in state_space.memory_keys(clock.wanted):
    subprocess.run([sys.executable, __file__, "memory_of", key], check=True)
