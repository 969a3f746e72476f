#!/usr/bin/env python3
"""Golden values of the operations from NumPy and SciPy: writes tensor_golden.h beside this file.

Every case is one application of a row of src/autodiff/op/op.def (or of a builder composed of rows): inputs,
attributes in the row's order, expected result, tolerance. float32 cases have inputs rounded to float32 and
results computed from them in float64.
"""
from pathlib import Path

import numpy as np
import scipy.special as sc

np.seterr(all="ignore")
asked = {}
inf, nan = np.inf, np.nan
I64 = np.iinfo(np.int64)
DTYPES = {np.dtype("float64"): 0, np.dtype("float32"): 1, np.dtype("int64"): 2, np.dtype("bool"): 3}
tensors, reals, ints, cases, seen = [], [], [], [], {}


def tensor(a, dtype=None):
    a = np.ascontiguousarray(a, dtype) if np.ndim(a) else np.asarray(a, dtype)
    key = (a.dtype.str, a.shape, a.tobytes())
    if key not in seen:
        store = reals if a.dtype.kind == "f" else ints
        seen[key] = len(tensors)
        tensors.append((DTYPES[a.dtype], a.shape, len(store)))
        flat = a.reshape(-1)
        store.extend(flat if a.dtype == np.float32 else flat.tolist())  # float32 in its own shortest digits
    return seen[key]


SUMS = {"sum", "mean", "cumsum", "linear_recurrence", "logcumsumexp", "matmul", "pn_matmul", "linear", "log_softmax", "var", "std"}


def case(op, inputs, want, i=(), r=(), tol=None):
    """inputs and want: arrays, with their dtypes. Sums of terms of order one are compared absolutely below one."""
    inputs = [np.asarray(x) for x in inputs]
    want = np.asarray(want)
    single = any(x.dtype == np.float32 for x in inputs + [want])
    cases.append((op, [tensor(x) for x in inputs], tensor(want), list(i), list(r), tol or (4e-7 if single else 4e-15), int(op in SUMS)))


def both(op, f, *inputs, i=(), r=(), tol=(4e-15, 3e-7), ints=None):
    """The case in float64 and float32 (and int64 where `ints` inputs are given); f works in float64."""
    for dtype, t in zip((np.float64, np.float32), tol):
        x = [np.asarray(v, np.float64).astype(dtype) if np.asarray(v).dtype.kind == "f" else np.asarray(v) for v in inputs]
        want = f(*[v.astype(np.float64) if v.dtype.kind == "f" else v for v in x])
        want = want.astype(dtype) if want.dtype.kind == "f" else want.astype(np.int64) if want.dtype.kind == "i" else want
        case(op, x, want, i, r, t)


def integer(op, f, *inputs, i=(), r=()):
    x = [np.asarray(v, np.int64) for v in inputs]
    want = np.asarray(f(*x))
    case(op, x, want.astype(np.int64) if want.dtype.kind in "iu" else want, i, r)


def u(lo, hi, *shape):
    """Numbers that depend on the range, the shape and how often it was asked for: a new case leaves others alone."""
    key = f"{lo} {hi} {shape}"
    asked[key] = asked.get(key, 0) + 1
    r = np.random.default_rng([asked[key], *key.encode()])
    return np.round(r.uniform(lo, hi, shape), 4)


# ---- elementwise, one argument ---------------------------------------------------------------------------

EDGES = np.array([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 0.5, 1e-30, -1e-30])
WHOLE = np.array([0, 1, -1, 7, -12, I64.max, I64.min, I64.min + 1, 1 << 40, 3037000500])


def unary(op, f, lo, hi, edges=EDGES, tol=(4e-15, 3e-7)):
    both(op, f, u(lo, hi, 3, 4), tol=tol)
    both(op, f, edges, tol=tol)
    both(op, f, u(lo, hi), tol=tol)
    both(op, f, np.zeros((2, 0, 3)))


def logsig(x):
    return -np.logaddexp(0, -x)


