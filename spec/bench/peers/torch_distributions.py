"""log_prob, its gradient and draws of each distribution in PyTorch, eager, on the numbers that ours.lua wrote; checks of
arguments are off."""
import os
import sys

import numpy as np
import torch
from torch import distributions

import clock
from names import NAMES, Example, differ

torch.set_num_threads(1)
torch.manual_seed(1)
folder = os.environ.get("BUILD", "build") + "/peers-data"


def measure(name, n):
    file = f"{folder}/{name}-{n}.npz"
    theirs = NAMES.get(name, (None, None))[0]
    if not theirs or not os.path.exists(file):
        return
    e = Example("PyTorch", name, distributions, np.load(file), torch.from_numpy)
    x = e.x

    def make():
        return e.make(validate_args=False)

    if differ(e.log_prob, make().log_prob(x)):
        print(f"{name}: PyTorch's log_prob is another one", file=sys.stderr)
    leaves = [t for t in e.given.values() if t.is_floating_point()]
    if x.is_floating_point() and not make().support.is_discrete:
        leaves.append(x)
    clock.row(f"{name} log_prob {n}", "PyTorch", lambda: make().log_prob(x), 0.12)
    clock.row(f"{name} sample {n}", "PyTorch", lambda: make().sample(), 0.12)
    for t in leaves:
        t.requires_grad_()
    clock.row(f"{name} gradient {n}", "PyTorch", lambda: torch.autograd.grad(make().log_prob(x).sum(), leaves, allow_unused=True),
              0.12)


for name in sys.argv[1:] or NAMES:
    for n in (100, 1000000):
        try:
            measure(name, n)
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
