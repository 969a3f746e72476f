"""Reference values for distributions of whole numbers: spec/golden/distribution/<name>.lua, from sums of masses in mpmath.

Run: python3 make_discrete.py [name...]   (needs mpmath; writes beside itself)
"""
import os
import sys
from mpmath import mp, mpf, inf, log, log1p, exp, nan
from scipy import stats
from make import HERE, lua, write

mp.dps = 40
rows = {}


def row(f):
    rows[f.__name__] = lambda: write(f.__name__, *f(), script="make_discrete.py")
    return f


def precisely(f, *args, **more):
    """With enough digits for 1 - e^-1000."""
    with mp.workdps(900):
        return f(*args, **more)


def choose(n, k):
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


LEVELS = [0.0, 1e-7, 0.1003, 0.37, 0.5003, 0.9, 0.9987, 1.0]


def quantile(p, level, last):
    if level == 1:
        return float(last)
    total = mpf(0)
    for k, v in enumerate(p):
        total += v
        if total >= level:
            assert abs(total - level) > 1e-9 * level or level == 0, "a level at a jump"
            return k
    raise ValueError


def large(params, log_mass, x, mean, variance, mode, law, spread, **more):
    """Where masses are too many to sum: SciPy's distribution function for draws only."""
    below = [float(law.ppf(t)) for t in (0.07, 0.35, 0.6, 0.9)] if spread else []
    return dict(params=params, x=x, log_prob=[float(log_mass(mpf(k))) for k in x], coarse=mp.sqrt(variance) > 1e5 or None, mean=float(mean), variance=float(variance), mode=mode,
                below=[[t, float(law.cdf(t))] for t in below], extreme=True, **more)


def surprise(log_mass, mean, variance, top=inf, decay=1):
    """-sum p log p: term by term where there are few; else by quadrature between the values, which are dense (the sum
    over smooth terms from a on is the integral from a - 1/2 on and f'(a - 1/2) / 24: Euler and Maclaurin)."""
    def f(k):
        v = log_mass(mpf(k))
        return -exp(v) * v if v > -20000 else mpf(0)
    mean, sd = mpf(mean), mp.sqrt(variance)
    low = max(0, int(mean - 14 * sd - 60))
    high = top if top < inf and not low else min(top, int(mean + 16 * sd + 80 * decay + 60))
    if high - low < 6000:
        return float(mp.fsum(f(k) for k in range(low, high + 1)))
    with mp.workdps(25):
        first = mpf(low) if low else mpf(4000)
        dense = mpf(0) if low else mp.fsum(f(k) for k in range(4000))
        cuts = [first - 0.5] + [v for v in [mean + j * sd / 2 for j in range(-28, 40)] if first < v < high]
        t = first
        while not low and t < high:
            t *= 2
            cuts.append(min(t, mpf(high) + 0.5))
        cuts = sorted(set(cuts + [mpf(high) + 0.5]))
        return float(dense + mp.quad(f, cuts, maxdegree=5) + (0 if low else mp.diff(f, first - 0.5) / 24))


def case(params, mass, top, x, at, mode, entropy=True, quantiles=True, bounded=False, **more):
    """mass(k) for k = 0 .. top, beyond which nothing is left to 1e-25; x must be whole, at need not."""
    p = [mass(k) for k in range(top + 1)]
    assert abs(sum(p) - 1) < mpf(10) ** -22, (params, sum(p))
    mean = sum(k * v for k, v in enumerate(p))
    variance = sum((k - mean) ** 2 * v for k, v in enumerate(p))
    assert p[mode] >= max(p) * (1 - mpf(10) ** -30), (params, mode)
    out = dict(params=params, x=x, log_prob=[float(log(mass(k))) if mass(k) else -inf for k in x], at=at,
               cdf=[float(sum(p[:int(t) + 1])) if t >= 0 else 0.0 for t in at], mean=float(mean), variance=float(variance), mode=mode)
    if quantiles:
        tails = sorted({0, int(mean), int(mean + 4 * mp.sqrt(variance)), int(mean + 6 * mp.sqrt(variance))})
        tails = [k for k in tails if bounded and k <= top or sum(p[k + 1:]) > mpf(10) ** -11] + ([top] if bounded else [])
        tails = [k for k in tails if sum(p[:k + 1]) > mpf(10) ** -300]  # smaller shares underflow
        out["tail_x"] = [-1.0] + [k + 0.25 for k in tails]
        out["log_cdf"] = [-inf] + [float(log1p(-sum(p[k + 1:])) if sum(p[:k + 1]) > 0.5 else logarithm(sum(p[:k + 1]))) for k in tails]
        out["log_survival"] = [0.0] + [float(logarithm(sum(p[k + 1:]))) for k in tails]
        out["p"], out["icdf"] = LEVELS, [quantile(p, v, top if bounded else inf) for v in LEVELS]
    if entropy:
        out["entropy"] = float(-sum(v * log(v) for v in p if v))
    out.update(more)
    return out


