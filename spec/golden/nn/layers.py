"""Writes layers.lua: outputs of every layer for given inputs and parameters, from NumPy and SciPy.

Also the divergence and the moments of layers that have a posterior: the sum over weights of
KL(normal(m, s) | normal(0, p)) (closed form checked against quadrature below) and mean and variance of x W + b.
Run: python3 layers.py > layers.lua
"""
import numpy as np
from scipy import integrate, special, stats

rng = np.random.default_rng(8)
X = np.round(rng.normal(size=(4, 3)), 3)
W, B = np.round(rng.normal(size=(3, 2)), 3), np.round(rng.normal(size=2), 3)
LOG_S, LOG_SB = np.round(rng.normal(-1, 0.3, size=(3, 2)), 3), np.round(rng.normal(-1, 0.3, size=2), 3)
PRIOR = 0.7


def kl(m, s, p):
    return np.log(p / s) + (s * s + m * m) / (2 * p * p) - 0.5


def kl_by_quadrature(m, s, p):
    q = stats.norm(m, s)
    return integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - stats.norm(0, p).logpdf(w)), m - 12 * s, m + 12 * s)[0]


def lua(a):
    a = np.asarray(a)
    return repr(float(a)) if a.ndim == 0 else "{" + ", ".join(lua(b) for b in a) + "}"


def gru(x, h, wi, wh, bi, bh):
    """torch.nn.GRU: gates r, z, n."""
    out = []
    for v in x:
        gi, gh = np.split(wi @ v + bi, 3), np.split(wh @ h + bh, 3)
        r, z = special.expit(gi[0] + gh[0]), special.expit(gi[1] + gh[1])
        n = np.tanh(gi[2] + r * gh[2])
        h = (1 - z) * n + z * h
        out.append(h)
    return np.array(out)


def lstm(x, h, c, wi, wh, bi, bh):
    """torch.nn.LSTM: gates i, f, g, o."""
    out, cells = [], []
    for v in x:
        i, f, g, o = np.split(wi @ v + bi + wh @ h + bh, 4)
        c = special.expit(f) * c + special.expit(i) * np.tanh(g)
        h = special.expit(o) * np.tanh(c)
        out.append(h)
        cells.append(c)
    return np.array(out), np.array(cells)


def recurrent(gates):
    """Parameters for 3 inputs and 2 hidden units."""
    sizes = {"weight_ih": (2 * gates, 3), "weight_hh": (2 * gates, 2), "bias_ih": 2 * gates, "bias_hh": 2 * gates}
    return {name: np.round(rng.normal(size=size), 3) for name, size in sizes.items()}


S, SB = np.exp(LOG_S), np.exp(LOG_SB)
total = kl(W, S, PRIOR).sum() + kl(B, SB, PRIOR).sum()
check = sum(kl_by_quadrature(m, s, PRIOR) for m, s in zip(np.r_[W.ravel(), B], np.r_[S.ravel(), SB]))
assert abs(total - check) < 1e-8 * total

rows = {
    "linear": {"state": {"weight": W, "bias": B}, "mean": X @ W + B},
    "bayes_linear": {
        "options": {"prior_scale": PRIOR},
        "state": {"weight_loc": W, "weight_log_scale": LOG_S, "bias_loc": B, "bias_log_scale": LOG_SB},
        "mean": X @ W + B,
        "variance": X**2 @ S**2 + SB**2,
        "kl": total,
    },
    "relu": {"mean": np.maximum(X, 0)},
    "leaky_relu": {"options": {"slope": 0.2}, "mean": np.where(X > 0, X, 0.2 * X)},
    "elu": {"options": {"alpha": 1.5}, "mean": np.where(X > 0, X, 1.5 * np.expm1(X))},
    "gelu": {"mean": X * stats.norm.cdf(X)},
    "silu": {"mean": X * special.expit(X)},
    "tanh": {"mean": np.tanh(X)},
    "sigmoid": {"mean": special.expit(X)},
    "softplus": {"mean": np.logaddexp(0, X)},
}

# (rows gru_scan, gru_adjoint, lstm_scan and lstm_adjoint are what these layers are made of)
# sequences X [T, 3] from zeros; a batch SEQ [T, 2, 3] from given states (start and what follows [B, 2])
SEQ, START = np.round(rng.normal(size=(5, 2, 3)), 3), np.round(rng.normal(size=(2, 2, 2)), 3)
p = recurrent(3)
batch = np.stack([gru(SEQ[:, b], START[0, b], *p.values()) for b in range(2)], axis=1)
rows["gru"] = {"state": p, "mean": gru(X, np.zeros(2), *p.values()), "outputs": batch, "last": {"h": batch[-1]}}
p = recurrent(4)
both = [lstm(SEQ[:, b], START[0, b], START[1, b], *p.values()) for b in range(2)]
batch, cells = (np.stack([pair[k] for pair in both], axis=1) for k in range(2))
rows["lstm"] = {
    "state": p,
    "mean": lstm(X, np.zeros(2), np.zeros(2), *p.values())[0],
    "outputs": batch,
    "last": {"h": batch[-1], "c": cells[-1]},
}

p = recurrent(1)


def rnn(x, h, wi, wh, bi, bh):
    """torch.nn.RNN with tanh."""
    out = []
    for v in x:
        h = np.tanh(wi @ v + bi + wh @ h + bh)
        out.append(h)
    return np.array(out)


batch = np.stack([rnn(SEQ[:, b], START[0, b], *p.values()) for b in range(2)], axis=1)
rows["rnn"] = {"state": p, "mean": rnn(X, np.zeros(2), *p.values()), "outputs": batch, "last": {"h": batch[-1]}}

print("-- Written by layers.py; do not edit.")
print("return {")
print(f"  x = {lua(X)},")
print(f"  sequence = {lua(SEQ)},")
print(f"  start = {lua(START)},")
for name, entry in rows.items():
    print(f"  {name} = {{")
    for key, value in entry.items():
        if isinstance(value, dict):
            print(f"    {key} = {{" + ", ".join(f"{k} = {lua(v)}" for k, v in value.items()) + "},")
        else:
            print(f"    {key} = {lua(value)},")
    print("  },")
print("}")
