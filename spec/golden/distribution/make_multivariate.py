"""Reference values for distributions of vectors and matrices: spec/golden/distribution/<name>.lua, from mpmath at 40 digits.

Densities are written with determinants and inverses, not with the factors that the library uses. What SciPy knows is
compared with SciPy, entropies and divergences without an own oracle with averages over SciPy's draws.

Run: python3 make_multivariate.py [name...]   (needs numpy, scipy, mpmath; writes beside itself)
"""
import math
import sys
import numpy as np
from mpmath import mp, mpf, log, pi, loggamma, digamma, inf, nan
from scipy import stats
from make import write

mp.dps = 40
rows = {}


def row(make):
    rows[make.__name__] = lambda: write(make.__name__, *make(), script="make_multivariate.py")
    return make


def M(a):
    return mp.matrix(np.array(a, dtype=float).tolist())


def arr(m):
    return [[float(m[i, j]) for j in range(m.cols)] for i in range(m.rows)]


def vec(m):
    return [float(v) for v in m]


def logdet(m):
    return log(mp.det(m))


def trace(m):
    return sum(m[i, i] for i in range(m.rows))


def quad(m, y):
    return (y.T * m * y)[0]


def near(got, want, rel=1e-9, what=""):
    got, want = np.array(got, dtype=float), np.array(want, dtype=float)
    assert np.all(np.abs(got - want) <= rel * np.maximum(1, np.abs(want))), (what, got, want)


def average(f, draws, value, what):
    """The mean of f over draws is `value` within 5 standard errors."""
    y = np.array([float(f(x)) for x in draws])
    assert abs(y.mean() - float(value)) < 5 * y.std() / math.sqrt(len(y)), (what, y.mean(), float(value))


rng = np.random.default_rng(7)


# ---- dirichlet ----
@row
def dirichlet():
    def log_pdf(a, x):
        return loggamma(sum(a)) - sum(loggamma(v) for v in a) + sum((v - 1) * log(t) if v != 1 else mpf(0) for v, t in zip(a, x))

    def entropy(a):
        n = sum(a)
        return (sum(loggamma(v) for v in a) - loggamma(n) + (n - len(a)) * digamma(n) - sum((v - 1) * digamma(v) for v in a))

    def kl(a, b):
        n = sum(a)
        return (loggamma(n) - sum(loggamma(v) for v in a) - loggamma(sum(b)) + sum(loggamma(v) for v in b)
                + sum((v - w) * (digamma(v) - digamma(n)) for v, w in zip(a, b)))

    def case(a, x, mode, extreme=False):
        a_ = [mpf(v) for v in a]
        n = sum(a_)
        lp = [log_pdf(a_, [mpf(t) for t in p]) for p in x]
        if not extreme:
            near(lp, [stats.dirichlet.logpdf(np.array(p) / sum(p), a) for p in x], 1e-8)
            near(entropy(a_), stats.dirichlet.entropy(a), 1e-8)
        return dict(params=dict(concentration=a), extreme=extreme or None, x=x, log_prob=vec(lp), mean=[float(v / n) for v in a_],
                    variance=[float(v * (n - v) / n ** 2 / (n + 1)) for v in a_], entropy=float(entropy(a_)), mode=mode)

    cases = [case([2.0, 3.5], [[0.3, 0.7], [0.01, 0.99], [0.875, 0.125]], [1 / 3.5, 2.5 / 3.5]),
             case([0.7, 1.6], [[0.3, 0.7], [0.01, 0.99], [0.875, 0.125]], [0, 1]),
             case([2.0, 3.0, 5.0], [[0.2, 0.3, 0.5], [0.05, 0.9, 0.05], [0.25, 0.25, 0.5]], [1 / 7, 2 / 7, 4 / 7]),
             case([0.5, 1.5, 4.0], [[0.2, 0.3, 0.5], [0.0625, 0.875, 0.0625]], [0, 0.5 / 3.5, 3 / 3.5]),
             case([1.0, 1.0, 1.0, 1.0], [[0.25] * 4, [0.0, 0.5, 0.5, 0.0]], [0.25] * 4, extreme=True),
             case([1e-3, 1e-3, 2e-3], [[1e-300, 0.5, 0.5], [1e-9, 1e-12, 1.0]], [0, 0, 1], extreme=True),
             case([1e4, 2e4, 5e3, 1.0], [[0.28, 0.57, 0.125, 0.025], [0.25, 0.25, 0.25, 0.25]], [9999 / 34996, 19999 / 34996, 4999 / 34996 - 0.0, 0.0], extreme=True)]
    m = np.array([9999.0, 19999.0, 4999.0, 0.0])
    cases[-1]["mode"] = list(m / m.sum())
    pairs = [([2.0, 3.0, 5.0], [1.0, 1.0, 1.0]), ([0.5, 1.5, 4.0], [1.0, 1.0, 1.0]), ([10.0] * 10, [1.0] * 10),
             ([100.0, 1.0, 1.0], [1.0, 1.0, 1.0]), ([1.0, 1.0, 1.0], [2.0, 3.0, 5.0]), ([0.3, 0.4], [5.0, 2.0])]
    kls = [(dict(concentration=p), dict(concentration=q), float(kl([mpf(v) for v in p], [mpf(v) for v in q]))) for p, q in pairs]
    near([k[2] for k in kls[:4]], [.768034844169189, 1.50100238770459, 6.95726935825627, 6.55694550246743], 1e-12)  # spec-004, E6
    return cases, kls