def kl(p, q, top):
    return float(sum(p(k) * log(p(k) / q(k)) for k in range(top + 1) if p(k)))


AT = [-0.5, 0, 0.7, 1, 2.5, 6]


@row
def poisson():
    def mass(r):
        return lambda k: exp(k * log(mpf(r)) - r - mp.loggamma(k + 1))
    cases = [case(dict(rate=r), mass(r), top, x, AT if r < 50 else [r - 30, r, r + 1.5], int(r), extreme=e)
             for r, top, x, e in [(2.3, 80, [0, 1, 2, 5, 40], None), (0.4, 60, [0, 1, 3], None), (17.5, 150, [3, 17, 40], None),
                                  (1e-6, 10, [0, 1, 2], True), (1000.5, 2000, [800, 1000, 1200], True)]]
    for r, x in (1e9, [1e9, 1e9 - 1e5, 1.04e9, 9.6e8, 1]), (1e-8, [0, 1, 2, 47000]), (3.0, [120000]), (1e-300, [0, 1, 1000]):
        m = mpf(r)
        cases.append(large(dict(rate=r), lambda k: k * log(m) - m - mp.loggamma(k + 1), x, m, m, int(r), stats.poisson(r), r > 10,
                           entropy=surprise(lambda k: k * log(m) - m - mp.loggamma(k + 1), m, m)))
    return cases, [(dict(rate=a), dict(rate=b), kl(mass(a), mass(b), 150)) for a, b in [(2.3, 4.0), (10.0, 0.7)]]



def success(probs=None, logits=None):
    """p and 1 - p"""
    if probs is not None:
        return mpf(probs), 1 - mpf(probs)
    return 1 / (1 + exp(-mpf(logits))), 1 / (1 + exp(mpf(logits)))


def power(p, k):
    return mpf(1) if k == 0 else p ** k


@row
def binomial():
    def mass(n, **given):
        p, q = success(**given)
        return lambda k: exp(choose(mpf(n), k)) * power(p, k) * power(q, n - k) if k <= n else mpf(0)

    def one(n, given, x, at=AT, **more):
        p, _ = success(**given)
        return case(dict(total_count=n, **given), mass(n, **given), n, x, at, min(int((n + 1) * p), n), bounded=True, beyond=[n + 1, -1, 0.5, nan, inf], **more)
    cases = [one(10, dict(probs=0.3), [0, 3, 7, 10]), one(10, dict(logits=-0.6), [0, 3, 7, 10]), one(1, dict(probs=0.8), [0, 1]),
             one(60, dict(probs=0.45), [5, 27, 60], [4, 27, 33.3, 60]), one(4, dict(probs=0.0), [0, 1, 4], extreme=True),
             one(4, dict(probs=1.0), [0, 3, 4], extreme=True), one(30, dict(probs=1e-12), [0, 1, 30], extreme=True),
             one(3000, dict(logits=3.0), [2700, 2857, 3000], [2700, 2858, 3000], extreme=True), one(0, dict(probs=0.3), [0], extreme=True)]
    for n, given, x in ((10 ** 9, dict(probs=0.3), [300000000, 300001000, 299000000, 329000000, 0, 10 ** 9]), (10 ** 9, dict(probs=1e-12), [0, 1, 20000]),
                        (10 ** 9, dict(logits=-1000.0), [1, 950]), (10 ** 9, dict(logits=1000.0), [10 ** 9 - 1]), (1000, dict(logits=-0.5), [377, 0, 1000])):
        p, q = precisely(success, **given)
        mode = min(int((n + 1) * p), n)
        cases.append(precisely(large, dict(total_count=n, **given), lambda k: choose(mpf(n), k) + k * log(p) + (n - k) * log(q), x, n * p, n * p * q,
                           mode, stats.binom(n, float(p)), n * p * q > 10,
                           entropy=surprise(lambda k: choose(mpf(n), k) + k * log(p) + (n - k) * log(q), n * p, n * p * q, n), beyond=[n + 1, -1, 0.5, nan, inf]))
    k = [(dict(total_count=10, **a), dict(total_count=10, **b), kl(mass(10, **a), mass(10, **b), 10))
         for a, b in [(dict(probs=0.3), dict(probs=0.6)), (dict(logits=-0.8), dict(logits=1.1)), (dict(probs=0.0), dict(probs=0.25))]]
    return cases, k


