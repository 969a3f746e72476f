"""Reference values for spec/pac/bounds_spec.lua, to 40 digits: each bound by its formula in the source, and the exact
moments that the proofs bound.

Run: python3 bounds.py   (needs mpmath; writes bounds.lua beside itself)
"""
from pathlib import Path

from mpmath import binomial, ceil, e, exp, findroot, log, mp, mpf, sqrt

mp.dps = 40


def kl(q, p):
    return (q * log(q / p) if q > 0 else 0) + ((1 - q) * log((1 - q) / (1 - p)) if q < 1 else 0)


def upper(q, c):
    low, high = mpf(q), mpf(1)
    for _ in range(140):
        mid = (low + high) / 2
        low, high = (mid, high) if kl(q, mid) <= c else (low, mid)
    return low


def xi(n):
    return sum(binomial(n, k) * (mpf(k) / n) ** k * (1 - mpf(k) / n) ** (n - k) for k in range(n + 1))


def maurer_log(n, d, exact=False):
    return log((xi(n) if exact else 2 * sqrt(mpf(n))) / d)


def catoni(r, k, n, d, grid):
    return min((1 - exp(-c * r - (k + log(len(grid) / d)) / n)) / (1 - exp(-c)) for c in map(mpf, grid))


def bernstein(r, k, n, d, v=None, c1=mpf("1.15"), c2=mpf("1.15")):
    half = d / 2
    nu1 = ceil(log(sqrt((e - 2) * n / (4 * log(1 / half)))) / log(c1)) + 1
    nu2 = ceil(log(sqrt((n - 1) / log(1 / half) + 1) / 2 + mpf(1) / 2) / log(c2))
    k1, k2 = k + log(2 * nu1 / d), k + log(2 * nu2 / d)
    v = r * (1 - r) * n / (n - 1) if v is None else v
    high = min(mpf(1) / 4, v + (1 + c2) * sqrt(v * k2 / (2 * (n - 1))) + 2 * c2 * k2 / (n - 1))
    if sqrt(k1 / ((e - 2) * high)) <= sqrt(mpf(n)):
        return r + (1 + c1) * sqrt((e - 2) * high * k1 / n)
    return r + 2 * k1 / n


def quadratic(r, k, n, d, exact=False):
    b = (k + maurer_log(n, d, exact)) / (2 * n)
    return (sqrt(r + b) + sqrt(b)) ** 2


def lam(r, k, n, d, l):
    return r / (1 - l / 2) + (k + maurer_log(n, d)) / (n * l * (1 - l / 2))


FORMULAS = {
    "hoeffding": lambda r, k, n, d: r + sqrt(log(2 / d) / (2 * n)),
    "finite_class": lambda r, k, n, d: r + sqrt(log(2 * 10 / d) / (2 * n)),
    "seeger": lambda r, k, n, d: upper(r, (k + log((n + 1) / d)) / n),
    "maurer": lambda r, k, n, d: upper(r, (k + maurer_log(n, d)) / n),
    "maurer exact": lambda r, k, n, d: upper(r, (k + maurer_log(n, d, True)) / n),
    "pinsker": lambda r, k, n, d: r + sqrt((k + maurer_log(n, d)) / (2 * n)),
    "mcallester": lambda r, k, n, d: r + sqrt((k + log(n / d)) / (2 * (n - 1))),
    "quadratic": quadratic,
    "lambda 0.7": lambda r, k, n, d: lam(r, k, n, d, mpf("0.7")),
    "lambda": quadratic,  # the best lambda, which is free
    "catoni 1.3": lambda r, k, n, d: catoni(r, k, n, d, [mpf("1.3")]),
    "catoni grid": lambda r, k, n, d: catoni(r, k, n, d, [mpf("0.5"), mpf(1), mpf(2)]),
    "germain": lambda r, k, n, d: r + sqrt((k + n - log(d)) / n),
    "germain 1.5": lambda r, k, n, d: r + sqrt((k + mpf("1.5") - log(d)) / n),
    "empirical_bernstein": bernstein,
    "empirical_bernstein 0.01": lambda r, k, n, d: bernstein(r, k, n, d, mpf("0.01")),
}

CASES = [("0.02", "40", 3000, "0.025"), ("0.3", "2", 100, "0.05"), ("0", "5", 500, "0.1"), ("0.004", "900", 60000, "0.01"),
         ("0.5", "0", 8, "0.5")]


def moment(f, n, p):
    """E f(k / n) for k of Binomial(n, p)."""
    p = mpf(p)
    return sum(binomial(n, k) * p ** k * (1 - p) ** (n - k) * f(mpf(k) / n) for k in range(n + 1))


def main():
    out = ["-- Written by bounds.py from mpmath.", "return { values = {"]
    for r, k, n, d in CASES:
        values = {}
        for name, f in FORMULAS.items():
            if name == "maurer exact" and n > 5000:
                continue
            values[name] = f(mpf(r), mpf(k), n, mpf(d))
        inner = ", ".join('["%s"] = %s' % (name, mp.nstr(v, 18)) for name, v in values.items())
        out.append("{ risk = %s, kl = %s, n = %d, delta = %s, %s }," % (r, k, n, d, inner))
    out.append("}, slack = { -- log of what a row allows, less that of the exact moment at this risk; and that moment")
    for n in (8, 100, 1000):
        for p in ("0.5", "0.03"):
            exact = xi(n)
            rows = {"maurer": (2 * sqrt(mpf(n)), exact), "seeger": (mpf(n + 1), exact),
                    "pinsker": (2 * sqrt(mpf(n)), moment(lambda q: exp(2 * n * (q - mpf(p)) ** 2), n, p)),
                    "mcallester": (mpf(n), moment(lambda q: exp(2 * (n - 1) * (q - mpf(p)) ** 2), n, p)),
                    "germain": (exp(mpf(n)), moment(lambda q: exp(n * (q - mpf(p)) ** 2), n, p)),
                    "quadratic": (2 * sqrt(mpf(n)), moment(lambda q: exp(n * max(mpf(p) - q, 0) ** 2 / (2 * mpf(p))), n, p))}
            inner = ", ".join("%s = { %s, %s }" % (name, mp.nstr(log(a) - log(b), 18), mp.nstr(b, 18)) for name, (a, b) in rows.items())
            out.append("{ n = %d, p = %s, %s }," % (n, p, inner))
    out.append("} }")
    Path(__file__).with_name("bounds.lua").write_text("\n".join(out) + "\n")
    print(len(out), "lines")


main()
