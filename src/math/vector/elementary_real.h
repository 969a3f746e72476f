/*
** elementary_real.h: exponentials and logarithms as branch-free bodies, for one element type and one instruction
** set. Included by level_real.h with REAL, BITS (unsigned, of the same size), FN, NAME, MADD and the constants of
** the type below. A body is a plain function of one number; loops over it become vector code. All operations are
** IEEE ones of fixed order, so an element's result does not depend on where in an array it stands.
** Errors in units of the last place (ULP) are the largest seen by spec/c/vector_test.c over all instruction sets.
*/

#define FIRST(c) REAL p = (c);
#define NEXT(c)  p = MADD(p, x, (c));
FN REAL NAME(poly_exp)(REAL x) { POLY_EXP(FIRST, NEXT) return p; }
FN REAL NAME(poly_coth)(REAL x) { POLY_COTH(FIRST, NEXT) return p; }
FN REAL NAME(poly_log)(REAL x) { POLY_LOG(FIRST, NEXT) return p; }

FN BITS NAME(bits)(REAL x) {
  BITS b;
  memcpy(&b, &x, sizeof b);
  return b;
}
FN REAL NAME(real)(BITS b) {
  REAL x;
  memcpy(&x, &b, sizeof x);
  return x;
}
FN REAL NAME(absolute)(REAL x) { return NAME(real)(NAME(bits)(x) & ~SIGN_BIT); }
FN REAL NAME(with_sign)(REAL size, REAL sign) {
  return NAME(real)((NAME(bits)(size) & ~SIGN_BIT) | (NAME(bits)(sign) & SIGN_BIT));
}

/* Adding ROUNDER = 3/2 2^(digits - 1) rounds to a whole number, which the low bits of the sum then hold. */
FN REAL NAME(power_of_two)(REAL rounded) { return NAME(real)((NAME(bits)(rounded) + BIAS) << DIGITS); }

/* x - k c log(2), c a power of two, where |k| is small or nobody needs all digits. */
FN REAL NAME(reduced)(REAL x, REAL k, REAL c) {
#if FUSED
  return MADD(k, -(REAL)0.69314718055994530942 * c, x);
#else
  return x - k * (LN2_HIGH * c) - k * (LN2_LOW * c);
#endif
}

/* x = k log 2 + r with |r| <= log(2)/2; returns e^r - 1 = r + r^2 P(r). *rounded is k + ROUNDER. */
FN REAL NAME(reduced_expm1)(REAL x, REAL *rounded) {
  REAL t = MADD(x, (REAL)1.4426950408889634074, ROUNDER), k = t - ROUNDER;
  REAL high = MADD(k, -LN2_HIGH, x), r = MADD(k, -LN2_LOW, high), low = MADD(k, -LN2_LOW, high - r);
  *rounded = t;
  return r + MADD(r * r, NAME(poly_exp)(r), low);
}

/* y 2^k, y > 0, k log 2 = x to a third: two factors, the first product exact, so that results are rounded once. */
FN REAL NAME(scale)(REAL y, REAL rounded, REAL x) {
  REAL half = MADD(rounded - ROUNDER, (REAL)0.5, ROUNDER);
  BITS rest = NAME(bits)(rounded) - NAME(bits)(half);
  y = y * NAME(power_of_two)(half) * NAME(real)((rest + BIAS) << DIGITS);
  y = x > EXP_MAX ? INFINITY : y;
  return x < EXP_MIN ? 0 : y;
}

/* e^r = 1 + r (1 + r P(r)) of the same reduction. */
FN REAL NAME(reduced_exp)(REAL x, REAL *rounded) {
#if FUSED
  REAL t = MADD(x, (REAL)1.4426950408889634074, ROUNDER), k = t - ROUNDER;
  REAL r = MADD(k, -LN2_LOW, MADD(k, -LN2_HIGH, x));
  *rounded = t;
  return MADD(r, MADD(r, NAME(poly_exp)(r), 1), 1);
#else
  return 1 + NAME(reduced_expm1)(x, rounded);
#endif
}

/* e^x = 2^k e^r. 0 at -inf, inf from the overflow on; denormal results are rounded once. Below 1 ULP. */
FN REAL NAME(exp)(REAL x) {
  REAL k, y = NAME(reduced_exp)(x, &k);
  return NAME(scale)(y, k, x);
}

/* e^-a, a >= 0: the power of two by way of a larger one, which is normal; from -EXP_MIN on 0 by rounding. */
FN REAL NAME(exp_minus)(REAL a) {
  REAL k, y = NAME(reduced_exp)(-(-EXP_MIN < a ? -EXP_MIN : a), &k);
  return y * NAME(real)((NAME(bits)(k) + (BIAS + BIAS / 2)) << DIGITS) * NAME(real)((BIAS - BIAS / 2) << DIGITS);
}

/* e^x where 2^k can be added to the exponent, |x| < EXP_NEAR. */
FN REAL NAME(exp_near)(REAL x) {
  REAL k, y = NAME(reduced_exp)(x, &k);
  return NAME(real)(NAME(bits)(y) + (NAME(bits)(k) << DIGITS));
}