# ---- normal with low-rank covariance ----
def gaussian(mean, cov):
    """log density, entropy at (mean, cov), matrices of mpmath"""
    n, inverse, ld = len(mean), cov ** -1, logdet(cov)
    return (lambda x: -(quad(inverse, M(x) - M(mean)) + ld + n * log(2 * pi)) / 2), (ld + n * (1 + log(2 * pi))) / 2


def gaussian_kl(mp_, sp, mq, sq):
    inverse = sq ** -1
    return (trace(inverse * sp) + quad(inverse, M(mq) - M(mp_)) - len(mp_) + logdet(sq) - logdet(sp)) / 2


def low_rank(w, diag):
    w = M(w)
    return w * w.T + mp.diag([mpf(v) for v in diag])


FACTOR = [[[0.8, 0.3], [-0.4, 0.9]], [[1.2], [-0.5], [0.3], [2.0]], [[0.3, 0.1, 0.0], [0.2, -0.7, 0.4], [0.5, 0.5, 0.1], [0.0, 0.2, 1.1]]]


@row
def multivariate_normal():
    givens = ("covariance_matrix", "precision_matrix", "scale_tril")

    def named(loc, cov, given):
        cov = np.array(cov)
        value = {"covariance_matrix": cov, "scale_tril": np.linalg.cholesky(cov), "precision_matrix": np.linalg.inv(cov)}[given]
        return dict(loc=loc, **{given: (value + value.T) / 2 if given == "precision_matrix" else value})

    def covariance(params):
        """of the numbers as the library gets them, at 40 digits"""
        for given in givens:
            if given in params:
                m = M(params[given])
                return m if given == "covariance_matrix" else m ** -1 if given == "precision_matrix" else m * m.T

    def case(loc, cov, given, z=None, extreme=False):
        n, params = len(loc), named(loc, cov, given)
        exact = covariance(params)
        lp, h = gaussian(loc, exact)
        z = z or [[0.0] * n, [0.4, -1.1, 0.8, 0.2][:n], [5.0, 3.0, -9.0, 1.0][:n]]
        x = [list(np.array(loc) + np.linalg.cholesky(np.array(cov)) @ np.array(v)) for v in z]
        if not extreme:
            d = stats.multivariate_normal(loc, np.array(cov))
            near([lp(v) for v in x], [d.logpdf(v) for v in x], 1e-8)
            near(h, d.entropy(), 1e-8)
        return dict(params=params, extreme=extreme or None, x=x, log_prob=[float(lp(v)) for v in x], mean=loc,
                    variance=[float(exact[i, i]) for i in range(n)], mode=loc, entropy=float(h))

    two_loc, four_loc = [0.3, -1.0], [1.0, 2.0, -0.5, 0.0]
    four = [[1.5, 0.3, -0.2, 0.1], [0.3, 0.9, 0.25, 0.0], [-0.2, 0.25, 2.5, 0.4], [0.1, 0.0, 0.4, 0.6]]
    ten = [[0.9 ** abs(i - j) for j in range(10)] for i in range(10)]
    close = [[1.0, 0.9999], [0.9999, 1.0]]
    far = [[0.0, 0.0], [1.0, -1.0], [1000.0, 1000.0]]  # log density about -1e6
    cases = [case(two_loc, TWO, given) for given in givens] + [case(four_loc, four, given) for given in givens]
    cases += [case([0.5], [[4.0]], "scale_tril", [[0.0], [0.4], [5.0]])]
    cases += [case(two_loc, s, given, far, True) for s in (STEEP, close) for given in givens]
    cases += [case([1e3 * (-1) ** k for k in range(10)], ten, given, [[0.0] * 10, [math.sin(k) for k in range(10)], [500.0] * 10], True) for given in givens]

    kls = []
    for (m, s, g), (m2, s2, g2) in [((two_loc, TWO, givens[0]), ([0.0, 0.5], OTHER, givens[0])), (([0.0, 0.5], OTHER, givens[2]), (two_loc, TWO, givens[1])),
                                    ((four_loc, four, givens[1]), ([0.0, 1.0, 0.5, 0.3], np.eye(4) * 2, givens[2]))]:
        p, q = named(m, s, g), named(m2, s2, g2)
        kls.append((p, q, float(gaussian_kl(m, covariance(p), m2, covariance(q)))))
    return cases, kls