@row
def negative_binomial():
    def mass(r, **given):
        p, q = success(**given)
        return lambda k: exp(mp.loggamma(k + mpf(r)) - mp.loggamma(k + 1) - mp.loggamma(mpf(r))) * q ** mpf(r) * power(p, k)

    def one(r, given, top, x, at=AT, **more):
        p, q = success(**given)
        return case(dict(total_count=r, **given), mass(r, **given), top, x, at, int((r - 1) * p / q) if r > 1 else 0, **more)
    cases = [one(3.5, dict(probs=0.3), 120, [0, 1, 4, 30]), one(3.5, dict(logits=0.4), 250, [0, 1, 4, 30]), one(0.6, dict(probs=0.5), 120, [0, 1, 4, 30]),
             one(1.0, dict(probs=0.2), 60, [0, 1, 9]), one(1e-3, dict(probs=0.5), 120, [0, 1, 5], extreme=True),
             one(1e4, dict(logits=-8.0), 120, [0, 3, 20], extreme=True)]
    for r, given, x in ((1e8, dict(probs=0.25), [33333333, 33300000, 0, 35000000]), (1e-8, dict(logits=2.0), [0, 1, 10]), (2.5, dict(logits=-300.0), [0, 1, 3000]),
                        (0.3, dict(probs=1e-12), [0, 1, 3]), (150.0, dict(logits=0.0), [0, 49, 50, 51, 300]), (1e6, dict(logits=3.0), [20085537, 20000000, 0])):
        p, q = precisely(success, **given)
        m = mpf(r)
        cases.append(precisely(large, dict(total_count=r, **given), lambda k: mp.loggamma(k + m) - mp.loggamma(k + 1) - mp.loggamma(m) + m * log(q) + k * log(p), x,
                           m * p / q, m * p / q ** 2, int((m - 1) * p / q) if m > 1 else 0, stats.nbinom(r, float(q)), r > 100,
                           entropy=surprise(lambda k: mp.loggamma(k + m) - mp.loggamma(k + 1) - mp.loggamma(m) + m * log(q) + k * log(p), m * p / q, m * p / q ** 2, decay=1 / q)))
    k = [(dict(total_count=3.5, **a), dict(total_count=3.5, **b), kl(mass(3.5, **a), mass(3.5, **b), 250))
         for a, b in [(dict(probs=0.3), dict(probs=0.6)), (dict(logits=-0.8), dict(logits=0.1))]]
    return cases, k


@row
def geometric():
    def mass(**given):
        p, q = success(**given)
        return lambda k: p * power(q, k)

    def one(given, top, x, **more):
        return case(given, mass(**given), top, x, AT, 0, **more)
    cases = [one(dict(probs=0.3), 300, [0, 1, 4, 30]), one(dict(logits=0.4), 150, [0, 1, 4, 30]), one(dict(probs=0.85), 60, [0, 1, 9]),
             one(dict(probs=0.02), 4000, [0, 100, 3000], extreme=True), one(dict(logits=30.0), 20, [0, 1, 9], extreme=True)]
    for given, x in (dict(probs=1e-9), [0, 10 ** 9, 10 ** 15]), (dict(logits=-100.0), [0, 5]):
        p, q = precisely(success, **given)
        cases.append(precisely(large, given, lambda k: log(p) + k * log(q), x, q / p, q / p ** 2, 0, stats.geom(float(p), loc=-1), "probs" in given,
                           entropy=float(precisely(lambda: -(log(p) + q / p * log(q))))))
    k = [(a, b, kl(mass(**a), mass(**b), 300)) for a, b in [(dict(probs=0.3), dict(probs=0.6)), (dict(logits=-0.8), dict(logits=0.1))]]
    return cases, k


