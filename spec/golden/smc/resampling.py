"""Writes resampling.lua: new weights by NumPy's and SciPy's functions, ancestors by the published algorithms on the same
random numbers as the library draws (Philox4x32-10 as math/random/rng.h says; position 0 of the generator that seed 7 gives).

Run with numpy and scipy: python3 resampling.py > resampling.lua
"""
import numpy as np
from scipy.special import logsumexp

MASK = (1 << 32) - 1


def philox(key, position, domain):
    c = [position & MASK, position >> 32, 0, domain]
    k = [key & MASK, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def key_of(seed):
    m = (1 << 64) - 1
    z = (seed + 0x9E3779B97F4A7C15) & m
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & m
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & m
    return z ^ (z >> 31)


def uniform(n, domain=0, position=0):
    out = []
    for i in range((n + 1) // 2):
        w = philox(key_of(7), position + i, domain)
        for high, low in ((w[0], w[1]), (w[2], w[3])):
            out.append(((high >> 5) * 67108864.0 + ((low >> 6) + 1)) * 2.0**-53)
    return np.array(out[:n])


def exponential(n, position=0):
    return -np.log(uniform(n, 2, position))


def sorted_uniform(n, position=0):
    z = np.cumsum(exponential(n + 1, position))
    return z[:-1] / z[-1]


def inverse_cdf(positions, w):
    return np.searchsorted(np.cumsum(w), positions, side="right")


def systematic(w):
    n = len(w)
    return inverse_cdf((np.arange(n) + 1 - uniform(1)) / n, w)


def stratified(w):
    n = len(w)
    return inverse_cdf((np.arange(n) + 1 - uniform(n)) / n, w)


def multinomial(w):
    return inverse_cdf(sorted_uniform(len(w)), w)


def residual(w):
    n = len(w)
    whole = np.floor(n * w).astype(int)
    rest = n * w - whole
    more = inverse_cdf(sorted_uniform(n - whole.sum()), rest / rest.sum())
    return np.repeat(np.arange(n), whole + np.bincount(more, minlength=n))


def ssp(w):
    """Gerber, Chopin & Whiteley 2019, as in Chopin's package particles."""
    n = len(w)
    copies = np.floor(n * w).astype(int)
    xi = n * w - copies
    u = 1 - uniform(n - 1)
    i, j = 0, 1
    for k in range(n - 1):
        up, down = min(xi[j], 1 - xi[i]), min(xi[i], 1 - xi[j])
        if up + down > 0 and u[k] < up / (up + down):
            i, j, up = j, i, down
        if xi[j] < 1 - xi[i]:
            xi[i] += up
            j = k + 2
        else:
            xi[j] -= up
            copies[i] += 1
            i = k + 2
    if copies.sum() == n - 1:
        copies[i if j == n else j] += 1
    return np.repeat(np.arange(n), copies)


def killing(w):
    n = len(w)
    dead = (1 - uniform(n)) * w.max() >= w
    a = np.arange(n)
    a[dead] = inverse_cdf(sorted_uniform(dead.sum(), (n + 1) // 2), w)
    return a


def text(x):
    return "{" + ", ".join("-math.huge" if v == -np.inf else repr(v) for v in np.asarray(x).tolist()) + "}"


rng = np.random.default_rng(20261122)
n = 12
before = rng.normal(size=n)
before -= logsumexp(before)
increment = rng.normal(size=n) * 2 - 300
increment[4] = -np.inf
v = before + increment
log_w = v - logsumexp(v)
w = np.exp(log_w)

print("-- Written by resampling.py; do not edit.")
print("return {")
print(f"  weigh = {{before = {text(before)},")
print(f"    increment = {text(increment)},")
print(f"    log_w = {text(log_w)},")
print(f"    evidence = {logsumexp(v)!r}, size = {1 / np.sum(w**2)!r}, largest = {w.max()!r}}},")
x = rng.normal(size=(n, 2))
a = rng.integers(0, n, size=n)
print(f"  select_particles = {{x = {text(x.ravel())}, ancestors = {text(a)},")
print(f"    value = {text(x[a].ravel())}}},")
g = rng.normal(size=n)
added = np.zeros(n)
np.add.at(added, a, g)
print(f"  select_particles_add = {{g = {text(g)}, value = {text(added)}}},")
print("  resample = {")
for f in (systematic, stratified, multinomial, residual, ssp, killing):
    print(f"    {f.__name__} = {text(f(w))},")
print("  },")
print("}")
