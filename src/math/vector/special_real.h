/*
** special_real.h: trigonometric functions, the error function's family and the gamma function's as branch-free bodies
** of float64 for one instruction set; included by level_real.h after elementary_real.h. Float32 is computed
** through these and rounded. Errors in ULP as there.
*/

#define SERIES(name, POLY)                                                                                             \
  FN double name(double x) { POLY(FIRST, NEXT) return p; }
/* Even and odd powers in turn, P(x) = p(x^2) + x q(x^2), so that a multiplication waits for half of the others. */
#define EVEN_FIRST(c) double square = x * x, p = (c), q = 0, previous;
#define EVEN_NEXT(c)  previous = p, p = MADD(q, square, (c)), q = previous;
#define LONG_SERIES(name, POLY)                                                                                        \
  FN double name(double x) { POLY(EVEN_FIRST, EVEN_NEXT) return MADD(q, x, p); }
SERIES(poly_sin, POLY_SIN)
SERIES(poly_cos, POLY_COS)
SERIES(poly_erf, POLY_ERF)
LONG_SERIES(poly_log_erfc, POLY_LOG_ERFC)
SERIES(poly_erfcx, POLY_ERFCX)
LONG_SERIES(poly_erfcx_pairs, POLY_ERFCX)
LONG_SERIES(poly_lgamma, POLY_LGAMMA)
SERIES(poly_stirling, POLY_STIRLING)
SERIES(poly_digamma, POLY_DIGAMMA)
LONG_SERIES(poly_digamma_root, POLY_DIGAMMA_ROOT)
LONG_SERIES(poly_i0, POLY_I0)
LONG_SERIES(poly_log_i0_far, POLY_LOG_I0_FAR)
LONG_SERIES(poly_gap, POLY_GAP)
LONG_SERIES(poly_gap_far, POLY_GAP_FAR)

/* ---- sine and cosine, |x| <= TRIG_MAX ---- */

#define TRIG_MAX 1e6

/* pi/2 in three parts of 33 bits, whose products with a quadrant below 2^20 are exact, and the rest. */
#define PIO2_1 0x1.921fb544p+0
#define PIO2_2 0x1.0b4611a6p-34
#define PIO2_3 0x1.3198a2ep-69
#define PIO2_4 0x1.b839a252049c1p-104

/* sin(x + shift pi/2): x = k pi/2 + (r + low), |r| <= pi/4; the quadrant k + shift chooses polynomial and sign. */
FN double trig(double x, uint64_t shift) {
  double t = MADD(x, 0.63661977236758134308, 0x1.8p52), k = t - 0x1.8p52;
  uint64_t quadrant = bits_f64(t) + shift;
  double a = x - k * PIO2_1, b = k * PIO2_2, y = a - b, rest = (a - y) - b;
  double d = k * PIO2_3, v = y - d;
  rest += ((y - v) - d) - k * PIO2_4;
  double r = v + rest, low = (v - r) + rest, z = r * r;
  double s = r + MADD(r * z, poly_sin(z), MADD(-0.5 * z, low, low));
  double h = 0.5 * z, w = 1 - h;
  double c = w + (((1 - w) - h) + (z * z * poly_cos(z) - r * low));
  double y2 = quadrant & 1 ? c : s;
  return real_f64(bits_f64(y2) ^ (quadrant & 2) << 62);
}
/* Below 1 ULP; -0 at -0. */
FN double sin_f64(double x) {
  double y = trig(x, 0);
  return absolute_f64(x) < 0x1p-26 ? x : y;
}
/* Below 1 ULP. */
FN double cos_f64(double x) { return trig(x, 1); }

/* ---- error function and normal distribution ---- */

#define SQRT1_2 0.70710678118654752440

/* What rounding takes from x^2, |x| < 1e100. */
FN double square_error(double x, double square) {
#if FUSED
  return MADD(x, x, -square);
#else
  double c = x * 134217729, high = c - (c - x), low = x - high;
  return ((high * high - square) + 2 * high * low) + low * low;
#endif
}

/* y e^(x + low), y >= 0, |low| far below 1; one rounding less than through exp. */
FN double exp_times(double y, double x, double low) {
  double k, p = reduced_expm1_f64(x, &k);
  return scale_f64(MADD(y, MADD(low, 1 + p, p), y), k, x);
}

/* e^(a^2) erfc(a), a >= 1/2: P((a - 3.75) / (a + 3.75)) / (1 + 2a) (Shepherd & Laframboise 1981). */
FN double erfcx_upper(double a) {
  double b = a > 1e300 ? 1e300 : a;
  return 0.5 * poly_erfcx((b - 3.75) / (b + 3.75)) / (0.5 + a);
}

/* Half of it, an ULP worse. */
FN double half_erfcx(double a) {
  double b = a > 1e300 ? 1e300 : a;
  return 0.25 * poly_erfcx_pairs((b - 3.75) / (b + 3.75)) / (0.5 + a);
}

/* erf(a), a <= 1, z = a^2 */
FN double erf_near(double a, double z) { return MADD(a, poly_erf(z < 1 ? z : 1), a); }