/* Some groups at a time, as only few arrays reach the ends of the range. */
TARGET static void NAME(loop_exp)(const REAL *restrict a, REAL *restrict o, int64_t groups) {
  enum { PLACES = 16 * PNI_VECTOR_GROUP };
  for (int64_t left = groups * PNI_VECTOR_GROUP; left > 0; left -= PLACES, a += PLACES, o += PLACES) {
    int64_t n = left < PLACES ? left : PLACES;
    BITS far = 0;
    for (int64_t i = 0; i < n; i++) far |= NAME(absolute)(a[i]) < EXP_NEAR ? 0 : 1;
    if (far)
      for (int64_t i = 0; i < n; i++) o[i] = NAME(exp)(a[i]);
    else
      for (int64_t i = 0; i < n; i++) o[i] = NAME(exp_near)(a[i]);
  }
}

/* e^x - 1 = 2^k (e^r - 1) + (2^k - 1), whose last term is exact while it matters. -1 at -inf, -0 at -0. 1.8 ULP. */
FN REAL NAME(expm1)(REAL x) {
  REAL k, p = NAME(reduced_expm1)(x, &k), s = NAME(power_of_two)(k);
  REAL y = MADD(s, p, s - 1);
  y = x > EXPM1_EXP ? NAME(scale)(1 + p, k, x) : y;
  y = x < -EXPM1_EXP ? -1 : y;
  return NAME(absolute)(x) < TINY ? x : y;
}

