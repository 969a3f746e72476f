"""Values of operations on arrays by NumPy, SciPy and PyTorch. Writes array_values.lua beside itself."""
import numpy as np
import scipy.special as sp
import torch
from pathlib import Path

rng = np.random.default_rng(1)
x = np.round(rng.normal(size=(4, 5)), 3)
y = rng.integers(0, 5, 4)
u = np.array([1e-12, 0.1, 0.5, 0.9, 1 - 1e-9])
t = torch.tensor(x, requires_grad=True)
loss = torch.nn.functional.cross_entropy(t, torch.tensor(y))
loss.backward()
h = torch.tensor(x, requires_grad=True)
hub = torch.nn.functional.huber_loss(h, torch.zeros_like(h), reduction="none", delta=0.7)
hub.sum().backward()


def lua(v):
    v = np.asarray(v)
    return repr(v.item()) if v.ndim == 0 else "{" + ", ".join(lua(w) for w in v) + "}"


values = dict(
    x=x, y=y, u=u, quantile=np.quantile(x, 0.3, axis=0), median=np.median(x, axis=0), median2=np.median(x, axis=1),
    searchsorted=np.searchsorted([-1, 0, 0, 0.5], [[-2, 0], [0.25, 3]]), roll=np.roll(x, 2, axis=1),
    roll2=np.roll(x, -5, axis=0), repeat_interleave=np.repeat(x, 3, axis=1), tile=np.tile(x, (2, 1)),
    meshgrid=np.stack(np.meshgrid([1., 2], [3., 4, 5], indexing="ij")), one_hot=np.eye(5)[y],
    kron=np.kron(x[:2, :3], x[2:, :2]), atanh=np.arctanh(u * 0.99), acosh=np.arccosh(1 + u * 10), logit=sp.logit(u),
    log2=np.log2(u), log10=np.log10(u), cross_entropy=loss.item(), cross_entropy_slope=t.grad.numpy(),
    huber=hub.detach().numpy(), huber_slope=h.grad.numpy())
text = "-- By array_values.py.\nreturn {\n" + "".join(f"  {k} = {lua(v)},\n" for k, v in values.items()) + "}\n"
Path(__file__).with_suffix(".lua").write_text(text)
