"""Running statistics: spec/golden/autodiff/carry.lua, what the buffers of PyTorch's BatchNorm1d hold after each of three
batches (momentum 0.1 and 0.3; the variance that enters is the unbiased one).

Run: python3 carry.py   (needs torch; writes beside itself)
"""
import os

import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(3)
lua = lambda v: "{" + ", ".join(map(lua, v)) + "}" if isinstance(v, list) else repr(v)
rows = []
for momentum in (0.1, 0.3):
    layer = torch.nn.BatchNorm1d(3, momentum=momentum)
    batches = [torch.randn(5, 3).mul(1000).round().div(1000) for _ in range(3)]
    means, variances = [], []
    for x in batches:
        layer(x)
        means.append(layer.running_mean.tolist())
        variances.append(layer.running_var.tolist())
    rows.append(f"  {{momentum = {momentum},\n    batches = {lua([x.tolist() for x in batches])},\n"
                f"    mean = {lua(means)},\n    variance = {lua(variances)}}},\n")
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "carry.lua"), "w") as out:
    out.write("-- Made by carry.py: do not edit.\nreturn {\n" + "".join(rows) + "}\n")
