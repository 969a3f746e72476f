#!/usr/bin/env python3
"""Golden values of src/math/special*.c from mpmath: writes special_golden.h beside this file.

    python3 special.py            # 60 random points a function and all edges: what is checked in
    python3 special.py 5000 dense.h [name...]
                                  # the dense sweep that the comments' "Max error" come from:
                                  # cc -DGOLDEN='"dense.h"' special_test.c ..., run with -v

Every argument is a double, taken exactly; every value is computed at 50 digits or more (more where a
tail is the difference of two numbers). A row is {{a, b, c}, value, rest, scale}: the value is value + rest,
the error of a result |(got - value) - rest| / scale, where scale is |value| unless given below.
Needs mpmath and SciPy (only for the starting points of the inverses).
"""
import math
import random
import sys
from pathlib import Path

import scipy.special as sc
from mpmath import mp, mpf, inf

mp.dps = 50
FUNCTIONS = {}


def log_uniform(r, lo, hi):
    return math.exp(r.uniform(math.log(lo), math.log(hi)))


def mixed(*parts):
    """A sampler that takes its parts in turn; a part is ('u'|'l'|'n', lo, hi): uniform, log-uniform,
    log-uniform and negated."""
    def draw(r, i):
        kind, lo, hi = parts[i % len(parts)]
        x = r.uniform(lo, hi) if kind == "u" else log_uniform(r, lo, hi)
        return (-x if kind == "n" else x,)
    return draw


def function(name, arity, sampler, edges=(), digits=None, scale=None):
    """edges: argument tuples, or (arguments, value) pairs where a limit is fixed by definition."""
    def wrap(f):
        FUNCTIONS[name] = (f, arity, sampler, edges, scale)
        return f
    return wrap


def special(value):
    return {math.inf: "INFINITY", -math.inf: "-INFINITY"}.get(value, "NAN" if value != value else None)


def text(v):
    v = float(v)
    return special(v) or repr(v)


NAN = math.nan
TINY = [5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-100, 1e-20, 1e-16, 1e-8]


def one(*xs):
    return [(x,) for x in xs]


def fixed(pairs):
    return [((x,) if not isinstance(x, tuple) else x, v) for x, v in pairs]


# ---- special.c -----------------------------------------------------------------------------------

@function("log1mexp", 1, mixed(("n", 1e-300, 1e-3), ("u", -3, -1e-3), ("u", -700, -3), ("u", -0.75, -0.63)),
          one(-math.log(2), -1e-5, -37.0, -700.0, -745.0) + one(*[-t for t in TINY]) +
          fixed([(0.0, -math.inf), (-math.inf, 0.0), (1.0, NAN), (NAN, NAN)]))
def log1mexp(x):
    return mp.log(-mp.expm1(x)) if x > -1 else mp.log1p(-mp.exp(x))


@function("log1pexp", 1, mixed(("u", -40, 40), ("u", -700, -30), ("u", 17, 36), ("l", 1e-10, 1e3)),
          one(-37.0, 18.0, 34.0, 0.0, 1e300, -700.0, -745.0) +
          fixed([(-math.inf, 0.0), (math.inf, math.inf), (NAN, NAN)]))
def log1pexp(x):
    return x + mp.log1p(mp.exp(-x)) if x > 0 else mp.log1p(mp.exp(x))


@function("logexpm1", 1, mixed(("l", 1e-300, 1e-2), ("u", 0.01, 3), ("u", 0.55, 0.85), ("l", 1, 1e4)),
          one(1.0, math.log(2), 700.0, 1e300, *TINY) +
          fixed([(0.0, -math.inf), (math.inf, math.inf), (-1.0, NAN), (NAN, NAN)]),
          scale=lambda v, y: max(abs(v), 1) if abs(y - math.log(2)) < 0.1 else abs(v))
def logexpm1(y):
    return y + mp.log(-mp.expm1(-y))


def pair_normal(r, i):
    s = [1, 10, 1e-3, 1e3][i % 4]
    a = r.gauss(0, s)
    return a, (a + r.gauss(0, 1) if i % 3 == 0 else r.gauss(0, s))


@function("logaddexp", 2, pair_normal,
          [(0.0, 0.0), (1e300, 1e300), (-1e300, 0.0), (1000.0, -1000.0), (-0.6931471805599453, -0.6931471805599453)] +
          fixed([((-math.inf, -math.inf), -math.inf), ((math.inf, -math.inf), math.inf), ((-math.inf, 2.5), 2.5),
                 ((math.inf, math.inf), math.inf), ((NAN, 1.0), NAN), ((1.0, NAN), NAN), ((NAN, math.inf), NAN)]),
          scale=lambda v, a, b: max(abs(a), abs(b), math.log(2)))
def logaddexp(a, b):
    m = max(a, b)
    return m + mp.log1p(mp.exp(min(a, b) - m))


@function("sigmoid", 1, mixed(("u", -5, 5), ("u", -700, 0), ("u", 0, 40), ("l", 1e-20, 1)),
          one(0.0, 700.0, -700.0, -1e-300) + fixed([(math.inf, 1.0), (-math.inf, 0.0), (1e308, 1.0), (-1e308, 0.0), (NAN, NAN)]))
def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


@function("logit", 1, mixed(("u", 0, 1), ("l", 1e-300, 0.1), ("u", 0.24, 0.26), ("u", 0.74, 0.76), ("u", 0.4999, 0.5001)),
          one(0.25, 0.75, 1 - 2.0**-53, 0.5 + 2.0**-53, *TINY) +
          fixed([(0.5, 0.0), (0.0, -math.inf), (1.0, math.inf), (-0.1, NAN), (1.1, NAN), (NAN, NAN)]))
def logit(p):
    return mp.log(p) - mp.log1p(-p)


@function("log_sigmoid", 1, mixed(("u", -40, 40), ("u", 30, 700), ("n", 1, 1e6)),
          one(0.0, 745.0, -1e300) + fixed([(math.inf, 0.0), (-math.inf, -math.inf), (NAN, NAN)]))
def log_sigmoid(x):
    return -log1pexp(-x)


@function("xlogy", 2, lambda r, i: (r.gauss(0, 3), log_uniform(r, 1e-3, 1e3)),
          [(1e-300, 1e-300), (2.0, 5e-324)] +
          fixed([((0.0, 0.0), 0.0), ((0.0, math.inf), 0.0), ((0.0, -1.0), 0.0), ((0.0, NAN), NAN), ((NAN, 1.0), NAN),
                 ((1.0, 0.0), -math.inf), ((1.0, -1.0), NAN), ((2.0, 1.0), 0.0)]))
