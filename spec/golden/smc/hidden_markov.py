"""Hidden Markov models: spec/golden/smc/hidden_markov.lua, by hmmlearn 0.3.3 (log-likelihoods, posteriors, most probable
paths, Baum-Welch) and by a sum over all K^T paths in NumPy (filtered states, pairs, gradients, probabilities of paths).

hmm_filter: increments and filtered states; hmm_adjoint: gradients of the log-likelihood in the logarithms of initial state
(time 0), transition and emission, which are expected counts; hmm_viterbi: the path; hmm_draw: probabilities of all paths.

Run: python3 hidden_markov.py   (needs hmmlearn; writes beside itself)
"""
import itertools
import os

import numpy as np
from hmmlearn import hmm
from scipy.special import logsumexp

PI = np.array([0.6, 0.3, 0.1])
A = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])


def text(x):
    if isinstance(x, (list, tuple)):
        return "{" + ", ".join(text(v) for v in x) + "}"
    if isinstance(x, np.ndarray):
        return text(x.tolist())
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k} = {text(v)}" for k, v in x.items()) + "}"
    return "-math.huge" if x == -np.inf else repr(float(x)) if isinstance(x, float) else repr(x)


def models():
    rng = np.random.default_rng(11)
    normal = hmm.GaussianHMM(3, covariance_type="diag", init_params="", implementation="log")
    normal.means_ = np.array([[-1.0], [0.5], [3.0]])
    normal.covars_ = np.array([[0.25], [1.0], [0.49]])
    counts = hmm.PoissonHMM(3, init_params="", implementation="log")
    counts.lambdas_ = np.array([[0.5], [4.0], [9.0]])
    letters = hmm.CategoricalHMM(3, init_params="", implementation="log", n_features=4)
    letters.emissionprob_ = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.4, 0.4], [0.25, 0.25, 0.25, 0.25]])
    # hmmlearn adds priors to an M-step unless told otherwise
    normal.covars_prior = 0
    normal.covars_weight = 1
    for m in (normal, counts, letters):
        m.startprob_, m.transmat_ = PI, A
    lengths = [40, 25]
    for name, m in (("normal", normal), ("poisson", counts), ("categorical", letters)):
        x = np.concatenate([m.sample(n, random_state=int(rng.integers(1 << 30)))[0] for n in lengths])
        yield name, m, x, lengths


def fitted(name, m, x, lengths):
    m.n_iter, m.tol = 5, -np.inf
    m.params = "st" + {"normal": "mc", "poisson": "l", "categorical": "e"}[name]
    m.fit(x, lengths)
    out = {"initial": m.startprob_, "transition": m.transmat_, "log_prob": list(m.monitor_.history)}
    if name == "normal":
        out["loc"], out["scale"] = m.means_[:, 0], np.sqrt(m.covars_[:, 0, 0])
    elif name == "poisson":
        out["rate"] = m.lambdas_[:, 0]
    else:
        out["probs"] = m.emissionprob_
    return out


def enumerated():
    """A model with a transition of its own for each step and forbidden moves, by all paths."""
    rng = np.random.default_rng(5)
    t, k = 4, 3
    a = rng.dirichlet(np.ones(k), (t, k))
    a[:, 0, 2] = 0
    a /= a.sum(-1, keepdims=True)
    e = rng.normal(size=(t, k))
    e[2, 1] = -np.inf
    paths = list(itertools.product(range(k), repeat=t))

    def weigh(n):
        with np.errstate(divide="ignore"):
            return {p: np.log(PI[p[0]]) + sum(np.log(a[s, p[s - 1], p[s]]) for s in range(1, n)) + sum(e[s, p[s]] for s in range(n))
                    for p in itertools.product(range(k), repeat=n)}

    evidence = [0.0] + [float(logsumexp(list(weigh(n).values()))) for n in range(1, t + 1)]
    filtered = np.zeros((t, k))
    for n in range(1, t + 1):
        for p, w in weigh(n).items():
            filtered[n - 1, p[-1]] += np.exp(w - evidence[n])
    probability = {p: float(np.exp(w - evidence[t])) for p, w in weigh(t).items()}
    marginals, pairs = np.zeros((t, k)), np.zeros((t, k, k))
    for p, w in probability.items():
        for s in range(t):
            marginals[s, p[s]] += w
            if s:
                pairs[s, p[s - 1], p[s]] += w
    return {
        "initial": PI, "transition": a, "emission": e,
        "hmm_filter": {"increments": [evidence[n + 1] - evidence[n] for n in range(t)], "filtered": filtered},
        "hmm_adjoint": {"initial": marginals[0], "transition": pairs, "emission": marginals},
        "hmm_viterbi": list(max(probability, key=probability.get)),
        "hmm_draw": [probability[p] for p in paths],
    }


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hidden_markov.lua"), "w") as out:
    out.write("-- Made by hidden_markov.py: do not edit.\nreturn {\n")
    out.write(f"  enumerated = {text(enumerated())},\n")
    for name, m, x, lengths in models():
        case = {"y": x[:, 0].tolist(), "lengths": lengths}
        starts = np.cumsum([0] + lengths)
        case["log_prob"] = [float(m.score(x[i:j])) for i, j in zip(starts, starts[1:])]
        case["marginals"] = m.predict_proba(x, lengths)
        case["path"] = [int(v) for v in m.predict(x, lengths)]
        if name == "normal":
            case["loc"], case["scale"] = m.means_[:, 0].copy(), np.sqrt(m.covars_[:, 0, 0])
        elif name == "poisson":
            case["rate"] = m.lambdas_[:, 0].copy()
        else:
            case["probs"] = m.emissionprob_.copy()
        case["fitted"] = fitted(name, m, x, lengths)
        out.write(f"  {name} = {text(case)},\n")
    out.write("}\n")
