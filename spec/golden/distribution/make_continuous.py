"""Reference values for distributions of numbers with a density: spec/golden/distribution/<name>.lua, from mpmath.

Run: python3 make_continuous.py [name...]   (needs mpmath; writes beside itself)
"""
import sys
from pathlib import Path
from mpmath import mp, mpf, inf, log, exp, sqrt, pi, erf, erfc, erfinv, euler
sys.path.append(str(Path(__file__).parents[1] / "base"))
from make import write
from special import beta_tails, bessel_gaps, gamma_tails, scaled_bessel, von_mises_tail
from scalar import Family, case, kls

P = [1e-10, 0.001, 0.2, 0.5, 0.77, 0.999]
rows = {}


def row(formulas):
    """Marks formulas of a family; its cases follow under the same name."""
    family = Family(formulas)

    def cases(make):
        rows[formulas.__name__] = lambda: write(formulas.__name__, *make(family), script="make_continuous.py")
        return make
    return family, cases


def phi(z):
    return -z * z / 2 - log(2 * pi) / 2


def ndtr(z):
    return erfc(-z / sqrt(mpf(2))) / 2


# ---- log_normal ----
def log_normal(loc, scale):
    return dict(log_pdf=lambda x: phi((log(x) - loc) / scale) - log(x * scale), ends=(mpf(0), inf),
                cdf=lambda x: ndtr((log(x) - loc) / scale) if x > 0 else mpf(0), sf=lambda x: ndtr(-(log(x) - loc) / scale),
                mean=exp(loc + scale ** 2 / 2), variance=mp.expm1(scale ** 2) * exp(2 * loc + scale ** 2),
                mode=exp(loc - scale ** 2), entropy=loc + log(scale) + log(2 * pi) / 2 + mpf(1) / 2,
                cuts=[exp(loc + scale * k) for k in (-12, -6, -3, -1, 0, 1, 3, 6, 12)])


F, cases = row(log_normal)


@cases
def _(F):
    import math
    def x(loc, scale):
        far = (-1415.0,) if 0.1 < scale <= 0.5 else ()
        return [math.exp(loc + scale * z) for z in far + (-12.0, -3.0, -0.4, 0.1, 1.3, 8.0)]
    c = [case(F, v, x(*v), P, heavy=v[1] > 0.6) for v in [(0.3, 0.5), (-1.0, 0.25), (2.0, 1.0)]]
    c += [case(F, v, x(*v), P, extreme=True) for v in [(0.0, 8.0), (300.0, 2.0), (-5.0, 1e-4)]]
    return c, kls(F, [((0.3, 0.5), (0.0, 0.9)), ((1.0, 0.5), (1.0, 2.0))])


# ---- half_normal ----
def half_normal(scale):
    return dict(log_pdf=lambda x: log(mpf(2)) + phi(x / scale) - log(scale), ends=(mpf(0), inf),
                cdf=lambda x: erf(x / scale / sqrt(mpf(2))), sf=lambda x: erfc(x / scale / sqrt(mpf(2))),
                mean=scale * sqrt(2 / pi), variance=scale ** 2 * (1 - 2 / pi), mode=mpf(0),
                entropy=log(pi / 2) / 2 + mpf(1) / 2 + log(scale), cuts=[scale * k for k in (1, 3, 8, 15)])


F, cases = row(half_normal)


@cases
def _(F):
    c = [case(F, (s,), [s * t for t in (0.0, 1e-6, 0.4, 1.3, 5.0, 38.0, 1500.0)], P, extreme=s in (1e-6, 1e8))
         for s in (1.0, 2.7, 0.05, 1e-6, 1e8)]
    return c, kls(F, [((1.0,), (2.5,)), ((3.0,), (0.8,))])


# ---- laplace ----
def laplace(loc, scale):
    def tail(t):
        return exp(-t / scale) / 2
    return dict(log_pdf=lambda x: -abs(x - loc) / scale - log(2 * scale), ends=(-inf, inf),
                cdf=lambda x: tail(loc - x) if x <= loc else 1 - tail(x - loc),
                sf=lambda x: tail(x - loc) if x >= loc else 1 - tail(loc - x),
                mean=loc, variance=2 * scale ** 2, mode=loc, entropy=1 + log(2 * scale),
                cuts=[loc + scale * k for k in (-40, -10, -3, 0, 3, 10, 40)])


F, cases = row(laplace)