@row
def low_rank_multivariate_normal():
    def case(loc, w, diag, z, extreme=False):
        cov = low_rank(w, diag)
        lp, h = gaussian(loc, cov)
        half = np.linalg.cholesky(np.array(arr(cov)))
        x = [list(np.array(loc) + half @ np.array(v)) for v in z]
        return dict(params=dict(loc=loc, cov_factor=w, cov_diag=diag), extreme=extreme or None, x=x, log_prob=[float(lp(v)) for v in x],
                    mean=loc, variance=[float(cov[i, i]) for i in range(len(loc))], mode=loc, entropy=float(h))

    two, four = [[0.0, 0.0], [0.4, -1.1], [3.0, 5.0]], [[0.0] * 4, [0.4, -1.1, 0.8, 0.2], [5.0, 3.0, -9.0, 1.0]]
    cases = [case([0.3, -1.0], FACTOR[0], [0.5, 1.5], two), case([0.3, -1.0], [[0.7], [1.1]], [0.25, 0.5], two),
             case([1.0, 2.0, -0.5, 0.0], FACTOR[1], [0.5, 1.0, 0.7, 2.0], four), case([1.0, 2.0, -0.5, 0.0], FACTOR[2], [0.5, 1.0, 0.7, 0.1], four),
             case([0.3, -1.0], [[1e3], [2e3]], [1e-3, 1e-2], [[0.0, 0.0], [0.5, 0.25], [100.0, 1000.0]], True),
             case([1e3, -1e4, 0.5, 0.0], FACTOR[1], [1e6, 1e-6, 1.0, 1e3], four, True)]
    kls = []
    for p, q in [(([0.3, -1.0], FACTOR[0], [0.5, 1.5]), ([0.0, 0.2], [[0.7], [1.1]], [0.25, 0.5])),
                 (([1.0, 2.0, -0.5, 0.0], FACTOR[1], [0.5, 1.0, 0.7, 2.0]), ([0.0, 1.0, 0.5, 0.3], FACTOR[2], [0.5, 1.0, 0.7, 0.1]))]:
        for s, t in ((p, q), (q, p)):
            name = ("loc", "cov_factor", "cov_diag")
            kls.append((dict(zip(name, s)), dict(zip(name, t)), float(gaussian_kl(s[0], low_rank(*s[1:]), t[0], low_rank(*t[1:])))))
    return cases, kls


# ---- mean and variance of a normal ----
def inverse_gamma_entropy(a, b):
    return a + log(b) + loggamma(a) - (1 + a) * digamma(a)


def inverse_gamma_kl(ap, bp, aq, bq):
    return (ap - aq) * digamma(ap) - loggamma(ap) + loggamma(aq) + aq * log(bp / bq) + ap * (bq - bp) / bp


@row
def normal_inverse_gamma():
    name = ("loc", "count", "concentration", "rate")

    def log_pdf(m, k, a, b, x):
        mu, v = mpf(x[0]), mpf(x[1])
        return (log(k / (2 * pi * v)) - k * (mu - m) ** 2 / v) / 2 + a * log(b) - loggamma(a) - (a + 1) * log(v) - b / v

    def case(values, x, extreme=False, heavy=False):
        m, k, a, b = map(mpf, values)
        lp = [log_pdf(m, k, a, b, p) for p in x]
        near(lp, [stats.norm.logpdf(mu, values[0], math.sqrt(v / values[1])) + stats.invgamma.logpdf(v, values[2], scale=values[3]) for mu, v in x], 1e-8)
        ev = b / (a - 1) if a > 1 else inf
        mean = [m if a > 0.5 else nan, ev]
        variance = [ev / k if a > 0.5 else nan, (ev ** 2 / (a - 2) if a > 2 else inf) if a > 1 else nan]
        entropy = (log(2 * pi) + 1 - log(k)) / 2 + (log(b) - digamma(a)) / 2 + inverse_gamma_entropy(a, b)
        if not extreme:
            v = stats.invgamma.rvs(values[2], scale=values[3], size=20000, random_state=rng)
            mu = stats.norm.rvs(values[0], np.sqrt(v / values[1]), random_state=rng)
            average(lambda p: -log_pdf(m, k, a, b, p), np.stack([mu, v], 1), entropy, "entropy")
        return dict(params=dict(zip(name, values)), extreme=extreme or None, heavy=heavy or None, x=x, log_prob=vec(lp), mean=vec(mean),
                    variance=vec(variance), mode=vec([m, b / (a + mpf(3) / 2)]), entropy=float(entropy))

    x = [[0.3, 1.2], [-2.0, 0.5], [1.5, 7.0]]
    cases = [case((0.4, 2.0, 8.0, 6.0), x), case((-1.0, 0.3, 12.0, 9.0), x), case((0.0, 5.0, 6.5, 2.0), x), case((0.4, 2.0, 3.0, 2.5), x, heavy=True),
             case((0.4, 1.0, 1.5, 2.0), x, True), case((0.4, 1.0, 0.8, 2.0), x, True), case((0.4, 1.0, 0.3, 2.0), x, True),
             case((1e3, 1e4, 1e4, 1e-2), [[1e3, 1e-6], [1e3 + 1e-3, 2e-6]], True), case((0.0, 1e-6, 1e-2, 1e-6), [[1e3, 1.0], [0.0, 1e-5]], True)]
    kls = []
    for p, q in [((0.4, 2.0, 8.0, 6.0), (-0.3, 1.0, 6.0, 9.0)), ((0.0, 5.0, 2.0, 2.0), (1.0, 0.5, 3.0, 1.0)), ((0.0, 5.0, 0.5, 2.0), (1.0, 0.5, 3.0, 1.0))]:
        for s, t in ((p, q), (q, p)):
            (mp_, kp, ap, bp), (mq, kq, aq, bq) = map(lambda u: tuple(map(mpf, u)), (s, t))
            value = (kq / kp - 1 - log(kq / kp) + kq * (mp_ - mq) ** 2 * ap / bp) / 2 + inverse_gamma_kl(ap, bp, aq, bq)
            if ap > 1:
                v = stats.invgamma.rvs(s[2], scale=s[3], size=20000, random_state=rng)
                mu = stats.norm.rvs(s[0], np.sqrt(v / s[1]), random_state=rng)
                average(lambda z: log_pdf(mp_, kp, ap, bp, z) - log_pdf(mq, kq, aq, bq, z), np.stack([mu, v], 1), value, "kl")
            kls.append((dict(zip(name, s)), dict(zip(name, t)), float(value)))
    return cases, kls


