#!/usr/bin/env python3
"""Makes src/math/vector/polynomial.h: the polynomials of the vector kernels.

  python3 spec/golden/math/fit.py > src/math/vector/polynomial.h      (needs mpmath and numpy)

Each is the Chebyshev interpolant of its function over the interval, in powers of the variable, highest first. Its
error relative to the function (printed in the comment) lies far below half a unit in the last place.
"""
import numpy as np
from mpmath import mp, mpf, mpc, cos, pi, chebyt, exp, log, sqrt, erf, erfc, gamma, loggamma, psi, sin, atanh, coth, matrix, expm1, findroot, besseli, cholesky_solve

mp.dps = 60


def chebyshev(f, a, b, n):
    """n coefficients in powers of x, lowest first."""
    a, b = mpf(a), mpf(b)
    nodes = [cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    values = [f((a + b) / 2 + (b - a) / 2 * t) for t in nodes]
    coef = [2 * sum(v * cos(j * pi * (2 * k + 1) / (2 * n)) for k, v in enumerate(values)) / n for j in range(n)]
    coef[0] /= 2
    # Chebyshev to powers of t, then of x with t = (2x - a - b) / (b - a)
    previous, current = [mpf(1)], [mpf(0), mpf(1)]
    powers = [mpf(0)] * n
    for j in range(n):
        basis = previous if j == 0 else current
        for i, v in enumerate(basis):
            powers[i] += coef[j] * v
        if j > 0:
            following = [mpf(0)] + [2 * v for v in current]
            for i, v in enumerate(previous):
                following[i] -= v
            previous, current = current, following
    scale, shift = 2 / (b - a), -(a + b) / (b - a)
    # Horner in the polynomial ring
    result = [mpf(0)]
    for v in reversed(powers):
        shifted = [mpf(0)] * (len(result) + 1)
        for i, r in enumerate(result):
            shifted[i] += r * shift
            shifted[i + 1] += r * scale
        shifted[0] += v
        result = shifted
    return result[:n]


def worst(f, coef, a, b, absolute):
    error = mpf(0)
    for k in range(401):
        x = mpf(a) + (mpf(b) - mpf(a)) * k / 400
        p = mpf(0)
        for c in reversed(coef):
            p = p * x + c
        error = max(error, abs(p - f(x)) / (1 if absolute else abs(f(x))))
    return error


def emit(name, text, f, a, b, n, digits=21, absolute=False, weight=None, known=None):
    coef = weighted(f, weight, a, b, n) if weight else None if known else chebyshev(f, a, b, n)
    if known:
        coef, error = rounded(f, lambda x: 1.0, float(a), float(b), n, float(b), known)
        coef, error = [mpf(c) for c in coef], mpf(error)
    elif weight:
        error = max(abs(sum(c * x ** k for k, c in enumerate(coef)) - f(x)) * weight(x)
                    for x in (mpf(a) + (mpf(b) - mpf(a)) * k / 400 for k in range(401)))
    else:
        error = worst(f, coef, a, b, absolute)
    print(f"/* {text}; {mp.nstr(error, 2)}{' of erf' if weight else ' absolute' if absolute else ''} */")
    suffix = "f" if name.endswith("F32") else ""
    digits = 10 if suffix else digits
    items = [mp.nstr(c, digits, min_fixed=-1, max_fixed=2) + suffix for c in reversed(coef)]
    lines, line = [], f"  FIRST({items[0]})"
    for item in items[1:]:
        if len(line) + len(item) + 8 > 114:
            lines.append(line)
            line = "  "
        line += ("" if line == "  " else " ") + f"NEXT({item})"
    lines.append(line)
    print(f"#define {name}(FIRST, NEXT) \\")
    print(" \\\n".join(lines))


def weighted(f, weight, a, b, n):
    """n coefficients in powers of x, lowest first, whose error times the weight is about as small as it can be: least
    squares over Chebyshev nodes, weighted anew by the errors (Lawson 1961)."""
    a, b, m = mpf(a), mpf(b), 9 * n
    nodes = [(a + b) / 2 + (b - a) / 2 * cos(pi * (2 * k + 1) / (2 * m)) for k in range(m)]
    rows = [[chebyt(j, (2 * x - a - b) / (b - a)) for j in range(n)] for x in nodes]
    values, scale, share = [f(x) for x in nodes], [weight(x) for x in nodes], [mpf(1)] * m
    for _ in range(12):
        normal, right = matrix(n, n), matrix(n, 1)
        for row, v, w, by in zip(rows, values, scale, share):
            for i in range(n):
                right[i] += by * w * w * row[i] * v
                for j in range(n):
                    normal[i, j] += by * w * w * row[i] * row[j]
        coef = cholesky_solve(normal, right)
        errors = [abs(sum(c * r for c, r in zip(coef, row)) - v) * w for row, v, w in zip(rows, values, scale)]
        total = sum(by * e for by, e in zip(share, errors)) / m
        share = [by * e / total + mpf(10) ** -30 for by, e in zip(share, errors)]
    fitted = lambda x: sum(c * chebyt(j, (2 * x - a - b) / (b - a)) for j, c in enumerate(coef))
    return chebyshev(fitted, a, b, n)


def rounded(f, ulp, lo, hi, n, unit, known):
    """n coefficients of f on [lo, hi], lowest first, `known` among them given: each is rounded to float32 and the others
    are fitted anew to what that leaves, by least squares weighted by the errors (Lawson 1961)."""
    t = (lo + hi) / 2 + (hi - lo) / 2 * np.cos((np.arange(60 * n) + 0.5) / (60 * n) * np.pi)
    value = np.array([float(f(mpf(float(v)))) for v in t])
    weight = np.array([1 / ulp(mpf(float(v))) for v in t])
    while len(known) < n:
        m = len(known)
        left = value - sum(c * t ** k for k, c in enumerate(known))
        powers, share = np.stack([(t / unit) ** k for k in range(m, n)], 1), np.ones(len(t))
        for _ in range(60):
            by = np.sqrt(share) * weight
            coef = np.linalg.lstsq(powers * by[:, None], left * by, rcond=None)[0]
            share *= np.abs(powers @ coef - left) * weight + 1e-12
            share *= len(t) / share.sum()
        known.append(float(np.float32(coef[0] / unit ** m)))
    return known, np.max(np.abs(sum(c * t ** k for k, c in enumerate(known)) - value) * weight)


def emit_erf_pieces():
    """erf(c + t) about c = 0, w, ... 7 w, of w = 67/128, which floats hold exactly; from 3.925 on it is 1."""
    width, pieces, errors = 67 / 128, [], []
    for k in range(8):
        def f(t):
            return erf(k * width + t) - (t if k == 0 else 0)
        def ulp(t):
            return 2.0 ** (np.floor(np.log2(float(erf(k * width + t)))) - 23)
        lo, hi = 1e-9 if k == 0 else -width / 2, width / 2 if k < 7 else 3.925 - 7 * width
        coef, error = rounded(f, ulp, lo, hi, 7, width / 2, [0.0] if k == 0 else [])
        pieces.append(coef)
        errors.append(error)
    print(f"/* erf(67/128 k + t) for k = 0 to 7, |t| <= 67/256, the last up to 3.925; of k = 0 erf(t) - t; {max(errors):.2f} ULP */")
    print("#define POLY_ERF_PIECES_F32(POWER) \\")
    rows = [[f"{float(np.float32(c[n])):.9g}" for c in pieces] for n in range(6, -1, -1)]
    rows = [[v + ("f" if "." in v or "e" in v else ".0f") for v in row] for row in rows]
    print(" \\\n".join("  POWER(" + ", ".join(row[:4]) + ", \\\n        " + ", ".join(row[4:]) + ")" for row in rows))


def near(f, limit):
    """f, with its limit where the formula is 0/0."""
    return lambda x: limit if abs(x) < mpf(10) ** -30 else f(x)


def precise(f):
    """f with digits to spare for the cancellation in its formula."""
    def g(x):
        with mp.workdps(120):
            return f(x)
    return g


def erfcx_scaled(t, k=mpf("3.75")):
    """(1 + 2a) e^(a^2) erfc(a) at a = k (1 + t) / (1 - t)"""
    if t > 1 - mpf(10) ** -25:
        return 2 / sqrt(pi)
    a = k * (1 + t) / (1 - t)
    if a > 1e6:
        u = 1 / (2 * a * a)
        return (1 + 2 * a) / (a * sqrt(pi)) * (1 - u + 3 * u * u - 15 * u ** 3)
    return (1 + 2 * a) * exp(a * a) * erfc(a)


print("""/* polynomial.h: made by spec/golden/math/fit.py. Coefficients from the highest power down; after each
** polynomial's meaning stands the largest relative error of the fit. */
#ifndef PN_MATH_VECTOR_POLYNOMIAL_H
#define PN_MATH_VECTOR_POLYNOMIAL_H
""")
print("/* clang-format off */")
half_ln2 = log(mpf(2)) / 2 * mpf("1.0001")
f_exp = near(precise(lambda r: (exp(r) - 1 - r) / r ** 2), mpf(1) / 2)
emit("POLY_EXP_F64", "(e^r - 1 - r) / r^2, |r| <= log(2) / 2", f_exp, -half_ln2, half_ln2, 10)
emit("POLY_EXP_F32", "the same", f_exp, -half_ln2, half_ln2, 5)
f_coth = near(precise(lambda z: sqrt(z) * coth(sqrt(z))), mpf(1))
most_coth = (log(mpf(2)) * 25 / 64 * mpf("1.0001")) ** 2
emit("POLY_COTH_F64", "r coth(r) in z = r^2, |r| <= 25/64 log(2)", f_coth, 0, most_coth, 7)
emit("POLY_COTH_F32", "the same", f_coth, 0, most_coth, 3, known=[1.0])
f_log = near(precise(lambda z: (2 * atanh(sqrt(z)) / sqrt(z) - 2) / z), mpf(2) / 3)
top = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2
emit("POLY_LOG_F64", "(2 atanh(s) - 2s) / s^3 in z = s^2, s = (m - 1) / (m + 1), m from 1/sqrt(2) to sqrt(2)", f_log, 0, top, 7)
emit("POLY_LOG_F32", "the same", f_log, 0, top, 3)
quarter = (pi / 4 * mpf("1.0001")) ** 2
emit("POLY_ATANH", "(atanh(s) - s) / s^3 in z = s^2, |s| <= 3/7", near(precise(lambda z: (atanh(sqrt(z)) / sqrt(z) - 1) / z), mpf(1) / 3), 0, mpf(9) / 49 * mpf("1.0001"), 13)
emit("POLY_SIN", "(sin r - r) / r^3 in z = r^2, |r| <= pi/4", near(precise(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z), -mpf(1) / 6), 0, quarter, 6)
emit("POLY_COS", "(cos r - 1 + z/2) / z^2 in z = r^2", near(precise(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z ** 2), mpf(1) / 24), 0, quarter, 6)
emit("POLY_ERF", "erf(x) / x - 1 in z = x^2, |x| <= 1", near(precise(lambda z: erf(sqrt(z)) / sqrt(z) - 1), 2 / sqrt(pi) - 1), 0, mpf("1.001"), 14)
emit("POLY_ERF_F32", "the same", near(precise(lambda z: erf(sqrt(z)) / sqrt(z) - 1), 2 / sqrt(pi) - 1), 0, mpf("1.001"), 7, absolute=True)
emit("POLY_LOG_ERFC_F32", "-log(erfc(a)), 1 <= a <= 3.95", lambda a: -log(erfc(a)), 1, mpf("3.95"), 9, absolute=True)
emit("POLY_LOG_ERFC", "the same, 1 <= a <= 5.95", lambda a: -log(erfc(a)), 1, mpf("5.95"), 18, weight=erfc)
emit_erf_pieces()
emit("POLY_ERFCX", "(1 + 2a) e^(a^2) erfc(a) in t = (a - 3.75) / (a + 3.75), a >= 0 (Shepherd & Laframboise 1981)", precise(erfcx_scaled), -1, 1, 26)
f_lgamma = precise(lambda u: loggamma(mpf("1.65") + u) / ((u + mpf("0.65")) * (u - mpf("0.35"))))
emit("POLY_LGAMMA", "log Gamma(y) / ((y - 1) (y - 2)) in u = y - 1.65, |u| <= 0.85", f_lgamma, mpf("-0.85"), mpf("0.85"), 28)


def stirling(z):
    x = 1 / sqrt(z)
    return (loggamma(x) - ((x - mpf(1) / 2) * log(x) - x + log(2 * pi) / 2)) * x


emit("POLY_STIRLING", "x [log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)] in z = 1 / x^2, x >= 3.5", near(precise(stirling), mpf(1) / 12), 0, 1 / mpf("12.25"), 9)


def digamma_tail(z):
    x = 1 / sqrt(z)
    return (log(x) - mpf(1) / 2 / x - psi(0, x)) * x * x


emit("POLY_DIGAMMA", "x^2 (log x - 1/(2x) - digamma(x)) in z = 1 / x^2, x >= 6", near(precise(digamma_tail), mpf(1) / 12), 0, mpf(1) / 36, 9)
root = findroot(lambda x: psi(0, x), mpf("1.4616321449683623"))
emit("POLY_DIGAMMA_ROOT", "digamma(3/2 + t) / (3/2 + t - its zero), |t| <= 1/2",
     precise(lambda t: psi(0, mpf(3) / 2 + t) / (mpf(3) / 2 + t - root)), -mpf(1) / 2, mpf(1) / 2, 21)
high = mpf(float(root))
print(f"/* The zero of digamma, in two parts. */\nstatic const double digamma_root = {mp.nstr(high, 20)}, digamma_root_low = {mp.nstr(root - high, 18)};")
# ---- modified Bessel functions: up to 10, and in 1 / x from there on ----
f_i0 = near(precise(lambda z: (besseli(0, 2 * sqrt(z)) - 1) / z), mpf(1))
emit("POLY_I0", "(I_0(x) - 1) / z in z = x^2 / 4, 0 <= x <= 10", f_i0, 0, 25, 17)
f_i0_far = near(precise(lambda u: (log(besseli(0, 1 / u)) - 1 / u + log(2 * pi / u) / 2) / u), mpf(1) / 8)
emit("POLY_LOG_I0_FAR", "x (log(e^-x I_0(x)) + log(2 pi x) / 2) in 1 / x, x >= 10", f_i0_far, 0, mpf(1) / 10, 20)


def bessel_gap(x):
    return 1 - besseli(1, x) / besseli(0, x)


half = mpf(5) / 13


def gap_near(t):
    x = 3 * (t + half) / (1 - t - half)
    return bessel_gap(x) * (x + 3)


emit("POLY_GAP", "(x + 3) (1 - I_1(x) / I_0(x)) in x / (x + 3) - 5/13, 0 <= x <= 10", precise(gap_near), -half, half, 36)
emit("POLY_GAP_FAR", "x (1 - I_1(x) / I_0(x)) in 1 / x, x >= 10", near(precise(lambda u: bessel_gap(1 / u) / u), mpf(1) / 2), 0, mpf(1) / 10, 22)


def mills(s):
    return sqrt(pi / 2) * exp(s * s / 2) * erfc(s / sqrt(mpf(2)))


def in_ratio(f):
    return lambda t: f(8 / (t + 1) - 4)


edge = mpf(8) / mpf("18.5") - 1
emit("POLY_RECTIFIED_F32", "(s + 4)^2 (1 - s m(s)) in t = 8 / (s + 4) - 1, m Mills' ratio, 0 <= s <= 14.5", in_ratio(lambda s: (s + 4) ** 2 * (1 - s * mills(s))), edge, 1, 10)
emit("POLY_RECTIFIED_SQUARE_F32", "(s + 4)^3 ((1 + s^2) m(s) - s) in the same", in_ratio(lambda s: (s + 4) ** 3 * ((1 + s * s) * mills(s) - s)), edge, 1, 11)
print("/* clang-format on */\n\n#endif")