unary("neg", np.negative, -3, 3)
unary("abs", np.abs, -3, 3)
unary("sign", np.sign, -3, 3)
unary("square", np.square, -3, 3, np.append(EDGES, 1e10))
unary("sqrt", np.sqrt, 0, 5)
unary("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 5, EDGES[EDGES != 0])
unary("reciprocal", lambda x: 1 / x, 0.1, 5)
unary("exp", np.exp, -5, 5, np.append(EDGES, [-80, 80]))
unary("expm1", np.expm1, -5, 5, np.append(EDGES, [1e-9, -80]))
unary("log", np.log, 0.1, 5, np.append(EDGES, 1 + 1e-3))
unary("log1p", np.log1p, -0.9, 5, np.append(EDGES, 1e-9))
unary("log1mexp", lambda x: np.where(x > -0.7, np.log(-np.expm1(x)), np.log1p(-np.exp(x))), -5, -0.05, np.array([-1e-9, -80, -inf, nan]))
unary("sin", np.sin, -5, 5, np.append(EDGES, 1e4))
unary("cos", np.cos, -5, 5, np.append(EDGES, 1e4))
unary("tan", np.tan, -1.4, 1.4)
unary("asin", np.arcsin, -1, 1)
unary("acos", np.arccos, -1, 1)
unary("atan", np.arctan, -9, 9)
unary("sinh", np.sinh, -5, 5)
unary("cosh", np.cosh, -5, 5)
unary("asinh", np.arcsinh, -5, 5, np.append(EDGES, [1e200, -1e-9]))
unary("acosh", np.arccosh, 1, 9, np.array([1.0, 1 + 1e-9, 1e200, inf, 0.5, nan]))
unary("atanh", np.arctanh, -1, 1, np.append(EDGES, [1 - 1e-9, 2.0]))
unary("tanh", np.tanh, -5, 5)
unary("sigmoid", sc.expit, -9, 9, np.append(EDGES, [-80, 80]))
unary("log_sigmoid", logsig, -9, 9, np.append(EDGES, [-80, 80]))
unary("softplus", lambda x: np.logaddexp(0, x), -9, 9, np.append(EDGES, [-80, 80]))
unary("relu", lambda x: np.where(x < 0, 0.0, x), -3, 3)
unary("floor", np.floor, -5, 5, np.append(EDGES, [2.5, -2.5, 1e15]))
unary("ceil", np.ceil, -5, 5, np.append(EDGES, [2.5, -2.5, 1e15]))
unary("round", np.round, -5, 5, np.append(EDGES, [0.5, 1.5, 2.5, -0.5, -1.5]))
unary("erf", sc.erf, -3, 3)
unary("erfc", sc.erfc, -3, 3, np.append(EDGES, [5, 9]), tol=(1e-13, 4e-7))
unary("erfcx", sc.erfcx, -3, 9, np.append(EDGES, [30, 1e6, -30]), tol=(1e-13, 4e-7))
unary("erfinv", sc.erfinv, -0.99, 0.99)
unary("ndtr", sc.ndtr, -5, 5, np.append(EDGES, -12), tol=(1e-13, 4e-7))
unary("log_ndtr", sc.log_ndtr, -5, 5, np.append(EDGES, [-50, -1e6, 8]), tol=(1e-13, 4e-7))
unary("ndtri", sc.ndtri, 0.01, 0.99, np.array([0, 1, 0.5, 1e-20, 2, -1, nan]), tol=(1e-14, 4e-7))
unary("lgamma", sc.gammaln, 0.2, 9, np.array([1, 2, 0, -1, -2.5, 1e6, inf, nan]), tol=(1e-13, 1e-6))
unary("digamma", sc.digamma, 0.2, 1.3, np.array([1, 5, 1e6, inf, nan]), tol=(1e-13, 1e-6))
for n in (1, 2, 4):
    both("polygamma", lambda x: sc.polygamma(n, x), u(0.3, 9, 3, 4), i=[n], tol=(1e-13, 1e-6))
for op, f in (("neg", np.negative), ("abs", np.abs), ("sign", np.sign), ("square", np.square)):
    integer(op, f, WHOLE)
    integer(op, f, WHOLE.reshape(2, 5))

# ---- elementwise, two arguments --------------------------------------------------------------------------

GRID = np.array([0.0, -0.0, 1.0, -1.0, 2.5, inf, -inf, nan])


def binary(op, f, a, b, grid=GRID, tol=(4e-15, 3e-7)):
    lo1, hi1, lo2, hi2 = *a, *b
    shapes = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 3), ()), ((2, 1, 3), (4, 1)), ((2, 3, 4), (3, 1)),
              ((1, 1), (5,)), ((0, 3), (1, 3)), ((2, 3), (2, 3)), ((7,), (1,))]
    for s, t in shapes:
        both(op, f, u(lo1, hi1, *s), u(lo2, hi2, *t), tol=tol)
    if grid is not None:
        both(op, f, grid[:, None], grid[None, :], tol=tol)


def floored(x, y):
    return np.mod(x, y)