# ---- covariances ----
def lgamma_n(n, a):
    return mpf(n * (n - 1)) / 4 * log(pi) + sum(loggamma(a - mpf(i) / 2) for i in range(n))


def digamma_n(n, a):
    return sum(digamma(a - mpf(i) / 2) for i in range(n))


TWO, OTHER = [[2.0, 0.6], [0.6, 0.5]], [[1.0, -0.2], [-0.2, 0.7]]
THREE = [[1.5, 0.3, -0.2], [0.3, 0.9, 0.25], [-0.2, 0.25, 2.5]]
THIRD = [[0.8, 0.1, 0.3], [0.1, 1.4, -0.3], [0.3, -0.3, 0.6]]
STEEP = [[1e6, 3.0], [3.0, 1e-4]]


def scale(given, s):
    return {given: np.array(s) if given == "scale_matrix" else np.linalg.cholesky(np.array(s))}


def shake(s, n):
    """A few members near multiples of s."""
    half, out = np.linalg.cholesky(np.array(s)), []
    for low in ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.7, 0.0, 0.0], [0.4, 0.6, 0.0], [-0.3, 0.5, 1.2]],
                [[0.3, 0.0, 0.0], [-0.2, 2.0, 0.0], [0.1, 0.7, 0.5]]):
        a = half @ np.array(low)[:n, :n]
        x = a @ a.T
        out.append((x + x.T) / 2)
    return out


def wishart_parts(nu, s):
    """log density, entropy, E log det"""
    nu, v, n = mpf(nu), M(s), len(s)
    inverse, ld = v ** -1, logdet(M(s))
    norm = nu * n / 2 * log(mpf(2)) + nu / 2 * ld + lgamma_n(n, nu / 2)
    expected = digamma_n(n, nu / 2) + n * log(mpf(2)) + ld
    return (lambda x: (nu - n - 1) / 2 * logdet(M(x)) - trace(inverse * M(x)) / 2 - norm), norm - (nu - n - 1) / 2 * expected + nu * n / 2, expected


def inverse_wishart_parts(nu, s):
    nu, v, n = mpf(nu), M(s), len(s)
    ld = logdet(v)
    norm = nu * n / 2 * log(mpf(2)) - nu / 2 * ld + lgamma_n(n, nu / 2)
    expected = ld - n * log(mpf(2)) - digamma_n(n, nu / 2)
    return (lambda x: -(nu + n + 1) / 2 * logdet(M(x)) - trace(v * M(x) ** -1) / 2 - norm), norm + (nu + n + 1) / 2 * expected + nu * n / 2, expected


def wishart_kl(nu_p, s_p, nu_q, s_q):
    n, a, b = len(s_p), mpf(nu_p), mpf(nu_q)
    r = M(s_q) ** -1 * M(s_p)
    return (a * (trace(r) - n) - b * logdet(r)) / 2 + lgamma_n(n, b / 2) - lgamma_n(n, a / 2) + (a - b) / 2 * digamma_n(n, a / 2)


