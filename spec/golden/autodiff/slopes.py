"""First and second slopes of special functions far out in their tails: spec/golden/autodiff/slopes.lua, from formulas in
mpmath with as many digits as their cancelling asks for.

Run: python3 slopes.py   (needs mpmath; writes beside itself)
"""
import os
from mpmath import mp, mpf, besseli, betainc, digamma, erfc, exp, expint, expm1, factorial, log, log1p, loggamma, pi, psi, sqrt

mp.dps = 60
rows = []
FAR = ["1e3", "1e5", "1e6", "1e8", "1e12", "1e100"]


def add(name, x, order, value, args=()):
    rows.append('{of = "%s", x = %r, order = %d, value = %r%s}' % (
        name, float(x), order, float(value), "".join(", %s = %r" % (k, v) for k, v in args)))


def asymptotic_erfcx(order, x):
    """(-1)^order d^order/dx^order of sum_k (-1)^k (2k - 1)!! / (2^k x^(2k + 1)) / sqrt(pi) (DLMF 7.12.1)."""
    total, term = mpf(0), mpf(1)
    for k in range(20):
        rise = mpf(1)
        for i in range(order):
            rise *= 2 * k + 1 + i
        total += term * rise
        term *= -(2 * k + 1) / (2 * x * x)
    return (-1) ** order * total / (x ** (order + 1) * sqrt(pi))


def erfcx(order, x):
    if x > 1000:
        return asymptotic_erfcx(order, x)
    with mp.workdps(600):
        f = [exp(x * x) * erfc(x)]
        f.append(2 * x * f[0] - 2 / sqrt(pi))
        f.append(2 * x * f[1] + 2 * f[0])
        return f[order]


for x in ["-5", "0.5", "1", "3", "30", "50", "300"] + FAR:
    for order in (1, 2):
        add("erfcx", x, order, erfcx(order, mpf(x)))
for x in ["-2", "-30", "-500"] + ["-" + v for v in FAR]:
    u = -mpf(x) / sqrt(mpf(2))
    mills = sqrt(2 / pi) / erfcx(0, u)
    add("log_ndtr", x, 1, mills)
    add("log_ndtr", x, 2, mills * erfcx(1, u) / erfcx(0, u) / sqrt(mpf(2)))


def log_ndtri(y):
    x = -sqrt(-2 * y)
    for _ in range(100):
        u = -x / sqrt(mpf(2))
        step = (log(erfcx(0, u) / 2) - x * x / 2 - y) * erfcx(0, u) * sqrt(pi / 2)
        x -= step
    return x


for y in ["-10"] + ["-" + v for v in FAR]:
    u = -log_ndtri(mpf(y)) / sqrt(mpf(2))
    add("log_ndtri", y, 1, sqrt(pi / 2) * erfcx(0, u))
    add("log_ndtri", y, 2, -sqrt(pi / 2) * erfcx(1, u) / sqrt(mpf(2)) * sqrt(pi / 2) * erfcx(0, u))


def hankel(order, n, x):
    """Derivative of e^-x I_n(x) by DLMF 10.40.1 term by term."""
    total, term = mpf(0), mpf(1)
    for k in range(40):
        fall = mpf(1)
        for i in range(order):
            fall *= -(mpf(1) / 2 + k + i)
        total += term * fall
        term *= -(4 * n * n - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
    return total / sqrt(2 * pi * x) / x ** order


def ive(order, n, x):
    if x > 900:
        return hankel(order, n, x)
    with mp.workdps(80):
        central = [exp(-x) * besseli(abs(n + k - order), x) for k in range(2 * order + 1)]
        for _ in range(order):
            central = [(central[i] + central[i + 2]) / 2 - central[i + 1] for i in range(len(central) - 2)]
        return central[0]


for n in range(4):
    for x in ["0.5", "20", "40"] + FAR:
        for order in (1, 2):
            add("ive", x, order, ive(order, n, mpf(x)), [("n", n)])
            add("ive", "-" + x, order, (-1) ** (n + order) * ive(order, n, mpf(x)), [("n", n)])
for x in ["0.5", "20", "40"] + FAR[:-1]:
    with mp.workdps(300):
        ratio = ive(0, 1, mpf(x)) / ive(0, 0, mpf(x))
    add("log_i0", x, 1, ratio)
for x in FAR[:4]:
    with mp.workdps(120):
        v = mpf(x)
        # A' = 1 - A^2 - A / x
        a = hankel(0, 1, v) / hankel(0, 0, v)
        add("log_i0", x, 2, 1 - a * a - a / v)
for x in ["0.5", "30"] + FAR:
    v = mpf(x)
    e = lambda n: exp(v) * expint(n, v) if v < 900 else sum((-1) ** k * mp.rf(n, k) / v ** (k + 1) for k in range(30))
    add("expintx", x, 1, -e(2) / v)
    add("expintx", x, 2, 2 * e(3) / v ** 2)
for x in ["-1e-5", "-1", "-30", "-300"]:
    v = mpf(x)
    add("log1mexp", x, 1, exp(v) / expm1(v))
    add("log1mexp", x, 2, -exp(v) / expm1(v) ** 2)
    add("expm1", x, 1, exp(v))


def gamma_density(a, x):
    return exp((a - 1) * log(x) - x - loggamma(a))


def beta_density(a, b, x):
    return exp((a - 1) * log(x) + (b - 1) * log1p(-x) - loggamma(a) - loggamma(b) + loggamma(a + b))


for a in (0.5, 30.0, 1e6, 1e10, 1e13):
    x = a + 0.75 * float(sqrt(mpf(a)))
    v = gamma_density(mpf(a), mpf(x))
    add("gammainc", x, 1, v, [("a", a)])
    add("gammainc", x, 2, v * ((mpf(a) - 1) / mpf(x) - 1), [("a", a)])
    add("gammaincc", x, 1, -v, [("a", a)])
    b = 2 * a
    x = 1 / 3
    add("betainc", x, 1, beta_density(mpf(a), mpf(b), mpf(x)), [("a", a), ("b", b)])

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "slopes.lua"), "w") as f:
    f.write("-- Written by slopes.py.\nreturn {\n  " + ",\n  ".join(rows) + ",\n}\n")
