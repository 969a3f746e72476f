"""Invariances of the likelihood: spec/golden/invariance/linear_model.lua. K x K matrices by NumPy, closed forms and
one-dimensional integrals by mpmath, Gauss-Hermite quadrature for the permutations; no formula of the tested code's kind
(rank-one downdates, sums over subsets) is used.

linear: the model with x = 1, all y = 1, prior variance K, noise 1 / (2 pi e), of Kurle et al. (2022), section 4: exact
evidence, and at the optima of q_mix and q_0 (mean printed and corrected; the corrected one from a numeric maximisation of the
ELBO over mean and variance) the divergences, the expected log likelihood, predictive mean and variance.
general: another x, prior and factor, where the lemmas hold and where they do not. node: the density of a layer-wise
mixture. permutation, toy: gaps of node permutations.

Run: python3 linear_model.py   (needs numpy, scipy, mpmath; writes beside itself)
"""
import itertools
import math
import os

import mpmath as mp
import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

NOISE = 1 / (2 * math.pi * math.e)
mp.mp.dps = 40


def kl(m0, v0, m1, v1):
    p1 = np.linalg.inv(v1)
    d = m1 - m0
    return 0.5 * (np.trace(p1 @ v0) - len(m0) + d @ p1 @ d + np.linalg.slogdet(v1)[1] - np.linalg.slogdet(v0)[1])


def ell(m, v, x, y, noise, scale):
    f, s = scale * x @ m, scale**2 * x @ v @ x
    return sum(-0.5 * math.log(2 * math.pi * noise) - ((t - f) ** 2 + s) / (2 * noise) for t in y)


def gaussians(x, m, V, mu, sigma):
    """mean and covariance of q_0 and of q_mix, by inverses"""
    lam, p = np.linalg.inv(V), np.diag(1 / sigma)
    c0 = np.linalg.inv(lam + p)
    q0 = c0 @ (lam @ m + p @ mu), c0
    g = np.outer(x, x) / (x @ V @ x)
    c1 = np.linalg.inv(g + p)
    return q0, (c1 @ (g @ m + p @ mu), c1)


def evidence(x, y, mu, sigma, noise, scale):
    n = len(y)
    cov = noise * np.eye(n) + scale**2 * (x @ np.diag(sigma) @ x) * np.ones((n, n))
    return multivariate_normal(np.full(n, scale * x @ mu), cov).logpdf(y)


def best_mean_field(K, n):
    """mean and variance of the best isotropic q_0, by maximising the ELBO numerically; back to the factor N(m, lambda)"""
    def loss(t):
        a, v = t[0], math.exp(t[1])
        e = n * (-0.5 * math.log(2 * math.pi * NOISE) - ((1 - a) ** 2 + v / K) / (2 * NOISE))
        return -(e - 0.5 * K * (v / K - 1 + math.log(K / v) + a * a / K))
    best = minimize(loss, [0.5, 0.0], method="BFGS", options={"gtol": 1e-13})
    best = minimize(loss, best.x, method="Nelder-Mead", options={"xatol": 1e-13, "fatol": 1e-15})
    v = math.exp(best.x[1])
    lam = 1 / (1 / v - 1 / K)
    return best.x[0] * lam / v, lam


def row(K, n, m, lam):
    x, y, mu, sigma = np.ones(K), np.ones(n), np.zeros(K), np.full(K, float(K))
    (m0, c0), (m1, c1) = gaussians(x, np.full(K, m), np.eye(K) * lam, mu, sigma)
    prior = np.diag(sigma)
    return dict(K=K, N=n, loc=m, variance=lam, gap=kl(m0, c0, m1, c1), kl_q0=kl(m0, c0, mu, prior),
                kl_q_mix=kl(m1, c1, mu, prior), ell=ell(m0, c0, x, y, NOISE, 1 / K),
                ell_q_mix=ell(m1, c1, x, y, NOISE, 1 / K), mean=x @ m0 / K, variance_of_f=x @ c0 @ x / K**2)