@row
def wishart():
    def case(nu, s, given, x=None, extreme=False):
        n, v = len(s), np.array(s)
        x = x or [m * nu for m in shake(s, n)]
        lp, h, expected = wishart_parts(nu, s)
        values = [lp(m) for m in x]
        if not extreme:
            near(values, [stats.wishart.logpdf(m, nu, v) for m in x], 1e-8)
            near(h, stats.wishart.entropy(nu, v), 1e-8)
            average(lambda m: np.linalg.slogdet(m)[1], stats.wishart.rvs(nu, v, size=4000, random_state=rng).reshape(-1, n, n), expected, "log det")
        return dict(params=dict(df=nu, **scale(given, s)), extreme=extreme or None, x=x, log_prob=vec(values), mean=nu * v,
                    variance=nu * (v ** 2 + np.outer(np.diag(v), np.diag(v))), mode=max(nu - n - 1, 0) * v, entropy=float(h))

    cases = [case(7.5, TWO, "scale_matrix"), case(5.0, OTHER, "scale_tril"), case(9.0, THREE, "scale_matrix"), case(8.5, THREE, "scale_tril"),
             case(4.0, [[0.7]], "scale_matrix"), case(2.0, TWO, "scale_matrix", None, True), case(1e4, TWO, "scale_tril", None, True),
             case(6.0, STEEP, "scale_matrix", None, True), case(0.01, [[3.0]], "scale_matrix", [[[1e-30]], [[2.0]]], True)]
    cases[4]["params"]["scale_matrix"] = [[0.7]]
    kls = []
    for (a, s), (b, t) in [((7.5, TWO), (5.0, OTHER)), ((9.0, THREE), (4.0, THIRD)), ((2.5, [[1.0]]), (4.0, [[3.0]]))]:
        for p, q, g in (((a, s), (b, t), "scale_matrix"), ((b, t), (a, s), "scale_tril")):
            kls.append((dict(df=p[0], **scale(g, p[1])), dict(df=q[0], **scale(g, q[1])), float(wishart_kl(*p, *q))))
    return cases, kls


def inverse_wishart_moments(nu, s):
    n, v = len(s), np.array(s)
    own = np.outer(np.diag(v), np.diag(v))
    mean = v / (nu - n - 1) if nu > n + 1 else v * math.nan
    bottom = (nu - n) * (nu - n - 1) ** 2 * (nu - n - 3)
    return mean, ((nu - n + 1) * v ** 2 + (nu - n - 1) * own) / bottom if nu > n + 3 else v * math.nan


@row
def inverse_wishart():
    def case(nu, s, given, x=None, extreme=False, heavy=False):
        n, v = len(s), np.array(s)
        x = x or [m / nu for m in shake(s, n)]
        lp, h, expected = inverse_wishart_parts(nu, s)
        values = [lp(m) for m in x]
        mean, variance = inverse_wishart_moments(nu, s)
        if not extreme:
            near(values, [stats.invwishart.logpdf(m, nu, v) for m in x], 1e-8)
            # SciPy 1.17 takes log(2) for n log(2) in this entropy: right for n = 1 only
            average(lambda m: -lp(m), stats.invwishart.rvs(nu, v, size=2000, random_state=rng).reshape(-1, n, n), h, "entropy")
            if n == 1:
                near(h, stats.invwishart.entropy(nu, v), 1e-8)
            if not heavy:
                near(variance, stats.invwishart.var(nu, v) if n > 1 else variance, 1e-10)
        return dict(params=dict(df=nu, **scale(given, s)), extreme=extreme or None, heavy=heavy or None, x=x, log_prob=vec(values), mean=mean,
                    variance=variance, mode=v / (nu + n + 1), entropy=float(h))

    cases = [case(16.0, TWO, "scale_matrix"), case(18.0, OTHER, "scale_tril"), case(20.0, THREE, "scale_matrix"), case(6.5, TWO, "scale_tril", heavy=True),
             case(19.0, [[0.7]], "scale_matrix"), case(4.5, THREE, "scale_matrix", None, True), case(2.0, TWO, "scale_matrix", None, True),
             case(1e4, TWO, "scale_tril", None, True), case(9.0, STEEP, "scale_matrix", None, True)]
    kls = []
    for (a, s), (b, t) in [((7.5, TWO), (5.0, OTHER)), ((9.0, THREE), (4.0, THIRD)), ((2.5, [[1.0]]), (4.0, [[3.0]]))]:
        for p, q, g in (((a, s), (b, t), "scale_matrix"), ((b, t), (a, s), "scale_tril")):
            value = wishart_kl(p[0], arr(M(p[1]) ** -1), q[0], arr(M(q[1]) ** -1))  # the inverses are Wishart
            kls.append((dict(df=p[0], **scale(g, p[1])), dict(df=q[0], **scale(g, q[1])), float(value)))
    return cases, kls