@cases
def _(F):
    c = [case(F, (m, s), [m + s * t for t in (-800.0, -5.0, -0.3, 0.2, 2.0, 1e6)], P, extreme=s < 1e-2)
         for m, s in [(0.0, 1.0), (0.7, 2.3), (-4.0, 0.3), (1e3, 1e-3)]]
    return c, kls(F, [((0.3, 1.7), (-0.2, 0.9)), ((1.0, 0.5), (1.0, 2.0)), ((-3.0, 1.0), (2.0, 4.0))])


# ---- uniform ----
def uniform(low, high):
    return dict(log_pdf=lambda x: -log(high - low), ends=(low, high), cdf=lambda x: (x - low) / (high - low),
                sf=lambda x: (high - x) / (high - low), mean=(low + high) / 2, variance=(high - low) ** 2 / 12,
                mode=(low + high) / 2, entropy=log(high - low), cuts=[(low + high) / 2])


F, cases = row(uniform)


def bounded(F, v, t, **more):
    low, high = v
    w = high - low
    return case(F, v, t, P, range=[low, high], beyond=[low - 0.25 * w, high + 0.25 * w, -inf, inf, mp.nan], **more)


@cases
def _(F):
    c = [bounded(F, v, [v[0] + (v[1] - v[0]) * t for t in ((0.0, 0.25, 1.0) if e else (0.01, 0.25, 0.5, 0.875))], extreme=e)
         for v, e in [((0.0, 0.8), False), ((-1.5, 2.0), False), ((2.0, 1e9), True), ((-1e-9, 1e-9), True)]]
    return c, kls(F, [((0.0, 1.0), (-0.5, 2.0)), ((0.0, 1.0), (0.1, 2.0)), ((0.0, 2.0), (0.0, 3.0))])


# ---- exponential ----
def exponential(rate):
    return dict(log_pdf=lambda x: log(rate) - rate * x, ends=(mpf(0), inf), cdf=lambda x: -mp.expm1(-rate * x),
                sf=lambda x: exp(-rate * x), mean=1 / rate, variance=1 / rate ** 2, mode=mpf(0), entropy=1 - log(rate),
                cuts=[k / rate for k in (1, 5, 20, 60)])


F, cases = row(exponential)


@cases
def _(F):
    c = [case(F, (r,), [t / r for t in (0.0, 1e-6, 0.4, 1.3, 30.0, 1e6)], P, extreme=r in (1e-7, 1e9))
         for r in (0.7, 2.5, 40.0, 1e-7, 1e9)]
    return c, kls(F, [((1.0,), (2.5,)), ((3.0,), (0.8,))])


# ---- log_uniform ----
def log_uniform(low, high):
    w = log(high / low)
    mean = (high - low) / w
    return dict(log_pdf=lambda x: -log(x) - log(w), ends=(low, high), cdf=lambda x: log(x / low) / w,
                sf=lambda x: log(high / x) / w, mean=mean, variance=(high ** 2 - low ** 2) / (2 * w) - mean ** 2,
                mode=low, entropy=log(low * high) / 2 + log(w), cuts=[sqrt(low * high)])


F, cases = row(log_uniform)


@cases
def _(F):
    c = [bounded(F, v, [v[0] * (v[1] / v[0]) ** t for t in (0.01, 0.25, 0.5, 0.875)], extreme=e)
         for v, e in [((0.5, 2.0), False), ((0.01, 3.0), False), ((1e-8, 1e8), True)]]
    return c, kls(F, [((1.0, 2.0), (0.5, 3.0)), ((1.0, 2.0), (1.1, 3.0))])


# ---- the gamma family ----
def inverse_gamma(concentration, rate):
    a, b = concentration, rate
    mean = b / (a - 1) if a > 1 else inf
    norm = a * log(b) - mp.loggamma(a)
    return dict(log_pdf=lambda x: norm - (a + 1) * log(x) - b / x, ends=(mpf(0), inf),
                shares=True, cdf=lambda x: gamma_tails(a, b / x)[1] if x > 0 else mpf(0), sf=lambda x: gamma_tails(a, b / x)[0],
                mean=mean, variance=b ** 2 / ((a - 1) ** 2 * (a - 2)) if a > 2 else inf, mode=b / (a + 1),
                entropy=a + log(b) + mp.loggamma(a) - (1 + a) * mp.digamma(a),
                cuts=[b / (a + 1) * mpf(t) for t in (0.02, 0.1, 0.5, 1, 2, 10, 100, 1e4, 1e6)])


F, cases = row(inverse_gamma)