binary("add", np.add, (-3, 3), (-3, 3))
binary("sub", np.subtract, (-3, 3), (-3, 3))
binary("mul", np.multiply, (-3, 3), (-3, 3))
binary("div", np.divide, (-3, 3), (0.5, 3))
binary("pow", np.power, (0.2, 3), (-2, 2))
both("pow", np.power, u(-3, 3, 7), np.array([2.0]))
both("pow", np.power, u(-3, 3, 7), np.array(3.0))
both("pow", np.power, np.append(EDGES, 1.7), np.array(0.5))
both("pow", np.power, np.append(EDGES, 1.7), np.array(-1.0))
both("pow", np.power, np.append(EDGES, 1.7), np.array(1.0))
both("pow", np.power, np.append(EDGES, 1.7), np.array(0.0))
binary("maximum", np.maximum, (-3, 3), (-3, 3))
binary("minimum", np.minimum, (-3, 3), (-3, 3))
binary("atan2", np.arctan2, (-3, 3), (-3, 3))
binary("logaddexp", np.logaddexp, (-3, 3), (-3, 3))
binary("xlogy", sc.xlogy, (-3, 3), (0.1, 3), tol=(1e-14, 3e-7))
binary("remainder", floored, (-9, 9), (0.5, 3), GRID, tol=(1e-13, 2e-5))
both("remainder", floored, np.array([1e17, -1e17, 5.0, -5.0, 1e-20]), np.array([3.0, 3.0, inf, 7.0, 3.0]))
binary("gammainc", sc.gammainc, (0.3, 9), (0.1, 9), None, tol=(1e-12, 1e-6))
binary("gammaincinv", sc.gammaincinv, (0.5, 9), (0.1, 0.9), None, tol=(1e-11, 2e-6))
binary("gammaincc", sc.gammaincc, (0.3, 9), (0.1, 9), None, tol=(1e-12, 1e-6))
binary("gammainccinv", sc.gammainccinv, (0.5, 9), (0.1, 0.9), None, tol=(1e-11, 2e-6))
unary("log_ndtri", lambda y: np.where(y < -0.5, sc.ndtri_exp(y), -sc.ndtri(-np.expm1(y))), -9, -0.01, np.array([-1e4, -1e-10, -1.0, -inf, 1.0, nan]), tol=(1e-12, 2e-6))
unary("expintx", lambda x: np.where(x > 600, 0, np.exp(np.minimum(x, 600)) * sc.exp1(np.minimum(x, 600))), 0.05, 9, np.array([1e-30, 1.0, 300, inf, 0, -1, nan]), tol=(1e-12, 1e-6))
for n in (1, 2, 5):
    both("expint_tail", lambda x: x ** (1 - n) * np.exp(x) * sc.expn(n, x), u(0.05, 9, 3, 4), i=[n], tol=(1e-12, 4e-6))
for shape in (((3, 4), (3, 4), (3, 4)), ((4,), (3, 1), ()), ((), (), (5,)), ((2, 1), (1, 3), (2, 3)), ((0,), (1,), (0,))):
    both("betainc", sc.betainc, u(0.4, 9, *shape[0]), u(0.4, 9, *shape[1]), u(0.1, 0.9, *shape[2]), tol=(1e-12, 1e-6))
    both("betaincc", sc.betaincc, u(0.4, 9, *shape[0]), u(0.4, 9, *shape[1]), u(0.1, 0.9, *shape[2]), tol=(1e-12, 1e-6))
    both("betaincinv", sc.betaincinv, u(0.5, 6, *shape[0]), u(0.5, 6, *shape[1]), u(0.1, 0.9, *shape[2]), tol=(1e-11, 4e-6))
for which in (0, 1):
    both("betainc_slope", lambda a, b, x: (sc.betainc(a + 1e-4 * (1 - which), b + 1e-4 * which, x) - sc.betainc(a - 1e-4 * (1 - which), b - 1e-4 * which, x)) / 2e-4,
         u(0.5, 5, 6), u(0.5, 5, 6), u(0.1, 0.9, 6), i=[which], tol=(1e-6, 1e-5))
both("gammainc_grad_a", lambda a, x: (sc.gammainc(a + 1e-4, x) - sc.gammainc(a - 1e-4, x)) / 2e-4, u(0.5, 5, 6), u(0.5, 5, 6), tol=(1e-6, 1e-5))
for op, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("maximum", np.maximum), ("minimum", np.minimum)):
    integer(op, f, WHOLE[:, None], WHOLE[None, :])
    integer(op, f, np.arange(12).reshape(3, 4) - 5, [3, -2, 7, 1])
with np.errstate(all="ignore"):
    integer("remainder", np.mod, WHOLE[:, None], np.array([1, -1, 3, -3, 7, I64.max, I64.min, 2, 0]))

# ---- comparisons, logic, selection -----------------------------------------------------------------------

COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
           "logical_and": np.logical_and, "logical_or": np.logical_or}
for op, f in COMPARE.items():
    both(op, f, GRID[:, None], GRID[None, :])
    both(op, f, u(-1, 1, 2, 3), u(-1, 1, 3))
    integer(op, f, WHOLE[:, None], WHOLE[None, :])
    case(op, [np.array([[True], [False]]), np.array([True, False])], f(np.array([[True], [False]]), np.array([True, False])))