/* 1 - e^(log erfc(a)), a >= 1: what rounding takes from the logarithm does not matter, since erfc(1) is below 1/6. */
FN double erf_upper(double a) {
  double y = -poly_log_erfc(a > 5.95 ? 5.95 : a), t = MADD(y, 1.4426950408889634074, ROUNDER);
  double r = reduced_f64(y, t - ROUNDER, 1), e = MADD(r, MADD(r, poly_exp_f64(r), 1), 1);
  return MADD(-power_of_two_f64(t), e, 1);
}

/* erfc(a), a >= 1/2 */
FN double erfc_upper(double a) {
  double b = limited_f64(a, 0, 28), square = b * b;
  return exp_times(erfcx_upper(b), -square, -square_error(b, square));
}

/* 1 - erf(x) up to 1/2. 0 at inf, 2 at -inf. 3.3 ULP. */
FN double erfc_f64(double x) {
  double a = absolute_f64(x), w = a < 0.5 ? 1 - erf_near(a, a * a) : erfc_upper(a);
  return x < 0 ? 2 - w : w;
}

/* x + x P(x^2) up to 1, 1 - erfc beyond. 1.3 ULP. */
FN double erf_f64(double x) {
  double a = absolute_f64(x), near = erf_near(x, x * x);
  return a < 1 ? near : with_sign_f64(erf_upper(a), x);
}

/* e^(x^2) erfc(x): e^(x^2) (1 - erf x) around 0, 2 e^(x^2) - the upper value for x < -1/2; inf below -26.7, 0 at
 * inf. 3 ULP. */
FN double erfcx_f64(double x) {
  double a = absolute_f64(x), upper = erfcx_upper(a), b = limited_f64(a, 0, 28), square = b * b;
  double near = 1 - erf_near(x, square), e = exp_times(a < 0.5 ? near : 2, square, square_error(b, square));
  double far = x < 0 ? e - upper : upper;
  return a < 0.5 ? e : far;
}

/* Phi(-a), a >= 0: e^(-a^2/2) erfcx(a / sqrt 2) / 2, (1 - erf(a / sqrt 2)) / 2 for small a */
FN double ndtr_lower(double a, double half) {
  double b = limited_f64(a, 0, 40), square = b * b;
  double near = MADD(-0.5, erf_near(b * SQRT1_2, 0.5 * square), 0.5);
  double far = exp_times(half, -0.5 * square, -0.5 * square_error(b, square));
  return a < 0.7 ? near : far;
}

/* 0 at -inf, 1 at inf. 5.3 ULP. */
FN double ndtr_f64(double x) {
  double a = absolute_f64(x), w = ndtr_lower(a, half_erfcx(a * SQRT1_2));
  return x > 0 ? 1 - w : w;
}

/* log1p(-Phi(-x)) above 0, log Phi(x) down to -1, -x^2/2 + log(erfcx(-x / sqrt 2) / 2) below, through one logarithm.
 * -inf at -inf, -0 at inf. 5.3 ULP. */
FN double log_ndtr_f64(double x) {
  double a = absolute_f64(x), e = half_erfcx(a * SQRT1_2), w = ndtr_lower(a, e);
  double v = x < -1 ? e : w, u = x > 0 ? 1 - w : v, c = x > 0 ? (1 - u) - w : 0;
  double y = log_corrected_f64(u < NORMAL_MIN ? NORMAL_MIN : u, c);
  y = x < -1 ? y - 0.5 * x * x : y;
  return x > 0 ? with_sign_f64(y, -1) : y;
}

FN double ratio7(const double *c, double t) {
  double p = c[7], q = c[15];
  UNROLL for (int k = 6; k >= 0; k--) {
    p = MADD(p, t, c[k]);
    q = MADD(q, t, c[8 + k]);
  }
  return p / q;
}

/* The normal quantile at 1/2 + q whose smaller tail has probability `tail`: Wichura (1988), AS 241. */
FN double quantile(double q, double tail) {
  double near = q * ratio7(pni_quantile_centre, 0.180625 - q * q), r = sqrt(-log_f64(tail));
  double middle = ratio7(pni_quantile_middle, r - 1.6), far = ratio7(pni_quantile_tail, r - 5);
  far = with_sign_f64(r <= 5 ? middle : far, q);
  far = tail == 0 ? with_sign_f64(INFINITY, q) : far;
  return absolute_f64(q) <= 0.425 ? near : far;
}

/* -inf at 0, inf at 1, NaN outside. 7 ULP. */
FN double ndtri_f64(double p) { return quantile(p - 0.5, p < 0.5 ? p : 1 - p); }

/* -inf at -1, inf at 1, NaN outside. 7 ULP. */
FN double erfinv_f64(double y) { return SQRT1_2 * quantile(0.5 * y, 0.5 * (1 - absolute_f64(y))); }

/* ---- log-gamma and digamma, GAMMA_MIN <= x <= GAMMA_MAX ---- */