@cases
def _(F):
    c = [case(F, v, [v[1] / v[0] * t for t in ((0.9, 1.0, 1.2) if v[0] > 1e3 else (0.02, 0.3, 0.9, 1.2, 5.0, 1e4))],
              P if v[0] < 1e3 else None, extreme=e, heavy=v[0] < 5, check=v[0] > 1, far=[v[1] / 1.1e6, 1e300])
         for v, e in [((6.0, 1.4), False), ((9.5, 3.0), False), ((2.5, 0.7), False), ((1.7, 1.0), True), ((0.5, 2.0), True), ((1e4, 7.0), True)]]
    return c, kls(F, [((6.0, 1.4), (3.0, 2.0)), ((5.0, 1.0), (8.0, 0.3))])


def chi2(df):
    h = df / 2
    norm = h * log(mpf(2)) + mp.loggamma(h)
    return dict(log_pdf=lambda x: (h - 1) * log(x) - x / 2 - norm, ends=(mpf(0), inf),
                shares=True, cdf=lambda x: gamma_tails(h, x / 2)[0], sf=lambda x: gamma_tails(h, x / 2)[1], mean=df, variance=2 * df,
                mode=max(df - 2, mpf(0)), entropy=h + log(mpf(2)) + mp.loggamma(h) + (1 - h) * mp.digamma(h),
                cuts=[df * mpf(t) for t in (1e-8, 1e-4, 0.01, 0.1, 0.5, 1, 2, 5, 20, 60)])


F, cases = row(chi2)


@cases
def _(F):
    c = [case(F, (v,), [v * t for t in ((0.97, 1.0, 1.02) if v == 1e5 else (1e-6, 0.05, 0.6, 1.0, 1.5, 4.0, 100.0))], P if 0.1 < v < 1e5 else [0.9, 0.999] if v < 1 else None,
              extreme=v in (0.01, 1e5), far=[1e-300, 2.1e6],
              coarse=True if v < 0.1 else None)
         for v in (1.4, 3.0, 12.0, 0.01, 1e5)]
    return c, kls(F, [((3.0,), (5.0,)), ((12.0,), (2.0,))])


# ---- beta ----
def beta(concentration1, concentration0):
    a, b = concentration1, concentration0
    n = a + b
    log_b = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(n)
    if a > 1 and b > 1:
        mode = (a - 1) / (n - 2)
    else:
        mode = mpf(0) if a < b else mpf(1) if a > b else mpf(1) / 2
    return dict(log_pdf=lambda x: (a - 1) * log(x) + (b - 1) * mp.log1p(-x) - log_b, ends=(mpf(0), mpf(1)),
                shares=True, cdf=lambda x: beta_tails(a, b, x)[0], sf=lambda x: beta_tails(a, b, x)[1], mean=a / n,
                variance=a * b / n ** 2 / (n + 1), mode=mode,
                entropy=log_b - (a - 1) * mp.digamma(a) - (b - 1) * mp.digamma(b) + (n - 2) * mp.digamma(n),
                cuts=[mpf(t) for t in (1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6)])


F, cases = row(beta)


@cases
def _(F):
    c = [case(F, v, x, P if not e else [0.2, 0.5] if v[0] < 1 < 1.1 * v[1] or v[0] == v[1] == 0.5 else None, extreme=e, far=[1e-300, 1e-44],
              coarse=True if min(v) < 0.1 else None)
         for v, x, e in [((2.3, 1.4), [1e-5, 0.1, 0.5, 0.625, 0.99], False), ((0.7, 3.0), [1e-5, 0.1, 0.5, 0.625, 0.99], False),
                         ((1.0, 1.0), [0.25, 0.5], True), ((8.0, 0.9), [1e-3, 0.1, 0.5, 0.625, 0.99], False),
                         ((0.5, 0.5), [1e-300, 0.25], True), ((1e4, 3e4), [0.2, 0.25, 0.26], True), ((1e-2, 1e3), [1e-200, 1e-5, 0.01], True),
                         ((1e-3, 1e-3), [1e-200, 0.5, 0.999], True), ((1e3, 1e-2), [0.9, 0.9999], True)]]
    for k in c:
        if k["params"]["concentration1"] < 0.1 and "icdf" in k and k["icdf"][0] < 1e-300:
            del k["p"], k["icdf"]
    return c, kls(F, [((2.3, 1.4), (3.0, 2.0)), ((5.0, 1.0), (1.0, 0.8)), ((1.5, 2.0), (4.0, 2.0))])


