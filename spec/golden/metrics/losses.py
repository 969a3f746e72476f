"""Cross entropies with weights, a label left out and smoothing by PyTorch, exponentials and distances by SciPy, for
spec/metrics/loss_spec.lua. Prints losses.lua."""
import numpy as np
import scipy
import torch
from scipy.linalg import expm
from scipy.spatial.distance import cdist

rng = np.random.default_rng(3)
logits, y = rng.normal(size=(6, 4)).round(3) * 2, np.array([0, 3, 1, -100, 3, 2])
weights = np.array([0.5, 1.0, 2.0, 0.25])


def row(v):
    v = np.asarray(v)
    return repr(float(v)) if v.ndim == 0 else "{ " + ", ".join(row(x) for x in v) + " }"


def loss(labels, **more):
    x = torch.tensor(logits, requires_grad=True)
    value = torch.nn.functional.cross_entropy(x, torch.tensor(labels), **more)
    value.backward()
    return f"{{ value = {float(value)!r}, slope = {row(x.grad.numpy())} }}"


w = torch.tensor(weights)
keep = np.where(y < 0, 1, y)
print("-- Made by losses.py with PyTorch", torch.__version__.split("+")[0], "and SciPy", scipy.__version__)
print("return {")
print("  logits =", row(logits) + ",")
print("  weights =", row(weights) + ", y = {", ", ".join(map(str, y)), "}, keep = {", ", ".join(map(str, keep)), "},")
print("  weighted =", loss(keep, weight=w) + ",")
print("  ignored =", loss(y, weight=w, ignore_index=-100) + ",")
print("  smoothed =", loss(keep, label_smoothing=0.2) + ",")
print("  all =", loss(y, weight=w, ignore_index=-100, label_smoothing=0.3) + ",")
a = rng.normal(size=(4, 4)).round(3)
print("  matrix =", row(a) + ", exponential =", row(expm(a)) + ",")
print("  large =", row(expm(10 * a)) + ",")
p, q = rng.normal(size=(3, 2)).round(3), rng.normal(size=(4, 2)).round(3)
print("  p =", row(p) + ", q =", row(q) + ",")
print("  euclidean =", row(cdist(p, q)) + ", city =", row(cdist(p, q, "cityblock")) + ", largest =",
      row(cdist(p, q, "chebyshev")) + ",")
print("}")
