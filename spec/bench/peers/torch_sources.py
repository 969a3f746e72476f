"""The rows of sources.lua in PyTorch, eager, float32, one thread. Of Adam's three forms the fastest counts."""
import math

import torch
from torch import nn
from torch.nn import functional as F

import clock
from agreement import Record

torch.set_num_threads(1)
torch.manual_seed(1)
DRAWS, NAMES = 16, ("q1", "q2", "q3", "q4")


def mlp(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ELU()]
    return nn.Sequential(*layers[:-1])


class Sources(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoders = nn.ModuleDict({k: mlp(196, 200, 200, 32) for k in NAMES})
        self.decoders = nn.ModuleDict({k: mlp(16, 200, 200, 196) for k in NAMES})

    def log_likelihood(self, z, x):
        total = 0
        for k in NAMES:
            logits = self.decoders[k](z)
            total = total - F.binary_cross_entropy_with_logits(logits, x[k].expand_as(logits), reduction="none").sum(-1)
        return total

    def loss(self, x, objective, noise=lambda name, shape: torch.randn(shape)):
        beliefs, laws = [], {}
        for k in NAMES:
            mean, raw = self.encoders[k](x[k]).chunk(2, -1)
            beliefs.append((mean, raw.sigmoid()))
        if objective != "poe":
            laws = {str(i + 1): q for i, q in enumerate(beliefs)}
        if objective != "ind":
            precisions = [scale.square().reciprocal() for _, scale in beliefs]
            precision = sum(precisions) - (len(NAMES) - 1)
            mean = sum(p * m for p, (m, _) in zip(precisions, beliefs)) / precision
            laws["poe"] = mean, precision.rsqrt()
        z, ratio = [], []
        for name, (mean, scale) in laws.items():
            eps = noise(name, (DRAWS,) + mean.shape)
            draw = mean + scale * eps
            z.append(draw)
            ratio.append((0.5 * (eps.square() - draw.square()) + scale.log()).sum(-1))
        log_w = self.log_likelihood(torch.cat(z), x) + torch.cat(ratio)
        bounds = log_w.view(len(laws), DRAWS, -1).logsumexp(1).mean(-1) - math.log(DRAWS)
        if objective == "hybrid":
            return -0.5 * (bounds[:-1].mean() + bounds[-1])
        return -bounds.mean()


def load(objective):
    record, net = Record("sources", "sources " + objective), Sources()
    names = {}
    for name, p in net.named_parameters():
        part, source, layer, kind = name.split(".")
        names[name] = f"{part}.{source}.net.{int(layer) + 1}.{kind}"
        with torch.no_grad():
            p.copy_(torch.from_numpy(record.parameters[names[name]].T))
    x = {k: torch.from_numpy(record.data[k]) for k in NAMES}
    loss = net.loss(x, objective, lambda name, shape: torch.from_numpy(record.data["noise." + name]))
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    record.check(loss.detach(), {names[n]: g.numpy().T for (n, _), g in zip(net.named_parameters(), gradients)})
    return net, x


for objective in ("ind", "poe", "hybrid"):
    if clock.wanted(objective):
        net, x = load(objective)
        for form in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            optimiser = torch.optim.Adam(net.parameters(), lr=1e-4, **form)

            def step():
                optimiser.zero_grad()
                net.loss(x, objective).backward()
                optimiser.step()

            clock.row("sources " + objective, "PyTorch", step)