# ---- student_t ----
def student_t(df, loc, scale):
    def z(x):
        return (x - loc) / scale
    norm = (mp.loggamma(df / 2) - mp.loggamma((df + 1) / 2) + log(df * pi) / 2)

    def tail(t):
        """P(Z > t), t >= 0"""
        w = df / (df + t * t)
        return beta_tails(df / 2, mpf(1) / 2, w)[0] / 2 if w < 1 else mpf(1) / 2
    return dict(log_pdf=lambda x: -(df + 1) / 2 * mp.log1p(z(x) ** 2 / df) - log(scale) - norm, ends=(-inf, inf),
                shares=True, cdf=lambda x: tail(-z(x)) if x < loc else 1 - tail(z(x)),
                sf=lambda x: tail(z(x)) if x > loc else 1 - tail(-z(x)), mean=loc if df > 1 else mp.nan,
                variance=scale ** 2 * df / (df - 2) if df > 2 else inf if df > 1 else mp.nan, mode=loc,
                entropy=(df + 1) / 2 * (mp.digamma((df + 1) / 2) - mp.digamma(df / 2)) + norm + log(scale),
                cuts=[loc + scale * mpf(t) for t in (-1e8, -1e4, -100, -10, -1, 0, 1, 10, 100, 1e4, 1e8)])


F, cases = row(student_t)


@cases
def _(F):
    c = [case(F, v, [v[1] + v[2] * t for t in ((-8.0, 0.5, 3.0) if v[0] > 1e3 else (-1e6, -30.0, -1.5, 0.01, 0.8, 4.0))],
              P if 1 < v[0] < 100 else None, extreme=e, coarse=True if v[0] < 0.1 else None, heavy=v[0] < 6, check=v[0] > 2, far=[v[1] + v[2] * 1e200, v[1] - v[2] * 2000])
         for v, e in [((8.0, 0.3, 1.7), False), ((30.0, -1.0, 0.7), False), ((2.5, 0.0, 1.0), False), ((1.0, 1.0, 1.0), True),
                      ((0.4, 0.0, 1.0), True), ((1e8, 0.0, 2.0), True), ((1e-2, 0.0, 1.0), True)]]
    return c, []


# ---- cauchy, half_cauchy ----
def cauchy(loc, scale):
    def tail(t):
        return mp.atan2(1, t) / pi
    return dict(log_pdf=lambda x: -log(pi * scale) - mp.log1p(((x - loc) / scale) ** 2), ends=(-inf, inf),
                cdf=lambda x: tail(-(x - loc) / scale), sf=lambda x: tail((x - loc) / scale), mean=mp.nan, variance=mp.nan,
                mode=loc, entropy=log(4 * pi * scale),
                cuts=[loc + scale * mpf(t) for t in (-1e12, -1e8, -1e4, -100, -10, -1, 0, 1, 10, 100, 1e4, 1e8, 1e12)])


F, cases = row(cauchy)


@cases
def _(F):
    c = [case(F, (m, s), [m + s * t for t in (-1e7, -5.0, -0.3, 0.2, 2.0, 1e5)], P, extreme=e, heavy=True)
         for m, s, e in [(0.0, 1.0, False), (0.7, 2.3, False), (-4.0, 0.3, False), (0.0, 1e-8, True), (1e3, 1e8, True)]]
    c.append(case(F, (0.0, 1.0), [-1e200, 1e300], None, extreme=True, heavy=True))
    return c, kls(F, [((0.3, 1.7), (-0.2, 0.9)), ((1.0, 0.5), (1.0, 2.0)), ((-3.0, 1.0), (2.0, 4.0))])


def half_cauchy(scale):
    return dict(log_pdf=lambda x: log(2 / (pi * scale)) - mp.log1p((x / scale) ** 2), ends=(mpf(0), inf),
                cdf=lambda x: 2 * mp.atan(x / scale) / pi, sf=lambda x: 2 * mp.atan2(1, x / scale) / pi, mean=inf,
                variance=mp.nan, mode=mpf(0), entropy=log(2 * pi * scale),
                cuts=[scale * mpf(t) for t in (1e-4, 0.01, 1, 10, 100, 1e4, 1e8, 1e12)])


F, cases = row(half_cauchy)


@cases
def _(F):
    c = [case(F, (s,), [s * t for t in (0.0, 1e-6, 0.4, 1.3, 50.0, 1e8)], P, extreme=s in (1e-6, 1e8), heavy=True)
         for s in (1.0, 2.7, 0.05, 1e-6, 1e8)]
    return c, kls(F, [((1.0,), (2.5,)), ((3.0,), (0.8,))])


