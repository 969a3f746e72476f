"""Recurrent layers over sequences of different lengths: spec/golden/nn/torch_recurrent.lua, by PyTorch's packed sequences:
one layer in each direction (its bidirectional module), and two bidirectional layers on each other.

Run: python3 torch_recurrent.py   (needs torch; writes beside itself)
"""
import os

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.set_default_dtype(torch.float64)
torch.manual_seed(17)
T, B, IN, HIDDEN = 5, 4, 3, 2
LENGTHS = torch.tensor([3, 5, 1, 4])


def rand(*shape):
    return torch.randn(*shape).mul(1000).round().div(1000)


def lua(v):
    if isinstance(v, torch.Tensor):
        return lua(v.detach().tolist())
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k} = {lua(x)}" for k, x in v.items()) + "}"
    return "{" + ", ".join(map(lua, v)) + "}" if isinstance(v, (list, tuple)) else repr(v)


x = rand(T, B, IN)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_recurrent.lua"), "w") as out:
    out.write("-- Made by torch_recurrent.py: do not edit.\nreturn {\n")
    out.write(f"  x = {lua(x)},\n  lengths = {lua(LENGTHS)},\n")
    for name, kind in ("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM):
        module = kind(IN, HIDDEN, num_layers=2, bidirectional=True)
        with torch.no_grad():
            for p in module.parameters():
                p.copy_(rand(*p.shape))
        states = []
        for layer in range(2):
            for suffix in "", "_reverse":
                states.append({f"{w}_{a}": getattr(module, f"{w}_{a}_l{layer}{suffix}")
                               for w in ("weight", "bias") for a in ("ih", "hh")})
        single = kind(IN, HIDDEN, bidirectional=True)
        single.load_state_dict({k: v for k, v in module.state_dict().items() if "l0" in k})
        packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        y, last = single(packed)
        whole, _ = module(packed)
        plain, _ = module(x)
        h, c = last if name == "lstm" else (last, None)
        out.write(f"  {name} = {{\n    states = {lua(states)},\n    outputs = {lua(pad_packed_sequence(y)[0])},\n")
        out.write(f"    h = {lua(h)},\n" + (f"    c = {lua(c)},\n" if c is not None else ""))
        out.write(f"    stacked = {lua(pad_packed_sequence(whole)[0])},\n    plain = {lua(plain)},\n  }},\n")
    out.write("}\n")
