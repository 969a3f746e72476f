"""Values of metrics of classification, by NumPy and scikit-learn. Writes classification.lua beside itself."""
import numpy as np
from pathlib import Path
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

rng = np.random.default_rng(3)
S, N, K = 4, 40, 3
draws = rng.dirichlet([0.7] * K, (S, N))
p = draws.mean(0)
y = rng.integers(0, K, N)
hot = np.eye(K)[y]
conf, pred = p.max(1), p.argmax(1)


def ece(bins):
    edges = np.linspace(0, 1, bins + 1)
    total = 0
    for low, high in zip(edges[:-1], edges[1:]):
        m = (conf > low) & (conf <= high)
        if m.any():
            total += m.sum() * abs((pred[m] == y[m]).mean() - conf[m].mean())
    return total / N


def H(q):
    return -(q * np.log(q)).sum(-1)


label = (y == 0).astype(int)
score = np.round(p[:, 0], 1)  # with ties


def lua(v):
    v = np.asarray(v)
    return repr(v.item()) if v.ndim == 0 else "{" + ", ".join(lua(u) for u in v) + "}"


grid = np.linspace(0, np.log(K), 200001)
cdf = np.searchsorted(np.sort(H(p)), grid, side="right") / N
values = dict(draws=draws, y=y, accuracy=accuracy_score(y, pred), log_likelihood=-log_loss(y, p, labels=range(K)),
              brier=((p - hot) ** 2).sum(1).mean(), ece15=ece(15), ece4=ece(4), total=H(p), aleatoric=H(draws).mean(0),
              mutual=(draws * np.log(draws / p)).sum(-1).mean(0), label=label, score=score,
              auc=roc_auc_score(label, score), ecdf_auc=np.trapezoid(cdf, grid))
text = "-- By classification.py.\nreturn {\n" + "".join(f"  {k} = {lua(v)},\n" for k, v in values.items()) + "}\n"
Path(__file__).with_suffix(".lua").write_text(text)
