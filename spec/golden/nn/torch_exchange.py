"""A state that PyTorch saved, and what its module gives: torch_exchange.safetensors, torch_exchange.lua.

Run: python3 torch_exchange.py                    writes both beside itself (needs torch)
     python3 torch_exchange.py check FILE VALUES  loads FILE, written elsewhere, into the same module, strictly, and
                                                  compares its outputs with those in VALUES (a safetensors file with
                                                  "digits" and "texts"); prints the largest difference
The safetensors format is written and read by hand here: an 8-byte length, a JSON header, little-endian elements.
"""
import json
import os
import struct
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def save(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        code = next(k for k, v in DTYPES.items() if v == t.dtype)
        raw = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": code, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(bytearray(raw[8 + n + begin:8 + n + end]), dtype=DTYPES[entry["dtype"]]) \
                if end > begin else torch.empty(0, dtype=DTYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


class Model(nn.Module):
    """Two heads: a reduced strided LeNet for images [batch, 1, 12, 12], and a reader of texts [T, batch]."""

    def __init__(self):
        super().__init__()
        self.digits = nn.Sequential(
            nn.Conv2d(1, 4, 5, stride=2, padding=2), nn.BatchNorm2d(4), nn.ReLU(),
            nn.Conv2d(4, 6, 3, stride=2), nn.PReLU(6), nn.Flatten(), nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 10))
        self.embed = nn.Embedding(7, 4)
        self.recurrent = nn.GRU(4, 3, num_layers=2, bidirectional=True)
        self.memory = nn.LSTM(6, 4)
        self.norm = nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Bilinear(4, 4, 2, bias=False)])
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def read(self, texts):
        h = self.norm(self.memory(self.recurrent(self.embed(texts))[0])[0]).transpose(0, 1)
        a = self.attention(h, h, h, need_weights=False)[0].mean(1)
        return (self.heads[0](a) + self.heads[1](a, h[:, -1])) / self.temperature


def lua(v):
    return "{" + ", ".join(map(lua, v)) + "}" if isinstance(v, list) else repr(v)


def inputs():
    g = torch.Generator().manual_seed(5)
    return torch.randn(3, 1, 12, 12, generator=g).mul(64).round().div(64), torch.randint(0, 7, (5, 3), generator=g)


torch.manual_seed(4)
model = Model()
with torch.no_grad():
    for name, b in model.named_buffers():
        if b.ndim:
            b.copy_(torch.rand(b.shape) + 0.5)
model.eval()
images, texts = inputs()
if sys.argv[1:2] == ["check"]:
    model.load_state_dict(load(sys.argv[2]), strict=True)
    values = load(sys.argv[3])
    for name, got in (("digits", model.digits(images)), ("texts", model.read(texts))):
        print(name, (got - values[name]).abs().max().item(), "of", got.abs().max().item())
else:
    save(os.path.join(HERE, "torch_exchange.safetensors"), model.state_dict())
    with open(os.path.join(HERE, "torch_exchange.lua"), "w") as out:
        out.write("-- Made by torch_exchange.py: do not edit.\nreturn {\n")
        for name, t in (("images", images), ("texts", texts), ("digits_out", model.digits(images)),
                        ("texts_out", model.read(texts))):
            out.write(f"  {name} = {lua(t.detach().double().tolist() if t.is_floating_point() else t.tolist())},\n")
        out.write("}\n")
