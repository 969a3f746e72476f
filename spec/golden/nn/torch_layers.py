"""Layers against PyTorch's with the same weights: spec/golden/nn/torch_layers.lua, a list of cases {row, sizes, options,
state, inputs, output}; `training` is the output in training mode and `after` the buffers after one step, where they differ.

Run: python3 torch_layers.py   (needs torch; writes beside itself)
"""
import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(13)


def rand(*shape):
    return torch.randn(*shape).mul(1000).round().div(1000)


def lua(v):
    if isinstance(v, torch.Tensor):
        return lua(v.detach().tolist())
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k} = {lua(x)}" for k, x in v.items()) + "}"
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(map(lua, v)) + "}"
    if isinstance(v, bool):
        return "true" if v else "false"
    return f'"{v}"' if isinstance(v, str) else repr(v)


cases = []


def case(row, sizes, options, module, inputs, names=None, **more):
    """names: our name of a parameter -> PyTorch's; parameters and buffers get random values first."""
    entry = {"row": row, "sizes": sizes, "options": options}
    if isinstance(module, nn.Module):
        with torch.no_grad():
            for p in module.parameters():
                p.copy_(rand(*p.shape))
            for name, b in module.named_buffers():
                if b.ndim:
                    b.copy_(rand(*b.shape).abs() + 0.5)
        own = {k: v for k, v in module.state_dict().items() if k != "num_batches_tracked"}
        state = {k: v.clone() for k, v in own.items()} if names is None else {
            k: own[v].clone() for k, v in names.items()}
        entry["state"] = state
        module.eval()
    entry["inputs"] = inputs
    entry["output"] = module(*inputs)
    entry.update(more)
    cases.append(entry)
    return entry


def trained(entry, module):
    module.train()
    entry["training"] = module(*entry["inputs"])
    entry["after"] = {k: v for k, v in module.named_buffers() if v.ndim}


x1, x2 = rand(3, 2), rand(3, 4)
case("bilinear", [2, 4, 3], {}, nn.Bilinear(2, 4, 3), [x1, x2])
case("bilinear", [2, 4, 3], {"bias": False}, nn.Bilinear(2, 4, 3, bias=False), [x1, x2])

s = rand(2, 4, 7)
case("conv1d", [4, 6], {"kernel": 3}, nn.Conv1d(4, 6, 3), [s])
case("conv1d", [4, 6], {"kernel": 2, "stride": 2, "padding": 1, "dilation": 3, "groups": 2, "bias": False},
     nn.Conv1d(4, 6, 2, stride=2, padding=1, dilation=3, groups=2, bias=False), [s])
i = rand(2, 4, 5, 6)
case("conv2d", [4, 3], {"kernel": 3}, nn.Conv2d(4, 3, 3), [i])
case("conv2d", [4, 6], {"kernel": [2, 3], "stride": [1, 2], "padding": [1, 0], "dilation": [2, 1], "groups": 2},
     nn.Conv2d(4, 6, (2, 3), stride=(1, 2), padding=(1, 0), dilation=(2, 1), groups=2), [i])
case("conv_transpose2d", [4, 3], {"kernel": 3}, nn.ConvTranspose2d(4, 3, 3), [i])
case("conv_transpose2d", [4, 6],
     {"kernel": [2, 3], "stride": [3, 2], "padding": [1, 0], "dilation": [2, 1], "groups": 2, "output_padding": [1, 0]},
     nn.ConvTranspose2d(4, 6, (2, 3), stride=(3, 2), padding=(1, 0), dilation=(2, 1), groups=2, output_padding=(1, 0)),
     [i])
case("max_pool2d", [], {"kernel": [2, 3]}, nn.MaxPool2d((2, 3)), [i])
case("max_pool2d", [], {"kernel": 3, "stride": [1, 2], "padding": 1}, nn.MaxPool2d(3, (1, 2), 1), [i])
case("avg_pool2d", [], {"kernel": 2}, nn.AvgPool2d(2), [i])
case("avg_pool2d", [], {"kernel": [3, 2], "stride": 2, "padding": 1}, nn.AvgPool2d((3, 2), 2, 1), [i])
case("upsample_bilinear", [], {}, nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), [i])
case("upsample_bilinear", [], {"factor": [3, 2], "align_corners": True},
     nn.Upsample(scale_factor=(3, 2), mode="bilinear", align_corners=True), [i])
