/* Error function family and the standard normal distribution.
 *
 * erf and erfc are libm's. Everything else keeps its digits by carrying the rounding error of a squared
 * or scaled argument (one fma) into the exponential, and by never forming 1 - p where p is given. */
#include "special.h"
#include "quantile.h"

#include <math.h>

#define SQRT1_2     0.70710678118654752440 /* 1/sqrt(2), and what its double leaves out */
#define SQRT1_2_LOW (-4.8336466567264565e-17)
#define INV_SQRT_PI 0.56418958354775628695
#define LN2         0.69314718055994530942

/* e^(sign x^2), the rounding error of x^2 restored. */
static double exp_square(double x, double sign) {
  double high = x * x;
  if (!(high < 1e5)) return sign > 0 ? INFINITY : 0;
  double low = fma(x, x, -high);
  double e = exp(sign * high);
  return isinf(e) ? e : e + e * (sign * low);
}

/* libm. Max error 1.4e-16. */
double pni_erf(double x) { return erf(x); }

/* libm. 2 at -inf, 0 at inf. Max error 4e-16. */
double pni_erfc(double x) { return erfc(x); }

/* e^(x^2) erfc(x): the product below 25, the asymptotic series (DLMF 7.12.1) above, where its
 * terms (1 * 3 * ... (2k-1)) / (2x^2)^k fall below 1e-17 at the sixth.
 * inf from x < -26.7 on, 0 at inf. Max error 7.3e-16. */
double pni_erfcx(double x) {
  if (isnan(x)) return x;
  if (x < 25) {
    double e = exp_square(x, 1);
    return isinf(e) ? e : e * erfc(x);
  }
  double t = x < 1e100 ? 1 / (2 * x * x) : 0;
  double series = 1 - t * (1 - 3 * t * (1 - 5 * t * (1 - 7 * t * (1 - 9 * t * (1 - 11 * t)))));
  return series * INV_SQRT_PI / x;
}

/* n-th derivative of erfcx, (-2)^n n! e^(x^2) i^n erfc(x) (DLMF 7.18.1). Upwards, f'' = 2 x f' + 2 f and so on, up to
 * 1; above, where that cancels, by the ratios r_k = -f^(k) / f^(k-1) = 2 k / (2 x + r_(k+1)), downwards from where r is
 * about sqrt(x^2 + 2 k) - x. Max error 3e-15 for n <= 4. */
double pni_erfcx_slope(int n, double x) {
  double f = pni_erfcx(x);
  if (n <= 0 || isnan(x)) return n < 0 ? NAN : f;
  if (x < 1) {
    double below = f, own = 2 * x * f - 2 * INV_SQRT_PI;
    for (int k = 1; k < n; k++) {
      double next = 2 * x * own + 2 * k * below;
      below = own;
      own = next;
    }
    return own;
  }
  int last = n + 10 + (int)(200 / (x * x));
  double r = x < 1e100 ? sqrt(x * x + 2 * last) - x : 0;
  for (int k = last; k >= 1; k--) {
    r = 2 * k / (2 * x + r);
    if (k <= n) f *= -r;
  }
  return f;
}

/* Ratio of two degree-7 polynomials in t, numerator first. */
static double ratio7(const double c[16], double t) {
  double p = c[7], q = c[15];
  for (int k = 6; k >= 0; k--) {
    p = p * t + c[k];
    q = q * t + c[8 + k];
  }
  return p / q;
}

/* Quantile at 1/2 + q for |q| <= 0.425. */
static double quantile_near(double q) { return q * ratio7(pni_quantile_centre, 0.180625 - q * q); }

/* Size of the quantile whose tail probability has logarithm log_tail. */
static double quantile_far(double log_tail) {
  double r = sqrt(-log_tail);
  return r <= 5 ? ratio7(pni_quantile_middle, r - 1.6) : ratio7(pni_quantile_tail, r - 5);
}

/* x with erf(x) = y. -inf and inf at -1 and 1, NaN outside. Max error 6.4e-16. */
double pni_erfinv(double y) {
  double size = fabs(y);
  if (size <= 0.85) return SQRT1_2 * quantile_near(0.5 * y);
  if (!(size < 1)) return size == 1 ? copysign(INFINITY, y) : NAN;
  return copysign(SQRT1_2 * quantile_far(log(0.5 * (1 - size))), y);
}

/* x with erfc(x) = y. inf at 0, -inf at 2, NaN outside. Max error 8.0e-16. */
double pni_erfcinv(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? INFINITY : y == 2 ? -INFINITY : NAN;
  if (y >= 0.15 && y <= 1.85) return SQRT1_2 * quantile_near(0.5 * (1 - y));
  double tail = y < 1 ? y : 2 - y;
  double size = SQRT1_2 * quantile_far(log(tail) - LN2);
  return y < 1 ? size : -size;
}

/* Phi(x) = erfc(-x/sqrt 2)/2. In the lower tail the rounding error d of t = -x/sqrt 2 is restored by
 * erfc(t + d) = erfc(t) - 2d/sqrt(pi) e^(-t^2). 0 at -inf, 1 at inf. Max error 9.9e-16 where normal. */
double pni_ndtr(double x) {
  double t = -x * SQRT1_2;
  if (!(t > 0.5 && t < 28)) return 0.5 * erfc(t);
  double d = fma(-x, SQRT1_2, -t) - x * SQRT1_2_LOW;
  return 0.5 * (erfc(t) - 2 * INV_SQRT_PI * d * exp_square(t, -1));
}

/* log Phi(x): log1p of the upper tail for x > 0, else -x^2/2 + log(erfcx(-x/sqrt 2)/2), two terms of
 * one sign. -inf at -inf and below -1.8e154, -0 at inf. Max error 6.5e-16. */
double pni_log_ndtr(double x) {
  if (x >= -1) return x > 0 ? log1p(-pni_ndtr(-x)) : log(pni_ndtr(x));
  return log(0.5 * pni_erfcx(-x * SQRT1_2)) - 0.5 * x * x;
}

/* x with Phi(x) = p. -inf at 0, inf at 1, NaN outside. Max error 6.7e-16. */
double pni_ndtri(double p) {
  double q = p - 0.5;
  if (fabs(q) <= 0.425) return quantile_near(q);
  if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
  return q < 0 ? -quantile_far(log(p)) : quantile_far(log1p(-p));
}

/* x with log Phi(x) = y, y <= 0. Below -700, beyond the quantile's range, Newton's method on the logarithm, whose slope
 * is phi / Phi = sqrt(2/pi) / erfcx(-x/sqrt 2); near 0 through the upper tail. -inf at -inf, inf at 0, NaN above. */
double pni_log_ndtri(double y) {
  if (!(y < 0)) return y == 0 ? INFINITY : NAN;
  if (isinf(y)) return -INFINITY;
  if (y > -LN2) return -pni_ndtri(-expm1(y));
  if (y > -2.6) return pni_ndtri(exp(y));
  if (y > -700) return -quantile_far(y);
  double x = -sqrt(-2 * y);
  for (int i = 0; i < 12; i++) {
    double step = (pni_log_ndtr(x) - y) * pni_erfcx(-x * SQRT1_2) / (2 * SQRT1_2 * INV_SQRT_PI);
    x -= step;
    if (fabs(step) <= 1e-16 * fabs(x)) break;
  }
  return x;
}
