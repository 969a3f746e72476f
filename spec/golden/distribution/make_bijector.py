"""Reference values for spec/golden/distribution/bijector.lua: maps written out here once more, their determinants from
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
    if where == "mean above":
        return np.concatenate([y[0], free(y[1:], "lower")])
    if where == "below":
        return y[np.tril_indices(y.shape[0], -1)]
    return y.reshape(-1)


def fill(v, like, where):
    if where == "lower":
        m = np.zeros(like.shape, dtype=complex)
        m[np.tril_indices(like.shape[0])] = v
        return m
    if where == "simplex":
        return np.append(v, 1 - v.sum())
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
    number("identity", lambda x: x, ordinary),
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


# ---- vectors ----

tril = [[1.3, 0, 0], [-0.4, 0.6, 0], [0.2, 1.1, 2.0]]
shift = [0.5, -1.0, 2.0]
order = [2, 0, 3, 1]


def softmax0(x):
    e = np.exp(np.append(x, 0))
    return e / e.sum()


def lower(v):
    n = int(np.sqrt(2 * len(v)))
    m = np.zeros((n, n), dtype=complex)
    m[np.tril_indices(n)] = v
    m[np.diag_indices(n)] = np.exp(np.diag(m))
    return m


def correlation(v):
    """Row by row, each entry takes its share of what is left of the row's length."""
    n = int(np.sqrt(2 * len(v))) + 1
    m, k = np.zeros((n, n), dtype=complex), 0
    for i in range(n):
        left = 1 + 0j
        for j in range(i):
            m[i, j] = np.tanh(v[k]) * np.sqrt(left)
            left -= m[i, j] ** 2
            k += 1
        m[i, i] = np.sqrt(left)
    return m


def planar(w, u, b):
    w, u = np.array(w), np.array(u)
    t = w @ u
    bent = u + (np.log1p(np.exp(t)) - 1 - t) * w / (w @ w)
    return lambda x: x + bent * np.tanh(x @ w + b)


def network(n_in, hidden, n_out):
    sizes = [n_in] + hidden
    p = dict(hidden_weight=rng.normal(size=(n_in, hidden[0])), hidden_bias=rng.normal(size=hidden[0]))
    if len(hidden) > 1:
        p.update(middle_weight=rng.normal(size=(sizes[1], sizes[2])), middle_bias=rng.normal(size=sizes[2]))
    for name in "shift", "scale":
        p[name + "_weight"] = rng.normal(size=(sizes[-1], n_out)) * 0.5
        p[name + "_bias"] = rng.normal(size=n_out) * 0.5
    return p


def outputs(p, x, masks=(1, 1, 1)):
    h = np.tanh(x @ (p["hidden_weight"] * masks[0]) + p["hidden_bias"])
    if "middle_weight" in p:
        h = np.tanh(h @ (p["middle_weight"] * masks[1]) + p["middle_bias"])
    return h @ (p["shift_weight"] * masks[2]) + p["shift_bias"], h @ (p["scale_weight"] * masks[2]) + p["scale_bias"]


def made(p, x):
    n = len(x)
    of = lambda count: np.array([1 + j % (n - 1) if n > 1 else 1 for j in range(count)])
    first, last = of(p["hidden_weight"].shape[1]), of(p["shift_weight"].shape[0])
    inputs = np.arange(1, n + 1)
    return outputs(p, x, (inputs[:, None] <= first[None], first[:, None] <= last[None], last[:, None] < inputs[None]))


def coupling(p):
    k = p["hidden_weight"].shape[0]

    def f(x):
        t, s = outputs(p, x[:k])
        return np.append(x[:k], x[k:] * np.exp(s) + t)
    return f


def masked(p):
    def f(x):
        y = np.zeros(len(x), dtype=complex)
        for i in range(len(x)):
            m, s = made(p, y)
            y[i] = m[i] + np.exp(s[i]) * x[i]
        return y
    return f