def xlogy(x, y):
    return x * mp.log(y)


@function("xlog1py", 2, lambda r, i: (r.gauss(0, 3), r.uniform(-0.9, 4) if i % 2 else log_uniform(r, 1e-20, 1e3)),
          [(2.0, 5e-324), (3.0, -1e-20)] +
          fixed([((0.0, -1.0), 0.0), ((0.0, math.inf), 0.0), ((0.0, NAN), NAN), ((1.0, -1.0), -math.inf), ((1.0, -2.0), NAN)]))
def xlog1py(x, y):
    return x * mp.log1p(y)


@function("log1p_gap", 1, mixed(("u", -0.99, 3), ("l", 1e-100, 1e-2), ("n", 1e-100, 1e-2), ("l", 1, 1e10), ("u", -0.61, -0.59)),
          one(1.0, -0.6, 1e300, -1 + 2.0**-53, 1e-150) +
          fixed([(0.0, 0.0), (-1.0, math.inf), (math.inf, math.inf), (-2.0, NAN), (NAN, NAN)]))
def log1p_gap(x):
    with mp.workdps(360):
        return x - mp.log1p(x)


# ---- special_erf.c -------------------------------------------------------------------------------

@function("erf", 1, mixed(("u", -3, 3), ("l", 1e-300, 1), ("u", 3, 7)),
          one(1e-310, 5.9, -0.5) + fixed([(0.0, 0.0), (math.inf, 1.0), (-math.inf, -1.0), (NAN, NAN)]))
def erf(x):
    return mp.erf(x)


@function("erfc", 1, mixed(("u", -3, 3), ("u", 3, 26.4), ("n", 1e-10, 6)),
          one(26.5, 1e-20, 0.5) + fixed([(0.0, 1.0), (math.inf, 0.0), (-math.inf, 2.0), (NAN, NAN)]))
def erfc(x):
    return mp.erfc(x)


@function("erfcx", 1, mixed(("u", -3, 25), ("u", -26.6, 0), ("l", 1, 1e8), ("u", 24, 26), ("l", 1e-20, 1)),
          one(25.0, 24.999999999, 1e100, 1e300, -26.6) +
          fixed([(0.0, 1.0), (math.inf, 0.0), (-math.inf, math.inf), (-27.0, math.inf), (-1e10, math.inf), (NAN, NAN)]))
def erfcx(x):
    if x > 1e4:
        t = 1 / (2 * x * x)
        return (1 - t + 3 * t**2 - 15 * t**3 + 105 * t**4 - 945 * t**5 + 10395 * t**6) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def newton(f, slope, x, top=inf):
    """Root of f near x by Newton's method at the working precision, x kept below top."""
    x = mpf(x)
    for _ in range(60):
        step = f(x) / slope(x)
        step = max(step, (x - top) / 2) if top < inf else step
        x -= step
        if abs(step) < abs(x) * mpf(10) ** (-mp.dps + 8):
            break
    return x


def lower_ndtri(p):
    """x with Phi(x) = p for 0 < p <= 1/2, at 60 digits; p an mpf."""
    with mp.workdps(60):
        start = mpf(float(sc.ndtri(float(p)))) if p > mpf(10) ** -300 else -mp.sqrt(-2 * mp.log(p))
        def f(x):
            return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) - mp.log(p)
        def slope(x):
            return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / (mp.erfc(-x / mp.sqrt(2)) / 2)
        return newton(f, slope, start)


def ndtri_of(p, q):
    return lower_ndtri(p) if p <= q else -lower_ndtri(q)


@function("erfinv", 1, mixed(("u", -1, 1), ("l", 1e-300, 0.1), ("u", 0.84, 0.86), ("u", 0.999, 1)),
          one(0.85, 1 - 2.0**-53, -1 + 2.0**-53, 1e-310, 1e-16) +
          fixed([(0.0, 0.0), (1.0, math.inf), (-1.0, -math.inf), (1.5, NAN), (-1.5, NAN), (NAN, NAN)]))
def erfinv(y):
    if abs(y) < 1e-5:
        c = mp.sqrt(mp.pi) / 2 * y
        return c * (1 + c**2 / 3 + 7 * c**4 / 30 + 127 * c**6 / 630 + 4369 * c**8 / 22680 + 34807 * c**10 / 178200)
    return mp.erfinv(y) if abs(y) < 0.5 else ndtri_of((1 + y) / 2, (1 - y) / 2) / mp.sqrt(2)


@function("erfcinv", 1, mixed(("u", 0, 2), ("l", 1e-300, 0.1), ("u", 0.14, 0.16), ("u", 1.84, 1.86)),
          one(0.15, 1.85, 5e-324, 1 - 2.0**-53, 2 - 2.0**-52) +
          fixed([(1.0, 0.0), (0.0, math.inf), (2.0, -math.inf), (-0.1, NAN), (2.1, NAN), (NAN, NAN)]))
def erfcinv(y):
    if abs(y - 1) < 0.4:
        return erfinv(1 - y)
    return -ndtri_of(y / 2, 1 - y / 2) / mp.sqrt(2)


@function("ndtr", 1, mixed(("u", -5, 5), ("u", -37, -5), ("n", 1e-20, 1), ("u", 5, 9)),
          one(-37.5, 1e-20) + fixed([(0.0, 0.5), (math.inf, 1.0), (-math.inf, 0.0), (NAN, NAN)]))
def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


@function("log_ndtr", 1, mixed(("u", -5, 5), ("u", -40, -5), ("n", 30, 1e6), ("u", -1.1, -0.9), ("u", 0, 37)),
          one(0.0, -1.0, -1e100, -1e150, 37.5, -37.5) +
          fixed([(math.inf, 0.0), (-math.inf, -math.inf), (-1e200, -math.inf), (NAN, NAN)]))
def log_ndtr(x):
    if x > 0:
        return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)
    return mp.log(erfcx(-x / mp.sqrt(2)) / 2) - x * x / 2


@function("ndtri", 1, mixed(("u", 0, 1), ("l", 1e-300, 0.1), ("u", 0.07, 0.08), ("u", 0.92, 0.93), ("u", 0.49, 0.51)),
          one(0.075, 0.925, 5e-324, 1e-310, 1 - 2.0**-53, 0.5 + 2.0**-53) +
          fixed([(0.5, 0.0), (0.0, -math.inf), (1.0, math.inf), (-0.1, NAN), (1.1, NAN), (NAN, NAN)]))