for op, f in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite), ("logical_not", np.logical_not)):
    both(op, f, np.append(EDGES, [1e300]) if op == "logical_not" else EDGES)
    integer(op, f, WHOLE)
    case(op, [np.array([True, False])], f(np.array([True, False])))
for a, b in ((u(-1, 1, 3, 4), u(-1, 1, 4)), (EDGES[:4], np.array(nan))):
    both("where", np.where, np.array([True, False, False, True]), a, b)
case("where", [np.array([[True], [False]]), np.arange(3), WHOLE[-3:]], np.where([[True], [False]], np.arange(3), WHOLE[-3:]))
case("where", [np.array(True), np.array([True, False]), np.array(False)], np.array([True, False]))
for lo, hi in ((-0.5, 0.7), (-inf, 0.3), (0.2, inf), (0.0, 0.0), (1.0, -1.0)):
    both("clamp", lambda x: np.clip(x, lo, hi), np.concatenate([EDGES, u(-2, 2, 6)]), r=[lo, hi])
for frm in (np.array([0.0, 1.9, -1.9, nan, 1e30, -1e30, inf, 300]), np.array([0, 1, -7, 1 << 40]), np.array([True, False])):
    for k, to in enumerate((np.float64, np.float32, np.int64, bool)):
        if frm.dtype.kind == "f" and to == np.int64:  # truncates, saturates, NaN gives 0: ours, NumPy leaves it open
            want = np.array([0, 1, -1, 0, I64.max, I64.min, I64.max, 300])
        else:
            want = frm.astype(to)
        case("cast", [frm], want, [k])

# ---- reductions ------------------------------------------------------------------------------------------

def lse(x, axis, keepdims):
    return sc.logsumexp(x, axis=axis, keepdims=keepdims) if x.ndim else x