case("pixel_shuffle", [], {}, nn.PixelShuffle(2), [i])
case("flatten", [], {}, nn.Flatten(), [i])
case("reshape", [6, -1], {}, lambda t: t.reshape(2, 6, -1), [i])

m = nn.BatchNorm2d(4)
trained(case("batch_norm", [4], {}, m, [i]), m)
m = nn.BatchNorm1d(4, momentum=0.3, eps=0.01, affine=False)
trained(case("batch_norm", [4], {"momentum": 0.3, "epsilon": 0.01, "affine": False}, m, [rand(5, 4)]), m)
case("layer_norm", [6], {}, nn.LayerNorm(6), [i])
case("layer_norm", [5, 6], {"epsilon": 0.1}, nn.LayerNorm([5, 6], eps=0.1), [i])
case("group_norm", [2, 4], {}, nn.GroupNorm(2, 4), [i])
case("group_norm", [4, 4], {"affine": False}, nn.GroupNorm(4, 4, affine=False), [i])
a, b = rand(4), rand(4)
case("actnorm", [4], {}, lambda t: (t + b[:, None, None]) * a.exp()[:, None, None], [i], state={"log_scale": a, "bias": b})
case("dropout", [], {"rate": 0.3}, nn.Dropout(0.3), [i])
case("embedding", [5, 3], {}, nn.Embedding(5, 3), [torch.tensor([[0, 4, 4], [2, 1, 0]])])

w, wb, g, gb = rand(3, 3), rand(3), rand(3, 3), rand(3)
h = rand(4, 3)
t = torch.sigmoid(h @ g + gb)
case("highway", [3], {}, lambda v: t * F.relu(v @ w + wb) + (1 - t) * v, [h],
     state={"weight": w, "bias": wb, "gate_weight": g, "gate_bias": gb})

names = {"in_proj_weight": "in_proj_weight", "in_proj_bias": "in_proj_bias", "out_proj_weight": "out_proj.weight",
         "out_proj_bias": "out_proj.bias"}
q, k, v = rand(2, 3, 6), rand(2, 4, 6), rand(2, 4, 6)


class Attention(nn.MultiheadAttention):
    causal = False

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if self.causal:
            mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril()
        if mask is not None and mask.dtype == torch.bool:
            mask = ~mask  # PyTorch's says what is left out
        return super().forward(query, key, value, attn_mask=mask, need_weights=False)[0]


m = lambda bias=True: Attention(6, 2, bias=bias, batch_first=True)
case("multi_head_attention", [6, 2], {}, m(), [q], names)
case("multi_head_attention", [6, 2], {}, m(), [q, k, v], names)
case("multi_head_attention", [6, 2], {}, m(), [q, k, v, torch.tensor([[True, False, True, True], [True, True, False, False],
                                                                      [False, True, True, True]])], names)
case("multi_head_attention", [6, 2], {}, m(), [q, k, v, rand(3, 4)], names)
case("multi_head_attention", [6, 2], {"bias": False}, m(False), [q, k, v],
     {"in_proj_weight": "in_proj_weight", "out_proj_weight": "out_proj.weight"})
causal = m()
causal.causal = True
case("multi_head_attention", [6, 2], {"causal": True}, causal, [q], names)

e = rand(4, 3) * 3
case("prelu", [], {}, nn.PReLU(), [e])
case("prelu", [], {"channels": 4}, nn.PReLU(4), [i])
case("selu", [], {}, nn.SELU(), [e])
case("softsign", [], {}, nn.Softsign(), [e])
case("hard_tanh", [], {}, nn.Hardtanh(), [e])
case("hard_tanh", [], {"low": -2, "high": 0.5}, nn.Hardtanh(-2, 0.5), [e])
case("hard_sigmoid", [], {}, nn.Hardsigmoid(), [e])