def ndtri(p):
    if abs(p - 0.5) < 0.2:
        return mp.sqrt(2) * erfinv(2 * p - 1)
    return ndtri_of(p, 1 - p)


# ---- special_gamma.c -----------------------------------------------------------------------------

def near_integers(r, i):
    """Negative non-integers, some of them close to a pole."""
    n = r.randrange(1, 60)
    x = -n + (r.uniform(-0.5, 0.5) if i % 2 else log_uniform(r, 1e-6, 0.4))
    return (x if x != int(x) else x + 0.25,)


def positive(*parts):
    draw = mixed(*parts)
    def sample(r, i):
        return near_integers(r, i) if i % 4 == 3 else draw(r, i)
    return sample


@function("lgamma", 1, positive(("l", 1e-300, 1), ("u", 0.5, 20), ("l", 1, 1e10), ("u", 0.9, 1.1), ("u", 1.9, 2.1)),
          one(0.5, 171.5, 1e300, 1e-310, -0.5, 3.0) +
          fixed([(1.0, 0.0), (2.0, 0.0), (0.0, math.inf), (-1.0, math.inf), (-20.0, math.inf), (math.inf, math.inf),
                 (-math.inf, math.inf), (NAN, NAN)]),
          scale=lambda v, x: abs(v) if x > 0 else max(abs(v), abs(x) * math.log(max(abs(x), 2))))
def lgamma(x):
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


@function("lgamma1p", 1, mixed(("u", -0.499, 2), ("l", 1e-300, 0.5), ("n", 1e-300, 0.49), ("u", 0.9, 1.1)),
          one(0.5, -0.49, 10.0) + fixed([(0.0, 0.0), (1.0, 0.0)]),
          scale=lambda v, a: max(abs(v), 1) if abs(a - 1) < 0.2 else abs(v))
def lgamma1p(a):
    if abs(a) < 1e-12:
        return a * (-mp.euler + a * (mp.zeta(2) / 2 - a * (mp.zeta(3) / 3 - a * mp.zeta(4) / 4)))
    return mp.loggamma(1 + a)


@function("stirling_error", 1, mixed(("l", 1e-3, 10), ("l", 10, 1e4), ("l", 1e4, 1e15)),
          one(10.0, 9.999, 1e-10, 0.5, 1.0) + fixed([(math.inf, 0.0), (1e200, float(1 / mpf(12e200)))]),
          scale=lambda v, z: abs(v) if z >= 10 else max(abs(v), 1))
def stirling_error(z):
    with mp.workdps(110):
        return mp.loggamma(z) - ((z - mpf(1) / 2) * mp.log(z) - z + mp.log(2 * mp.pi) / 2)


def digamma_scale(v, x):
    if x > 0:
        return max(abs(v), 1) if abs(x - 1.4616) < 0.6 else abs(v)
    return math.log(abs(x) + 1) + abs(math.pi / math.tan(math.pi * (x - round(x)))) + 1


@function("digamma", 1, positive(("l", 1e-300, 1), ("u", 0.5, 20), ("l", 1, 1e10), ("u", 1.3, 1.6)),
          one(1.0, 0.5, 10.0, 1e300, 1e-18, -1e-18, 1.4616321449683622) +
          fixed([(0.0, -math.inf), (-0.0, math.inf), (-1.0, NAN), (-7.0, NAN), (math.inf, math.inf), (-math.inf, NAN), (NAN, NAN)]),
          scale=digamma_scale)
def digamma(x):
    return mp.digamma(x)


@function("trigamma", 1, positive(("l", 1e-150, 1), ("u", 0.5, 20), ("l", 1, 1e10)),
          one(1.0, 10.0, 1e100, 1e-150) +
          fixed([(0.0, math.inf), (-1.0, math.inf), (math.inf, 0.0), (-math.inf, NAN), (NAN, NAN)]))
def trigamma(x):
    return mp.psi(1, x)


def hurwitz(n, x):
    """n! zeta(n + 1, x), x > 0."""
    with mp.workdps(60 + int(max(0, (n + 1) * mp.log10(x)))):  # zeta is accurate in absolute terms only
        return mp.factorial(n) * mp.zeta(n + 1, x)


def polygamma_scale(v, n, x):
    if x > 0 or n % 2:
        return abs(v)
    terms = [hurwitz(int(n), x - mp.floor(x)), hurwitz(int(n), mp.ceil(x) - x), hurwitz(int(n), 1 - x)]
    return float(max(terms))


def polygamma_args(r, i):
    n = r.choice([2, 3, 4, 5, 6, 8, 10])
    return float(n), (near_integers(r, i)[0] if i % 4 == 3 else log_uniform(r, 1e-3, 1e3))


@function("polygamma", 2, polygamma_args,
          [(0.0, 3.5), (1.0, 2.5), (2.0, 1.0), (50.0, 2.0), (100.0, 0.5), (100.0, 80.0), (30.0, 1000.0)] +
          fixed([((2.0, math.inf), 0.0), ((3.0, 0.0), math.inf), ((2.0, -1.0), NAN), ((3.0, -1.0), math.inf),
                 ((2.0, 0.0), -math.inf), ((2.0, -math.inf), NAN), ((-1.0, 1.0), NAN), ((2.0, NAN), NAN)]),
          scale=polygamma_scale)
def polygamma(n, x):
    n = int(n)
    if n == 0:
        return mp.digamma(x)
    if x > 0:
        return (-1) ** (n + 1) * hurwitz(n, x)
    above, below = hurwitz(n, x - mp.floor(x)), hurwitz(n, mp.ceil(x) - x)
    return (1 if n % 2 else -1) * above + below - hurwitz(n, 1 - x)


def two_log(lo, hi):
    return lambda r, i: (log_uniform(r, lo, hi), log_uniform(r, lo, hi))


@function("lbeta", 2, lambda r, i: [two_log(1e-10, 1e10), two_log(0.1, 30), two_log(5, 1e4)][i % 3](r, i),
          [(1.0, 1.0), (0.5, 0.5), (1e-300, 1.0), (10.0, 10.0), (9.99, 1e8), (1e10, 1e-10)] +
          fixed([((0.0, 1.0), math.inf), ((1.0, 0.0), math.inf), ((1.0, math.inf), -math.inf), ((0.0, math.inf), NAN),
                 ((-1.0, 1.0), NAN), ((NAN, 1.0), NAN)]),
          scale=lambda v, a, b: max(abs(v), 1))
def lbeta(a, b):
    with mp.workdps(90):
        return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


# ---- special_incgamma.c --------------------------------------------------------------------------

