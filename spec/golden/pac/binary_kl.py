"""Reference values for spec/pac/binary_kl_spec.lua: the divergence of two events and its inverses to 60 digits.

Run: python3 binary_kl.py               (needs mpmath; writes binary_kl.lua beside itself)
     python3 binary_kl.py --check FILE  checks a table of results by interval arithmetic: lines "which x c result" of
                                        numbers as %a prints them. Of each: the divergence at the result is c or more,
                                        so that the result is not inside, and how far outside it is, in units of the
                                        last place.
"""
import math
import random
import sys
from pathlib import Path

from mpmath import iv, log, mp, mpf

mp.dps = 420  # c = 1e-300 moves a probability by 1e-150 of itself, and one may be 1e-300 away from 1
iv.dps = 60
random.seed(28)


def kl(q, p, m=mp):
    total = m.mpf(0)
    if q > 0:
        total += q * m.log(q / p)
    if q < 1:
        total += (1 - q) * m.log((1 - q) / (1 - p))
    return total


def inverse(which, x, c):
    """To 60 digits, by bisection in the distance from the far end and from x, whichever tells more."""
    x, c = mpf(x), mpf(c)
    far = mpf(which % 2 == 0)
    if c == 0 or x == far:
        return x
    if which >= 2:
        edge = -log(x) if far == 1 and x > 0 else -log(1 - x) if far == 0 and x < 1 else mpf("inf")
        if c >= edge:
            return far
        if x == 1 - far:
            return x  # p is 0 or 1: nothing else is allowed
    f = (lambda y: kl(x, y)) if which < 2 else (lambda y: kl(y, x))
    # y = far - s |far - x|, s from 1 (x) to 0 (far); geometric bisection near 0, and near 1 in 1 - s
    span = far - x

    def solve(at, low, high):  # f(at(e^low)) < c <= f(at(e^high))
        for _ in range(230):
            mid = (low + high) / 2
            if f(at(mp.exp(mid))) < c:
                low = mid
            else:
                high = mid
        return at(mp.exp(low))

    if f(x + span / 2) >= c:
        return solve(lambda s: x + s * span, mpf(-800), log(mpf(1) / 2))
    g = lambda s: far - s * span
    low, high = log(mpf(1) / 2), mpf(-800)
    return far if f(g(mp.exp(high))) < c else solve(g, low, high)


def arguments():
    for q, c in ((0.02, math.log(200) / 1000), (0.0, 0.1), (0.5, 0.5), (0.3, 5.0), (1.0, 0.1), (0.1, 0.05)):
        yield q, c
    for q in (0.0, 1e-300, 1e-20, 0.25, 0.5, 1 - 2.0**-53, 1.0):
        for c in (1e-300, 1e-30, 1e-9, 0.01, 1.0, 30.0, 700.0):
            yield q, c
    for _ in range(160):
        kind = random.randrange(4)
        q = (random.random(), 10 ** random.uniform(-18, 0), 1 - 10 ** random.uniform(-15, 0), random.random())[kind]
        yield q, 10 ** random.uniform(-12, 1.5)


def text(v):
    return "1/0" if v == math.inf else "0" if v == 0 else float(v).hex()


def write():
    out = ["-- Written by binary_kl.py: {which, x, c, nearest double, what it lacks of the exact inverse, dy/dx, dy/dc}",
           "return { inverse = {"]
    for x, c in arguments():
        for which in range(4):
            y = inverse(which, x, c)
            near = float(y)
            dx = dc = 0
            exact = mpf(x)
            if 0 < y < 1 and y != exact and near not in (0.0, 1.0):
                odds = log(y / (1 - y)) - log(exact / (1 - exact)) if 0 < exact < 1 else 0
                if which < 2:
                    dc = y * (1 - y) / (y - exact)
                    dx = dc * odds
                elif odds:
                    dc = 1 / odds
                    dx = (y - exact) / (exact * (1 - exact) * odds)
            out.append("{%d, %s, %s, %s, %s, %s, %s}," % (which, text(x), text(c), text(near), text(y - mpf(near)), text(dx), text(dc)))
    out.append("}, divergence = {")
    pairs = [(0.0, 0.3), (1.0, 0.3), (1e-300, 2e-300), (1e-300, 0.5), (0.5, 1e-300), (0.3, 0.3 + 2.0**-54), (0.25, 1 - 2.0**-53)]
    for _ in range(150):
        q = random.choice((random.random(), 10 ** random.uniform(-18, 0)))
        near = q * (1 + random.choice((-1, 1)) * 10 ** random.uniform(-12, 0))
        pairs.append((q, random.choice((random.random(), min(near, 1 - 1e-16)))))
    for q, p in pairs:
        out.append("{%s, %s, %s}," % (text(q), text(p), text(kl(mpf(q), mpf(p)))))
    out.append("} }")
    Path(__file__).with_name("binary_kl.lua").write_text("\n".join(out) + "\n")
    print(len(out), "lines")


def check(path):
    inside, worst, n = 0, 0.0, 0
    for line in open(path):
        which, x, c, y = line.split()
        which, x, c, y = int(which), float.fromhex(x), float.fromhex(c), float.fromhex(y)
        far = float(which % 2 == 0)
        n += 1
        if y == far or c == 0:
            continue
        if which >= 2 and x in (0.0, 1.0):
            inside += y != x
            continue
        value = kl(iv.mpf(x), iv.mpf(y), iv) if which < 2 else kl(iv.mpf(y), iv.mpf(x), iv)
        if not value.a >= c:
            inside += 1
            print("inside:", which, x, c, y)
        # distance outside: (kl(y) - c) / slope, in ulp of y
        slope = abs((mpf(y) - mpf(x)) / (mpf(y) * (1 - mpf(y))) if which < 2 else log(mpf(y) / (1 - mpf(y))) - log(mpf(x) / (1 - mpf(x))))
        far_off = float((mpf(value.b) - mpf(c)) / slope) / math.ulp(y)
        if far_off > worst:
            worst = far_off
            print("so far the most outside: %.2f ulp at" % far_off, which, x, c, y)
    print("%d results, %d inside, at most %.2f units of the last place outside" % (n, inside, worst))


if __name__ == "__main__":
    check(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[1] == "--check" else write()