# ---- logistic, gumbel ----
def logistic(loc, scale):
    def z(x):
        return (x - loc) / scale
    return dict(log_pdf=lambda x: -abs(z(x)) - 2 * mp.log1p(exp(-abs(z(x)))) - log(scale), ends=(-inf, inf),
                cdf=lambda x: 1 / (1 + exp(-z(x))), sf=lambda x: 1 / (1 + exp(z(x))), mean=loc,
                variance=(pi * scale) ** 2 / 3, mode=loc, entropy=log(scale) + 2,
                cuts=[loc + scale * k for k in (-80, -30, -10, -3, 0, 3, 10, 30, 80)])


F, cases = row(logistic)


@cases
def _(F):
    c = [case(F, (m, s), [m + s * t for t in (-1e6, -20.0, -0.3, 0.2, 2.0, 800.0)], P, extreme=s < 1e-2)
         for m, s in [(0.0, 1.0), (0.7, 2.3), (-4.0, 0.3), (1e3, 1e-3)]]
    return c, []


def gumbel(loc, scale):
    def z(x):
        return (x - loc) / scale

    def rise(x):  # beyond, e^-rise is out of mpmath's reach
        return exp(-z(x)) if z(x) > -100 else inf
    return dict(log_pdf=lambda x: -z(x) - rise(x) - log(scale) if z(x) > -100 else -inf, ends=(-inf, inf), cdf=lambda x: exp(-rise(x)),
                sf=lambda x: -mp.expm1(-rise(x)), mean=loc + euler * scale, variance=(pi * scale) ** 2 / 6, mode=loc,
                entropy=log(scale) + 1 + euler, cuts=[loc + scale * k for k in (-4, -3, -1, 0, 3, 10, 30, 80)])


F, cases = row(gumbel)


@cases
def _(F):
    c = [case(F, (m, s), [m + s * t for t in (-13.8, -2.0, -0.3, 0.2, 5.0, 1e6)], P, extreme=s < 1e-2)
         for m, s in [(0.0, 1.0), (0.7, 2.3), (-4.0, 0.3), (1e3, 1e-3)]]
    return c, kls(F, [((0.3, 1.7), (-0.2, 0.9)), ((1.0, 0.5), (1.0, 2.0)), ((-3.0, 1.0), (2.0, 4.0))])


# ---- kumaraswamy ----
def kumaraswamy(concentration1, concentration0):
    a, b = concentration1, concentration0

    def rest(x):
        return -mp.expm1(a * log(x))

    def moment(n):
        return b * mp.beta(1 + n / a, b)
    if a < 1 or b < 1 or a == b == 1:
        mode = mpf(0) if a < b else mpf(1) if a > b else mpf(1) / 2
    else:
        mode = ((a - 1) / (a * b - 1)) ** (1 / a)
    return dict(log_pdf=lambda x: log(a * b) + (a - 1) * log(x) + (b - 1) * log(rest(x)), ends=(mpf(0), mpf(1)),
                cdf=lambda x: -mp.expm1(b * mp.log1p(-x ** a)) if x ** a > 0 else mpf(0), sf=lambda x: rest(x) ** b, mean=moment(1),
                variance=moment(2) - moment(1) ** 2, mode=mode,
                entropy=1 - 1 / b + (1 - 1 / a) * (mp.digamma(b + 1) + euler) - log(a * b),
                cuts=[mpf(t) for t in (1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6)])


F, cases = row(kumaraswamy)


@cases
def _(F):
    c = [case(F, v, x, P if min(v) >= 0.5 else None, extreme=e, coarse=True if min(v) < 0.1 else None)
         for v, x, e in [((2.3, 1.4), [1e-5, 0.1, 0.5, 0.625, 0.99], False), ((0.7, 3.0), [1e-5, 0.1, 0.5, 0.625, 0.99], False),
                         ((8.0, 0.9), [1e-3, 0.1, 0.5, 0.625, 0.99], False), ((1.0, 1.0), [0.25, 0.5], True),
                         ((1.0, 4.0), [0.25, 0.5], True), ((0.5, 0.5), [1e-300, 0.25], True),
                         ((1e3, 2e3), [0.9, 0.992, 0.995], True), ((1e-2, 1e3), [1e-300, 1e-200], True),
                         ((1e3, 1e-2), [0.9, 0.9999], True)]]
    return c, kls(F, [((2.3, 1.4), (3.0, 2.0)), ((5.0, 1.0), (1.0, 0.8)), ((1.5, 2.0), (4.0, 2.0))])