def log10_tail(a, x):
    """A rough -log10 of the smaller tail of Gamma(a)."""
    return max(0.0, float((x - a - a * mp.log(x / a)) / mp.log(10))) if a > 0 else 0.0


def gamma_tails(a, x, extra=0):
    """P and Q, both with 50 correct digits: the positive series for P, Q by difference."""
    a, x = mpf(a), mpf(x)
    with mp.workdps(int(70 + extra + log10_tail(a, x) + abs(float(mp.log10(a))) + 2 * max(0.0, float(mp.log10(x))))):
        term = mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))
        total, n, small = term, 0, mpf(10) ** -(mp.dps + 5)
        while True:
            n += 1
            term *= x / (a + n)
            total += term
            if n > x - a and term < small * total:
                return total, 1 - total


def tail_scale(v, *args):
    """A tail e^-E: the rounding of its exponent alone costs E units."""
    return abs(v) * (1 + abs(mp.log(abs(v)))) if v else 0


def gamma_args(r, i):
    kind = i % 6
    if kind == 0:
        a = log_uniform(r, 0.05, 50)
        return a, a * log_uniform(r, 0.05, 8)
    if kind == 1:
        a = log_uniform(r, 12, 3000)
        return a, max(1e-3, a + r.gauss(0, 4) * math.sqrt(a))
    if kind == 2:
        return log_uniform(r, 1e-8, 1), log_uniform(r, 1e-6, 1.3)
    if kind == 3:
        return log_uniform(r, 1e-4, 3), log_uniform(r, 0.5, 60)
    if kind == 4:
        a = r.uniform(1, 40)
        return a, a * log_uniform(r, 0.3, 2.4)
    a = log_uniform(r, 20, 300)
    return a, a * r.uniform(0.3, 2.35)


GAMMA_EDGES = [(12.0, 12.0), (11.999, 12.0), (1e5, 1e5), (1e5, 99000.0), (1e5, 101000.0), (0.5, 1.2), (1.0, 1.0), (1e-10, 0.5),
               (30.0, 9.0), (30.0, 70.5), (1.0, 700.0), (3.0, 1e-100), (1e-3, 1e-200)]


def limits(lower):
    return fixed([((0.0, 1.0), lower), ((1.0, 0.0), 1 - lower), ((1.0, math.inf), lower), ((math.inf, 1.0), 1 - lower), ((0.0, 0.0), NAN),
                  ((math.inf, math.inf), NAN), ((-1.0, 1.0), NAN), ((1.0, -1.0), NAN), ((NAN, 1.0), NAN), ((1.0, NAN), NAN)])


@function("gammainc", 2, gamma_args, GAMMA_EDGES + limits(1.0), scale=tail_scale)
def gammainc(a, x):
    return gamma_tails(a, x)[0]


@function("gammaincc", 2, gamma_args, GAMMA_EDGES + limits(0.0), scale=tail_scale)
def gammaincc(a, x):
    return gamma_tails(a, x)[1]


@function("gammainc_grad_a", 2, gamma_args,
          [e for e in GAMMA_EDGES if e[0] < 1e4] + [(0.0, 0.5), (0.0, 3.0), (0.0, 20.0), (2000.0, 2000.0)] +
          fixed([((1.0, 0.0), 0.0), ((1.0, math.inf), 0.0), ((0.0, 0.0), NAN), ((-1.0, 1.0), NAN), ((1.0, NAN), NAN)]),
          scale=tail_scale)
def gammainc_grad_a(a, x):
    if a == 0:
        return -mp.e1(x)
    h = mpf(a) * mpf(10) ** -25
    with mp.workdps(int(150 + log10_tail(a, x) + 2 * abs(math.log10(a)))):
        up, down = gamma_tails(a + h, x, 80)[0], gamma_tails(a - h, x, 80)[0]
        return (up - down) / (2 * h)


def gamma_density(a, x):
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def inverse_scale(density, tails):
    """An inverse is judged by x or by what one rounding of the smaller tail moves x, if that is more."""
    def scale(v, *args):
        shape = args[:-1]
        x = mpf(v)
        low = tails(*shape, x)
        return float(abs(x) + min(low) / density(*shape, x))
    return scale


def gamma_inverse_args(r, i):
    a = log_uniform(r, 0.02, 1000) if i % 2 else log_uniform(r, 0.5, 20)
    p = r.uniform(0, 1) if i % 3 else log_uniform(r, 1e-30, 0.1)
    return (a, p) if sc.gammaincinv(a, p) > 1e-280 else (a + 1, p)


@function("gammaincinv", 2, gamma_inverse_args,
          [(1.0, 0.5), (0.5, 1e-10), (1e4, 0.5), (3.0, 1 - 2.0**-53), (100.0, 1e-100)] +
          fixed([((1.0, 0.0), 0.0), ((1.0, 1.0), math.inf), ((0.0, 0.5), NAN), ((math.inf, 0.5), NAN), ((1.0, -0.1), NAN), ((1.0, 1.1), NAN),
                 ((1.0, NAN), NAN)]),
          scale=inverse_scale(gamma_density, gamma_tails))
def gammaincinv(a, p):
    k, target = (0, p) if p <= 0.5 else (1, 1 - mpf(p))
    start = mp.log(sc.gammaincinv(float(a), float(p)) if p <= 0.5 else sc.gammainccinv(float(a), float(target)))
    def f(u):
        return mp.log(gamma_tails(a, mp.exp(u))[k] / target)
    def slope(u):
        x = mp.exp(u)
        return (1 if k == 0 else -1) * x * gamma_density(a, x) / gamma_tails(a, x)[k]
    return mp.exp(newton(f, slope, start))


def slope_args(r, i):
    a = log_uniform(r, 1e-3, 1e4) if i % 3 else log_uniform(r, 0.1, 10)
    x = sc.gammaincinv(a, r.uniform(1e-6, 1))
    return a, (math.log(x) if x > 0 else -1e3)


@function("log_gamma_slope", 2, slope_args, [(0.01, -500.0), (1.0, 0.0), (1e-3, -2000.0)] + fixed([((0.0, 1.0), NAN), ((1.0, NAN), NAN), ((-1.0, 1.0), NAN)]))
def log_gamma_slope(a, z):
    x = mp.exp(mpf(z))
    return -gammainc_grad_a(a, x) / (x * gamma_density(a, x))


# ---- special_incbeta.c ---------------------------------------------------------------------------

