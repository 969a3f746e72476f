"""Values for sde_spec.lua.

linear: mean and covariance of dy = A y dt + B dW at some times: matrix exponentials of Van Loan (1978) with SciPy.
paths: increments W and space-time areas H over [k / 8, (k + 1) / 8] of the path of a seed, from Philox4x32-10 (Salmon
et al. 2011) on, by the halves of a cell given the whole (Foster et al. 2020), and two solutions on them by
Euler-Maruyama and SRA1 (sde) with their gradients (sde_adjoint) by complex steps.

    python3 sde.py > sde.lua
"""
import numpy as np
from scipy.linalg import expm


def moments(a, b, y0, t):
    n = len(a)
    block = np.zeros((2 * n, 2 * n))
    block[:n, :n], block[:n, n:], block[n:, n:] = -a, b @ b.T, a.T
    e = expm(block * t)
    transition = e[n:, n:].T
    return transition @ y0, transition @ e[:n, n:]


def text(x):
    if np.ndim(x) == 0:
        return repr(float(x))
    return "{" + ", ".join(text(v) for v in x) + "}"


CASES = [
    ([[-1.0, 0.7], [-0.4, -0.5]], [[0.6, 0.2, 0.0], [0.1, -0.3, 0.5]], [1.0, -0.5], [0.3, 1.1]),
    ([[0.0, 1.0], [-4.0, -0.3]], [[0.0], [0.8]], [0.5, 0.0], [0.5, 2.0]),
]

MASK = 2**64 - 1


def philox(key, position, domain):
    c = [position & 0xFFFFFFFF, position >> 32, 0, domain]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def seed_key(seed):
    z = (seed + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def split(key, index):
    w = philox(key, index, 64)
    return w[1] << 32 | w[0]


def pair(key, position):
    w = philox(key, position, 1)
    u, v = [((w[i] >> 5) * 2**26 + (w[i + 1] >> 6) + 1) / 2**53 for i in (0, 2)]
    r = np.sqrt(-2 * np.log(u))
    return r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)


def cells(seed, lane, generations):
    """W and H over the 2^generations cells of [0, 1]."""
    octave = split(seed_key(seed), 0)
    x, z = pair(split(octave, 0), lane)
    found = {1: (x, z / np.sqrt(12))}
    for g in range(generations):
        h = 0.5**g
        for n in range(2**g, 2 ** (g + 1)):
            w, a = found[n]
            x, z = pair(split(octave, n), lane)
            w1 = w / 2 + 1.5 * a + np.sqrt(h) / 4 * x
            mean, sd = a / 4 - np.sqrt(h) / 8 * x, np.sqrt(h / 48) * z
            found[2 * n], found[2 * n + 1] = (w1, mean + sd), (w - w1, mean - sd)
    return [found[n] for n in range(2**generations, 2 ** (generations + 1))]


def euler(y, p, path, h):
    for k, (w, _) in enumerate(path):
        y = y + (p[0] * np.sin(y) + k * h) * h + p[1] * np.cos(y) * w
    return y


def sra1(y, p, path, h):
    for k, (w, a) in enumerate(path):
        t, i10 = k * h, w / 2 + a
        f = p[0] * np.sin(y) + t
        stage = y + 0.75 * f * h + 1.5 * p[1] * (1 + t + h) * i10
        second = p[0] * np.sin(stage) + t + 0.75 * h
        y = y + (f + 2 * second) * h / 3 + p[1] * (1 + t) * i10 + p[1] * (1 + t + h) * (w - i10)
    return y


def gradient(scheme, y0, p, path, h):
    out = []
    for k in range(3):
        x = np.array([y0, *p], dtype=complex)
        x[k] += 1e-30j
        out.append(scheme(x[0], x[1:], path, h).imag / 1e-30)
    return out


def print_paths(seed, lanes):
    paths = [cells(seed, lane, 3) for lane in range(lanes)]
    y0, p = [0.3 + 0.5 * lane for lane in range(lanes)], [0.8, 0.6]
    print("  paths = {seed = %d, y0 = %s, parameters = %s," % (seed, text(y0), text(p)))
    print("    w = %s," % text([[c[0] for c in path] for path in paths]))
    print("    area = %s," % text([[c[1] for c in path] for path in paths]))
    for name, scheme in ("euler_maruyama", euler), ("sra1", sra1):
        values = [scheme(y, p, path, 0.125) for y, path in zip(y0, paths)]
        slopes = np.array([gradient(scheme, y, p, path, 0.125) for y, path in zip(y0, paths)])
        print("    %s = {sde = %s," % (name, text(values)))
        print("      sde_adjoint = {y0 = %s, parameters = %s}}," % (text(slopes[:, 0]), text(slopes[:, 1:].sum(0))))
    print("  },")


print("-- Written by sde.py.")
print("return {")
print_paths(3, 4)
print("  linear = {")
for a, b, y0, times in CASES:
    a, b, y0 = np.array(a), np.array(b), np.array(y0)
    found = [moments(a, b, y0, t) for t in times]
    print("  {a = %s, b = %s, y0 = %s, times = %s," % (text(a), text(b), text(y0), text(times)))
    print("    mean = %s," % text([m for m, _ in found]))
    print("    cov = %s}," % text([c for _, c in found]))
print("  },")
print("}")