@row
def delta():
    cases = [dict(params=dict(loc=t), x=[t], log_prob=[0.0], at=[t - abs(t), t, t + abs(t)], cdf=[0.0, 1.0, 1.0], mean=t, variance=0.0, entropy=0.0,
                  mode=t, p=[0.0, 0.3, 1.0], icdf=[t, t, t], beyond=[t + abs(t) / 2, -inf, inf, nan], extreme=e, coarse=e) for t, e in ((0.75, None), (-3.0, None), (1e300, True))]
    return cases, [(dict(loc=1.0), dict(loc=2.0), inf), (dict(loc=1.0), dict(loc=1.0), 0.0)]


def shares(probs=None, logits=None):
    if probs is not None:
        return [mpf(v) for v in probs]
    e = [exp(mpf(v)) for v in logits]
    return [v / sum(e) for v in e]


def logarithm(v):
    return log(v) if v else -inf


def floats(v):
    return [floats(e) if isinstance(e, list) else float(e) for e in v]


@row
def one_hot_categorical():
    def one(given, **more):
        p = shares(**given)
        n = len(p)
        eye = [[float(i == j) for j in range(n)] for i in range(n)]
        k = max(range(n), key=lambda i: p[i])
        return dict(params=given, x=eye, log_prob=[float(logarithm(v)) for v in p], mean=floats(p), variance=floats([v * (1 - v) for v in p]),
                    mode=eye[k], entropy=float(-sum(v * log(v) for v in p if v)), beyond=[[1.0] * n, [0.0] * n, [0.5] * n, [2.0] + [0.0] * (n - 1), [nan] * n], **more)
    cases = [one(dict(probs=[0.2, 0.5, 0.3])), one(dict(logits=[0.3, -1.2, 0.9, 2.0])), one(dict(probs=[0.4, 0.0, 0.6]), extreme=True),
             one(dict(logits=[-700.0, 1.5, 700.0]), extreme=True), one(dict(probs=[1.0]), extreme=True)]

    def divergence(a, b):
        return float(sum(v * (logarithm(v) - logarithm(w)) for v, w in zip(shares(**a), shares(**b)) if v))
    k = [(a, b, divergence(a, b)) for a, b in [(dict(probs=[0.2, 0.5, 0.3]), dict(probs=[0.6, 0.3, 0.1])), (dict(logits=[1.0, 0.0]), dict(probs=[0.3, 0.7])),
                                               (dict(probs=[0.0, 1.0]), dict(probs=[0.25, 0.75]))]]
    return cases, k


@row
def relaxed_one_hot_categorical():
    def density(t, l, x):
        n = len(l)
        s = [mpf(v) - mpf(t) * log(mpf(u)) for v, u in zip(l, x)]
        top = max(s)
        return float(mp.loggamma(n) + (n - 1) * log(mpf(t)) + sum(s) - n * (top + log(sum(exp(v - top) for v in s))) - sum(log(mpf(u)) for u in x))

    def one(t, given, x, **more):
        l = [log(mpf(v)) for v in given["probs"]] if "probs" in given else [mpf(v) for v in given["logits"]]
        n = len(l)
        return dict(params=dict(temperature=t, **given), x=x, log_prob=[density(t, l, v) for v in x],
                    beyond=[[0.0] * (n - 1) + [1.0], [0.6] * n, [-1.0] + [2.0 / (n - 1)] * (n - 1), [nan] * n], **more)
    cases = [one(0.8, dict(probs=[0.3, 0.7]), [[0.25, 0.75], [0.9, 0.1], [1e-9, 1 - 1e-9]]),
             one(1.5, dict(logits=[0.5, -1.0, 0.2]), [[0.25, 0.5, 0.25], [0.9, 0.05, 0.05], [0.001, 0.998, 0.001]]),
             one(0.5, dict(probs=[0.2, 0.5, 0.3]), [[0.25, 0.5, 0.25], [0.01, 0.01, 0.98]]),
             one(0.05, dict(logits=[2.0, 0.0, -3.0, 700.0]), [[0.25, 0.25, 0.25, 0.25], [1e-300, 1e-200, 1e-100, 1.0]], extreme=True),
             one(100.0, dict(probs=[0.2, 0.5, 0.3]), [[0.3, 0.4, 0.3], [1e-6, 1e-6, 1 - 2e-6], [1e-200, 0.5, 0.5]], extreme=True),
             one(2000.0, dict(logits=[0.0, 0.0]), [[1e-300, 1.0], [0.5, 0.5]], extreme=True)]
    return cases, []