def beta_lower(a, b, x, digits):
    """I_x(a, b) by its positive series, x <= 1/2 or so."""
    a, b, x = mpf(a), mpf(b), mpf(x)
    with mp.workdps(digits):
        log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
        term = mp.exp(a * mp.log(x) + b * mp.log1p(-x) - log_beta) / a
        total, n, small = term, 0, mpf(10) ** -(mp.dps + 5)
        while True:
            ratio = (a + b + n) / (a + 1 + n) * x
            n += 1
            term *= ratio
            total += term
            if ratio < 0.999 and term < small * total:
                return total


def beta_tails(a, b, x):
    """I_x(a, b) and its complement, both with 50 digits."""
    a, b, x = mpf(a), mpf(b), mpf(x)
    p = a / (a + b)
    drop = (a * mp.log(p / x) + b * mp.log((1 - p) / (1 - x))) / mp.log(10)
    digits = int(80 + max(0.0, float(drop)) + 2 * abs(float(mp.log10(a))) + 2 * abs(float(mp.log10(b))))
    with mp.workdps(digits):
        if x <= 0.5:
            low = beta_lower(a, b, x, digits)
            return low, 1 - low
        up = beta_lower(b, a, 1 - x, digits)
        return 1 - up, up


def beta_args(r, i):
    kind = i % 6
    if kind == 5:
        s, l = log_uniform(r, 0.2, 15), log_uniform(r, 15, 1e8)
        w = min(0.9, s / l * log_uniform(r, 0.2, 4))
        return (s, l, w) if i % 4 == 1 else (l, s, 1 - w)
    if kind == 0:
        a, b = log_uniform(r, 0.05, 30), log_uniform(r, 0.05, 30)
        return a, b, r.uniform(0.001, 0.999)
    if kind == 1:
        a, b = log_uniform(r, 20, 3000), log_uniform(r, 20, 3000)
        m = a / (a + b)
        return a, b, min(0.999, max(1e-3, m + 4 * r.gauss(0, 1) * math.sqrt(m * (1 - m) / (a + b))))
    if kind == 2:
        return log_uniform(r, 1e-6, 1), log_uniform(r, 1e-6, 5), r.uniform(0.001, 0.999)
    if kind == 3:
        return log_uniform(r, 0.1, 20), log_uniform(r, 10, 1000), log_uniform(r, 1e-6, 0.5)
    return log_uniform(r, 1, 300), log_uniform(r, 1, 300), r.uniform(0.05, 0.95)


BETA_LIMITS = [((1.0, 1.0, 0.0), 0.0), ((1.0, 1.0, 1.0), 1.0), ((0.0, 1.0, 0.5), NAN), ((1.0, 0.0, 0.5), NAN), ((-1.0, 1.0, 0.5), NAN),
               ((1.0, 1.0, -0.1), NAN), ((1.0, 1.0, 1.1), NAN), ((1.0, 1.0, NAN), NAN), ((math.inf, 1.0, 0.5), NAN)]


@function("betainc", 3, beta_args,
          [(0.5, 0.5, 0.5), (1.0, 1.0, 0.3), (1e4, 1e4, 0.5), (1e4, 1e4, 0.49), (1e5, 10.0, 0.9999), (20.0, 20.0, 0.2), (2.0, 3.0, 1e-100),
           (2.0, 3.0, 1 - 2.0**-53), (1e-10, 1e-10, 0.3)] + fixed(BETA_LIMITS),
          scale=tail_scale)
def betainc(a, b, x):
    return beta_tails(a, b, x)[0]


def beta_density(a, b, x):
    return mp.exp((a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - (mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)))


def beta_inverse_args(r, i):
    a, b = log_uniform(r, 0.1, 200), log_uniform(r, 0.1, 200)
    return a, b, (r.uniform(0, 1) if i % 3 else log_uniform(r, 1e-20, 0.1))


@function("betaincinv", 3, beta_inverse_args,
          [(0.5, 0.5, 0.5), (1.0, 1.0, 0.3), (1e3, 1e3, 0.5), (2.0, 3.0, 1e-100), (2.0, 3.0, 1 - 2.0**-53)] + fixed(BETA_LIMITS),
          scale=inverse_scale(beta_density, beta_tails))
def betaincinv(a, b, p):
    k, target = (0, p) if p <= 0.5 else (1, 1 - mpf(p))
    if beta_tails(a, b, mpf(1) / 2)[0] < p:  # solve for 1 - x, which is the smaller part
        return 1 - solve_beta(b, a, 1 - k, target)
    return solve_beta(a, b, k, target)


def solve_beta(a, b, k, target):
    other = 1 - float(target)
    start = sc.betaincinv(float(a), float(b), float(target) if k == 0 else other)
    start = min(max(start, 1e-290), 0.5)
    def f(u):
        return mp.log(beta_tails(a, b, mp.exp(u))[k] / target)
    def slope(u):
        x = mp.exp(u)
        return (1 if k == 0 else -1) * x * beta_density(a, b, x) / beta_tails(a, b, x)[k]
    return mp.exp(newton(f, slope, mp.log(start), mpf(0)))


def beta_slope(a, b, x, which):
    h = mpf((a, b)[which]) * mpf(10) ** -25
    def lower(s):
        return beta_tails(a + s * (1 - which), b + s * which, x)[0]
    p = mpf(a) / (mpf(a) + b)
    drop = (a * mp.log(p / x) + b * mp.log((1 - p) / (1 - mpf(x)))) / mp.log(10)
    with mp.workdps(int(150 + max(0.0, float(drop)) + 2 * abs(math.log10(a)) + 2 * abs(math.log10(b)))):
        return (lower(h) - lower(-h)) / (2 * h)


def beta_slope_args(r, i):
    a, b, x = beta_args(r, (0, 1, 3, 4)[i % 4])
    return (a, b, x)


SLOPE_LIMITS = [((1.0, 1.0, 0.0), 0.0), ((1.0, 1.0, 1.0), 0.0), ((0.0, 1.0, 0.5), NAN), ((1.0, 1.0, 1.1), NAN), ((1.0, 1.0, NAN), NAN)]


@function("betainc_slope_a", 3, beta_slope_args, [(0.01, 0.02, 0.5), (2.0, 3.0, 1e-100), (1e4, 1e4, 0.49)] + fixed(SLOPE_LIMITS), scale=tail_scale)
def betainc_slope_a(a, b, x):
    return beta_slope(a, b, x, 0)


@function("betainc_slope_b", 3, beta_slope_args, [(0.01, 0.02, 0.5), (2.0, 3.0, 1 - 2.0**-53), (1e4, 1e4, 0.49)] + fixed(SLOPE_LIMITS), scale=tail_scale)
def betainc_slope_b(a, b, x):
    return beta_slope(a, b, x, 1)