REDUCE = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min, "logsumexp": lse}
AXES = [(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]


def over(f, axes, keep, ndim):
    axis = axes or tuple(range(ndim))
    return lambda x: np.asarray(f(x, axis=axis, keepdims=bool(keep)))


def mask(axes):
    return sum(1 << a for a in axes)


for op, f in REDUCE.items():
    tol = (1e-14, 2e-6)
    x = u(-2, 2, 3, 4, 5) + (0.1 if op == "prod" else 0)
    for axes in AXES:
        for keep in (0, 1):
            both(op, over(f, axes, keep, 3), x, i=[mask(axes), keep], tol=tol)
    both(op, over(f, (1,), 0, 4), u(0.5, 2, 2, 3, 1, 4), i=[mask((1,)), 0], tol=tol)
    both(op, over(f, (1, 3), 1, 4), u(0.5, 2, 2, 3, 2, 4), i=[mask((1, 3)), 1], tol=tol)
    both(op, lambda a: f(a, axis=None, keepdims=False) if op != "logsumexp" else a, np.array(1.25), i=[0, 0], tol=tol)
    both(op, over(f, (0,), 0, 2), np.zeros((3, 0)), i=[1, 0])
    if op in ("sum", "prod"):
        both(op, over(f, (1,), 0, 2), np.zeros((3, 0)), i=[2, 0])
        both(op, over(f, (0, 1), 1, 2), np.zeros((3, 0)), i=[3, 1])
    bad = np.array([[1.0, nan, 3.0], [nan, 2.0, 1.0], [5.0, 1.0, nan], [1, inf, 2], [-inf, 0, 3], [-inf, -inf, -inf]])
    both(op, over(f, (1,), 0, 2), bad, i=[2, 0], tol=tol)
    both(op, over(f, (0,), 0, 2), bad, i=[1, 0], tol=tol)
for op in ("sum", "prod", "max", "min"):
    for axes in ((), (0,), (1,)):
        integer(op, over(REDUCE[op], axes, 0, 2), WHOLE.reshape(2, 5), i=[mask(axes), 0])
mixed = np.array([[True, False, True], [False, False, False], [True, True, True]])
for axes in ((), (0,), (1,)):
    case("sum", [mixed], np.asarray(np.sum(mixed, axis=axes or None), np.int64), [mask(axes), 0])
    for op, f in (("any", np.any), ("all", np.all)):
        case(op, [mixed], np.asarray(f(mixed, axis=axes or None)), [mask(axes), 0])
        both(op, over(f, axes, 1, 2), np.array([[0.0, 1.0, nan], [0.0, -0.0, 0.0]]), i=[mask(axes), 1])
        integer(op, over(f, axes, 0, 2), [[0, 1, -1], [0, 0, 0]], i=[mask(axes), 0])
for op, f in (("any", np.any), ("all", np.all)):
    case(op, [np.zeros((2, 0), bool)], f(np.zeros((2, 0)), axis=1), [2, 0])
for op, f in (("argmax", np.argmax), ("argmin", np.argmin)):
    for axis in (0, 1, 2):
        for keep in (0, 1):
            both(op, lambda x: f(x, axis=axis, keepdims=bool(keep)), u(-2, 2, 3, 4, 5), i=[axis, keep])
    both(op, lambda x: f(x, axis=1), np.array([[1.0, 3, 3, 1], [nan, 1, 5, nan], [2, nan, 1, 9], [-inf, inf, inf, -inf]]), i=[1, 0])
    integer(op, lambda x: f(x, axis=1), WHOLE.reshape(2, 5), i=[1, 0])

# ---- scans -----------------------------------------------------------------------------------------------

for axis in (0, 1, 2):
    x = u(-2, 2, 3, 4, 5)
    both("cumsum", lambda a: np.cumsum(a, axis=axis), x, i=[axis], tol=(1e-14, 3e-6))
    both("softmax", lambda a: sc.softmax(a, axis=axis), 9 * x, i=[axis], tol=(1e-14, 4e-6))
    both("log_softmax", lambda a: sc.log_softmax(a, axis=axis), 9 * x, i=[axis], tol=(1e-14, 1e-6))
    for op in ("cumsum", "softmax", "log_softmax"):
        both(op, lambda a: a, np.zeros((3, 0, 2)), i=[axis])
integer("cumsum", lambda a: np.cumsum(a, axis=1), WHOLE.reshape(2, 5), i=[1])
integer("cumsum", lambda a: np.cumsum(a, axis=0), WHOLE.reshape(2, 5), i=[0])
both("cumsum", lambda a: np.cumsum(a, axis=0), np.array([1, nan, 2, inf]), i=[0])


def recurrence(x, a, axis):
    x, a = np.moveaxis(x, axis, 0), np.moveaxis(np.broadcast_to(a, x.shape), axis, 0)
    y = x.copy()
    for k in range(1, len(x)):
        y[k] = a[k] * y[k - 1] + x[k]
    return np.moveaxis(y, 0, axis)


def latest(x, axis, better):
    """Positions of the best so far, of equals the latest, a NaN better than all: torch.cummax and torch.cummin."""
    x = np.moveaxis(x, axis, 0)
    at, place = np.zeros(x.shape[1:], int), np.zeros(x.shape, int)
    for k in range(len(x)):
        best = np.take_along_axis(x, at[None], 0)[0]
        at = np.where(better(x[k], best) | np.isnan(x[k]), k, at)
        place[k] = at
    return np.moveaxis(place, 0, axis)


bad = np.array([[1.0, 3, 2, 3, -inf], [nan, 1, 5, nan, 2], [2, -inf, nan, 9, 1], [-inf, -inf, inf, inf, 0]])
for axis in (0, 1, 2):
    x, a = u(-2, 2, 3, 4, 5), u(-1, 1.5, 3, 4, 5)
    for factor in (a, a[:1, :1], a[0], a[:, :, :1], np.array(0.9)):
        both("linear_recurrence", lambda v, w: recurrence(v, w, axis), x, factor, i=[axis], tol=(1e-14, 1e-6))
    both("linear_recurrence", lambda v, w: v, np.zeros((3, 0, 2)), np.ones(2), i=[axis])
    both("logcumsumexp", lambda v: np.logaddexp.accumulate(v, axis=axis), 9 * x, i=[axis], tol=(1e-14, 2e-6))
    both("logcumsumexp", lambda v: v, np.zeros((3, 0, 2)), i=[axis])
    for op, better in (("argcummax", np.greater_equal), ("argcummin", np.less_equal)):
        both(op, lambda v: latest(v, axis, better), np.round(x), i=[axis])
        both(op, lambda v: np.zeros(v.shape, int), np.zeros((3, 0, 2)), i=[axis])
        integer(op, lambda v: latest(v, axis % 2, better), [[1, 2, 2, 0], [I64.max, I64.min, 5, 5]], i=[axis % 2])
integer("linear_recurrence", lambda v, w: recurrence(v, w, 1), WHOLE.reshape(2, 5), [[3], [-1]], i=[1])
both("linear_recurrence", lambda v, w: recurrence(v, w, 1), bad, np.full(5, 0.5), i=[1])
for op, better in (("argcummax", np.greater_equal), ("argcummin", np.less_equal)):
    both(op, lambda v: latest(v, 1, better), bad, i=[1])
both("logcumsumexp", lambda v: np.logaddexp.accumulate(v, axis=1), bad, i=[1], tol=(1e-14, 1e-6))
both("logcumsumexp", lambda v: np.logaddexp.accumulate(v, axis=1), np.array([[1e6, 1e6 + 1, -1e6], [-1e300, -700, 700.0]])[:, :2], i=[1], tol=(1e-14, 1e-6))
shifted = np.array([[1e6, 1e6 + 1, 1e6 - 2], [1e4, -1e4, 0], [-inf, 0, 1], [-700, -701, -702]])
both("softmax", lambda a: sc.softmax(a, axis=1), shifted, i=[1], tol=(1e-14, 1e-6))
both("log_softmax", lambda a: sc.log_softmax(a, axis=1), shifted, i=[1], tol=(1e-14, 1e-6))

# ---- shape -----------------------------------------------------------------------------------------------

KINDS = [np.arange(24.0), np.arange(24, dtype=np.float32), np.arange(24), np.arange(24) % 3 == 0]
for flat in KINDS:
    x = flat.reshape(2, 3, 4)
    for shape in ((24,), (4, 6), (2, 1, 3, 4), (6, -1), (1, 24, 1), (3, 2, 2, 2)):
        case("reshape", [x], x.reshape(shape), shape)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
        case("permute", [x], x.transpose(order), order)
    case("broadcast_to", [x[:, :1]], np.broadcast_to(x[:, :1], (5, 2, 3, 4)), (5, 2, 3, 4))
    case("broadcast_to", [x], np.broadcast_to(x, (1, 2, 3, 4)), (1, 2, 3, 4))
    case("broadcast_to", [x[:1, :1, :1]], np.broadcast_to(x[:1, :1, :1], (0, 3, 2)), (0, 3, 2))
    for axis, start, count, step in ((2, 1, 2, 2), (2, 3, 4, -1), (1, 0, 3, 1), (0, 1, 1, 1), (1, 0, 0, 1), (2, 3, 2, -3)):
        index = [slice(None)] * 3
        index[axis] = list(range(start, start + count * step, step)) if count else slice(0, 0)
        y = x[tuple(index)]
        case("slice", [x], y, (axis, start, count, step))
        back = np.zeros_like(x)
        back[tuple(index)] = y
        case("unslice", [y], back, (axis, start, count, step, x.shape[axis]))
    case("contiguous", [x], x)
    case("concatenate", [x, x[:, :1], x[:, :0]], np.concatenate([x, x[:, :1], x[:, :0]], 1), [1])
    case("concatenate", [x[:, :, :1], x], np.concatenate([x[:, :, :1], x], 2), [2])
    case("concatenate", [x], x, [0])
    case("pad", [x], np.pad(x, ((0, 0), (2, 1), (0, 0))), [1, 2, 1])
    case("pad", [x], np.pad(x, ((0, 0), (0, 0), (0, 3)), constant_values=1), [2, 0, 3], [1.0])
    for k in (-3, -1, 0, 1, 4):
        case("tril", [x], np.tril(x, k), [k])
        case("triu", [x], np.triu(x, k), [k])
    case("diagonal", [x], np.diagonal(x, axis1=1, axis2=2))
    case("diagonal", [x.reshape(6, 4)], np.diagonal(x.reshape(6, 4)))
    for k in (-2, -1, 1, 3, 4, -3):
        case("diagonal", [x], np.diagonal(x, k, axis1=1, axis2=2), [k])
    for k in (-2, 1):
        case("diag_embed", [x[0]], np.stack([np.diag(row, k) for row in x[0]]), [k])
        case("diag_embed", [x[0, :, :0]], np.zeros((3, abs(k), abs(k)), x.dtype), [k])
    eye = np.zeros((2, 3, 4, 4), x.dtype)
    for j in range(4):
        eye[..., j, j] = x[..., j]
    case("diag_embed", [x], eye)
    case("diag_embed", [x[:, :, :0]], np.zeros((2, 3, 0, 0), x.dtype))

# ---- indexing --------------------------------------------------------------------------------------------

index = np.array([[0, 2, 1, 0], [1, -1, -3, 2]])
for flat in KINDS:
    m = flat[:12].reshape(3, 4)
    case("gather", [m, index], np.take_along_axis(m, np.where(index < 0, index + 3, index), 0), [0])
    wide = np.array([[0, 3, -1, 1, 1], [2, 2, -4, 0, 3], [0, 0, 0, 0, 0]])
    case("gather", [m, wide], np.take_along_axis(m, wide, 1), [1])
    for axis, at in ((0, np.array([2, 0, 0, -1])), (1, np.array([[3, -1], [0, 2]])), (1, np.array(2)), (0, np.array([], np.int64))):
        case("take", [m, at], np.take(m, at, axis), [axis])
    if m.dtype != bool:
        src = (10 * flat[:8]).reshape(2, 4)
        want = m.copy()
        for a in range(2):
            for b in range(4):
                want[index[a, b], b] += src[a, b]
        case("scatter_add", [m, index, src], want, [0])
        at = np.array([2, 0, 0, -1])
        g = flat[:8].reshape(4, 2)
        want = np.zeros((3, 2), m.dtype)
        np.add.at(want, at, g)
        case("take_add", [g, at], want, [0, 3])
        g = flat[:6].reshape(2, 3)
        case("take_add", [g, np.array(1)], np.stack([np.zeros_like(g), g], 1), [1, 2])
    case("nonzero", [m], np.argwhere(m).astype(np.int64))
    case("nonzero", [flat[1:2].reshape(())], np.zeros((int(bool(flat[1])), 0), np.int64))


def order(x, axis, down):
    """Stable, NaN last in both directions."""
    y = np.where(np.isnan(x), -inf, x) if down else x
    if not down:
        return np.argsort(y, axis=axis, kind="stable")
    key = np.where(np.isnan(x), inf, -x)  # -inf sorts before NaN since ties keep their order only among equals
    rank = np.argsort(np.isnan(x), axis=axis, kind="stable")
    first = np.take_along_axis(key, rank, axis)
    return np.take_along_axis(rank, np.argsort(first, axis=axis, kind="stable"), axis)


for down in (0, 1):
    x = np.round(u(-2, 2, 4, 9), 1)
    x[0, 3] = x[1, 0] = x[1, 5] = nan
    x[2, 1], x[2, 7] = inf, -inf
    for axis in (0, 1):
        both("argsort", lambda a: order(a, axis, down), x, i=[axis, down])
    integer("argsort", lambda a: np.argsort(a, kind="stable") if not down else np.array(sorted(range(len(a)), key=lambda k: (-int(a[k]), k))),
            np.append(WHOLE, [7, 1, 7]), i=[0, down])
    flags = np.array([True, False, True, True, False])
    case("argsort", [flags], np.array([0, 2, 3, 1, 4] if down else [1, 4, 0, 2, 3]), [0, down])
    both("argsort", lambda a: np.arange(300), np.linspace(0, 1, 300) * (-1 if down else 1), i=[0, down])

# ---- products --------------------------------------------------------------------------------------------

for s, t in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((1, 4), (4, 1)), ((3, 1), (1, 4)),
             ((2, 3, 4), (2, 4, 5)), ((3, 0), (0, 4)), ((0, 3), (3, 2)), ((2, 0, 3), (3, 2)), ((70, 9), (9, 40)), ((1, 1), (1, 1))):
    both("matmul", np.matmul, u(-2, 2, *s), u(-2, 2, *t), tol=(1e-13, 1e-5))
