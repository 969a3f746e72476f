/* Implicit derivatives of random variables: how a draw moves with a parameter while its quantile stays
 * (Figurnov, Mohamed & Mnih 2018). */
#include "special.h"

#include <math.h>

#define TWO_PI 6.28318530717958647693

/* x p(x) for the Gamma(a, 1) density; the second form is free of cancellation for large a. */
static double scaled_density(double a, double x, double z) {
  if (a < 12) return exp(a * z - x - pni_lgamma(a));
  double mu = (x - a) / a, gap = mu > -0.6 ? pni_log1p_gap(mu) : mu - (z - log(a));
  return sqrt(a / TWO_PI) * exp(-a * gap - pni_stirling_error(a));
}

/* dz/da of z = log x at fixed P(a, x): -(dP/da) / (x p(x)). For x <= 1 or x <= 0.3 a through the series
 * P = x^a e^-x S / Gamma(a + 1), S = sum_n x^n / ((a+1) ... (a+n)) (DLMF 8.7.1), which gives
 *   dz/da = -(S (z - digamma(a + 1)) + dS/da) / a
 * and needs no x: finite where x underflows. Worst relative error 7e-15 (a 1e-3 .. 1e4, quantiles 1e-6 ..
 * 1 - 1e-6). */
double pni_log_gamma_slope(double a, double z) {
  if (!(a > 0) || isnan(z)) return NAN;
  double x = exp(z);
  if (x > 1 && x > 0.3 * a) return -pni_gammainc_grad_a(a, x) / scaled_density(a, x, z);
  double term = 1, sum = 1, harmonic = 0, by_a = 0;
  for (int n = 1; n < 1000 && term > 1e-18 * sum; n++) {
    term *= x / (a + n);
    harmonic += 1 / (a + n);
    sum += term;
    by_a -= term * harmonic;
  }
  return -(sum * (z - pni_digamma(a + 1)) + by_a) / a;
}