@row
def normal_inverse_wishart():
    def log_pdf(m, k, nu, s):
        lp = inverse_wishart_parts(nu, s)[0]
        return lambda x: lp(x[1:]) + gaussian(m, M(x[1:]) / mpf(k))[0](x[0])

    def draws(m, k, nu, s, size):
        x = stats.invwishart.rvs(nu, np.array(s), size=size, random_state=rng).reshape(-1, len(s), len(s))
        return [np.vstack([stats.multivariate_normal.rvs(m, v / k, random_state=rng), v]) for v in x]

    def named(m, k, nu, s, given):
        return dict(loc=m, count=k, df=nu, **scale(given, s))

    def case(m, k, nu, s, given, extreme=False, heavy=False):
        n, v = len(s), np.array(s)
        x = [np.vstack([np.array(m) + d, c / nu]) for d, c in zip(np.array([[0.0, 0.0, 0.0], [0.4, -0.7, 0.1], [1.5, 0.3, -0.8]])[:, :n], shake(s, n))]
        lp = log_pdf(m, k, nu, s)
        _, h, expected = inverse_wishart_parts(nu, s)
        mean, variance = inverse_wishart_moments(nu, s)
        entropy = h + (n * (1 + log(2 * pi) - log(mpf(k))) + expected) / 2
        if not extreme and not heavy:
            average(lambda p: -lp(p), draws(m, k, nu, s, 1500), entropy, "entropy")
        loc = np.array(m) if nu > n else np.array(m) * math.nan
        return dict(params=named(m, k, nu, s, given), extreme=extreme or None, heavy=heavy or None, x=x, log_prob=[float(lp(p)) for p in x],
                    mean=np.vstack([loc, mean]), variance=np.vstack([np.diag(mean) / k, variance]), mode=np.vstack([m, v / (nu + n + 2)]),
                    entropy=float(entropy))

    cases = [case([0.3, -1.0], 2.0, 16.0, TWO, "scale_matrix"), case([0.3, -1.0], 0.5, 18.0, OTHER, "scale_tril"),
             case([0.5], 3.0, 19.0, [[0.7]], "scale_matrix"), case([1.0, 2.0, -0.5], 2.0, 20.0, THREE, "scale_matrix"),
             case([0.3, -1.0], 2.0, 6.5, TWO, "scale_tril", heavy=True), case([0.3, -1.0], 2.0, 2.5, TWO, "scale_tril", True),
             case([0.3, -1.0], 2.0, 2.0, TWO, "scale_tril", True), case([300.0, -1e5], 1e4, 1e4, STEEP, "scale_matrix", True)]
    kls = []
    for p, q in [(([0.3, -1.0], 2.0, 7.5, TWO), ([0.0, -0.5], 1.0, 5.0, OTHER)), (([1.0, 2.0, -0.5], 2.0, 9.0, THREE), ([0.0, 1.0, 0.5], 0.7, 6.0, THIRD))]:
        for s, t, g in ((p, q, "scale_matrix"), (q, p, "scale_tril")):
            (m, k, nu, v), (m2, k2, nu2, v2) = s, t
            n, ratio = len(v), mpf(k2) / mpf(k)
            value = wishart_kl(nu, arr(M(v) ** -1), nu2, arr(M(v2) ** -1))
            value += (n * (ratio - 1 - log(ratio)) + mpf(k2) * mpf(nu) * quad(M(v) ** -1, M(m) - M(m2))) / 2
            average(lambda x: log_pdf(*s)(x) - log_pdf(*t)(x), draws(*s, 1500), value, "kl")
            kls.append((named(*s, g), named(*t, g), float(value)))
    return cases, kls


