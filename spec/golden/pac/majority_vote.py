"""Reference values for spec/pac/majority_vote_spec.lua, to 40 digits: the largest C-bound of the pairs (disagreement,
joint error) that the trinomial divergence allows, as the solution of the equations that a largest one satisfies
(gradients in proportion, on the border), and the exact moment that the bound rests on.

Run: python3 majority_vote.py   (needs mpmath; writes majority_vote.lua beside itself)
"""
from pathlib import Path

from mpmath import binomial, factorial, findroot, log, mp, mpf

mp.dps = 40


def xi(n):
    return sum(binomial(n, k) * (mpf(k) / n) ** k * (1 - mpf(k) / n) ** (n - k) for k in range(n + 1))


def power(k, n):
    return (mpf(k) / n) ** k if k else mpf(1)


def moment(n):
    """E e^(n kl(q || p)) of three classes, whatever p is, if it has all of them."""
    total = mpf(0)
    for i in range(n + 1):
        for j in range(n + 1 - i):
            k = n - i - j
            total += factorial(n) / factorial(i) / factorial(j) / factorial(k) * power(i, n) * power(j, n) * power(k, n)
    return total


def c_bound(d, e):
    return 1 - (1 - 2 * e - d) ** 2 / (1 - 2 * d)


def value(r, d, k, n, delta):
    r, d, k, delta = map(mpf, (r, d, k, delta))
    e = r - d / 2
    rest = 1 - d - e
    c = (2 * k + log((xi(n) + n) / delta)) / n

    def kl(x, y):
        return sum(q * log(q / p) for q, p in ((d, x), (e, y), (rest, 1 - x - y)) if q > 0)

    def equations(x, y):
        g = 1 - 2 * y - x
        f_x = 2 * g / (1 - 2 * x) - 2 * g**2 / (1 - 2 * x) ** 2
        f_y = 4 * g / (1 - 2 * x)
        kl_x = -d / x + rest / (1 - x - y)
        kl_y = -e / y + rest / (1 - x - y)
        return [f_x * kl_y - f_y * kl_x, kl(x, y) - c]

    # the place on a coarse lattice, then the equations
    best = max(
        ((c_bound(x, y), x, y) for x in (mpf(i) / 400 for i in range(1, 200)) for y in (mpf(j) / 400 for j in range(1, 200))
         if 2 * y + x < 1 and kl(x, y) <= c), default=None)
    x, y = findroot(equations, (best[1], best[2]))
    assert abs(c_bound(x, y) - best[0]) < mpf(1) / 40 and c_bound(x, y) >= best[0] - mpf(10) ** -20
    return c_bound(x, y)


CASES = [("0.2", "0.3", "2", 1000, "0.05"), ("0.1", "0.05", "10", 3000, "0.01"), ("0.3", "0.4", "0", 5000, "0.1"),
         ("0.05", "0.09", "40", 20000, "0.05"), ("0.35", "0.1", "1", 2000, "0.05")]

lines = ["-- Made by majority_vote.py.", "return { values = {"]
for r, d, k, n, delta in CASES:
    lines.append("{ risk = %s, disagreement = %s, kl = %s, n = %d, delta = %s, value = %s }," %
                 (r, d, k, n, delta, mp.nstr(value(r, d, k, n, delta), 18)))
lines.append("}, moments = {")
for n in (1, 2, 8, 20, 60):
    lines.append("{ n = %d, moment = %s, allowed = %s }," % (n, mp.nstr(moment(n), 18), mp.nstr(xi(n) + n, 18)))
lines.append("} }")
Path(__file__).with_suffix(".lua").write_text("\n".join(lines) + "\n")