def compositions(total, n):
    if n == 1:
        return [[total]]
    return [[k] + rest for k in range(total + 1) for rest in compositions(total - k, n - 1)]


def summed(m, n, log_mass, p):
    """Entropy and mode from all counts of n classes; of very many trials the normal limit, to 1 / m."""
    if m > 1000:
        value = ((n - 1) * log(2 * mp.pi * mp.e * m) + sum(log(v) for v in p)) / 2
        return dict(entropy=float(value), mode=[float(m * v) for v in p])
    all = [(log_mass(x), x) for x in compositions(m, n)]
    best = max(v for v, _ in all)
    modes = [x for v, x in all if v > best - mpf(10) ** -25]
    assert len(modes) == 1, modes
    return dict(entropy=float(-sum(exp(v) * v for v, _ in all if v > -inf)), mode=floats(modes[0]))


@row
def multinomial():
    def mass(m, p):
        def f(x):
            if any(v == 0 and k for v, k in zip(p, x)):
                return -inf
            return mp.loggamma(m + 1) - sum(mp.loggamma(mpf(k) + 1) for k in x) + sum(k * log(v) for v, k in zip(p, x) if k)
        return f

    def one(m, given, x, **more):
        p = shares(**given)
        n = len(p)
        return dict(params=dict(total_count=m, **given), x=floats(x), log_prob=[float(mass(m, p)(v)) for v in x], mean=floats([m * v for v in p]),
                    variance=floats([m * v * (1 - v) for v in p]), **summed(m, n, mass(m, p), [v for v in p if v]),
                    beyond=floats([[m + 1] + [0] * (n - 1), [m] + [1] * (n - 1), [-1, m + 1] + [0] * (n - 2),
                                                                                  [0.5, m - 0.5] + [0] * (n - 2), [nan] * n]), **more)
    cases = [one(5, dict(probs=[0.2, 0.5, 0.3]), [[1, 2, 2], [5, 0, 0], [0, 0, 5]]), one(3, dict(logits=[0.3, -1.2, 0.9, 0.0]), [[1, 0, 1, 1], [0, 3, 0, 0]]),
             one(12, dict(probs=[0.65, 0.35]), [[12, 0], [7, 5]]), one(4, dict(probs=[0.4, 0.0, 0.6]), [[4, 0, 0], [1, 0, 3], [1, 1, 2]], extreme=True),
             one(10 ** 9, dict(probs=[0.25, 0.5, 0.25]), [[250000000, 500000000, 250000000], [250010000, 499980000, 250010000], [260000000, 480000000, 260000000]], extreme=True),
             one(100, dict(logits=[-600.0, 0.0, 3.0]), [[100, 0, 0], [1, 1, 98]], extreme=True),
             one(0, dict(probs=[0.3, 0.7]), [[0, 0]], extreme=True)]

    def divergence(m, a, b):
        return float(m * sum(v * (log(v) - logarithm(w)) for v, w in zip(shares(**a), shares(**b)) if v))
    k = [(dict(total_count=5, **a), dict(total_count=5, **b), divergence(5, a, b))
         for a, b in [(dict(probs=[0.2, 0.5, 0.3]), dict(probs=[0.6, 0.3, 0.1])), (dict(logits=[1.0, 0.0]), dict(probs=[0.3, 0.7])),
                      (dict(probs=[0.0, 1.0]), dict(probs=[0.25, 0.75]))]]
    return cases, k