# ---- Student's t ----
@row
def multivariate_student_t():
    def case(nu, loc, s, given, z, extreme=False, heavy=False):
        n, v, m = len(s), np.array(s), mpf(nu)
        half = np.linalg.cholesky(v)
        x = [list(np.array(loc) + half @ np.array(u)[:n]) for u in z]
        inverse, ld, h = M(s) ** -1, logdet(M(s)), m / 2
        norm = loggamma(h + mpf(n) / 2) - loggamma(h) - mpf(n) / 2 * log(m * pi) - ld / 2
        lp = [norm - (m + n) / 2 * mp.log1p(quad(inverse, M(u) - M(loc)) / m) for u in x]
        entropy = -norm + (m + n) / 2 * (digamma(h + mpf(n) / 2) - digamma(h))
        if not extreme:
            d = stats.multivariate_t(loc, v, nu)
            near(lp, [d.logpdf(u) for u in x], 1e-8)
            average(lambda u: -d.logpdf(u), d.rvs(4000, random_state=rng).reshape(-1, n), entropy, "entropy")
        mean = np.array(loc) * (1 if nu > 1 else math.nan)
        variance = np.diag(v) * (nu / (nu - 2) if nu > 2 else math.inf if nu > 1 else math.nan)
        return dict(params=dict(df=nu, loc=loc, **scale(given, s)), extreme=extreme or None, heavy=heavy or None, x=x, log_prob=vec(lp), mean=mean,
                    variance=variance, mode=loc, entropy=float(entropy))

    z = [[0.0, 0.0, 0.0], [0.4, -1.1, 0.8], [5.0, 3.0, -9.0]]
    far = z[:2] + [[1e6, 1e5, -1e6]]
    cases = [case(12.0, [0.3, -1.0], TWO, "scale_matrix", z), case(30.0, [0.3, -1.0], OTHER, "scale_tril", z),
             case(15.0, [1.0, 2.0, -0.5], THREE, "scale_matrix", z), case(14.0, [0.5], [[4.0]], "scale_tril", z),
             case(3.0, [0.3, -1.0], TWO, "scale_matrix", z, heavy=True), case(1.5, [1.0, 2.0, -0.5], THREE, "scale_matrix", far, True),
             case(0.8, [0.3, -1.0], TWO, "scale_matrix", far, True), case(1e8, [1.0, 2.0, -0.5], THREE, "scale_tril", z, True),
             case(1e12, [0.3, -1.0], STEEP, "scale_matrix", z, True), case(1e-2, [0.3, -1.0], TWO, "scale_matrix", far, True)]
    return cases, []


# ---- matrices ----
def kron(u, v):
    a, b = np.array(u), np.array(v)
    return M(np.kron(a, b))


@row
def matrix_normal():
    def named(loc, u, v, given_row, given_column):
        first = scale("scale_" + given_row, u) if given_row == "matrix" else scale("scale_tril", u)
        return {"loc": loc, ("covariance_row" if given_row == "matrix" else "scale_tril_row"): list(first.values())[0],
                ("covariance_column" if given_column == "matrix" else "scale_tril_column"): v if given_column == "matrix" else np.linalg.cholesky(np.array(v))}

    def case(loc, u, v, given_row="matrix", given_column="matrix", extreme=False):
        loc, cov = np.array(loc), kron(u, v)  # of the rows of X one after the other
        n, m = loc.shape
        lp, h = gaussian(loc.reshape(-1), cov)
        z = [np.zeros((n, m)), np.cos(np.arange(1, n * m + 1)).reshape(n, m), 4 * np.sin(np.arange(n * m) ** 2).reshape(n, m)]
        x = [loc + np.linalg.cholesky(np.array(u)) @ e @ np.linalg.cholesky(np.array(v)).T for e in z]
        values = [lp(y.reshape(-1)) for y in x]
        if not extreme:
            near(values, [stats.matrix_normal.logpdf(y, loc, np.array(u), np.array(v)) for y in x], 1e-8)
        return dict(params=named(loc, u, v, given_row, given_column), extreme=extreme or None, x=x, log_prob=vec(values), mean=loc,
                    variance=np.outer(np.diag(u), np.diag(v)), mode=loc, entropy=float(h))

    square, wide = [[0.3, -1.0], [0.5, 2.0]], [[0.3, -1.0, 0.5], [1.0, 0.0, -2.0]]
    cases = [case(square, TWO, OTHER), case(square, OTHER, TWO, "tril", "tril"), case(wide, TWO, THREE, "matrix", "tril"), case(np.array(wide).T, THREE, OTHER, "tril"),
             case([[0.3, -1.0]], [[0.7]], TWO), case([[0.3], [-1.0]], TWO, [[2.0]], "tril"), case(square, STEEP, TWO, extreme=True)]
    kls = []
    for (loc, u, v), (loc2, u2, v2) in [((square, TWO, OTHER), ([[0.0, 0.0], [1.0, 1.0]], OTHER, [[0.5, 0.1], [0.1, 2.0]])), ((wide, TWO, THREE), (np.zeros((2, 3)), OTHER, THIRD))]:
        for (a, b, c), (d, e, f), g in (((loc, u, v), (loc2, u2, v2), "matrix"), ((loc2, u2, v2), (loc, u, v), "tril")):
            value = gaussian_kl(np.array(a).reshape(-1), kron(b, c), np.array(d).reshape(-1), kron(e, f))
            kls.append((named(np.array(a), b, c, g, g), named(np.array(d), e, f, g, g), float(value)))
    return cases, kls