both("linear", lambda x, w, b: x @ w + b, u(-2, 2, 2, 3, 4), u(-2, 2, 4, 5), u(-2, 2, 5), tol=(1e-13, 1e-5))
both("linear", lambda x, w, b: x @ w + b, u(-2, 2, 7, 1), u(-2, 2, 1, 1), u(-2, 2, 1), tol=(1e-13, 1e-5))

# ---- builders composed of rows; attributes as their C arguments -----------------------------------------

for axes in ((), (0,), (1,), (0, 2)):
    for ddof in (0, 1):
        x = u(-2, 2, 3, 4, 5) + 50
        both("var", lambda a: np.asarray(np.var(a, axis=axes or None, ddof=ddof)), x, i=[mask(axes), 0], r=[ddof], tol=(1e-12, 1e-4))
        both("std", lambda a: np.asarray(np.std(a, axis=axes or None, ddof=ddof)), x, i=[mask(axes), 0], r=[ddof], tol=(1e-12, 1e-4))
both("var", lambda a: np.asarray(np.var(a, ddof=1)), np.array([3.0]), i=[0, 0], r=[1.0])
x = u(-2, 2, 2, 3, 4)
both("select", lambda a: a[:, 1], x, i=[1, 1])
both("select", lambda a: a[:, :, -1], x, i=[2, -1])
both("unsqueeze", lambda a: a[:, :, None], x, i=[2])
both("unsqueeze", lambda a: a[..., None], x, i=[-1])
both("squeeze", lambda a: a[:, 0], x[:, :1], i=[1])