#define GAMMA_MIN 1e-300
#define GAMMA_MAX 1e300

/* From 3.5 on Stirling's formula (x - 1/2) (log x - 1) + log(2 pi)/2 - 1/2 + S(1/x^2)/x. Below, y in [0.8, 2.5] is at
 * most one away, log Gamma(y) = (y - 1) (y - 2) P(y), and the factor between x and y enters by its logarithm. 3.3 ULP.
 * One of the two where a whole group needs no more, to the same bits. */
#define LGAMMA_BORDER 3.5
enum { SMALL = 1, LARGE = 2 };
FN double lgamma_by(double x, int sides) {
  bool below = x < 0.8, above = x >= 2.5, small = sides == SMALL || (sides != LARGE && x < LGAMMA_BORDER);
  double y = below ? x + 1 : x, factor = below ? x : 1, k, rest = 0, stirling = 0;
  y = above ? x - 1 : y;
  factor = above ? y : factor;
  double f = split_f64(small ? factor : x, &k) - 1, inverse = 1 / ((2 + f) * x); /* one division for 1/x and the log */
  double l = log_series_f64(k, f, f * x * inverse, 0), z = (2 + f) * inverse;
  if (sides & SMALL) rest = MADD((y - 1) * (y - 2), poly_lgamma(y - 1.65), below ? -l : l);
  if (sides & LARGE) stirling = MADD(x - 0.5, l - 1, MADD(z, poly_stirling(z * z), 0.41893853320467274178));
  return small ? rest : stirling;
}

/* log x - 1/(2x) - D(1/x^2)/x^2 from 6 on; between 3 and 6 sum 1/(x + i) = q/p leads there. Between 1 and 2 the zero is
 * a factor of a polynomial, and 1/x leads there from 0 to 1, -1/(x - 1) from 2 to 3. 5 ULP. */
#define DIGAMMA_BORDER 3
FN double digamma_by(double x, int sides) {
  double y = x, p = 1, q = 0, far = 0, near = 0;
  bool small = sides == SMALL || (sides != LARGE && x < DIGAMMA_BORDER), low = x <= 1, high = x >= 2;
  if (sides & LARGE) {
    UNROLL for (int i = 0; i < 2; i++) {
      bool below = y < 6;
      double two = MADD(y, y, y), slope = 2 * y + 1;
      q = below ? MADD(q, two, p * slope) : q;
      p = below ? p * two : p;
      y = below ? y + 2 : y;
    }
    double z = 1 / y, z2 = z * z;
    far = log_normal_f64(y) - MADD(0.5, z, z2 * poly_digamma(z2));
  }
  if (sides & SMALL) {
    double w = high ? x - 1 : x, sign = high ? -1 : 0;
    w = low ? x + 1 : w;
    sign = low ? 1 : sign;
    near = ((w - digamma_root) - digamma_root_low) * poly_digamma_root(w - 1.5);
    q = small ? sign : q;
    p = small ? (low ? x : x - 1) : p;
  }
  return (small ? near : far) - q / p;
}

/* ---- modified Bessel functions, up to BESSEL_MAX ---- */

#define BESSEL_MAX 1e300

/* log(I_0(x) e^-(x rise)) for rise = 0 or 1, x >= 0: up to 10 log(1 + z P(z)), z = x^2/4, beyond x - log(2 pi x)/2 +
 * Q(1/x)/x; one division for 1/x, the logarithm and what rounding took from 1 + z P(z). */
FN double log_i0_scaled(double x, double rise) {
  bool near = x <= 10;
  double y = near ? x : 0, z = 0.25 * y * y, q = z * poly_i0(z), v = near ? 1 + q : x, k;
  double m = split_f64(v, &k), lost = q - (v - 1);
  bool whole = near && k == 0; /* 1 + q is not rounded where that is small */
  double f = whole ? q : m - 1, inverse = 1 / ((2 + f) * v), u = (2 + f) * inverse;
  lost = near && !whole ? lost * u : 0;
  double l = log_series_f64(k, f, f * v * inverse, lost);
  double far = MADD(u, poly_log_i0_far(near ? 0 : u), MADD(-0.5, l, -0.91893853320467274178));
  return near ? l - rise * x : (1 - rise) * x + far;
}

/* log I_0(x), even. 4 ULP. */
FN double log_i0_f64(double x) { return log_i0_scaled(absolute_f64(x), 0); }
/* log(e^-x I_0(x)), x >= 0. 6 ULP. */
FN double log_i0e_f64(double x) { return log_i0_scaled(x, 1); }

/* 1 - I_1(x) / I_0(x), x >= 0: P(x / (x + 3)) / (x + 3) up to 10, Q(1/x) / x beyond. 9 ULP. */
FN double bessel_gap_f64(double x) {
  bool near = x <= 10;
  double inverse = 1 / (near ? x + 3 : x);
  double close = poly_gap(near ? MADD(x, inverse, -5.0 / 13) : 0), far = poly_gap_far(near ? 0 : inverse);
  return inverse * (near ? close : far);
}
