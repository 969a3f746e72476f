"""Writes trajectories.lua: reference trajectories of the optimisers, computed in plain numpy float64.

The formulas are written from the papers and PyTorch's documentation, independently of the C code:
  SGD      Sutskever et al. 2013, learning rate outside the momentum; L2 decay added to the gradient
  Adam     Kingma & Ba 2015, algorithm 1; decoupled decay from Loshchilov & Hutter 2019, algorithm 2
  NAdam    Dozat 2016 with a constant momentum, as optax.nadam
  AMSGrad  Reddi, Kale & Kumar 2018: Adam with the largest second moment so far, bias-corrected, as torch.optim.AdamW
  SGLD, pSGLD, SGHMC at temperature 0, where they have no noise: Welling & Teh 2011, Li et al. 2016, Chen et al. 2014
  RMSprop  Tieleman & Hinton 2012 in the form of torch.optim.RMSprop; Adagrad, Duchi et al. 2011, torch.optim.Adagrad
  RAdam    Liu et al. 2020 with decoupled decay; Adamax, Kingma & Ba 2015, section 7; Adadelta, Zeiler 2012; Rprop without
           stepping back, Igel & Huesken 2003: each as torch.optim's. Muon of vectors is AdamW (matrices: muon.py)
Objective: Rosenbrock's function of (x, y) plus sum_k c_k (z_k - 1)^2 with c = (1, 10, 0.1).
Run: python3 trajectories.py > trajectories.lua
Where torch can be imported, `python3 trajectories.py torch` compares every case that torch.optim has with it.
"""
import sys

import numpy as np

C = np.array([1.0, 10.0, 0.1])
START = [np.array([-0.5, 0.8]), np.array([0.0, 2.0, -3.0])]


def gradients(p):
    (x, y), z = p
    return [np.array([-2 * (1 - x) - 40 * x * (y - x * x), 20 * (y - x * x)]), 2 * C * (z - 1)]


def clip(g, limit, value):
    norm = np.sqrt(sum((a * a).sum() for a in g))
    g = [a * (limit / norm) for a in g] if norm > limit else g
    return [np.clip(a, -value, value) for a in g]


def sgd(n, lr=0.01, momentum=0.0, nesterov=False, weight_decay=0.0, clip_norm=np.inf, clip_value=np.inf):
    p, b = [a.copy() for a in START], [np.zeros_like(a) for a in START]
    for _ in range(n):
        g = clip(gradients(p), clip_norm, clip_value)
        for k in range(len(p)):
            d = g[k] + weight_decay * p[k]
            b[k] = momentum * b[k] + d
            p[k] = p[k] - lr * (d + momentum * b[k] if nesterov else b[k])
    return p


def adam(n, lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, clip_norm=np.inf, clip_value=np.inf):
    p = [a.copy() for a in START]
    m, v = [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]
    for t in range(1, n + 1):
        g = clip(gradients(p), clip_norm, clip_value)
        for k in range(len(p)):
            m[k] = beta1 * m[k] + (1 - beta1) * g[k]
            v[k] = beta2 * v[k] + (1 - beta2) * g[k] ** 2
            m_hat, v_hat = m[k] / (1 - beta1**t), v[k] / (1 - beta2**t)
            p[k] = p[k] - lr * weight_decay * p[k] - lr * m_hat / (np.sqrt(v_hat) + eps)
    return p


def adamw(n, weight_decay=0.01, **options):
    return adam(n, weight_decay=weight_decay, **options)