def places(v, edges, right, closed):
    at = np.searchsorted(edges, v, "right" if right else "left")
    return np.where(v == edges[-1], len(edges) - 1, at) if right and closed and len(edges) else at


# even edges and others, twice the same, none, one, NaN and infinities among them and in the values
odd = [nan, inf, -inf, 0.0, -0.0, 5, -5, 0.1]
for edges in (np.linspace(-1, 1, 9), np.linspace(0, 0.3, 31), np.array([0.0, 1, 1, 2, 3]), np.array([-1, 0.1, 0.1, 0.1, 4]), np.zeros(0),
              np.zeros(1), np.array([0.5, 0.5]), np.array([-inf, 0, inf]), np.array([0, 1, nan]), np.array([-1e300, 1e300]), 2.0 ** np.arange(-9, 9)):
    edges = edges.astype(np.float32).astype(np.float64) if np.abs(edges).max(initial=0) != 1e300 else edges
    beside = np.concatenate([edges, np.nextafter(np.float32(edges), np.float32(9)), np.nextafter(np.float32(edges), np.float32(-9)), odd, u(-1, 1, 40)])
    for right, closed in ((0, 0), (1, 0), (1, 1)):
        both("bucketize", lambda v, e: places(v, e, right, closed), np.resize(beside, (2, len(beside) // 2)), edges, i=[right, closed])
for right, closed in ((0, 0), (1, 0), (1, 1)):
    integer("bucketize", lambda v, e: places(v, e, right, closed), [[1, 2, 7, -3], [I64.max, I64.min, 5, 2]], [-3, 2, 2, 5, 5], i=[right, closed])
both("flip", lambda a: a[:, ::-1], x, i=[1])
both("transpose", lambda a: a.swapaxes(0, 2), x, i=[0, -1])
both("stack", lambda a, b: np.stack([a, b], 1), x, -x, i=[1])
both("stack", lambda a, b: np.stack([a, b], 3), x, -x, i=[-1])
both("masked_select", lambda a, m: a[m], x, u(-1, 1, 2, 3) > 0)
both("masked_select", lambda a, m: a[m], x, np.zeros((2, 3, 4), bool))
ties = np.array([[3, 1, nan, 2, 3], [1, 1, 1, 0, -inf]])
both("sort", lambda a: np.take_along_axis(a, order(a, 1, 0), 1), ties, i=[1, 0])
both("sort", lambda a: np.take_along_axis(a, order(a, 1, 1), 1), ties, i=[1, 1])
both("topk", lambda a: np.take_along_axis(a, order(a, 1, 1), 1)[:, :2], ties, i=[2, 1, 1])
both("argtopk", lambda a: order(a, 1, 0)[:, :3], ties, i=[3, 1, 0])
for s, t in (((4,), (4,)), ((4,), (4, 3)), ((2, 4), (4,)), ((5, 2, 4), (4,)), ((4,), (5, 4, 2))):
    both("pn_matmul", np.matmul, u(-2, 2, *s), u(-2, 2, *t), tol=(1e-13, 1e-5))

both("bernoulli_kl", lambda q, p: sc.rel_entr(q, p) + sc.rel_entr(1 - q, 1 - p), u(0, 0.45, 3, 4), u(0.55, 0.99, 4), tol=(1e-13, 2e-6))
for which, q, p in ((0, 0.2, 0.6), (1, 0.6, 0.2), (2, 0.7, 0.3), (3, 0.1, 0.4)):  # kl(q || p), then back
    known, found = (q, p) if which < 2 else (p, q)
    c = sc.rel_entr(q, p) + sc.rel_entr(1 - q, 1 - p)
    both("bernoulli_kl_inverse", lambda x, c: np.array([found]), np.array([known]), np.array([c]), i=[which], tol=(1e-13, 2e-6))


# ---- output ----------------------------------------------------------------------------------------------

def text(v):
    if v != v:
        return "NAN"
    return {inf: "INFINITY", -inf: "-INFINITY"}.get(float(v), str(v))


def packed(out, items, width=118):
    line = ""
    for s in items:
        if len(line) + len(s) + 2 > width:
            out.write(line.rstrip() + "\n")
            line = ""
        line += s + ", "
    out.write(line.rstrip() + "\n")


def main():
    with open(Path(__file__).with_name("tensor_golden.h"), "w") as out:
        out.write("/* tensor_golden.h: written by tensor.py from NumPy and SciPy. */\n/* clang-format off */\n")
        out.write("static const double golden_reals[] = {\n")
        packed(out, map(text, reals))
        out.write("};\nstatic const int64_t golden_ints[] = {\n")
        packed(out, (("INT64_MIN" if v == I64.min else str(int(v))) for v in ints))
        out.write("};\n/* {dtype, ndim, shape, position of the first element} */\nstatic const golden_tensor golden_tensors[] = {\n")
        packed(out, (f"{{{d}, {len(s)}, {{{', '.join(map(str, s)) or 0}}}, {at}}}" for d, s, at in tensors))
        out.write("};\n/* {name, inputs, {tensors}, result, ints, {ints}, {reals}, tolerance, floor} */\n")
        out.write("static const golden_case golden_cases[] = {\n")
        packed(out, (f'{{"{op}", {len(x)}, {{{", ".join(map(str, x))}}}, {y}, {len(i)}, {{{", ".join(map(str, i)) or 0}}}, '
                     f'{{{", ".join(text(float(v)) for v in r) or 0}}}, {tol:g}, {floor}}}' for op, x, y, i, r, tol, floor in cases))
        out.write("};\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
