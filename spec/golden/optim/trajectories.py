"""Writes trajectories.lua: reference trajectories of SGD and Adam, computed in plain numpy float64.

The formulas are written from the papers, independently of the C code:
  SGD    Sutskever et al. 2013, learning rate outside the momentum; L2 decay added to the gradient
  Adam   Kingma & Ba 2015, algorithm 1; decoupled decay from Loshchilov & Hutter 2019, algorithm 2
Objective: Rosenbrock's function of (x, y) plus sum_k c_k (z_k - 1)^2 with c = (1, 10, 0.1).
Run: python3 trajectories.py > trajectories.lua
"""
import numpy as np

C = np.array([1.0, 10.0, 0.1])
START = [np.array([-0.5, 0.8]), np.array([0.0, 2.0, -3.0])]


def gradients(p):
    (x, y), z = p
    return [np.array([-2 * (1 - x) - 40 * x * (y - x * x), 20 * (y - x * x)]), 2 * C * (z - 1)]


def clip(g, limit):
    norm = np.sqrt(sum((a * a).sum() for a in g))
    return [a * (limit / norm) for a in g] if norm > limit else g


def sgd(n, lr=0.01, momentum=0.0, nesterov=False, weight_decay=0.0, clip_norm=np.inf):
    p, b = [a.copy() for a in START], [np.zeros_like(a) for a in START]
    for _ in range(n):
        g = clip(gradients(p), clip_norm)
        for k in range(len(p)):
            d = g[k] + weight_decay * p[k]
            b[k] = momentum * b[k] + d
            p[k] = p[k] - lr * (d + momentum * b[k] if nesterov else b[k])
    return p


def adam(n, lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, clip_norm=np.inf):
    p = [a.copy() for a in START]
    m, v = [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]
    for t in range(1, n + 1):
        g = clip(gradients(p), clip_norm)
        for k in range(len(p)):
            m[k] = beta1 * m[k] + (1 - beta1) * g[k]
            v[k] = beta2 * v[k] + (1 - beta2) * g[k] ** 2
            m_hat, v_hat = m[k] / (1 - beta1**t), v[k] / (1 - beta2**t)
            p[k] = p[k] - lr * weight_decay * p[k] - lr * m_hat / (np.sqrt(v_hat) + eps)
    return p


CASES = [
    ("sgd", {}),
    ("sgd", {"lr": 0.005, "momentum": 0.9}),
    ("sgd", {"lr": 0.004, "momentum": 0.8, "nesterov": True}),
    ("sgd", {"lr": 0.01, "weight_decay": 0.1}),
    ("sgd", {"lr": 0.02, "momentum": 0.5, "clip_norm": 1.5}),
    ("adam", {}),
    ("adam", {"lr": 0.05}),
    ("adam", {"lr": 0.02, "beta1": 0.7, "beta2": 0.95, "eps": 1e-3}),
    ("adam", {"lr": 0.02, "weight_decay": 0.05}),
    ("adam", {"lr": 0.02, "clip_norm": 0.5}),
]


def lua(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, np.ndarray):
        return "{" + ", ".join(repr(float(a)) for a in value) + "}"
    return repr(value)


print("-- Written by trajectories.py; do not edit.")
print("return {")
for kind, options in CASES:
    run = sgd if kind == "sgd" else adam
    text = ", ".join(f"{k} = {lua(v)}" for k, v in options.items())
    for n in (1, 3, 60):
        p = run(n, **options)
        print(f'  {{kind = "{kind}", options = {{{text}}}, steps = {n},')
        print(f"   want = {{{lua(p[0])}, {lua(p[1])}}}}},")
print("}")