def amsgrad(n, lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
    p = [a.copy() for a in START]
    m, v, top = ([np.zeros_like(a) for a in p] for _ in range(3))
    for t in range(1, n + 1):
        g = gradients(p)
        for k in range(len(p)):
            m[k] = beta1 * m[k] + (1 - beta1) * g[k]
            v[k] = beta2 * v[k] + (1 - beta2) * g[k] ** 2
            top[k] = np.maximum(top[k], v[k])
            m_hat, v_hat = m[k] / (1 - beta1**t), top[k] / (1 - beta2**t)
            p[k] = p[k] - lr * weight_decay * p[k] - lr * m_hat / (np.sqrt(v_hat) + eps)
    return p


def sgld(n, lr=0.001, temperature=0.0, weight_decay=0.0):
    p = [a.copy() for a in START]
    for _ in range(n):
        p = [a - lr * (g + weight_decay * a) for a, g in zip(p, gradients(p))]
    return p


def psgld(n, lr=0.001, temperature=0.0, weight_decay=0.0, alpha=0.99, eps=1e-5):
    p, v = [a.copy() for a in START], [np.zeros_like(a) for a in START]
    for _ in range(n):
        g = gradients(p)
        for k in range(len(p)):
            d = g[k] + weight_decay * p[k]
            v[k] = alpha * v[k] + (1 - alpha) * d**2
            p[k] = p[k] - lr * d / (np.sqrt(v[k]) + eps)
    return p


def sghmc(n, lr=0.0001, temperature=0.0, weight_decay=0.0, friction=0.1):
    p, u = [a.copy() for a in START], [np.zeros_like(a) for a in START]
    for _ in range(n):
        g = gradients(p)
        for k in range(len(p)):
            u[k] = (1 - friction) * u[k] - lr * (g[k] + weight_decay * p[k])
            p[k] = p[k] + u[k]
    return p


def nadam(n, lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, clip_norm=np.inf, clip_value=np.inf):
    p = [a.copy() for a in START]
    m, v = [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]
    for t in range(1, n + 1):
        g = clip(gradients(p), clip_norm, clip_value)
        for k in range(len(p)):
            m[k] = beta1 * m[k] + (1 - beta1) * g[k]
            v[k] = beta2 * v[k] + (1 - beta2) * g[k] ** 2
            m_hat = beta1 * m[k] / (1 - beta1 ** (t + 1)) + (1 - beta1) * g[k] / (1 - beta1**t)
            p[k] = p[k] - lr * (weight_decay * p[k] + m_hat / (np.sqrt(v[k] / (1 - beta2**t)) + eps))
    return p


def rmsprop(n, lr=0.01, alpha=0.99, eps=1e-8, momentum=0.0, centred=False, weight_decay=0.0, clip_norm=np.inf,
            clip_value=np.inf):
    p = [a.copy() for a in START]
    v, mean, b = ([np.zeros_like(a) for a in p] for _ in range(3))
    for _ in range(n):
        g = clip(gradients(p), clip_norm, clip_value)
        for k in range(len(p)):
            d = g[k] + weight_decay * p[k]
            v[k] = alpha * v[k] + (1 - alpha) * d**2
            mean[k] = alpha * mean[k] + (1 - alpha) * d
            root = np.sqrt(v[k] - mean[k] ** 2 if centred else v[k]) + eps
            b[k] = momentum * b[k] + d / root
            p[k] = p[k] - lr * b[k]
    return p


def adagrad(n, lr=0.01, lr_decay=0.0, eps=1e-10, weight_decay=0.0, clip_norm=np.inf, clip_value=np.inf):
    p, s = [a.copy() for a in START], [np.zeros_like(a) for a in START]
    for t in range(n):
        g = clip(gradients(p), clip_norm, clip_value)
        for k in range(len(p)):
            d = g[k] + weight_decay * p[k]
            s[k] = s[k] + d**2
            p[k] = p[k] - lr / (1 + t * lr_decay) * d / (np.sqrt(s[k]) + eps)
    return p


def radam(n, lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, clip_norm=np.inf, clip_value=np.inf):
    p = [a.copy() for a in START]
    m, v = [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]
    longest = 2 / (1 - beta2) - 1
    for t in range(1, n + 1):
        g = clip(gradients(p), clip_norm, clip_value)
        length = longest - 2 * t * beta2**t / (1 - beta2**t)
        for k in range(len(p)):
            m[k] = beta1 * m[k] + (1 - beta1) * g[k]
            v[k] = beta2 * v[k] + (1 - beta2) * g[k] ** 2
            step = m[k] / (1 - beta1**t)
            if length > 5:
                rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
                step = step * np.sqrt(rectified) * np.sqrt(1 - beta2**t) / (np.sqrt(v[k]) + eps)
            p[k] = p[k] * (1 - lr * weight_decay) - lr * step
    return p


def adamax(n, lr=0.002, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, clip_norm=np.inf, clip_value=np.inf):
    p = [a.copy() for a in START]
    m, u = [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]
    for t in range(1, n + 1):
        g = clip(gradients(p), clip_norm, clip_value)
        for k in range(len(p)):
            d = g[k] + weight_decay * p[k]
            m[k] = beta1 * m[k] + (1 - beta1) * d
            u[k] = np.maximum(beta2 * u[k], np.abs(d) + eps)
            p[k] = p[k] - lr / (1 - beta1**t) * m[k] / u[k]
    return p


def adadelta(n, lr=1.0, alpha=0.9, eps=1e-6, weight_decay=0.0, clip_norm=np.inf, clip_value=np.inf):
    p = [a.copy() for a in START]
    v, delta = [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]
    for _ in range(n):
        g = clip(gradients(p), clip_norm, clip_value)
        for k in range(len(p)):
            d = g[k] + weight_decay * p[k]
            v[k] = alpha * v[k] + (1 - alpha) * d**2
            e = np.sqrt(delta[k] + eps) / np.sqrt(v[k] + eps) * d
            delta[k] = alpha * delta[k] + (1 - alpha) * e**2
            p[k] = p[k] - lr * e
    return p


def rprop(n, lr=0.01, shrink=0.5, grow=1.2, least=1e-6, most=50.0):
    p, before = [a.copy() for a in START], [np.zeros_like(a) for a in START]
    size = [np.full_like(a, lr) for a in p]
    for _ in range(n):
        for k, g in enumerate(gradients(p)):
            turn = np.sign(g) * np.sign(before[k])
            size[k] = np.clip(size[k] * np.where(turn > 0, grow, np.where(turn < 0, shrink, 1)), least, most)
            before[k] = np.where(turn < 0, 0, g)
            p[k] = p[k] - np.sign(before[k]) * size[k]
    return p


def muon(n, lr=0.001, weight_decay=0.1, adamw_scale=1.0, **options):
    return adam(n, lr=lr * adamw_scale, weight_decay=weight_decay, **options)


def in_torch(kind, n, options):
    """The same by torch.optim; None where it has no such optimiser or meaning."""
    import torch

    options = dict(options)
    norm, value = options.pop("clip_norm", None), options.pop("clip_value", None)
    if "beta1" in options or "beta2" in options:
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    if "centred" in options:
        options["centered"] = options.pop("centred")
    if kind == "amsgrad":
        options["amsgrad"] = True
    if kind == "radam":
        options["decoupled_weight_decay"] = True
    if kind == "adadelta" and "alpha" in options:
        options["rho"] = options.pop("alpha")
    if kind == "rprop":
        options["etas"] = (options.pop("shrink", 0.5), options.pop("grow", 1.2))
        options["step_sizes"] = (options.pop("least", 1e-6), options.pop("most", 50.0))
    name = "AdamW" if kind in ("adam", "amsgrad") else {"sgd": "SGD", "adamw": "AdamW", "rmsprop": "RMSprop",
                                           "adagrad": "Adagrad", "radam": "RAdam", "adamax": "Adamax",
                                           "adadelta": "Adadelta", "rprop": "Rprop"}.get(kind)
    if name is None:
        return None
    if kind in ("adam", "amsgrad"):
        options.setdefault("weight_decay", 0.0)
    if kind == "sgd":
        options.setdefault("lr", 0.01)
    p = [torch.tensor(a, requires_grad=True) for a in START]
    opt = getattr(torch.optim, name)(p, **options)
    for _ in range(n):
        opt.zero_grad()
        (x, y), z = p
        ((1 - x) ** 2 + 10 * (y - x * x) ** 2 + (torch.tensor(C) * (z - 1) ** 2).sum()).backward()
        if norm is not None:
            torch.nn.utils.clip_grad_norm_(p, norm)
        if value is not None:
            torch.nn.utils.clip_grad_value_(p, value)
        opt.step()
    return [a.detach().numpy() for a in p]


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
    ("sgd", {"lr": 0.02, "momentum": 0.9, "clip_value": 0.7}),
    ("adam", {"lr": 0.02, "clip_norm": 3.0, "clip_value": 0.2}),
    ("adamw", {}),
    ("adamw", {"lr": 0.03, "weight_decay": 0.2}),
    ("amsgrad", {}),
    ("amsgrad", {"lr": 0.04, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.1}),
    ("sgld", {"lr": 0.004, "temperature": 0.0, "weight_decay": 0.1}),
    ("psgld", {"lr": 0.02, "temperature": 0.0, "weight_decay": 0.1, "alpha": 0.9}),
    ("sghmc", {"lr": 0.002, "temperature": 0.0, "weight_decay": 0.1, "friction": 0.3}),
    ("nadam", {}),
    ("nadam", {"lr": 0.03, "beta1": 0.8, "beta2": 0.99, "weight_decay": 0.05}),
    ("rmsprop", {}),
    ("rmsprop", {"lr": 0.005, "alpha": 0.9, "momentum": 0.5}),
    ("rmsprop", {"lr": 0.003, "alpha": 0.95, "centred": True, "eps": 1e-3, "weight_decay": 0.1}),
    ("adagrad", {}),
    ("adagrad", {"lr": 0.2, "lr_decay": 0.05, "weight_decay": 0.1, "clip_value": 2.0}),
    ("radam", {}),
    ("radam", {"lr": 0.05, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.2, "eps": 1e-3}),
    ("radam", {"lr": 0.02, "beta2": 0.99, "clip_value": 0.7}),
    ("adamax", {}),
    ("adamax", {"lr": 0.03, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.2, "eps": 1e-2}),
    ("adamax", {"lr": 0.02, "clip_value": 0.7}),
    ("adadelta", {}),
    ("adadelta", {"lr": 0.5, "alpha": 0.8, "eps": 1e-3, "weight_decay": 0.2}),
    ("adadelta", {"lr": 0.3, "clip_value": 0.7}),
    ("rprop", {}),
    ("rprop", {"lr": 0.05, "shrink": 0.4, "grow": 1.5, "least": 0.01, "most": 0.2}),
    ("muon", {}),
    ("muon", {"lr": 0.05, "weight_decay": 0.3, "adamw_scale": 0.4, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3}),
    ("muon", {"lr": 0.02, "clip_norm": 0.5}),
]
RUN = {"sgd": sgd, "adam": adam, "adamw": adamw, "amsgrad": amsgrad, "sgld": sgld, "psgld": psgld,
       "sghmc": sghmc, "nadam": nadam, "rmsprop": rmsprop, "adagrad": adagrad, "radam": radam, "adamax": adamax, "adadelta": adadelta, "rprop": rprop, "muon": muon}


def lua(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, np.ndarray):
        return "{" + ", ".join(repr(float(a)) for a in value) + "}"
    return repr(value)


if sys.argv[1:] == ["torch"]:
    for kind, options in CASES:
        for n in (1, 3, 20, 60):
            want = in_torch(kind, n, options)
            if want is None:
                print(f"{kind}: not in torch.optim in this form")
                break
            got = RUN[kind](n, **options)
            error = max(np.max(np.abs(a - b) / np.maximum(1, np.abs(b))) for a, b in zip(got, want))
            print(f"{kind} {options} {n} steps: largest error {error:.1e}")
            assert error < 1e-6 if "clip_norm" in options else error < 1e-12  # torch adds 1e-6 to the norm
    sys.exit()

print("-- Written by trajectories.py; do not edit.")
print("return {")
for kind, options in CASES:
    run = RUN[kind]
    text = ", ".join(f"{k} = {lua(v)}" for k, v in options.items())
    for n in (1, 3, 20, 60):
        p = run(n, **options)
        print(f'  {{kind = "{kind}", options = {{{text}}}, steps = {n},')
        print(f"   want = {{{lua(p[0])}, {lua(p[1])}}}}},")
print("}")
