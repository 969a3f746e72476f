/* Elementary combinations of log and exp that stay accurate where the plain formula cancels or overflows.
 * Cut-offs follow Maechler (2012), "Accurately computing log(1 - exp(-|a|))". */
#include "special.h"

#include <math.h>

#define LN2 0.69314718055994530942

/* log(1 - e^x). -inf at 0, -0 at -inf, NaN for x > 0. Max error 3.1e-16. */
double pni_log1mexp(double x) { return x > -LN2 ? log(-expm1(x)) : log1p(-exp(x)); }

/* log(1 + e^x). 0 at -inf, inf at inf. Max error 2.7e-16. */
double pni_log1pexp(double x) {
  if (x <= -37) return exp(x);
  if (x <= 18) return log1p(exp(x));
  return x <= 34 ? x + exp(-x) : x;
}

/* log(e^y - 1) = y + log(1 - e^-y). -inf at 0, inf at inf, NaN for y < 0.
 * Max error 5.5e-16 outside |y - log 2| < 0.1; absolute 3e-16 around that zero. */
double pni_logexpm1(double y) { return y <= 1 ? log(expm1(y)) : y + log1p(-exp(-y)); }

/* max + log1p(e^-|a - b|); an infinity of either sign is exact.
 * Max error 4e-16 of max(|a|, |b|, log 2): the result may pass through zero. */
double pni_logaddexp(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  double high = a > b ? a : b, low = a > b ? b : a;
  return isinf(high) ? high : high + log1p(exp(low - high));
}

/* 1 / (1 + e^-x), written so that neither tail loses digits. Max error 3.2e-16. */
double pni_sigmoid(double x) {
  if (x >= 0) return 1 / (1 + exp(-x));
  double e = exp(x);
  return e / (1 + e);
}

/* log(p / (1 - p)); around 1/2, log1p((2p - 1) / (1 - p)) with an exact numerator.
 * -inf at 0, inf at 1, NaN outside. Max error 4.4e-16. */
double pni_logit(double p) {
  if (p > 0.25 && p < 0.75) return log1p((2 * p - 1) / (1 - p));
  return log(p) - log1p(-p);
}

/* log(1 / (1 + e^-x)). Max error 2.7e-16. */
double pni_log_sigmoid(double x) { return -pni_log1pexp(-x); }

/* x log y with 0 log y = 0 for every y but NaN. Max error 2.3e-16. */
double pni_xlogy(double x, double y) { return x == 0 && !isnan(y) ? 0 : x * log(y); }

/* x log(1 + y) with 0 at x = 0 for every y but NaN. Max error 2.4e-16. */
double pni_xlog1py(double x, double y) { return x == 0 && !isnan(y) ? 0 : x * log1p(y); }

/* x - log(1 + x). With s = x / (2 + x), log(1 + x) = 2 atanh(s) and x - 2s = x s, hence
 *   x - log(1 + x) = s [x - 2 (s^2/3 + s^4/5 + ...)].
 * inf at -1 and at inf, NaN below -1. Max error 4.1e-16. */
double pni_log1p_gap(double x) {
  if (!(x > -0.6 && x < 1)) return x == INFINITY ? x : x - log1p(x);
  double s = x / (2 + x), z = s * s, power = z, sum = 0;
  for (int k = 3; k < 60; k += 2) {
    double term = power / k;
    sum += term;
    if (term <= 1e-17 * sum) break;
    power *= z;
  }
  return s * (x - 2 * sum);
}
