"""Functions of arrays and draws in PyTorch, eager, one thread: the rows of ours.lua."""
import torch

import clock

torch.set_num_threads(1)
torch.manual_seed(1)
MILLION = 1000000

for dtype in (torch.float32, torch.float64):
    name = str(dtype).removeprefix("torch.")
    for n in (65536, MILLION):
        x = 0.05 + 5 * torch.rand(n, dtype=dtype)
        for key, f in (("exp", torch.exp), ("log", torch.log), ("tanh", torch.tanh), ("erf", torch.erf),
                       ("lgamma", torch.lgamma), ("digamma", torch.digamma)):
            clock.row(f"{key} {name} {n}", "PyTorch", lambda f=f, x=x: f(x))
    clock.row(f"normals {name}", "PyTorch", lambda dtype=dtype: torch.randn(MILLION, dtype=dtype))
    t = torch.randn(1000, 1000, dtype=dtype)
    clock.row(f"chain {name}", "PyTorch", lambda t=t: ((t * 2 + 1).tanh() * t - t.square()).exp().sum())

w, y = torch.rand(8, dtype=torch.float64, requires_grad=True), torch.rand(8, dtype=torch.float64)
clock.row("add of 8", "PyTorch", lambda: w + y)
