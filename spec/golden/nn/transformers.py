"""Transformer layers and stacks by PyTorch, float64, for spec/nn/transformer_spec.lua. Writes transformers.lua: states by
PyTorch's names, inputs, outputs and the gradient of the sum of their squares in the first input and some weights.

Run: python3 transformers.py   (needs torch; writes beside itself)
"""
import os

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(3)
SIZE, HEADS, INNER = 4, 2, 6


def rand(*shape):
    return torch.randn(*shape).mul(1000).round().div(1000)


def lua(v):
    if isinstance(v, torch.Tensor):
        return lua(v.detach().tolist())
    if isinstance(v, dict):
        return "{" + ", ".join(f'["{k}"] = {lua(x)}' for k, x in v.items()) + "}"
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(map(lua, v)) + "}"
    if isinstance(v, bool):
        return "true" if v else "false"
    return f'"{v}"' if isinstance(v, str) else repr(v)


x, memory = rand(2, 3, SIZE), rand(2, 5, SIZE)
later = torch.ones(3, 3, dtype=torch.bool).triu(1)  # PyTorch's masks say what is left out
hidden = torch.tensor([[False, True, False, False, True]] * 3)
padded = torch.tensor([[False, False, True], [False, False, False]])
cases = []


def case(kind, options, module, inputs, names, count=None, **call):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(rand(*p.shape))
    module.eval()
    first = inputs[0].clone().requires_grad_()
    y = module(first, *inputs[1:], **call)
    grads = torch.autograd.grad(y.square().sum(), [first] + [dict(module.named_parameters())[n] for n in names])
    cases.append({"kind": kind, "options": options, "count": count, "state": dict(module.state_dict()),
                  "inputs": inputs, "masks": {k: ~v for k, v in call.items() if isinstance(v, torch.Tensor)},
                  "output": y, "slope": grads[0], "slopes": dict(zip(names, grads[1:]))})


for first in (False, True):
    for activation in ("relu", "gelu"):
        m = nn.TransformerEncoderLayer(SIZE, HEADS, INNER, activation=activation, norm_first=first, batch_first=True)
        case("transformer_encoder_layer", {"norm_first": first, "activation": activation}, m, [x],
             ["self_attn.in_proj_weight", "linear1.weight", "norm2.weight"])
    m = nn.TransformerDecoderLayer(SIZE, HEADS, INNER, norm_first=first, batch_first=True)
    case("transformer_decoder_layer", {"norm_first": first}, m, [x, memory],
         ["multihead_attn.in_proj_weight", "norm3.bias"], tgt_mask=later, memory_mask=hidden)
m = nn.TransformerEncoderLayer(SIZE, HEADS, INNER, batch_first=True, layer_norm_eps=1e-2)
case("transformer_encoder_layer", {"epsilon": 1e-2}, m, [x], ["linear2.bias"], src_key_padding_mask=padded)
m = nn.TransformerEncoderLayer(SIZE, HEADS, INNER, batch_first=True, norm_first=True)
m = nn.TransformerEncoder(m, 2, norm=nn.LayerNorm(SIZE), enable_nested_tensor=False)
case("transformer_encoder", {"norm_first": True, "causal": True}, m, [x], ["layers.1.linear1.bias", "norm.weight"], 2,
     mask=later)
m = nn.TransformerDecoder(nn.TransformerDecoderLayer(SIZE, HEADS, INNER, batch_first=True), 2)
case("transformer_decoder", {"causal": False}, m, [x, memory], ["layers.0.linear1.bias"], 2)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "transformers.lua"), "w") as out:
    out.write("-- Made by transformers.py: do not edit.\nreturn {\n")
    for entry in cases:
        out.write("  {" + ",\n    ".join(f"{k} = {lua(v)}" for k, v in entry.items() if v is not None) + "},\n")
    out.write("}\n")
