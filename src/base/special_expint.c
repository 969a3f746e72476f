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

/* 1/(x + 1 - 1/(x + 3 - 4/(x + 5 - 9/(x + 7 - ...)))) (DLMF 6.9.1, even part), by Lentz's method. */
static double fraction(double x) {
  double b = x + 1, c = 1e300, d = 1 / b, h = d;
  for (int k = 1; k < 500; k++) {
    double a = -(double)k * k;
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
  return x <= 1 ? exp(x) * series(x) : fraction(x);
}
