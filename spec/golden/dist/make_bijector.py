"""Reference values for spec/golden/dist/bijector.lua: maps written out here once more, their determinants from
mpmath's closed forms (numbers) or from Jacobians by complex steps (vectors and matrices), in free coordinates.

Run: python3 make_bijector.py   (needs numpy, mpmath; writes beside itself)
"""
import os
import mpmath as mp
import numpy as np
from make import HERE, lua as number_or_list

mp.mp.dps = 60
rng = np.random.default_rng(7)


def lua(v):
    """Also strings, and lists and tables of them."""
    if isinstance(v, str):
        return '"%s"' % v
    if isinstance(v, dict):
        return "{" + ", ".join("%s = %s" % (k, lua(x)) for k, x in v.items() if x is not None) + "}"
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(lua(x) for x in v) + "}"
    return number_or_list(v)


def number(kind, f, points, params=None, parts=None):
    """A map of numbers: f on mpmath numbers; slopes by 60-digit differentiation."""
    y = [float(f(mp.mpf(v))) for v in points]
    d = [float(mp.log(abs(mp.diff(f, mp.mpf(v), h=mp.mpf(10) ** -25 * min(1, abs(mp.mpf(v)) or 1))))) for v in points]
    return dict(kind=kind, params=params or {}, parts=parts, x=list(points), y=y, log_abs_det=d)


def free(y, where):
    """Free coordinates of one y: all but the last of a simplex, the lower triangle of a matrix."""
    if where == "simplex":
        return y[:-1]
    if where == "lower":
        return y[np.tril_indices(y.shape[0])]
    return y.reshape(-1)


def fill(v, like, where):
    if where == "lower":
        m = np.zeros(like.shape, dtype=complex)
        m[np.tril_indices(like.shape[0])] = v
        return m
    if where == "symmetric":
        m = fill(v, like, "lower")
        return m + np.tril(m, -1).T
    return v.reshape(like.shape)


def vector(kind, f, points, params=None, into="", out_of="", parts=None):
    """A map of vectors or matrices: f on complex arrays."""
    ys, ds = [], []
    for x in points:
        x = np.asarray(x, dtype=float)
        v = free(x, out_of)
        n = len(v)
        jacobian = np.zeros((n, n))
        for j in range(n):
            w = v.astype(complex)
            w[j] += 1e-40j
            jacobian[:, j] = free(f(fill(w, x, out_of)), into).imag / 1e-40
        ys.append(f(x.astype(complex)).real)
        ds.append(np.linalg.slogdet(jacobian)[1])
    return dict(kind=kind, params=params or {}, parts=parts, x=points, y=ys, log_abs_det=ds)


def points(n, *size):
    return [rng.normal(size=size) for _ in range(n)]


ordinary = [-3.0, -0.4, 0.0, 0.7, 2.5]
cases = [
    number("affine", lambda x: 2 + mp.mpf("-0.7") * x, ordinary, dict(loc=2.0, scale=-0.7)),
    number("affine", lambda x: mp.mpf(0.0625) * x, ordinary, dict(loc=0.0, scale=0.0625)),
    number("exp", mp.exp, ordinary + [-700.0, 700.0]),
    number("softplus", lambda x: mp.log1p(mp.exp(x)), ordinary + [-700.0, -40.0, 40.0, 700.0]),
    number("sigmoid", lambda x: 1 / (1 + mp.exp(-x)), ordinary + [-700.0, -36.0, 30.0]),
    number("tanh", mp.tanh, ordinary + [-15.0, 12.0]),
    number("power", lambda x: x ** mp.mpf(1.7), [0.01, 0.5, 1.0, 40.0], dict(exponent=1.7)),
    number("power", lambda x: x ** mp.mpf(-0.5), [0.01, 0.5, 1.0, 40.0], dict(exponent=-0.5)),
    number("inverse", mp.log, [1e-300, 0.2, 1.0, 30.0], parts=[dict(kind="exp", params={})]),
    number("chain", lambda x: mp.exp(1 - 2 * x), ordinary,
           parts=[dict(kind="affine", params=dict(loc=1.0, scale=-2.0)), dict(kind="exp", params={})]),
]


with open(os.path.join(HERE, "bijector.lua"), "w") as f:
    f.write("-- Written by make_bijector.py.\nreturn {\n")
    for case in cases:
        f.write("  {\n")
        for key, value in case.items():
            if value is not None:
                f.write("    %s = %s,\n" % (key, lua(value)))
        f.write("  },\n")
    f.write("}\n")
