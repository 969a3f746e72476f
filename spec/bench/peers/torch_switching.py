"""The rows of switching.lua in PyTorch, eager, one thread. Of Adam's three forms the fastest counts."""
import os
import resource
import subprocess
import sys

import torch
from torch.nn import functional as F

import clock
import deep_filters

torch.set_num_threads(1)
torch.manual_seed(1)
FOLDER = os.environ.get("BUILD", "build") + "/peers-data"


class ops:
    log, exp, sqrt, softplus, diag = torch.log, torch.exp, torch.sqrt, F.softplus, torch.diag_embed
    leaky = staticmethod(F.leaky_relu)
    cat = staticmethod(lambda list: torch.cat(list, -1))
    expand = staticmethod(lambda x, shape: x.expand(*shape))
    softmax = staticmethod(lambda x: x.softmax(-1))
    logsumexp = staticmethod(lambda x: x.logsumexp(0))
    cholesky = staticmethod(lambda x: torch.linalg.cholesky_ex(x)[0])
    cholesky_solve = staticmethod(lambda lower, x: torch.cholesky_solve(x, lower))
    solve = staticmethod(lambda lower, x: torch.linalg.solve_triangular(lower, x, upper=False))
    diagonal = staticmethod(lambda x: x.diagonal(dim1=-2, dim2=-1))
    eye = staticmethod(lambda x: torch.eye(x.shape[-1], dtype=x.dtype))
    linear = staticmethod(lambda x, w, b: F.linear(x, w.T, b))

    @staticmethod
    def weigh(w, x):
        """sum_k w[p, b, k] x[b, k, :], a product for each series."""
        return (w.transpose(0, 1) @ x).transpose(0, 1)

    @staticmethod
    def scan(step, carry, rest):
        outs = []
        for t in range(len(next(iter(rest[0].values())))):
            carry, out = step(carry, tuple({k: x[t] for k, x in part.items()} for part in rest))
            outs.append(out)
        return carry, torch.stack(outs)

    @staticmethod
    def take(log_w, state, u, count, due=None):
        with torch.no_grad():
            cumulative = log_w.exp().T.cumsum(-1)
            at = (torch.arange(count, dtype=log_w.dtype) + u.T) / count * cumulative[:, -1:]
            at = torch.searchsorted(cumulative.contiguous(), at.contiguous()).clamp_(max=len(log_w) - 1).T
            if due is not None:
                at = torch.where(due, at, torch.arange(count)[:, None])
        series = torch.arange(log_w.shape[1])
        return {k: x[at, series] for k, x in state.items()}

    @staticmethod
    def resample(log_w, state, u, log_n):
        due = 1 / (2 * log_w.detach()).exp().sum(0) <= 0.5 * len(log_w)
        if not due.any():
            return log_w, state
        return torch.where(due, -log_n, log_w), ops.take(log_w, state, u, len(log_w), due)

    @staticmethod
    def ancestors(log_w, state, count, u):
        return ops.take(log_w, state, u, count)


def load(key, particles):
    parameters, given = deep_filters.read(FOLDER, key)
    p = {k: torch.nn.Parameter(torch.from_numpy(x)) for k, x in parameters.items()}
    filter = deep_filters.Filter(ops, p, particles)
    tensors = {k: torch.from_numpy(x) for k, x in given.items() if k in ("y", "u", "c", "series")}
    if "loss" not in given:
        return filter, tensors
    noise = {k[-1]: torch.from_numpy(x) for k, x in given.items() if k.startswith("noise")}
    loss = filter.loss(tensors, noise, resampling=False)
    gradients = torch.autograd.grad(loss, list(p.values()), allow_unused=True)
    norm = sum(g.square().sum() for g in gradients if g is not None).sqrt()
    deep_filters.check(key, loss.detach(), norm, given)
    return filter, tensors


def drawing(dtype):
    return lambda *shape: torch.randn(shape, dtype=dtype), lambda *shape: torch.rand(shape, dtype=dtype)


def step_of(filter, tensors, optimiser):
    draws, shape = drawing(tensors["y"].dtype), tensors["y"].shape

    def step():
        optimiser.zero_grad()
        filter.loss(tensors, deep_filters.noise_of(filter, *shape[:2], *draws)).backward()
        torch.nn.utils.clip_grad_norm_(filter.p.values(), 10)
        optimiser.step()

    return step


def train(key, particles):
    filter, tensors = load(key, particles)
    for form in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        clock.row(key, "PyTorch", step_of(filter, tensors, torch.optim.Adam(filter.p.values(), lr=1e-4, **form)))


def forecast(kind):
    key = kind + " forecast"
    filter, tensors = load(key, 10)
    draws, shape = drawing(torch.float32), tensors["y"].shape
    future = {k: x for k, x in tensors.items() if k != "y"}

    def paths():
        with torch.no_grad():
            filter.paths(tensors, deep_filters.noise_of(filter, *shape[:2], *draws), future, 100,
                         deep_filters.more_noise_of(filter, *shape[:2], 100, *draws))

    clock.row(key, "PyTorch", paths)


def memory(kind):
    filter, tensors = load(kind + " memory", 10)
    step = step_of(filter, tensors, torch.optim.Adam(filter.p.values(), lr=1e-4))
    for _ in range(3):
        step()
    print(f"{kind} memory\tPyTorch\t{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}", flush=True)


if sys.argv[1:2] == ["memory_of"]:
    memory(sys.argv[2])
    sys.exit()
for row in deep_filters.keys(clock.wanted):
    train(*row)
for kind in deep_filters.KINDS:
    if clock.wanted("forecast"):
        forecast(kind)
    if clock.wanted("memory"):
        subprocess.run([sys.executable, __file__, "memory_of", kind], check=True)