# ---- correlations ----
@row
def lkj_cholesky():
    def log_norm(n, eta):
        """Lewandowski, Kurowicka & Joe 2009, eq. 16 for the density of R: the volume by partial correlations."""
        total = mpf(0)
        for k in range(1, n):  # correlation of two given k - 1 others: Beta(b, b) on (-1, 1), b = eta + (n - 1 - k) / 2, n - k times
            b = eta + mpf(n - 1 - k) / 2
            total += (n - k) * ((2 * b - 1) * log(mpf(2)) + 2 * loggamma(b) - loggamma(2 * b))
        return total

    def lp(n, eta, l):
        """det R^(eta - 1) and the Jacobian of L to R, prod L_ii^(n - i), i = 1 .. n"""
        return sum((2 * (eta - 1) + n - i) * log(mpf(l[i - 1][i - 1])) for i in range(2, n + 1)) - log_norm(n, eta)

    def moments(n, eta):
        """L_ii^2 ~ Beta(b, (i - 1) / 2), its other part spread evenly over i - 1 entries"""
        mean, variance, expected = np.zeros((n, n)), np.zeros((n, n)), []
        mean[0, 0] = 1
        for i in range(2, n + 1):
            b, a = eta + mpf(n - i) / 2, mpf(i - 1) / 2
            m = mp.beta(b + mpf(1) / 2, a) / mp.beta(b, a)
            mean[i - 1, i - 1], variance[i - 1, i - 1] = m, b / (a + b) - m ** 2
            variance[i - 1, :i - 1] = a / (a + b) / (i - 1)
            expected.append((digamma(b) - digamma(a + b)) / 2)
        return mean, variance, expected

    def member(n, seed):
        a = np.random.default_rng(seed).normal(size=(n, n + 2))
        r = a @ a.T
        s = 1 / np.sqrt(np.diag(r))
        return np.linalg.cholesky(r * np.outer(s, s))

    def case(n, eta, extreme=False):
        x = [member(n, k) for k in (1, 2, 3)]
        mean, variance, expected = moments(n, mpf(eta))
        value = mpf(lp(n, mpf(eta), np.eye(n)))
        entropy = -value - sum((2 * (eta - 1) + n - i) * e for i, e in zip(range(2, n + 1), expected))
        if n == 2:  # R_12 is L_21, Beta(eta, eta) on (-1, 1)
            near([lp(n, mpf(eta), l) for l in x], [stats.beta.logpdf((l[1, 0] + 1) / 2, eta, eta) - math.log(2) for l in x], 1e-8)
            near(entropy, stats.beta.entropy(eta, eta) + math.log(2), 1e-8)
        return dict(params=dict(dimension=n, concentration=eta), extreme=extreme or None, x=x, log_prob=[float(lp(n, mpf(eta), l)) for l in x], mean=mean,
                    variance=variance, mode=np.eye(n) if eta >= 1 else np.eye(n) * math.nan, entropy=float(entropy))

    cases = [case(2, 1.7), case(2, 0.6), case(3, 1.0), case(3, 2.5), case(5, 0.8), case(4, 6.0), case(1, 2.0, True), case(6, 1e-2, True), case(4, 300.0, True),
             case(8, 1.0, True)]
    kls = []
    for n, p, q in [(2, 1.7, 0.6), (3, 1.0, 4.0), (5, 3.0, 0.8)]:
        for a, b in ((p, q), (q, p)):
            expected = moments(n, mpf(a))[2]
            value = 2 * (mpf(a) - mpf(b)) * sum(expected) + log_norm(n, mpf(b)) - log_norm(n, mpf(a))
            if n == 2:
                u, v = (stats.beta(t, t, loc=-1, scale=2) for t in (a, b))
                from scipy.integrate import quad as integrate
                near(value, integrate(lambda r: u.pdf(r) * (u.logpdf(r) - v.logpdf(r)), -1, 1, epsabs=1e-12)[0], 1e-6)
            kls.append((dict(dimension=n, concentration=a), dict(dimension=n, concentration=b), float(value)))
    return cases, kls


# ---- random walk ----
@row
def gaussian_random_walk():
    def covariance(s, n):
        return M([[float(min(i, j) + 1) for j in range(n)] for i in range(n)]) * mpf(s) ** 2

    def case(s, n, extreme=False):
        cov = covariance(s, n)
        lp, h = gaussian([0.0] * n, cov)
        x = [[0.0] * n, [s * math.sin(3 * k + 1) for k in range(n)], [s * (k + 1) * 1.5 for k in range(n)]]
        return dict(params=dict(scale=s, num_steps=n), extreme=extreme or None, x=x, log_prob=[float(lp(v)) for v in x], mean=[0.0] * n,
                    variance=[float(cov[k, k]) for k in range(n)], mode=[0.0] * n, entropy=float(h))

    kls = [(dict(scale=a, num_steps=n), dict(scale=b, num_steps=n), float(gaussian_kl([0.0] * n, covariance(a, n), [0.0] * n, covariance(b, n))))
           for a, b, n in [(0.7, 1.3, 5), (1.3, 0.7, 5), (2.0, 2.5, 1)]]
    return [case(0.7, 2), case(1.3, 5), case(2.0, 1), case(1e-6, 12, True), case(1e8, 3, True)], kls


if __name__ == "__main__":
    for name, make in rows.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make()