# ---- weibull, pareto ----
def weibull(scale, concentration):
    k = concentration

    def hazard(x):
        return (x / scale) ** k
    return dict(log_pdf=lambda x: log(k / x) + k * log(x / scale) - hazard(x), ends=(mpf(0), inf),
                cdf=lambda x: -mp.expm1(-hazard(x)), sf=lambda x: exp(-hazard(x)), mean=scale * mp.gamma(1 + 1 / k),
                variance=scale ** 2 * (mp.gamma(1 + 2 / k) - mp.gamma(1 + 1 / k) ** 2),
                mode=scale * (1 - 1 / k) ** (1 / k) if k > 1 else mpf(0), entropy=euler * (1 - 1 / k) + log(scale / k) + 1,
                cuts=[scale * mpf(t) ** (1 / k) for t in (1e-12, 1e-6, 1e-3, 0.1, 1, 5, 20, 60, 200)])


F, cases = row(weibull)


@cases
def _(F):
    c = [case(F, v, [v[0] * t ** (1 / v[1]) for t in (1e-30, 0.05, 0.6, 1.5, 30.0, 1e6)], P if v[1] > 0.2 else [0.001, 0.5, 0.77], extreme=e,
              heavy=v[1] < 0.8, coarse=True if v[1] < 0.1 else None)
         for v, e in [((1.4, 2.3), False), ((0.7, 1.0), False), ((3.0, 0.7), False), ((1.0, 0.1), True), ((2.0, 1e3), True), ((1e-8, 5.0), True)]]
    return c, kls(F, [((1.4, 2.3), (1.0, 3.0)), ((0.7, 1.0), (2.0, 1.5)), ((3.0, 0.7), (1.0, 0.6))])


def pareto(scale, alpha):
    return dict(log_pdf=lambda x: log(alpha) + alpha * log(scale / x) - log(x), ends=(scale, inf),
                cdf=lambda x: -mp.expm1(alpha * log(scale / x)), sf=lambda x: (scale / x) ** alpha,
                mean=alpha * scale / (alpha - 1) if alpha > 1 else inf,
                variance=scale ** 2 * alpha / ((alpha - 1) ** 2 * (alpha - 2)) if alpha > 2 else inf, mode=scale,
                entropy=log(scale / alpha) + 1 + 1 / alpha,
                cuts=[scale * mpf(t) ** (1 / alpha) for t in (1.01, 2, 10, 1e3, 1e6, 1e12, 1e20, 1e30)])


F, cases = row(pareto)


@cases
def _(F):
    c = [case(F, v, [v[0] * t for t in ((1.0, 1.001, 1.5) if v[1] > 1e3 else (1.0 if e else 1.0625, 1.25, 1.5, 3.0, 1e4, 1e100))], P if v[1] > 0.1 else [0.2], extreme=e,
              heavy=v[1] < 5, coarse=True if v[1] < 0.1 else None, check=v[1] > 2, beyond=[v[0] * 0.9, -1.0, 0.0, -inf, inf, mp.nan])
         for v, e in [((1.5, 9.0), False), ((0.5, 6.0), False), ((2.0, 2.5), False), ((1.0, 1.0), True), ((3.0, 0.4), True), ((1.0, 0.02), True), ((2.0, 1e6), True)]]
    return c, kls(F, [((1.5, 9.0), (1.0, 3.0)), ((1.0, 3.0), (1.0, 5.0)), ((1.0, 3.0), (2.0, 5.0))])


# ---- von_mises; its draws are the operation von_mises_draw ----
def von_mises(loc, concentration):
    k, m = concentration, loc - 2 * pi * mp.nint(loc / (2 * pi))
    norm, gap = log(2 * pi * scaled_bessel(0, k)), bessel_gaps(k)[0]

    def lower(z):
        """of the law around 0, continued over whole turns"""
        turns = mp.nint(z / (2 * pi))
        z -= 2 * pi * turns
        return turns + (1 - von_mises_tail(k, z) if z > 0 else von_mises_tail(k, z))
    return dict(log_pdf=lambda x: -2 * k * mp.sin((x - loc) / 2) ** 2 - norm, ends=(-pi, pi), shares=True,
                cdf=lambda x: lower(x - m) - lower(-pi - m), sf=lambda x: lower(pi - m) - lower(x - m), mode=m, entropy=norm + k * gap,
                cuts=sorted(m + t / sqrt(k + 1) for t in (-12, -6, -3, -1, 0, 1, 3, 6, 12)))


F, cases = row(von_mises)


