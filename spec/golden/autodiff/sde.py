"""Mean and covariance of linear stochastic differential equations dy = A y dt + B dW at some times, for sde_spec.lua:
matrix exponentials of Van Loan (1978) with SciPy.

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

print("-- Written by sde.py.")
print("return {")
for a, b, y0, times in CASES:
    a, b, y0 = np.array(a), np.array(b), np.array(y0)
    found = [moments(a, b, y0, t) for t in times]
    print("  {a = %s, b = %s, y0 = %s, times = %s," % (text(a), text(b), text(y0), text(times)))
    print("    mean = %s," % text([m for m, _ in found]))
    print("    cov = %s}," % text([c for _, c in found]))
print("}")