# ---- special_expint.c and inverses in other scales --------------------------------------------------

@function("expintx", 1, mixed(("l", 1e-300, 1), ("u", 0.2, 2), ("l", 1, 1e300)), [(1.0,), (700.0,), (1e-310,)] +
          fixed([((0.0,), math.inf), ((math.inf,), 0.0), ((-1.0,), NAN), ((NAN,), NAN)]))
def expintx(x):
    with mp.workdps(60):
        if x > 1e5:
            term, total = 1 / mpf(x), mpf(0)
            for k in range(1, 40):
                total, term = total + term, -term * k / x
            return total
        return mp.exp(mpf(x)) * mp.e1(mpf(x))


@function("log_ndtri", 1, mixed(("n", 1e-300, 0.7), ("u", -3, -0.5), ("n", 1, 1e5), ("n", 600, 1e30)),
          [(-700.0,), (-0.8,), (-1e-310,)] + fixed([((0.0,), math.inf), ((-math.inf,), -math.inf), ((1.0,), NAN), ((NAN,), NAN)]),
          scale=lambda v, y: float(abs(v) + abs(mpf(y)) * mp.exp(mpf(y) + mpf(v) ** 2 / 2) * mp.sqrt(2 * mp.pi)))
def log_ndtri(y):
    with mp.workdps(120):
        return log_ndtri_exact(mpf(y))


def log_ndtri_exact(y):
    if y > -0.5:
        tail = -mp.expm1(y)
        start, sign = mp.log(tail), -1
    else:
        start, sign = y, 1
    # log Phi(-|x|) = start by Newton; log erfc of a large argument by its series
    def log_tail(x):
        if x < -200:
            s, term = mpf(0), mpf(1)
            for k in range(1, 30):
                s, term = s + term, -term * (2 * k - 1) / x ** 2
            return -x * x / 2 - mp.log(-x) - mp.log(2 * mp.pi) / 2 + mp.log(s)
        return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)
    x = -mp.sqrt(-2 * start) if start < -1 else mpf(0)
    for _ in range(60):
        value = log_tail(x)
        step = (value - start) / mp.exp(-x * x / 2 - mp.log(2 * mp.pi) / 2 - value)
        x -= step
        if abs(step) <= mpf(10) ** -45 * max(abs(x), mpf(10) ** -40):
            break
    return sign * x


# ---- special_bessel.c ------------------------------------------------------------------------------

BESSEL = mixed(("l", 1e-8, 1), ("u", 0.5, 40), ("l", 25, 60), ("l", 1, 1e8))


def scaled_bessel(n, x):
    """e^-|x| I_n(x), by Hankel's expansion where mpmath's own would be slow"""
    if abs(x) < 1e3:
        return mp.besseli(n, x) * mp.exp(-abs(x))
    term = total = mpf(1)
    for k in range(1, 60):
        term *= -(4 * mpf(n) ** 2 - (2 * k - 1) ** 2) / (8 * k * abs(x))
        total += term
    return total / mp.sqrt(2 * mp.pi * abs(x)) * (-1 if x < 0 and n % 2 else 1)


@function("log_i0", 1, BESSEL, one(1e-150, -3.0, -1e-5) + fixed([(0.0, 0.0), (math.inf, math.inf), (NAN, NAN)]))
def log_i0(x):
    with mp.workdps(350):
        return mp.log(scaled_bessel(0, mpf(x))) + abs(x)


@function("log_i0e", 1, BESSEL, one(1e-150, 1e15) + fixed([(0.0, 0.0), (-1.0, NAN), (NAN, NAN)]))
def log_i0e(x):
    with mp.workdps(350):
        return mp.log(scaled_bessel(0, mpf(x)))