@row
def dirichlet_multinomial():
    def log_mass(m, a, x):
        a, x, m = [mpf(v) for v in a], [mpf(v) for v in x], mpf(m)
        s = sum(a)
        return (mp.loggamma(m + 1) + mp.loggamma(s) - mp.loggamma(m + s) + sum(mp.loggamma(k + v) - mp.loggamma(k + 1) - mp.loggamma(v) for k, v in zip(x, a)))

    def one(m, a, x, **more):
        n, s = len(a), sum(mpf(v) for v in a)
        p = [mpf(v) / s for v in a]
        return dict(params=dict(total_count=m, concentration=a), x=floats(x), log_prob=[float(log_mass(m, a, v)) for v in x], mean=floats([m * v for v in p]),
                    variance=floats([m * v * (1 - v) * (m + s) / (1 + s) for v in p]),
                    entropy=surprise(lambda k: log_mass(m, a, [k, m - k]), m * p[0], m * p[0] * p[1] * (m + s) / (1 + s), m) if m > 1000 else
                    float(-sum(exp(v) * v for v in (log_mass(m, a, k) for k in compositions(m, n)))),
                    beyond=floats([[m + 1] + [0] * (n - 1), [m] + [1] * (n - 1), [-1, m + 1] + [0] * (n - 2), [nan] * n]), **more)
    return [one(5, [0.7, 2.0, 1.3], [[1, 2, 2], [5, 0, 0], [0, 0, 5]]), one(12, [0.4, 3.5], [[12, 0], [7, 5]]), one(3, [1.0, 1.0, 1.0, 1.0], [[1, 0, 1, 1], [0, 3, 0, 0]]),
            one(10 ** 6, [1e6, 3e6], [[250000, 750000], [249000, 751000], [0, 10 ** 6]], extreme=True), one(10, [1e-4, 1e-3, 2e-4], [[10, 0, 0], [3, 4, 3]], extreme=True),
            one(7, [1e9, 1e9], [[3, 4], [7, 0]], extreme=True)], []


@row
def beta_binomial():
    def log_mass(n, a, b, k):
        n, a, b, k = mpf(n), mpf(a), mpf(b), mpf(k)
        return choose(n, k) + mp.loggamma(k + a) + mp.loggamma(n - k + b) - mp.loggamma(n + a + b) - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(a + b)

    def one(n, a, b, x, mode, **more):
        return case(dict(total_count=n, concentration1=a, concentration0=b), lambda k: exp(log_mass(n, a, b, k)), n, x, [-0.5] + [t + 0.25 * (t > 2) for t in x], mode,
                    bounded=True, beyond=[n + 1, -1, 0.5, nan, inf], **more)
    cases = [one(10, 2.0, 3.0, [0, 3, 7, 10], 3), one(7, 0.6, 0.3, [0, 3, 7], 7), one(30, 1.5, 4.0, [0, 8, 30], 4), one(5, 0.5, 1.1, [0, 5], 0),
             one(12, 1.0, 1.0, [0, 12], 0), one(0, 1.0, 2.0, [0], 0, extreme=True), one(40, 1e-5, 1e-4, [0, 1, 40], 0, extreme=True),
             one(20, 1e8, 3e8, [0, 5, 20], 5, extreme=True)]
    for n, a, b, x in (10 ** 9, 2.5, 4.0, [3 * 10 ** 8, 0, 10 ** 9]), (10 ** 6, 1e6, 1e6, [500000, 499000, 0]), (10 ** 5, 1e-3, 50.0, [0, 1, 4000]):
        m, s = mpf(n) * a / (mpf(a) + b), mpf(a) + b
        top = 0 if a < 1 else int((n * (mpf(a) - 1) + 1 - b) / (s - 2)) + 1
        cases.append(large(dict(total_count=n, concentration1=a, concentration0=b), lambda k: log_mass(n, a, b, k), x, m,
                           n * mpf(a) * b * (s + n) / (s * s * (s + 1)), top, stats.betabinom(n, a, b), False,
                           entropy=surprise(lambda k: log_mass(n, a, b, k), m, n * mpf(a) * b * (s + n) / (s * s * (s + 1)), n), beyond=[n + 1, -1, 0.5, nan, inf]))
    return cases, []


