"""The rows of residual.lua in PyTorch, eager, float32, one thread. Of Adam's three forms the fastest counts."""
import resource
import subprocess
import sys

import torch
from torch.nn import functional as F

import clock
import state_space
from agreement import Record

torch.set_num_threads(1)
torch.manual_seed(1)


class ops:
    exp, log, tanh, sigmoid, softplus, ones_like = torch.exp, torch.log, torch.tanh, torch.sigmoid, F.softplus, torch.ones_like
    activation = dict(softplus=F.softplus, tanh=torch.tanh, relu=torch.relu, softsign=F.softsign)
    constant = staticmethod(torch.tensor)
    flip = staticmethod(lambda x: x.flip(-1))
    cat = staticmethod(lambda list: torch.cat(list, -1))
    join = staticmethod(lambda first, rest: torch.cat([first[None], rest]))
    linear = staticmethod(lambda x, w, b: F.linear(x, w.T, b))
    log_bernoulli = staticmethod(lambda logits, y: -F.binary_cross_entropy_with_logits(logits, y, reduction="none"))

    @staticmethod
    def gru(x, p, name):
        names = [way + part for way in ("forward.", "backward.") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        weights = [p[name + k] for k in names]
        first = x.new_zeros(2, x.shape[1], weights[1].shape[1])
        return torch._VF.gru(x, first, weights, True, 1, 0.0, True, True, False)[0]

    @staticmethod
    def scan(step, carry, rest):
        outs = []
        for now in zip(*rest):
            carry, out = step(carry, now)
            outs.append(out)
        return carry, tuple(torch.stack(x) for x in zip(*outs))


def load(key):
    record = Record("residual", key)
    p = {k: torch.nn.Parameter(torch.from_numpy(x)) for k, x in record.parameters.items()}
    model = state_space.Model(ops, key, {k: x.shape for k, x in p.items()})
    data = {k: torch.from_numpy(x) for k, x in record.data.items()}
    loss = model.loss(p, data["y"], data["noise"], data.get("scale"))
    gradients = torch.autograd.grad(loss, list(p.values()))
    record.check(loss.detach(), {k: g.numpy() for k, g in zip(p, gradients)})
    return model, p, data


def step_of(key, **form):
    model, p, data = load(key)
    optimiser = torch.optim.Adam(p.values(), lr=1e-4, **form)

    def step():
        optimiser.zero_grad()
        model.loss(p, data["y"], torch.randn_like(data["noise"]), data.get("scale")).backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 10)
        optimiser.step()

    return step


if sys.argv[1:2] == ["memory_of"]:
    step = step_of(sys.argv[2])
    for _ in range(3):
        step()
    print(f"{sys.argv[2]}\tPyTorch\t{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}", flush=True)
    sys.exit()
for key in state_space.keys(clock.wanted):
    for form in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        clock.row(key, "PyTorch", step_of(key, **form))
for key in state_space.memory_keys(clock.wanted):
    subprocess.run([sys.executable, __file__, "memory_of", key], check=True)
