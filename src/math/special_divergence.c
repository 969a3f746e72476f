/*
** special_divergence.c: the divergence of two events, kl(q || p) = q log(q / p) + (1 - q) log((1 - q) / (1 - p)), and
** its inverses in either argument, rounded outwards: what a PAC-Bayes bound lets through is never cut short.
*/
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "special.h"

/* k log(k / m) + m - k = k gap((m - k) / k), with d = m - k given apart, so that it cancels nowhere; far below k the
 * logarithm itself has more digits, and far above it m alone does. */
static double part(double k, double m, double d) {
  if (k == 0) return m;
  if (d > k * 1e200) return d + k * (log(k) - log(m));
  double u = d / k;
  if (u >= -0.75) return k * pni_log1p_gap(u);
  return k * (k / m < INFINITY ? log(k / m) : log(k) - log(m)) + d;
}

/* NaN outside [0, 1]; inf where p rules out what q does not. 1 - p is exact where p > 1/2, and elsewhere the rounding
 * moves the logarithm of a ratio near 1 only through d. Max error 1.3e-15. */
double pni_bernoulli_kl(double q, double p) {
  if (!(q >= 0 && q <= 1 && p >= 0 && p <= 1)) return NAN;
  if (q == p) return 0;
  return part(q, p, p - q) + part(1 - q, 1 - p, q - p);
}

/* A bound of the relative error of pni_bernoulli_kl, over the roundings of each branch: at most 20 units of 1.1e-16. */
static const double slack = 2.3e-15;

static int64_t place_of(double x) {
  int64_t i;
  memcpy(&i, &x, sizeof i);
  return i;
}
static double at_place(int64_t i) {
  double x;
  memcpy(&x, &i, sizeof x);
  return x;
}

/* which = 0, 1: the largest, smallest p with kl(x || p) <= c; 2, 3: the largest, smallest q with kl(q || x) <= c. By
 * bisection over the doubles between x and 1, or 0, in order: the one returned is the first, going outwards, whose
 * divergence is c or more whatever its rounding; so it is never inside the exact value. NaN outside the domain. */
double pni_bernoulli_kl_inverse(int which, double x, double c) {
  if (!(x >= 0 && x <= 1 && c >= 0) || which < 0 || which > 3) return NAN;
  const double wanted = c + c * slack + 4 * DBL_TRUE_MIN, far = which % 2 ? 0 : 1;
  if (c == 0 || x == far || (which > 1 && (x == 0 || x == 1))) return x;
  int64_t inside = place_of(x + 0.0), outside = place_of(far);
  while (inside - outside > 1 || outside - inside > 1) {
    int64_t middle = inside + (outside - inside) / 2;
    double y = at_place(middle);
    if ((which < 2 ? pni_bernoulli_kl(x, y) : pni_bernoulli_kl(y, x)) >= wanted)
      outside = middle;
    else
      inside = middle;
  }
  return at_place(outside);
}