@row
def zero_inflated_poisson():
    def mass(g, r):
        return lambda k: mpf(g) * (k == 0) + (1 - mpf(g)) * exp(k * log(mpf(r)) - mpf(r) - mp.loggamma(mpf(k) + 1))

    def one(g, r, top, x, mode, **more):
        return case(dict(gate=g, rate=r), mass(g, r), top, x, AT, mode, **more)
    cases = [one(0.3, 2.3, 80, [0, 1, 2, 5, 40], 0), one(0.05, 6.5, 100, [0, 1, 6, 30], 6), one(0.7, 0.4, 60, [0, 1, 3], 0), one(0.0, 3.5, 80, [0, 3, 20], 3, extreme=True),
             one(1.0, 2.0, 80, [0, 1], 0, extreme=True, beyond=[-1]), one(0.88, 40.25, 250, [0, 40, 200], 0, extreme=True), one(0.2, 1e-9, 10, [0, 1, 2], 0, extreme=True)]
    return cases, []


@row
def gamma_poisson():
    def log_mass(a, b, k):
        a, b, k = mpf(a), mpf(b), mpf(k)
        return mp.loggamma(k + a) - mp.loggamma(k + 1) - mp.loggamma(a) + a * log(b / (1 + b)) - k * log(1 + b)

    def one(a, b, top, x, mode, **more):
        return case(dict(concentration=a, rate=b), lambda k: exp(log_mass(a, b, k)), top, x, AT, mode, **more)
    cases = [one(3.5, 1.2, 200, [0, 1, 4, 30], 2), one(0.6, 0.5, 300, [0, 1, 4, 30], 0), one(12.0, 2.0, 150, [0, 6, 30], 5), one(1e-3, 1.0, 150, [0, 1, 5], 0, extreme=True)]
    for a, b, x in (1e8, 3.0, [33333333, 33300000, 0]), (2.5, 1e12, [0, 1, 1000]), (50.0, 1e-6, [5 * 10 ** 7, 10 ** 6]):
        m = mpf(a) / mpf(b)
        cases.append(large(dict(concentration=a, rate=b), lambda k: log_mass(a, b, k), x, m, m * (1 + mpf(b)) / mpf(b), int((mpf(a) - 1) / mpf(b)),
                           stats.nbinom(a, b / (1 + b)), a > 3,
                           entropy=surprise(lambda k: log_mass(a, b, k), m, m * (1 + mpf(b)) / mpf(b), decay=1 + 1 / b)))
    k = [(dict(concentration=3.5, rate=a), dict(concentration=3.5, rate=b), kl(lambda k: exp(log_mass(3.5, a, k)), lambda k: exp(log_mass(3.5, b, k)), 400))
         for a, b in [(1.2, 0.5), (2.0, 6.0)]]
    return cases, k


def atoms(values, p):
    """Mode, entropy and quantiles of given values with shares p."""
    total = {}
    for v, w in zip(values, p):
        total[v] = total.get(v, mpf(0)) + w
    order = sorted(total)
    best = max(total.values())
    level = [t for t in LEVELS if all(abs(sum(total[u] for u in order if u <= v) - t) > 1e-9 for v in order) or t == 1]
    icdf = [next((v for v in order if sum(total[u] for u in order if u <= v) >= t - mpf(10) ** -30), order[-1]) for t in level]
    return dict(mode=next(v for v in values if total[v] == best), entropy=float(-sum(w * log(w) for w in total.values() if w)), p=level, icdf=icdf)


@row
def empirical():
    def one(values, w, x, at, **more):
        e = [exp(mpf(v)) for v in (w or [0.0] * len(values))]
        p = [v / sum(e) for v in e]
        mean = sum(v * mpf(k) for v, k in zip(p, values))
        params = dict(values=values, log_weights=w) if w else dict(values=values)
        return dict(params=params, x=x, log_prob=[float(logarithm(sum(v for v, k in zip(p, values) if k == t))) for t in x], at=at,
                    cdf=[float(sum(v for v, k in zip(p, values) if k <= t)) for t in at], mean=float(mean),
                    variance=float(sum(v * (k - mean) ** 2 for v, k in zip(p, values))), beyond=[max(values) + 0.5, min(values) - 1, nan, inf],
                    **atoms(values, p), **more)
    return [one([2.0, 5.0], [0.3, -0.4], [2.0, 5.0], [1.0, 2.0, 4.0, 5.0]),
            one([3.0, 1.0, 4.0, 1.0, 5.0], [0.2, -1.0, 0.5, 0.0, 0.3], [1.0, 3.0, 4.0, 5.0], [0.5, 1.0, 3.5, 5.0, 9.0]),
            one([2.0, 7.0, 2.0], None, [2.0, 7.0], [1.0, 2.0, 6.0, 7.0]),
            one([0.0, 1.0, 3.0], [-700.0, 0.0, -inf], [0.0, 1.0, 3.0], [0.0, 1.0, 2.0, 3.0], extreme=True),
            one([-2.0], [5.0], [-2.0], [-3.0, -2.0], extreme=True)], []