def linear():
    out = []
    for n in (10, 100):
        for K in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 200, 500, 1000):
            for name in ("mix", "printed", "corrected"):
                lam = K * NOISE / n if name == "mix" else K * K * NOISE / n
                m = 1.0
                if name == "corrected":
                    m, found = best_mean_field(K, n)
                    assert abs(found / lam - 1) < 1e-4, (K, n, found, lam)
                    exact = (1 + K * NOISE / n) / (1 + NOISE / n)
                    assert abs(m / exact - 1) < 1e-4, (K, n, m, exact)
                    m = exact
                out.append(dict(name=name, **row(K, n, m, lam)))
    return out


def far():
    """gaps of 10,000 weights, of equation 18 in 40 digits"""
    out = []
    for n in (10, 100):
        noise, K = 1 / (2 * mp.pi * mp.e), mp.mpf(10000)
        for name, lam in (("mix", K * noise / n), ("mean_field", K**2 * noise / n)):
            phi = 1 + K / lam
            out.append(dict(name=name, K=10000, N=n, gap=float((K - 1) / 2 * (mp.log(phi) + 1 / phi - 1))))
    return out


def general():
    x = np.array([1, 2, -0.5, 0.7])
    one = np.ones(4)
    sigma = np.array([1.0, 2, 3, 4])
    m = np.array([0.7, 0.7, -1.1, 1.5])
    full = np.array([[1.0, 0.3, -0.2, 0.1], [0.3, 0.8, 0.1, 0], [-0.2, 0.1, 1.5, 0.4], [0.1, 0, 0.4, 0.9]])
    y = np.full(10, 0.825)
    out = []
    for name, at, V, mu in (("constant", one, np.diag(0.5 * sigma), np.zeros(4)),
                            ("other", one, np.diag([0.1, 1, 3, 0.5]), np.zeros(4)),
                            ("constant, x", x, np.diag(0.5 * sigma), np.zeros(4)),
                            ("mean", x, np.diag([0.1, 1, 3, 0.5]), np.array([0.2, -0.4, 1, 0.3])),
                            ("full", x, full, np.array([0.2, -0.4, 1, 0.3]))):
        (m0, c0), (m1, c1) = gaussians(at, m, V, mu, sigma)
        prior = np.diag(sigma)
        B = np.vstack([np.eye(3), -at[None, :3] / at[3]])
        finite = {}
        for beta in (1, 10, 100):
            p = np.linalg.inv(V + beta**2 * B @ B.T)
            c = np.linalg.inv(p + np.diag(1 / sigma))
            finite[f"b{beta}"] = dict(precision=p, mean=c @ (p @ m + mu / sigma), covariance=c)
        out.append(dict(name=name, x=at, loc=m, covariance=V, prior_mean=mu, prior_variance=sigma, y=y, noise=1.0,
                        evidence=evidence(at, y, mu, sigma, 1.0, 0.25),
                        q0_mean=m0, q0_covariance=c0, q_mix_mean=m1, q_mix_covariance=c1,
                        log_det=np.linalg.slogdet(c1)[1], law_mean=at @ m1, law_variance=at @ c1 @ at,
                        ell_q0=ell(m0, c0, at, y, 1.0, 0.25), ell_q_mix=ell(m1, c1, at, y, 1.0, 0.25),
                        difference=kl(m0, c0, mu, prior) - kl(m1, c1, mu, prior), gap=kl(m0, c0, m1, c1),
                        finite=finite))
    return out