@function("ive", 2, lambda r, i: ((0.0, 1.0, 2.0, 3.0, 7.0)[i % 5], BESSEL(r, i // 5)[0]),
          [(1.0, -2.0), (2.0, -40.0), (3.0, 9.5), (10.0, 60.0), (0.0, 1e12)] +
          fixed([((0.0, 0.0), 1.0), ((2.0, 0.0), 0.0), ((1.0, math.inf), 0.0), ((-1.0, 1.0), NAN), ((0.0, NAN), NAN)]))
def ive(n, x):
    return scaled_bessel(int(n), mpf(x))


def bessel_gaps(x):
    """1 - I_1/I_0 and its derivatives, by Riccati's equation with digits to spare"""
    with mp.workdps(150):
        x = mpf(x)
        a = scaled_bessel(1, x) / scaled_bessel(0, x)
        d = [a, 1 - a * a - a / x]
        d.append(-2 * a * d[1] - d[1] / x + a / x ** 2)
        d.append(-2 * d[1] ** 2 - 2 * a * d[2] - d[2] / x + 2 * d[1] / x ** 2 - 2 * a / x ** 3)
        return [1 - a] + [-v for v in d[1:]]


@function("bessel_gap", 2, lambda r, i: (float(i % 4), BESSEL(r, i // 4)[0]),
          [(0.0, 1e-150), (1.0, 1e-20), (0.0, 1e8), (1.0, 1e8), (2.0, 1e8)] +
          fixed([((0.0, 0.0), 1.0), ((1.0, 0.0), -0.5), ((2.0, 0.0), 0.0), ((0.0, -1.0), NAN), ((4.0, 1.0), NAN)]),
          scale=lambda v, k, x: float(abs(v) + (1e-3 * k if 1 <= x < 50 else 0)))
def bessel_gap(k, x):
    return bessel_gaps(x)[int(k)]


def by_hankel(order, n, x):
    """derivative of e^-x I_n(x) for large x, term by term"""
    term, total = mpf(1), mpf(0)
    for k in range(40):
        total += term * mp.rf(mpf(1) / 2 + k, order)
        term *= -(4 * mpf(n) ** 2 - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
    return (-1) ** order * total / mp.sqrt(2 * mp.pi * x) / x ** order


@function("ive_slope", 3, lambda r, i: (float(i % 3), (0.0, 1.0, 2.0, 4.0)[i % 4], BESSEL(r, i // 4)[0]),
          [(1.0, 1.0, -2.0), (2.0, 0.0, -40.0), (1.0, 3.0, 1e12), (2.0, 9.0, 50.0)] +
          fixed([((2.0, 0.0, 0.0), 0.5), ((1.0, 1.0, 0.0), 0.5), ((-1.0, 0.0, 1.0), NAN), ((1.0, 0.0, NAN), NAN)]),
          scale=lambda v, k, n, x: float(max(abs(v), 1e-4 * k * scaled_bessel(int(n), mpf(x)) if abs(x) < 60 else abs(v))))
def ive_slope(k, n, x):
    k, n = int(k), int(n)
    sign = (-1) ** (n + k) if x < 0 else 1
    if abs(x) > 1000:
        return sign * by_hankel(k, n, abs(mpf(x)))
    with mp.workdps(120):
        v = [mp.exp(-abs(mpf(x))) * mp.besseli(abs(n + j - k), abs(mpf(x))) for j in range(2 * k + 1)]
        for _ in range(k):
            v = [(v[j] + v[j + 2]) / 2 - v[j + 1] for j in range(len(v) - 2)]
        return sign * v[0]


@function("bessel_ratio", 1, BESSEL, one(1e-150, -2.0, -70.0, 1e15) + fixed([(0.0, 0.0), (math.inf, 1.0), (NAN, NAN)]))
def bessel_ratio(x):
    with mp.workdps(150):
        return scaled_bessel(1, mpf(x)) / scaled_bessel(0, mpf(x))


@function("erfcx_slope", 2, lambda r, i: (float(i % 4), (r.uniform(-5, 1), r.uniform(0.9, 5), log_uniform(r, 5, 1e3))[i // 4 % 3]),
          [(1.0, 1.0), (1.0, -20.0), (2.0, 1e3)] + fixed([((1.0, NAN), NAN), ((-1.0, 1.0), NAN)]))
def erfcx_slope(n, x):
    with mp.workdps(400):
        x = mpf(x)
        f = [mp.exp(x * x) * mp.erfc(x)]
        f.append(2 * x * f[0] - 2 / mp.sqrt(mp.pi))
        for k in range(1, 4):
            f.append(2 * x * f[k] + 2 * k * f[k - 1])
        return f[int(n)]


@function("stirling_slope", 2, lambda r, i: (float(i % 4), (log_uniform(r, 1e-3, 1), r.uniform(1, 20), log_uniform(r, 10, 1e8))[i // 4 % 3]),
          [(1.0, 10.5), (2.0, 12.5), (1.0, 1e15)] + fixed([((1.0, -1.0), NAN), ((1.0, math.inf), 0.0), ((-1.0, 1.0), NAN)]),
          scale=lambda v, n, z: float(abs(v) + (1 + mpf(z) ** -n if z < 10 + n else 0)))
def stirling_slope(n, z):
    with mp.workdps(80):
        n, z = int(n), mpf(z)
        if n == 0:
            return mp.loggamma(z) - ((z - 0.5) * mp.log(z) - z + mp.log(2 * mp.pi) / 2)
        if n == 1:
            return mp.digamma(z) - mp.log(z) + 1 / (2 * z)
        main = mp.factorial(n - 2) / z ** (n - 1) + mp.factorial(n - 1) / (2 * z ** n)
        return mp.psi(n - 1, z) - (-1) ** n * main


@function("log_gamma_density", 2, lambda r, i: (lambda a: (a, a * math.exp(r.gauss(0, 3) / math.sqrt(1 + a))))(log_uniform(r, 1e-2, 1e14)),
          [(1e14, 1.00000001e14), (0.5, 1e-300), (3.0, 700.0)] +
          fixed([((0.5, 0.0), math.inf), ((1.0, 0.0), 0.0), ((2.0, 0.0), -math.inf), ((2.0, math.inf), -math.inf),
                 ((-1.0, 1.0), NAN), ((1.0, NAN), NAN)]),
          scale=lambda v, a, x: float(1 + abs(v) + abs(mpf(a) - x) + abs(mp.log(x))))
def log_gamma_density(a, x):
    return (mpf(a) - 1) * mp.log(x) - x - mp.loggamma(a)


@function("log_beta_density", 3, lambda r, i: (lambda a, b: (a, b, min(max(a / (a + b) * math.exp(r.gauss(0, 2) / math.sqrt(1 + min(a, b))), 1e-10), 1 - 1e-10)))(
              log_uniform(r, 1e-2, 1e12), log_uniform(r, 1e-2, 1e12)),
          [(1e12, 2e12, 1 / 3), (0.5, 3.0, 1e-300)] +
          fixed([((0.5, 1.0, 0.0), math.inf), ((2.0, 1.0, 0.0), -math.inf), ((1.0, 1.0, 1.0), 0.0), ((1.0, 1.0, 2.0), NAN)]),
          scale=lambda v, a, b, x: float(1 + abs(v) + abs(mpf(a) - (mpf(a) + b) * x) + abs(mp.log(x)) + abs(mp.log1p(-x))))
def log_beta_density(a, b, x):
    a, b, x = mpf(a), mpf(b), mpf(x)
    return (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(a + b)


def von_mises_sum(x, low, high, f=lambda t: 1):
    """integral of f(t) e^(x (cos t - cos high)), low <= high <= 0, from where it matters"""
    s = mp.sin(mpf(high) / 2) ** 2 + 80 / mpf(x)
    low = max(mpf(low), -2 * mp.asin(mp.sqrt(s))) if s < 1 else mpf(low)
    cuts = [low + (high - low) * mpf(k) / 8 for k in range(9)]
    with mp.workdps(40):
        return mp.quad(lambda t: f(t) * mp.exp(-2 * mpf(x) * mp.sin((t - high) / 2) * mp.sin((t + high) / 2)), cuts)


def von_mises_tail(x, z):
    z = -abs(mpf(z))
    return von_mises_sum(x, -mp.pi, z) * mp.exp(-2 * mpf(x) * mp.sin(z / 2) ** 2) / (2 * mp.pi * scaled_bessel(0, mpf(x)))


def von_mises_args(r, i):
    x = (log_uniform(r, 1e-8, 1), r.uniform(0.5, 40), log_uniform(r, 25, 60), log_uniform(r, 1, 1e8))[i % 4]
    z = min(math.pi, abs(r.gauss(0, 2.5)) / math.sqrt(x)) if i % 3 else r.uniform(0, math.pi)
    if 2 * x * math.sin(z / 2) ** 2 > 650:
        z = 2 * math.asin(math.sqrt(300 / x))
    return (x, -z if i % 2 else z)


@function("von_mises_cdf", 2, von_mises_args, [(1e-8, -1.0), (1e8, -3e-3), (300.0, -2.5), (2.0, 3.14159)] +
          fixed([((1.0, 0.0), 0.5), ((1.0, 4.0), 1.0), ((1.0, -4.0), 0.0), ((0.0, 1.0), NAN), ((1.0, NAN), NAN)]))
def von_mises_cdf(x, z):
    return 1 - von_mises_tail(x, z) if z > 0 else von_mises_tail(x, z)


@function("von_mises_icdf", 2, lambda r, i: (von_mises_args(r, i)[0], log_uniform(r, 1e-100, 0.5) if i % 2 else r.uniform(0, 1)),
          [(1e-8, 0.3), (1e8, 1e-10), (2.0, 0.999)] +
          fixed([((1.0, 0.5), 0.0), ((1.0, 0.0), -math.pi), ((1.0, 1.0), math.pi), ((1.0, -0.1), NAN), ((-1.0, 0.5), NAN)]),
          scale=lambda v, x, p: float(abs(v) + min(p, 1 - p) * 2 * mp.pi * scaled_bessel(0, mpf(x)) * mp.exp(2 * mpf(x) * mp.sin(v / 2) ** 2)))
def von_mises_icdf(x, p):
    q = mpf(p) if p < 0.5 else 1 - mpf(p)
    low, high = -mp.pi, mpf(0)
    c = 2 * mp.pi * scaled_bessel(0, mpf(x))
    z = max(mpf(sc.ndtri(float(q))) / mp.sqrt(mpf(x)), -mpf(3)) if x > 1 else mp.pi * (2 * q - 1)
    for _ in range(200):
        tail = von_mises_tail(x, z)
        step = mp.log(tail / q) * tail * c * mp.exp(2 * mpf(x) * mp.sin(z / 2) ** 2)
        low, high = (low, z) if step > 0 else (z, high)
        z, before = z - step, z
        if not low < z < high:
            z = (low + high) / 2
        if abs(z - before) < mpf(10) ** -30 * abs(z):
            break
    return z if p < 0.5 else -z


@function("von_mises_slope", 2, von_mises_args, [(1e-8, -1.0), (1e8, -3e-4), (2.0, 3.14159)] +
          fixed([((1.0, 0.0), 0.0), ((0.0, 1.0), NAN), ((1.0, 4.0), NAN), ((1.0, NAN), NAN)]),
          scale=lambda v, x, z: float(abs(v) + mpf(abs(z)) / x * 1e-2))
def von_mises_slope(x, z):
    with mp.workdps(60):
        size, gap = -abs(mpf(z)), bessel_gaps(x)[0]
        s = von_mises_sum(x, -mp.pi, size, lambda t: gap - 2 * mp.sin(t / 2) ** 2)
        return s if z > 0 else -s


def arc_args(r, i):
    x, z = von_mises_args(r, i)
    a = min(abs(z), 3.0) * (-1 if i % 5 else 1)
    b = a + r.uniform(0, 2 * math.pi) if i % 2 else min(math.pi, a + abs(r.gauss(0, 2)) / math.sqrt(x))
    return (x, a, b)


@function("von_mises_log_mass", 3, arc_args, [(58.7, 1.2, math.pi), (58.7, -math.pi, 1.2), (1e8, 1.0, 2.0)] +
          fixed([((1.0, 0.5, 0.5), -math.inf), ((0.0, 0.0, 1.0), NAN), ((1.0, 1.0, 0.0), NAN)]),
          scale=lambda v, x, a, b: float(1 + abs(v)))
def von_mises_log_mass(x, a, b):
    def below(low, high):
        """log mass of low .. high <= 0"""
        s = mp.sin(mpf(high) / 2) ** 2
        return mp.log(von_mises_sum(x, low, high)) - 2 * mpf(x) * s - mp.log(2 * mp.pi * scaled_bessel(0, mpf(x)))

    parts = []
    for turn in (0, 2 * mp.pi):
        low, high = max(mpf(a) - turn, -mp.pi), min(mpf(b) - turn, mp.pi)
        if low < min(high, 0):
            parts.append(below(low, min(high, mpf(0))))
        if max(low, 0) < high:
            parts.append(below(-high, -max(low, mpf(0))))
    return mp.log(sum(mp.exp(v) for v in parts))


@function("gammainccinv", 2, gamma_inverse_args,
          [(1.0, 0.5), (0.5, 1e-10), (1e4, 0.5), (100.0, 1e-100), (3.0, 1e-290)] +
          fixed([((1.0, 0.0), math.inf), ((1.0, 1.0), 0.0), ((0.0, 0.5), NAN), ((1.0, -0.1), NAN), ((1.0, NAN), NAN)]),
          scale=lambda v, a, q: float(abs(v) + min(q, 1 - q) / gamma_density(a, v)))
def gammainccinv(a, q):
    p = 1 - mpf(q)
    start = mp.log(sc.gammainccinv(float(a), float(q)))
    k, target = (1, mpf(q)) if q <= 0.5 else (0, p)
    def f(u):
        return mp.log(gamma_tails(a, mp.exp(u))[k] / target)
    def slope(u):
        x = mp.exp(u)
        return (1 if k == 0 else -1) * x * gamma_density(a, x) / gamma_tails(a, x)[k]
    return mp.exp(newton(f, slope, start))


# ---- output --------------------------------------------------------------------------------------

def rows_of(name, count):
    f, arity, sampler, edges, scale = FUNCTIONS[name]
    r = random.Random("penumbra " + name)
    plain = [e for e in edges if not (len(e) == 2 and isinstance(e[0], tuple))]
    rows = []
    for args in plain + [sampler(r, i) for i in range(count)]:
        v = f(*[mpf(x) for x in args])
        s = scale(mpf(v), *args) if scale else abs(v)
        if 0 < abs(v) < mpf("2.3e-308"):  # a subnormal result keeps fewer digits
            s = max(s, 5e-324 / 2.0**-52)
        rows.append((args, v, s))
    rows += [(args, v, 0.0) for args, v in (e for e in edges if e not in plain)]
    return arity, rows


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    path = sys.argv[2] if len(sys.argv) > 2 else Path(__file__).with_name("special_golden.h")
    names = sys.argv[3:] or list(FUNCTIONS)
    with open(path, "w") as out:
        out.write("/* special_golden.h: written by special.py from mpmath; {{a, b, c}, value, rest, scale}. */\n"
                  "/* clang-format off */\n")
        for name in names:
            arity, rows = rows_of(name, count)
            out.write(f"static const golden_row golden_{name}[] = {{\n")
            for args, v, s in rows:
                rest = float(mpf(v) - mpf(float(v))) if math.isfinite(float(v)) else 0.0
                point = ", ".join([text(x) for x in args] + ["0"] * (3 - arity))
                out.write(f"{{{{{point}}}, {text(v)}, {rest:.3g}, {float(s):.6g}}},\n")
            out.write("};\n")
            print(name, len(rows), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
