"""What PyTorch's modules give where spec/other_names/places.txt has a recipe for them, float64, for
spec/other_names_spec.lua. Prints recipes.lua: the values of a recipe's names, and the output.

TripletMarginLoss adds eps to differences; here with eps = 0."""
import torch
import torch.nn as nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)


def rand(*shape):
    return torch.randn(*shape).mul(1000).round().div(1000)


def lua(v):
    if isinstance(v, torch.Tensor):
        return lua(v.detach().tolist())
    if isinstance(v, list):
        return "{" + ", ".join(map(lua, v)) + "}"
    return "true" if v is True else "false" if v is False else repr(v)


x, x1, x2 = rand(4, 5) * 2, rand(4, 5), rand(4, 5)
sign, labels, ones = torch.tensor([1, -1, -1, 1]), torch.tensor([0, 4, 2, 2]), (rand(4, 5) > 0).double()
image, line = rand(2, 4, 4, 6), rand(2, 3, 5)
cases = [
    ("CELU", nn.CELU(0.7), [x], {"x": x, "alpha": 0.7}),
    ("ChannelShuffle", nn.ChannelShuffle(2), [image],
     {"x": image, "n": 2, "groups": 2, "channels": 4, "height": 4, "width": 6}),
    ("CircularPad1d", nn.CircularPad1d((2, 1)), [line], {"x": line, "axis": 3, "length": 5, "before": 2, "after": 1}),
    ("Hardshrink", nn.Hardshrink(0.6), [x], {"x": x, "lambda": 0.6}),
    ("HingeEmbeddingLoss", nn.HingeEmbeddingLoss(0.8), [x[:, 0], sign], {"x": x[:, 0], "y": sign, "margin": 0.8}),
    ("LPPool2d", nn.LPPool2d(2, 2), [image], {"x": image, "p": 2, "kernel": 2}),
    ("MarginRankingLoss", nn.MarginRankingLoss(0.3), [x1[:, 0], x2[:, 0], sign],
     {"x1": x1[:, 0], "x2": x2[:, 0], "y": sign.double(), "margin": 0.3}),
    ("MultiLabelSoftMarginLoss", nn.MultiLabelSoftMarginLoss(), [x, ones], {"x": x, "y": ones}),
    ("MultiMarginLoss", nn.MultiMarginLoss(margin=0.9), [x, labels],
     {"x": x, "labels": labels, "margin": 0.9, "classes": 5}),
    ("PixelUnshuffle", nn.PixelUnshuffle(2), [image],
     {"x": image, "n": 2, "channels": 4, "height": 4, "width": 6, "r": 2}),
    ("SoftMarginLoss", nn.SoftMarginLoss(), [x[:, 0], sign], {"x": x[:, 0], "y": sign.double()}),
    ("Softshrink", nn.Softshrink(0.6), [x], {"x": x, "lambda": 0.6}),
    ("Tanhshrink", nn.Tanhshrink(), [x], {"x": x}),
    ("Threshold", nn.Threshold(0.2, -1.5), [x], {"x": x, "threshold": 0.2, "value": -1.5}),
    ("TripletMarginLoss", nn.TripletMarginLoss(0.5, eps=0), [x, x1, x2], {"x": x, "x1": x1, "x2": x2, "margin": 0.5}),
    ("UpsamplingNearest2d", nn.UpsamplingNearest2d(scale_factor=2), [image], {"x": image, "r": 2}),
]
print("-- Made by recipes.py with PyTorch", torch.__version__.split("+")[0] + ": do not edit.")
print("return {")
for name, module, inputs, names in cases:
    text = ", ".join(f"{k} = {lua(v)}" for k, v in names.items())
    print(f"  {name} = {{ {{ {text} }}, {lua(module(*inputs))} }},")
print("}")