def node():
    rng = np.random.default_rng(5)
    z = np.round(rng.normal(size=(4, 3)), 3)
    z[3] = 0
    m, mu = np.round(rng.normal(size=3), 3), np.round(rng.normal(size=3), 3)
    s, ps = np.round(rng.uniform(0.3, 1.2, 3), 3), np.round(rng.uniform(0.5, 1.5, 3), 3)
    V, sigma = np.diag(s**2), np.diag(ps**2)
    w = np.round(rng.normal(size=(5, 3)) * 1.5, 3)
    density, means, seconds = 0, [], []
    for u in z:
        g = np.outer(u, u) / (u @ V @ u) if u.any() else np.zeros((3, 3))
        c = np.linalg.inv(np.linalg.inv(sigma) + g)
        a = c @ (np.linalg.inv(sigma) @ mu + g @ m)
        density = density + multivariate_normal(a, c).pdf(w) / len(z)
        means.append(a)
        seconds.append(c + np.outer(a, a))
    mean = np.mean(means, 0)
    return dict(inputs=z, loc=m, scale=s, prior_loc=mu, prior_scale=ps, w=w, log_prob=np.log(density), mean=mean,
                covariance=np.mean(seconds, 0) - np.outer(mean, mean))


def permutation_gap(m, v, order=32):
    """of k nodes with means m [k, C] and variance v: the exponents differ from that of the identity by normal numbers in
    the span of the differences of permuted means, over which Gauss-Hermite quadrature goes"""
    k = len(m)
    base = m.ravel()
    diffs = np.array([m[list(p)].ravel() - base for p in itertools.permutations(range(k))]) / math.sqrt(v)
    _, sing, basis = np.linalg.svd(diffs)
    basis = basis[: int((sing > 1e-9 * max(sing.max(), 1e-300)).sum())]
    if len(basis) == 0:
        return 0.0
    t, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    grid = np.stack(np.meshgrid(*[t] * len(basis), indexing="ij"), -1).reshape(-1, len(basis))
    weight = np.prod(np.stack(np.meshgrid(*[w] * len(basis), indexing="ij"), -1), -1).ravel()
    # ln q_0(P w) - ln q_0(w) at w = base + sqrt(v) (grid in the span)
    e = grid @ (basis @ diffs.T) - 0.5 * (diffs**2).sum(1)
    top = e.max(1)
    return float(weight @ (math.log(len(diffs)) - top - np.log(np.exp(e - top[:, None]).sum(1))))


def permutation():
    m = np.array([[-1, 1], [0, -1], [1, 0.5]])
    out = []
    for s in (0, 0.2, 0.5, 1, 2, 5):
        value = permutation_gap(s * m, 0.3)
        out.append(dict(s=s, gap=value, off=abs(value - permutation_gap(s * m, 0.3, 26))))
    return out


def toy():
    out = []
    for a in (0, 0.1, 0.3, 0.5, 1, 2):
        def f(d):
            return mp.log(1 + mp.exp(-2 * a * d / 0.25)) * mp.npdf(d, 2 * a, mp.sqrt(0.5))
        inner = mp.quad(f, mp.linspace(2 * a - 9, 2 * a + 9, 25))
        out.append(dict(a=a, gap=float(mp.log(2) - inner)))
    return out


def text(x):
    if isinstance(x, np.ndarray):
        return text(x.tolist())
    if isinstance(x, (list, tuple)):
        return "{" + ", ".join(text(v) for v in x) + "}"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k} = {text(v)}" for k, v in x.items()) + "}"
    return f'"{x}"' if isinstance(x, str) else repr(float(x)) if isinstance(x, (float, np.floating)) else repr(x)


def main():
    parts = dict(noise=NOISE, evidence={f"n{n}": evidence(np.ones(3), np.ones(n), np.zeros(3), np.full(3, 3.0), NOISE, 1 / 3)
                                        for n in (10, 100)},
                 linear=linear(), far=far(), general=general(), node=node(), permutation=permutation(), toy=toy())
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "linear_model.lua"), "w") as f:
        f.write("-- Made by linear_model.py.\nreturn {\n")
        for name, value in parts.items():
            if isinstance(value, list):
                f.write(f"  {name} = {{\n" + "".join(f"    {text(v)},\n" for v in value) + "  },\n")
            else:
                f.write(f"  {name} = {text(value)},\n")
        f.write("}\n")


main()