def divergences():
    """KL of two kinds of counts, sums of masses."""
    def nb(r, p):
        return lambda k: mp.loggamma(k + mpf(r)) - mp.loggamma(k + 1) - mp.loggamma(mpf(r)) + r * log(1 - mpf(p)) + k * log(mpf(p))
    kinds = {
        "bernoulli": lambda probs: lambda k: log(mpf(probs)) if k == 1 else log(1 - mpf(probs)) if k == 0 else -inf,
        "poisson": lambda rate: lambda k: k * log(mpf(rate)) - rate - mp.loggamma(k + 1),
        "binomial": lambda total_count, probs: lambda k: choose(mpf(total_count), k) + k * log(mpf(probs)) + (total_count - k) * log(1 - mpf(probs))
        if k <= total_count else -inf,
        "geometric": lambda probs: lambda k: log(mpf(probs)) + k * log(1 - mpf(probs)),
        "negative_binomial": lambda total_count, probs: nb(total_count, probs),
        "gamma_poisson": lambda concentration, rate: nb(concentration, 1 / (1 + mpf(rate))),
        "beta_binomial": lambda total_count, concentration1, concentration0: lambda k: (
            choose(mpf(total_count), k) + log(mp.beta(k + concentration1, total_count - k + concentration0)) - log(mp.beta(concentration1, concentration0))
            if k <= total_count else -inf),
        "zero_inflated_poisson": lambda gate, rate: lambda k: log(mpf(gate) * (k == 0) + (1 - mpf(gate)) * exp(k * log(mpf(rate)) - rate - mp.loggamma(k + 1))),
    }
    b = ("bernoulli", dict(probs=0.3))
    half = ("negative_binomial", dict(total_count=2.5, probs=0.4))
    gamma = ("gamma_poisson", dict(concentration=2.5, rate=0.75))
    one = ("negative_binomial", dict(total_count=1.0, probs=0.55))
    same = ("gamma_poisson", dict(concentration=1.0, rate=1.5))
    geo = ("geometric", dict(probs=0.35))
    counts = [("poisson", dict(rate=0.8)), ("binomial", dict(total_count=4.0, probs=0.2)), ("binomial", dict(total_count=1.0, probs=0.6)), geo, half, gamma,
              ("beta_binomial", dict(total_count=3.0, concentration1=0.7, concentration0=2.0)), ("zero_inflated_poisson", dict(gate=0.25, rate=1.5))]
    pairs = [(b, q) for q in counts] + [(b, ("binomial", dict(total_count=0.0, probs=0.5)))]
    pairs += [(half, gamma), (gamma, half), (one, geo), (geo, one), (same, geo), (geo, same), (one, same), (same, one)]
    pairs += [(p, q) for p in (counts[0], geo, half, gamma) for q in (b, counts[1], counts[6])]
    out = []
    for (p, a), (q, c) in pairs:
        f, g = kinds[p](**a), kinds[q](**c)
        value = mpf(0)
        for k in range(600):
            v = f(mpf(k))
            if v > -200:
                value += exp(v) * (v - g(mpf(k)))
        out.append((p, q, a, c, float(value)))
    return out


def write_divergences():
    path = os.path.join(HERE, "kl_discrete.lua")
    with open(path, "w") as f:
        f.write("-- Written by make_discrete.py.\nreturn {\n")
        for p, q, a, c, v in divergences():
            f.write("  {%s, %s, p = %s, q = %s, value = %s},\n" % ('"%s"' % p, '"%s"' % q, lua(a), lua(c), lua(v)))
        f.write("}\n")


if __name__ == "__main__":
    for name, make in rows.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make()
    if len(sys.argv) == 1 or "kl" in sys.argv[1:]:
        write_divergences()