@cases
def _(F):
    def one(v, x, p=P, **more):
        c = case(F, v, x, p, **more)
        loc = v[0] - 2 * math.pi * round(v[0] / (2 * math.pi))
        return dict(c, mean=loc, variance=float(bessel_gaps(v[1])[0]))
    import math
    some = [-3.0, -1.1, 0.2, 0.9, 2.7]
    c = [one((0.0, 1.3), some), one((0.7, 4.0), some), one((-2.9, 0.6), some), one((8.0, 30.0), [0.5, 1.4, 1.7, 1.9, 2.7]),
         one((0.0, 1e-8), some, extreme=True), one((0.3, 1e-3), some, extreme=True),
         one((0.0, 1e8), [-1e-1, -3e-4, 0.0, 1e-4, 0.14], [1e-10, 0.2, 0.77], extreme=True),
         one((0.0, 700.0), [-3.1, -0.5, 0.0, 0.1, 3.14], extreme=True)]
    return c, [(F.named(a), F.named(b), float(log(scaled_bessel(0, mpf(b[1])) / scaled_bessel(0, mpf(a[1]))) + mpf(b[1]) - mpf(a[1])
                + (1 - bessel_gaps(a[1])[0]) * (mpf(a[1]) - mpf(b[1]) * mp.cos(mpf(a[0]) - mpf(b[0]))))) for a, b in
               [((0.3, 1.7), (-0.2, 0.9)), ((1.0, 0.5), (1.0, 20.0)), ((-3.0, 1.0), (2.0, 4.0)), ((0.0, 1e6), (1e-3, 2e6))]]


# ---- truncated_normal ----
def truncated_normal(loc, scale, low=-inf, high=inf):
    a, b = (low - loc) / scale, (high - loc) / scale
    sign = -1 if a > 0 else 1

    def between(s, t):
        return ndtr(t) - ndtr(s) if sign > 0 else ndtr(-s) - ndtr(-t)
    mp.dps = 400
    z = between(a, b)
    ea, eb = (exp(phi(t)) / z if mp.isfinite(t) else mpf(0) for t in (a, b))
    lever = (a * ea if ea else 0) - (b * eb if eb else 0)
    m, v = ea - eb, 1 + lever - (ea - eb) ** 2
    h = log(scale * z) + log(2 * pi) / 2 + (1 + lever) / 2
    mp.dps = 40
    log_z = log(z)

    def part(s, t):
        mp.dps = 400
        value = between((s - loc) / scale, (t - loc) / scale) / z
        mp.dps = 40
        return +value
    near = low if a > 0 else high if b < 0 else loc
    width = scale / max(1, min(abs(a), abs(b))) if a > 0 or b < 0 else scale
    return dict(log_pdf=lambda x: phi((x - loc) / scale) - log(scale) - log_z, ends=(low, high),
                cdf=lambda x: part(low, x), sf=lambda x: part(x, high), mean=+(loc + scale * m), variance=+(scale ** 2 * v), entropy=+h,
                mode=min(max(loc, low), high), cuts=[near + width * t for t in (-30, -10, -3, -1, 0, 1, 3, 10, 30)])


F, cases = row(truncated_normal)


@cases
def _(F):
    def one(v, x, **more):
        loc, scale, low, high = v
        beyond = [t for t in (low - scale, high + scale) if t not in (-inf, inf)] + [-inf, inf, mp.nan]
        span = [max(low, loc - 14 * scale), min(high, loc + 14 * scale)]
        return case(F, v, x, P, beyond=beyond, range=span, **more)
    c = [one((0.3, 1.7, -1.0, 2.5), [-0.99, -0.5, 0.3, 1.0, 2.4]), one((0.5, 1.0, 1.0, 3.0), [1.01, 1.5, 2.0, 2.9]),
         one((-0.5, 0.8, -inf, -1.0), [-9.0, -3.0, -1.5, -1.01]), one((0.0, 1.0, -inf, inf), [-3.0, 0.1, 4.0], far=[-1500.0]),
         one((0.0, 1.0, 8.0, inf), [8.0, 8.1, 9.5], extreme=True), one((0.0, 1.0, -40.0, -38.0), [-40.0, -38.5, -38.0], extreme=True),
         one((1.0, 0.1, 0.0, 1e6), [0.5, 1.0, 1.3], extreme=True), one((0.0, 1e6, 1.0, 3.0), [1.0, 1.5, 2.0], extreme=True)]
    return c, kls(F, [((0.3, 1.7, -1.0, 2.5), (0.0, 1.0, -1.0, 2.5)), ((0.3, 1.7, -1.0, 2.5), (0.5, 2.0, -inf, 3.0)),
                      ((0.3, 1.7, -1.0, 2.5), (0.5, 2.0, 0.0, 3.0))])