def inverse(p):
    def f(x):
        m, s = made(p, x)
        g = 1 / (1 + np.exp(-s))
        return g * x + (1 - g) * m
    return f


nvp, nvp2 = network(2, [4], 3), network(1, [3, 5], 2)
maf, maf2, maf1 = network(4, [6], 4), network(3, [5, 4], 3), network(1, [2], 1)
iaf, iaf2 = network(4, [7], 4), network(3, [4, 6], 3)
flip = dict(kind="permutation", params=dict(index=[2, 1, 0]))
cases += [
    vector("affine_tril", lambda x: np.array(shift) + np.array(tril) @ x, points(3, 3),
           dict(loc=shift, scale_tril=tril)),
    vector("softmax_centred", softmax0, points(3, 3) + [np.array([-20.0, 3.0, 12.0])], into="simplex"),
    vector("softmax_centred", softmax0, points(2, 1), into="simplex"),
    vector("ordered", lambda x: np.cumsum(np.append(x[:1], np.exp(x[1:]))), points(3, 4)),
    vector("permutation", lambda x: x[order], points(2, 4), dict(index=order)),
    vector("cholesky", lower, points(2, 6), into="lower"),
    vector("cholesky", lower, points(2, 1), into="lower"),
    vector("cholesky_outer", lambda m: m @ m.T, [lower(v).real for v in points(2, 6)], into="lower", out_of="lower"),
    vector("planar", planar([0.7, -1.2, 0.4], [0.5, 0.3, -2.0], 0.2), points(4, 3),
           dict(weight=[0.7, -1.2, 0.4], direction=[0.5, 0.3, -2.0], bias=0.2)),
    vector("planar", planar([2.0, -1.0], [-3.0, 3.0], 0.0), points(4, 2),
           dict(weight=[2.0, -1.0], direction=[-3.0, 3.0])),
    vector("real_nvp", coupling(nvp), points(3, 5), nvp),
    vector("real_nvp", coupling(nvp2), points(3, 3), nvp2),
    vector("masked_autoregressive", masked(maf), points(3, 4), maf),
    vector("masked_autoregressive", masked(maf2), points(3, 3), maf2),
    vector("masked_autoregressive", masked(maf1), points(3, 1), maf1),
    vector("inverse_autoregressive", inverse(iaf), points(3, 4), iaf),
    vector("inverse_autoregressive", inverse(iaf2), points(3, 3), iaf2),
    # the shapes of a chain: numbers, vectors, matrices
    vector("chain", lambda x: (lambda m: m @ m.T)(lower(0.5 * x)), points(2, 3), into="lower",
           parts=[dict(kind="affine", params=dict(loc=0.0, scale=0.5)), dict(kind="cholesky", params={}),
                  dict(kind="cholesky_outer", params={})]),
    vector("chain", lambda x: inverse(iaf2)(inverse(iaf2)(x)[::-1]), points(2, 3),
           parts=[dict(kind="inverse_autoregressive", params=iaf2), flip,
                  dict(kind="inverse_autoregressive", params=iaf2)]),
    vector("inverse", lambda y: np.log(y[:-1] / y[-1]), [softmax0(v) for v in points(2, 2)], out_of="simplex",
           parts=[dict(kind="softmax_centred", params={})]),
    vector("correlation_cholesky", correlation, points(3, 6), into="below"),
    vector("correlation_cholesky", correlation, points(2, 1) + [np.array([0.0])], into="below"),
    vector("mean_and_variance", lambda x: np.array([x[0], np.exp(x[1])]), points(3, 2)),
    vector("mean_and_covariance", lambda x: (lambda m: np.concatenate([x[None, :2], m @ m.T]))(lower(x[2:])), points(3, 5), into="mean above"),
    vector("mean_and_covariance", lambda x: (lambda m: np.concatenate([x[None, :1], m @ m.T]))(lower(x[1:])), points(2, 2), into="mean above"),
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