case("hard_swish", [], {}, nn.Hardswish(), [e])
case("mish", [], {}, nn.Mish(), [e])
g = rand(3, 4, 6)
case("glu", [], {}, nn.GLU(), [g])
case("glu", [], {"axis": 2}, nn.GLU(1), [g])
case("rms_norm", [6], {"epsilon": 1e-3}, nn.RMSNorm(6, eps=1e-3), [g])
case("rms_norm", [4, 6], {}, nn.RMSNorm([4, 6], eps=1e-5), [g])
case("rms_norm", [6], {"affine": False}, nn.RMSNorm(6, eps=1e-5, elementwise_affine=False), [g])

case("conv_transpose1d", [4, 3], {"kernel": 3}, nn.ConvTranspose1d(4, 3, 3), [s])
case("conv_transpose1d", [4, 6],
     {"kernel": 2, "stride": 3, "padding": 1, "dilation": 2, "groups": 2, "output_padding": 1, "bias": False},
     nn.ConvTranspose1d(4, 6, 2, stride=3, padding=1, dilation=2, groups=2, output_padding=1, bias=False), [s])
v = rand(2, 4, 5, 3, 4)
case("conv3d", [4, 3], {"kernel": 3}, nn.Conv3d(4, 3, 3), [v])
case("conv3d", [4, 6], {"kernel": [2, 1, 3], "stride": [2, 1, 2], "padding": [1, 0, 1], "dilation": [3, 2, 1], "groups": 2},
     nn.Conv3d(4, 6, (2, 1, 3), stride=(2, 1, 2), padding=(1, 0, 1), dilation=(3, 2, 1), groups=2), [v])
case("conv3d", [4, 4], {"kernel": 2, "stride": 3, "groups": 4, "bias": False},
     nn.Conv3d(4, 4, 2, stride=3, groups=4, bias=False), [v])

case("max_pool1d", [], {"kernel": 3}, nn.MaxPool1d(3), [s])
case("max_pool1d", [], {"kernel": 3, "stride": 2, "padding": 1}, nn.MaxPool1d(3, 2, 1), [s])
case("avg_pool1d", [], {"kernel": 2}, nn.AvgPool1d(2), [s])
case("avg_pool1d", [], {"kernel": 3, "stride": 2, "padding": 1}, nn.AvgPool1d(3, 2, 1), [s])
case("max_pool3d", [], {"kernel": [2, 3, 2]}, nn.MaxPool3d((2, 3, 2)), [v])
case("max_pool3d", [], {"kernel": [3, 2, 2], "stride": [1, 2, 1], "padding": [1, 0, 1]},
     nn.MaxPool3d((3, 2, 2), (1, 2, 1), (1, 0, 1)), [v])
case("avg_pool3d", [], {"kernel": 2}, nn.AvgPool3d(2), [v])
case("avg_pool3d", [], {"kernel": [3, 2, 2], "stride": [2, 1, 2], "padding": [1, 1, 0]},
     nn.AvgPool3d((3, 2, 2), (2, 1, 2), (1, 1, 0)), [v])
for n in (1, 3, 5, 7, 9):
    case("adaptive_avg_pool1d", [], {"size": n}, nn.AdaptiveAvgPool1d(n), [s])
    case("adaptive_max_pool1d", [], {"size": n}, nn.AdaptiveMaxPool1d(n), [s])
for n in ((1, 1), (2, 4), (5, 3), (4, 8)):
    case("adaptive_avg_pool2d", [], {"size": n}, nn.AdaptiveAvgPool2d(n), [i])
    case("adaptive_max_pool2d", [], {"size": n}, nn.AdaptiveMaxPool2d(n), [i])
for n in ((1, 1, 1), (2, 3, 3), (3, 2, 5)):
    case("adaptive_avg_pool3d", [], {"size": n}, nn.AdaptiveAvgPool3d(n), [v])
    case("adaptive_max_pool3d", [], {"size": n}, nn.AdaptiveMaxPool3d(n), [v])

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_layers.lua"), "w") as out:
    out.write("-- Made by torch_layers.py: do not edit.\nreturn {\n")
    for entry in cases:
        out.write("  {" + ",\n    ".join(f"{key} = {lua(value)}" for key, value in entry.items()) + "},\n")
    out.write("}\n")
