/* Exponential integral E_1(x) = integral of e^-t / t from x to infinity (DLMF 6). */
#include "special.h"

#include <float.h>
#include <math.h>

#define EULER 0.57721566490153286061

/* -gamma - log x - sum_(k>=1) (-x)^k / (k k!) (DLMF 6.6.2), x <= 1. */
static double series(double x) {
  double term = 1, sum = 0;
  for (int k = 1; k < 40; k++) {
    term *= -x / k;
    sum -= term / k;
    if (fabs(term) < 1e-18 * fabs(sum)) break;
  }
  return sum - EULER - log(x);
}

/* e^x E_n(x) = 1/(x + n - n/(x + n + 2 - 2(n+1)/(x + n + 4 - ...))) (DLMF 8.19.17, even part), by Lentz's method. */
static double fraction(int n, double x) {
  double b = x + n, c = 1e300, d = 1 / b, h = d;
  for (int k = 1; k < 500; k++) {
    double a = -(double)k * (n - 1 + k);
    b += 2;
    d = 1 / (a * d + b);
    c = b + a / c;
    h *= c * d;
    if (fabs(c * d - 1) < DBL_EPSILON) break;
  }
  return h;
}

/* e^x E_1(x), about log(1 + 1/x): inf at 0, 0 at inf, NaN below 0. Max error 3e-15. */
double pni_expintx(double x) {
  if (!(x > 0)) return x == 0 ? INFINITY : NAN;
  if (isinf(x)) return 0;
  return x <= 1 ? exp(x) * series(x) : fraction(1, x);
}

/* e^x Gamma(1 - n, x) = x^(1-n) e^x E_n(x), n >= 1, whose derivative is -n times that of n + 1: no differences, so
 * that the slopes of expintx are exact. Below 1 by E_(n+1) = (e^-x - x E_n) / n upwards (DLMF 8.19.12). */
double pni_expint_tail(int n, double x) {
  if (!(x > 0)) return x == 0 ? INFINITY : NAN;
  if (isinf(x)) return 0;
  if (x > 1) return fraction(n, x) * pow(x, 1 - n);
  double e = pni_expintx(x);
  for (int k = 1; k < n; k++) e = (1 - x * e) / k;
  return e * pow(x, 1 - n);
}
