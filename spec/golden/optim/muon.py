"""Writes muon.lua: trajectories of torch.optim.Muon on matrices, and of torch.optim.AdamW on the vector beside them, for
spec/optim/optim_spec.lua. PyTorch's runs the iteration of Newton and Schulz in bfloat16; here its own code does it in the
dtype of the gradient, by which alone numbers can be compared.

Objective: sum_k w_k |A_k - T_k|^2 over three matrices of unlike shapes and a vector, with a product of the first two.
Run: python3 muon.py > muon.lua   (needs torch)
"""
import inspect

import torch
from torch.optim import _muon

source = inspect.getsource(_muon._zeropower_via_newtonschulz)
assert source.count("torch.bfloat16") == 1
exec(compile(source.replace("torch.bfloat16", "grad.dtype"), "newton_schulz", "exec"), _muon.__dict__)
torch.set_default_dtype(torch.float64)
torch.manual_seed(5)


def rand(*shape):
    return torch.randn(*shape).mul(1000).round().div(1000)


START = [rand(3, 5), rand(5, 3), rand(4, 4), rand(3)]
TARGET = [rand(3, 5), rand(5, 3), rand(4, 4), rand(3)]
WEIGHT = [1.0, 0.3, 2.0, 0.7]


def loss(p):
    total = sum(w * (a - t).square().sum() for w, a, t in zip(WEIGHT, p, TARGET))
    return total + ((p[0] @ p[1]).sum(0) - p[3]).square().sum()


def lua(v):
    if isinstance(v, torch.Tensor):
        return lua(v.detach().tolist())
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(map(lua, v)) + "}"
    if isinstance(v, bool):
        return "true" if v else "false"
    return f'"{v}"' if isinstance(v, str) else repr(v)


CASES = [
    {},
    {"lr": 0.05, "momentum": 0.8, "nesterov": False, "weight_decay": 0.3},
    {"lr": 0.02, "adjust": "original", "ns_steps": 3},
    {"lr": 0.03, "clip_norm": 0.5, "weight_decay": 0.0},
    {"lr": 0.03, "clip_value": 0.2},
]
print("-- Made by muon.py with PyTorch", torch.__version__.split("+")[0] + ": do not edit.")
print("return {")
print(f"  start = {lua(START)}, target = {lua(TARGET)}, weight = {lua(WEIGHT)},")
for options in CASES:
    for steps in (1, 2, 15):
        p = [a.clone().requires_grad_() for a in START]
        how = dict(options)
        norm, value = how.pop("clip_norm", None), how.pop("clip_value", None)
        rate, decay = how.get("lr", 0.001), how.get("weight_decay", 0.1)
        adjust = {"original": "original"}.get(how.pop("adjust", None), "match_rms_adamw")
        matrices = torch.optim.Muon(p[:3], adjust_lr_fn=adjust, **how)
        vectors = torch.optim.AdamW(p[3:], lr=rate, weight_decay=decay)
        for _ in range(steps):
            for a in p:
                a.grad = None
            loss(p).backward()
            if norm is not None:  # without the 1e-6 that clip_grad_norm_ adds to the norm
                size = torch.sqrt(sum(a.grad.square().sum() for a in p))
                for a in p:
                    a.grad *= min(1.0, norm / float(size))
            if value is not None:
                torch.nn.utils.clip_grad_value_(p, value)
            matrices.step()
            vectors.step()
        text = ", ".join(f"{k} = {lua(v)}" for k, v in options.items())
        print(f"  {{options = {{{text}}}, steps = {steps}, want = {lua(p)}}},")
print("}")