/* NaN passes both comparisons. */
FN REAL NAME(limited)(REAL x, REAL low, REAL high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/* log(2^k (1 + f)) + c for 1 + f in [1/sqrt 2, sqrt 2]: with s = f / (2 + f) and R = s^2 P(s^2),
 * log(1 + f) = f - (f^2/2 - s (f^2/2 + R)), as in fdlibm's e_log.c. */
FN REAL NAME(log_series)(REAL k, REAL f, REAL s, REAL c) {
  REAL z = s * s, h = (REAL)0.5 * f * f;
  REAL low = MADD(s, MADD(z, NAME(poly_log)(z), h), MADD(k, LN2_LOW, c));
  return MADD(k, LN2_HIGH, f - (h - low));
}
FN REAL NAME(log_sum)(REAL k, REAL f, REAL c) { return NAME(log_series)(k, f, f / (2 + f), c); }

/* x = 2^k m, m in [1/sqrt 2, sqrt 2), for normal x > 0. */
FN REAL NAME(split)(REAL x, REAL *k) {
  BITS shifted = NAME(bits)(x) + (ONE_BITS - ROOT_HALF_BITS);
  *k = NAME(real)((shifted >> DIGITS) | EXPONENT_BITS) - EXPONENT_BASE;
  return NAME(real)((shifted & (((BITS)1 << DIGITS) - 1)) + ROOT_HALF_BITS);
}

/* What log and log1p give where the argument x of the logarithm is not positive and finite. */
FN REAL NAME(log_edge)(REAL x, REAL y) {
  y = x > 0 ? y : x == 0 ? -INFINITY : NAN;
  return x < INFINITY ? y : x;
}

/* Natural logarithm, denormals included. -inf at +-0, NaN below, inf at inf. Below 1 ULP. */
FN REAL NAME(log)(REAL x) {
  REAL k, lift = x < NORMAL_MIN ? LIFT : 1, lifted = x < NORMAL_MIN ? LIFT_LOG2 : 0;
  REAL m = NAME(split)(x * lift, &k);
  REAL y = NAME(log_sum)(k - lifted, m - 1, 0);
  return NAME(log_edge)(x, y);
}

/* log x for normal x > 0. */
FN REAL NAME(log_normal)(REAL x) {
  REAL k, m = NAME(split)(x, &k);
  return NAME(log_sum)(k, m - 1, 0);
}

/* log u + c/u, u > 0 normal: what rounding took from u is given back. */
FN REAL NAME(log_corrected)(REAL u, REAL c) {
  REAL k, m = NAME(split)(u, &k);
  return NAME(log_sum)(k, m - 1, c / u);
}

/* log(1 + x): -inf at -1, NaN below, -0 at -0. Below 1 ULP. */
FN REAL NAME(log1p)(REAL x) {
  REAL u = 1 + x, c = x < 1 ? x - (u - 1) : 1 - (u - x), k;
  REAL m = NAME(split)(u, &k);
  REAL f = k == 0 ? x : m - 1; /* 1 + x is not rounded where that is small */
  REAL y = NAME(log_sum)(k, f, k == 0 ? 0 : c / u);
  y = NAME(log_edge)(u, y);
  return NAME(absolute)(x) < TINY ? x : y;
}

/* log(1 - e^x), x <= 0: log(-expm1(x)) above -log 2, else log1p(-e^x). -inf at 0, NaN above. 2.2 ULP. */
FN REAL NAME(log1mexp)(REAL x) {
  REAL e = NAME(exp)(x), near = -NAME(expm1)(x), u = x > -(REAL)0.6931471805599453 ? near : 1 - e;
  REAL c = x > -(REAL)0.6931471805599453 ? 0 : (1 - u) - e;
  REAL y = NAME(log_edge)(u, NAME(log_corrected)(u < NORMAL_MIN ? NORMAL_MIN : u, c));
  REAL tail = y == 0 ? -e : y;
  return NAME(absolute)(x) < NORMAL_MIN ? NAME(log)(-x) : tail;
}

/* |x| = k log(2)/2 + r, -7/64 log(2) <= r <= 25/64 log(2): k = floor(2 |x| / log(2) + 7/32), whose sixteenths are
 * cut off, is 0 up to tanh x = 1/4, since above r may be negative but has no digits to lose against h (D + r).
 * With D = r coth r it is e^2r = (D + r) / (D - r), and with h = (2^k - 1)/2
 * tanh |x| = (h (D + r) + r) / (h (D + r) + D). 2.5 ULP. */
FN REAL NAME(tanh)(REAL x) {
  const REAL rounder = ROUNDER / 16;
  BITS sign = NAME(bits)(x) & SIGN_BIT;
  REAL a = NAME(real)(NAME(bits)(x) ^ sign), t = MADD(a, (REAL)2.8853900817779268147, rounder + (REAL)0.1875);
  BITS whole = NAME(bits)(t) & ~(BITS)15;
  REAL r = NAME(reduced)(a, NAME(real)(whole) - rounder, (REAL)0.5), d = NAME(poly_coth)(r * r), w = d + r;
  REAL h = NAME(real)((whole << (DIGITS - 4)) + ((BIAS - 1) << DIGITS)) - (REAL)0.5;
  REAL y = MADD(h, w, r) / MADD(h, w, d);
  y = a > TANH_MAX ? 1 : y;
  return NAME(real)(NAME(bits)(y) | sign);
}

/* 1 / (1 + e^-x) as {1 or e^-|x|} / (1 + e^-|x|), so that neither tail loses digits. 2.5 ULP. */
FN REAL NAME(sigmoid)(REAL x) {
  REAL e = NAME(exp_minus)(NAME(absolute)(x));
  return (x < 0 ? e : 1) / (1 + e);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e), e = e^-|x|; from e = sqrt 2 - 1 on as log 2 + log(1 + (e - 1)/2). 1.7 ULP. */
FN REAL NAME(softplus)(REAL x) {
  REAL e = NAME(exp_minus)(NAME(absolute)(x));
  BITS large = (BITS)0 - (BITS)(e > (REAL)0.41421356237309505), half = NAME(bits)((REAL)0.5 * (e - 1));
  REAL f = NAME(real)((half & large) | (NAME(bits)(e) & ~large));
  return (x < 0 ? 0 : x) + NAME(log_sum)(NAME(real)(ONE_BITS & large), f, 0);
}

/* -softplus(-x). 1.7 ULP. */
FN REAL NAME(log_sigmoid)(REAL x) { return -NAME(softplus)(-x); }

/* The log odds of a Bernoulli variable's x if l are those of 1: l or -l; of x that it never is -inf, NaN stays. */
FN REAL NAME(odds_of)(REAL x, REAL l) {
  REAL minus = -l, none = x == x ? -INFINITY : x;
  minus = x == 0 ? minus : none;
  return x == 1 ? l : minus;
}

/* Log masses, which are min(t, 0) - log(1 + e^-|t|) of t = odds_of(x, l), gathered: lanes k of PNI_MASS_LANES become
 * prod (1 + e^-|t|) - 1, which keeps its digits where that is small, and lanes PNI_MASS_LANES + k sums of min(t, 0). */
TARGET static void NAME(loop_masses)(const REAL *restrict x, const REAL *restrict l, REAL *restrict lane,
                                     int64_t groups) {
  REAL *restrict below = lane + PNI_MASS_LANES;
  for (; groups-- > 0; x += PNI_MASS_LANES, l += PNI_MASS_LANES) PAIRED for (int k = 0; k < PNI_MASS_LANES; k++) {
      REAL t = NAME(odds_of)(x[k], l[k]), e = NAME(exp_minus)(NAME(absolute)(t)), p = lane[k];
      lane[k] = p + MADD(p, e, e);
      below[k] += 0 < t ? 0 : t;
    }
}

/* g times their derivatives in l, sigmoid(-t) where x is 1, -sigmoid(-t) where it is 0. */
TARGET static void NAME(loop_mass_slopes)(const REAL *restrict x, const REAL *restrict l, REAL g, REAL *restrict o,
                                          int64_t groups) {
  for (int64_t i = 0; i < groups * PNI_VECTOR_GROUP; i++) {
    REAL y = NAME(sigmoid)(-NAME(odds_of)(x[i], l[i])), minus = -y;
    minus = x[i] == 0 ? minus : 0;
    o[i] = g * (x[i] == 1 ? y : minus);
  }
}
