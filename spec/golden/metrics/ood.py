"""Values of metrics.ood by NumPy, from the definitions: all pairs, all thresholds. Writes ood.lua beside itself."""
from pathlib import Path

import numpy as np

rng = np.random.default_rng(28)
K, N, M = 4, 60, 45
inside = np.round(rng.dirichlet([0.3] * K, N), 2)  # with ties
inside[:, -1] = 1 - inside[:, :-1].sum(1)
inside = np.clip(inside, 0, 1)
inside[:6] = np.eye(K)[[0, 1, 2, 3, 0, 1]]
outside = rng.dirichlet([1.5] * K, M)
outside[:5] = np.eye(K)[0]
y = rng.integers(0, K, N)


def entropy(p):
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(1)


def lua(v):
    v = np.asarray(v)
    return repr(v.item()) if v.ndim == 0 else "{" + ", ".join(lua(u) for u in v) + "}"


a, b = entropy(inside), entropy(outside)
label, score = np.r_[np.zeros(N), np.ones(M)], np.r_[a, b]
thresholds = np.unique(score)[::-1]
fpr = np.array([0] + [(a >= t).mean() for t in thresholds])
tpr = np.array([0] + [(b >= t).mean() for t in thresholds])


def average_precision(positive, negative):
    total, before = 0, 0
    for t in np.unique(np.r_[positive, negative])[::-1]:
        recall = (positive >= t).mean()
        total += (recall - before) * (positive >= t).sum() / ((positive >= t).sum() + (negative >= t).sum())
        before = recall
    return total


pairs = (b[:, None] > a[None, :]) + 0.5 * (b[:, None] == a[None, :])
threshold = np.sort(a)[int(np.ceil(0.95 * N)) - 1]
grid = np.linspace(0, np.log(K), 400001)
cdf = np.searchsorted(np.sort(b), grid, side="right") / M
y[:6] = [0, 1, 2, 3, 0, 1]  # what is certain is right
safe = np.clip(inside, 1e-300, 1)
own = safe[np.arange(N), y]
y = np.where(own > 1e-3, y, inside.argmax(1))
values = dict(inside=inside, outside=outside, y=y, auc=pairs.mean(), aupr_outside=average_precision(b, a),
              aupr_inside=average_precision(-a, -b), fpr95=(b <= threshold).mean(), ecdf_auc=np.trapezoid(cdf, grid),
              inside_entropy=a.mean(), outside_entropy=b.mean(), log_likelihood=np.log(inside[np.arange(N), y]).mean(),
              error=(y != inside.argmax(1)).mean(), false_positive=fpr, true_positive=tpr)
text = "-- By ood.py.\nreturn {\n" + "".join(f"  {k} = {lua(v)},\n" for k, v in values.items()) + "}\n"
Path(__file__).with_suffix(".lua").write_text(text)