# ---- horseshoe ----
def horseshoe(scale):
    def u(x):
        return x * x / (2 * scale ** 2)

    def log_pdf(x):
        t = u(x)
        value = t + log(mp.e1(t)) if t < 1e4 else -log(t) + log(sum((-1) ** k * mp.factorial(k) / t ** k for k in range(12)))
        return value - log(scale) - log(2 * pi ** 3) / 2
    return dict(log_pdf=log_pdf, ends=(-inf, inf), mode=mpf(0), cuts=[scale * t for t in (-1e6, -1e3, -10, -1, -0.01, 0, 0.01, 1, 10, 1e3, 1e6)])


F, cases = row(horseshoe)


@cases
def _(F):
    c = []
    for s in (1.0, 0.3, 25.0, 1e-6):
        m = F.at((s,))
        quarter = [(s * t, float(mp.mpf(1) / 2 + m.integral(lambda x: 1, low=mpf(0), high=mpf(s) * t))) for t in (0.1, 0.5, 1.0, 3.0, 20.0)] if s > 1e-3 else None
        c.append(case(F, (s,), [s * t for t in (-1e5, -40.0, -1.0, 0.7, 0.05, 1e-100 if s < 1e-3 else 0.02, 5.0)], extreme=s < 1e-3, heavy=True, below=quarter, place=[0, s]))
    return c, []


# ---- continuous_bernoulli ----
def continuous_bernoulli(probs=None, logits=None):
    mp.dps = 60
    l = logits if logits is not None else log(probs / (1 - probs))
    n = log(mp.expm1(l) / l) if l else mpf(0)
    mean = 1 / (1 - exp(-l)) - 1 / l if l else mpf(1) / 2
    variance = 1 / l ** 2 - 1 / (4 * mp.sinh(l / 2) ** 2) if l else mpf(1) / 12
    mp.dps = 40
    return dict(log_pdf=lambda x: x * l - n, ends=(mpf(0), mpf(1)), cdf=(lambda x: mp.expm1(l * x) / mp.expm1(l)) if l else lambda x: x,
                sf=(lambda x: mp.expm1(l * (1 - x)) / mp.expm1(l) * exp(l * x)) if l else lambda x: 1 - x,
                mean=+mean, variance=+variance, mode=mpf(1) if l > 0 else mpf(0) if l < 0 else mpf(1) / 2, entropy=+(n - mean * l), cuts=[mpf(1) / 2])


F, cases = row(continuous_bernoulli)


@cases
def _(F):
    def one(v, x=(0.01, 0.3, 0.55, 0.99), **more):
        return case(F, v, x, P, **more)
    c = [one((0.3, None)), one((0.93, None)), one((0.52, None)), one((None, -1.4)), one((None, 0.15)), one((None, 6.0)),
         one((0.5, None), extreme=True), one((1e-9, None), (0.0, 1e-3, 1.0), extreme=True), one((None, 700.0), (0.0, 0.99, 1.0), extreme=True),
         one((None, 1e-12), (0.0, 0.5, 1.0), extreme=True), one((None, -0.2), (0.0, 0.5, 1.0), extreme=True), one((None, 0.21), (0.0, 0.5, 1.0), extreme=True)]
    return c, kls(F, [((0.3, None), (0.6, None)), ((None, -1.4), (None, 0.1)), ((0.5, None), (0.9, None))])


# ---- relaxed_bernoulli ----
def relaxed_bernoulli(temperature, probs=None, logits=None):
    l, t = logits if logits is not None else log(probs / (1 - probs)), temperature

    def odds(x):
        return log(x) - mp.log1p(-x)

    def softplus(z):
        return mp.log1p(exp(z)) if z < 100 else z + exp(-z)
    return dict(log_pdf=lambda x: log(t) + (l - t * odds(x)) - 2 * softplus(l - t * odds(x)) - log(x) - mp.log1p(-x), ends=(mpf(0), mpf(1)),
                cdf=lambda x: 1 / (1 + exp(l - t * odds(x))), sf=lambda x: 1 / (1 + exp(t * odds(x) - l)),
                cuts=[mpf(s) for s in (1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6)])


F, cases = row(relaxed_bernoulli)


@cases
def _(F):
    def one(v, x=(0.01, 0.3, 0.55, 0.99), **more):
        return case(F, v, x, P, **more)
    c = [one((0.9, 0.3, None)), one((2.0, 0.8, None)), one((1.3, None, -0.7)), one((10.0, None, 1.0)),
         one((0.01, 0.5, None), (1e-200, 1e-3, 0.5, 0.9), extreme=True, coarse=True), one((100.0, None, 30.0), (0.5, 0.57, 0.6), extreme=True)]
    for k in c:
        if k["params"]["temperature"] == 0.01:
            del k["p"], k["icdf"]
    return c, []


if __name__ == "__main__":
    for name, make in rows.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make()
