/* What masses of counts are made of (Loader 2000, "Fast and accurate computation of binomial probabilities"): the
 * large terms k log k - k of log k! cancel on paper, so that nothing is lost at any size,
 *   Poisson:   log p(k) = -E(k) - D(k, m)
 *   binomial:  log p(k) = E(n) - E(k) - E(n - k) - D(k, n p) - D(n - k, n (1 - p)) */
#include "special.h"

#include <math.h>

#define HALF_LOG_2PI 0.91893853320467274178

/* x - log(1 + x) for |x| < 1/16 times 2, s = x / (2 + x): s x - 2 s (s^2/3 + s^4/5 + ...) */
static double small_gap(double x) {
  double s = x / (2 + x), z = s * s;
  double sum = z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z / 13)))));
  return s * (x - 2 * sum);
}

/* k log(k/m) + m - k >= 0, k >= 0, m >= 0; m at k = 0, inf at m = 0 < k or m = inf. Max error 4e-15. */
double pni_count_deviance(double k, double m) {
  if (k == 0 || !(m < INFINITY)) return k >= 0 && m >= 0 ? m : NAN;
  if (!(k > 0 && m >= 0)) return NAN;
  double x = (m - k) / k;
  if (fabs(x) < 0.0625) return k * small_gap(x);
  if (fabs(x) < 0.5) return k * (x - log1p(x));
  double ratio = m / k;
  return m - k - k * (ratio > 1e-300 && ratio < INFINITY ? log(ratio) : log(m) - log(k));
}

/* The same of the logarithm l of m. */
double pni_count_deviance_log(double k, double l) {
  double m = exp(l);
  if (k == 0 || (m > 1e-300 && m < INFINITY) || isnan(l)) return pni_count_deviance(k, m);
  return m - k - k * (l - log(k));
}

const double pni_count_excess_whole[16] = {0,
                                           1.0,
                                           1.3068528194400546906,
                                           1.4959226032237259266,
                                           1.6328763858683831443,
                                           1.7403021806115441212,
                                           1.8286943966417709902,
                                           1.9037903176782211644,
                                           1.9690705693065628024,
                                           2.0268062840554951661,
                                           2.078561643135058455,
                                           2.1254598450918098546,
                                           2.1683346982058824268,
                                           2.2078222061234453169,
                                           2.2444185681250608968,
                                           2.2785183673077405761};

static double large_excess(double k) {
  double r = 1 / k, z = r * r;
  double series = r * (1.0 / 12 + z * (-1.0 / 360 + z * (1.0 / 1260 + z * (-1.0 / 1680 + z * (1.0 / 1188)))));
  return HALF_LOG_2PI + 0.5 * log(k) + series;
}

/* E(k) = log k! - (k log k - k) = log(2 pi k)/2 + 1/(12 k) - ..., k >= 0; 0 at 0. Max error 3e-16 for whole numbers and
 * from 16 on, absolute 2e-14 below. */
double pni_count_excess(double k) {
  if (!(k >= 0)) return NAN;
  if (k >= 16) return large_excess(k);
  int whole = (int)k;
  if ((double)whole == k) return pni_count_excess_whole[whole];
  if (k < 0.5) return pni_lgamma1p(k) - k * log(k) + k;
  double z = k, product = 1;
  while (z < 16) product *= z += 1; /* k! = z! / ((k + 1) ... z) */
  return large_excess(z) + (z * log(z) - k * log(k) - log(product)) - (z - k);
}

/* log of the Gamma(a, 1) density, (a - 1) log x - x - log Gamma(a), whose terms cancel for large a; by the deviance D
 * and the excess E: log a - log x - D(a, x) - E(a). The limit at 0, -inf at inf. Error 1e-15 of 1 + |result|, where x
 * is not so far from a that its rounding shows. */
double pni_log_gamma_density(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return NAN;
  if (x == 0) return a < 1 ? INFINITY : a == 1 ? 0 : -INFINITY;
  if (isinf(x)) return -INFINITY;
  if (a < 10) return (a - 1) * log(x) - x - pni_lgamma(a);
  return log(a) - log(x) - pni_count_deviance(a, x) - pni_count_excess(a);
}

/* log of the Beta(a, b) density; for large n = a + b as above,
 *   log(a b / n) - log x - log(1 - x) - D(a, n x) - D(b, n (1 - x)) + E(n) - E(a) - E(b). */
double pni_log_beta_density(double a, double b, double x) {
  double n = a + b;
  if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1)) return NAN;
  if (x == 0 || x == 1) {
    double near = x == 0 ? a : b;
    return near < 1 ? INFINITY : near > 1 ? -INFINITY : log(x == 0 ? b : a);
  }
  if (n < 1000) return (a - 1) * log(x) + (b - 1) * log1p(-x) - pni_lbeta(a, b);
  double away = pni_count_deviance(a, n * x) + pni_count_deviance(b, n * (1 - x));
  double excess = pni_count_excess(n) - pni_count_excess(a) - pni_count_excess(b);
  return log(a / n * b) - log(x) - log1p(-x) - away + excess;
}
