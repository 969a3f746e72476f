/* The gamma function: its logarithm, the logarithm's derivatives, and the beta function. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* lgamma_r */
#endif
#include "special.h"

#include <math.h>

#define PI           3.14159265358979323846
#define HALF_LOG_2PI 0.91893853320467274178
#define COUNT(a)     ((int)(sizeof(a) / sizeof *(a)))

/* Bernoulli numbers B_2, B_4, ..., B_24. */
static const double bernoulli[12] = {1.6666666666666666667e-1,  -3.3333333333333333333e-2, 2.3809523809523809524e-2,
                                     -3.3333333333333333333e-2, 7.5757575757575757576e-2,  -2.5311355311355311355e-1,
                                     1.1666666666666666667,     -7.0921568627450980392,    5.4971177944862155388e+1,
                                     -5.2912424242424242424e+2, 6.1921231884057971014e+3,  -8.6580253113553113553e+4};

/* c[0] + c[1] t + ... + c[n-1] t^(n-1) */
static double polynomial(const double *c, int n, double t) {
  double p = 0;
  while (n-- > 0) p = p * t + c[n];
  return p;
}

/* log|Gamma(x)|. inf at 0, -1, -2, ..., at -inf and at inf. Does not touch signgam.
 * Max error 8.3e-16 for x > 0; absolute 1e-15 of |x log|x|| around the negative zeros. */
double pni_lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

/* (-1)^k (zeta(k) - 1) / k, k = 2, 3, ... */
static const double lgamma1p_series[28] = {
    3.2246703342411321824e-1,  -6.7352301053198095133e-2,  2.0580808427784547879e-2,  -7.3855510286739852663e-3,
    2.8905103307415232858e-3,  -1.1927539117032609771e-3,  5.0966952474304242234e-4,  -2.2315475845357937976e-4,
    9.9457512781808533715e-5,  -4.49262367381331417e-5,    2.0507212775670691553e-5,  -9.439488275268395904e-6,
    4.3748667899074878042e-6,  -2.0392157538013662368e-6,  9.5514121304074198329e-7,  -4.4924691987645660433e-7,
    2.1207184805554665869e-7,  -1.0043224823968099609e-7,  4.7698101693639805658e-8,  -2.271109460894316491e-8,
    1.0838659214896954091e-8,  -5.1834750419700466551e-9,  2.4836745438024783172e-9,  -1.1921401405860912074e-9,
    5.7313672416788620133e-10, -2.7595228851242331452e-10, 1.3304764374244489481e-10, -6.4229645638381000221e-11};

/* log Gamma(1 + a) = -log(1 + a) + (1 - euler) a + sum_k (-1)^k (zeta(k) - 1) a^k / k, |a| <= 1/2
 * (DLMF 5.7.3); lgamma elsewhere. Max error 8.8e-16 (absolute around a = 1). */
double pni_lgamma1p(double a) {
  if (!(fabs(a) <= 0.5)) return pni_lgamma(1 + a);
  double tail = a * polynomial(lgamma1p_series, COUNT(lgamma1p_series), a);
  return a * (0.42278433509846713939 + tail) - log1p(a);
}

/* B_2k / (2k (2k-1)), the coefficients of Stirling's series (DLMF 5.11.1). */
static const double stirling[9] = {8.3333333333333333333e-2, -2.7777777777777777778e-3, 7.9365079365079365079e-4,
                                   -5.952380952380952381e-4, 8.4175084175084175084e-4,  -1.9175269175269175269e-3,
                                   6.4102564102564102564e-3, -2.955065359477124183e-2,  1.7964437236883057316e-1};

/* What Stirling's formula leaves out, for z > 0: its series from 10 on, the difference itself below.
 * 0 at inf, inf at 0. Max error 3e-16 for z >= 10; absolute 4e-15 below. */
double pni_stirling_error(double z) {
  if (z < 10) return pni_lgamma(z) - ((z - 0.5) * log(z) - z + HALF_LOG_2PI);
  return polynomial(stirling, COUNT(stirling), z < 1e100 ? 1 / (z * z) : 0) / z;
}

/* pi cot(pi x), the period removed exactly first. */
static double pi_cot(double x) {
  double r = x - round(x);
  return fabs(r) == 0.5 ? 0 : PI / tan(PI * r);
}

/* B_2k / 2k, the coefficients of digamma's asymptotic series (DLMF 5.11.2). */
static const double digamma_series[8] = {
    8.3333333333333333333e-2, -8.3333333333333333333e-3, 3.968253968253968254e-3,  -4.1666666666666666667e-3,
    7.5757575757575757576e-3, -2.1092796092796092796e-2, 8.3333333333333333333e-2, -4.4325980392156862745e-1};

/* Gamma'/Gamma: recurrence up to 10, then log x - 1/(2x) - sum B_2k / (2k x^2k); reflection for x < 0.
 * At +-0 -+inf, at the other poles and at -inf NaN, at inf inf.
 * Max error 1.1e-15 for x > 0 away from the zero at 1.4616, absolute 6e-16 around it; negative x:
 * absolute, 2e-15 of log|x| + |pi cot(pi x)|. */
double pni_digamma(double x) {
  if (fabs(x) < 1e-17) return -1 / x;
  if (x < 0) return x == floor(x) ? NAN : pni_digamma(1 - x) - pi_cot(x);
  double below = 0;
  for (; x < 10; x += 1) below += 1 / x;
  double t = x < 1e100 ? 1 / (x * x) : 0;
  double tail = 0.5 / x + t * polynomial(digamma_series, COUNT(digamma_series), t);
  return log(x) - tail - below;
}

/* sum_k 1/(x + k)^2: recurrence up to 10, then 1/x + 1/(2x^2) + sum B_2k / x^(2k+1) (DLMF 5.15.8);
 * reflection pi^2/sin^2(pi x) for x < 0. inf at the poles, 0 at inf, NaN at -inf.
 * Max error 8.4e-16 for x > 0, 1.5e-15 for x < 0. */
double pni_trigamma(double x) {
  if (x <= 0 && x == floor(x)) return isinf(x) ? NAN : INFINITY;
  if (x < 0) {
    double s = PI / sin(PI * (x - round(x)));
    return s * s - pni_trigamma(1 - x);
  }
  double below = 0;
  for (; x < 10; x += 1) below += 1 / (x * x);
  double t = x < 1e100 ? 1 / (x * x) : 0;
  return below + (1 + 0.5 / x + t * polynomial(bernoulli, 8, t)) / x;
}

/* x^s zeta(s, x) for s >= 2, x > 0: direct terms up to N = x + k > 10 + s/2, then Euler-Maclaurin
 *   zeta(s, N) ~ N^(1-s)/(s-1) + N^-s/2 + sum_j B_2j/(2j)! s(s+1)...(s+2j-2) N^(1-s-2j)
 * (DLMF 25.11.5). The factor x^s keeps the sum of order one. */
static double scaled_hurwitz(double s, double x) {
  double sum = 0, n = x, power = 1;
  while (n < 10 + s / 2) {
    sum += power;
    n += 1;
    power = n < 2 * x ? exp(-s * log1p((n - x) / x)) : pow(x / n, s);
    if (power * (n / (s - 1) + 1) < 1e-18 * sum) return sum;
  }
  double tail = n / (s - 1) + 0.5, factor = s / (2 * n);
  for (int j = 0; j < COUNT(bernoulli); j++) {
    double term = bernoulli[j] * factor;
    tail += term;
    if (fabs(term) < 1e-18 * tail) break;
    double m = 2 * j + 2;
    factor *= (s + m - 1) * (s + m) / ((m + 1) * (m + 2) * n * n);
  }
  return sum + power * tail;
}

/* n log(n / (e x)) for large n, x > 0: where that is no large number, n - e x has all its digits. */
static double log_power(double n, double x) {
  const double e = 2.71828182845904523536, e_low = 1.4456468917292502e-16;
  double apart = fma(-e, x, n) - e_low * x, t = apart / (e * x);
  return n * (fabs(t) < 1 ? log1p(t) : log(n / x) - 1);
}

/* n! zeta(n + 1, x), x > 0, n >= 1; the product n! / x^n is formed with its exponent apart, or by Stirling's
 * formula. */
static double factorial_hurwitz(int n, double x) {
  enum { MANY = 1000 };
  double product = scaled_hurwitz(n + 1.0, x);
  long exponent = 0;
  if (n > MANY) {
    double log_product = log(product) - log(x) + 0.5 * log(2 * PI * n) + pni_stirling_error(n);
    return exp(log_power(n, x) + log_product);
  }
  for (int j = 1; j <= n; j++) {
    int shift;
    product = frexp(product * (j / x), &shift);
    exponent += shift;
    if (product == 0 || isinf(product)) return product;
  }
  exponent = exponent > 5000 ? 5000 : exponent < -5000 ? -5000 : exponent;
  return ldexp(product / x, (int)exponent);
}

/* n-th derivative of digamma, (-1)^(n+1) n! zeta(n + 1, x). For x < 0 with r = x - floor(x):
 *   zeta(s, x) = zeta(s, r) + (-1)^s [zeta(s, 1 - r) - zeta(s, 1 - x)], a sum over all integers less one side.
 * Odd n: inf at the poles; even n: -+inf at +-0 and NaN at the other poles. 0 at inf (n >= 1), NaN at
 * -inf and for n < 0. O(n) work up to n = 1000. Max error 1.7e-15 for n <= 10, 4.5e-15 for n <= 100, 2e-13 above, x >
 * 0; negative x: odd n the same, even n relative to the largest of the three terms. */
double pni_polygamma(int n, double x) {
  if (n < 0 || isnan(x)) return NAN;
  if (n < 2) return n == 0 ? pni_digamma(x) : pni_trigamma(x);
  double sign = n % 2 ? 1 : -1;
  if (isinf(x)) return x > 0 ? 0 * sign : NAN;
  if (x <= 0 && x == floor(x)) {
    if (n % 2) return INFINITY;
    return x == 0 ? -copysign(INFINITY, x) : NAN;
  }
  if (x > 0) return sign * factorial_hurwitz(n, x);
  double above = factorial_hurwitz(n, x - floor(x)), below = factorial_hurwitz(n, ceil(x) - x);
  return sign * above + (below - factorial_hurwitz(n, 1 - x));
}

/* n-th derivative of what Stirling's formula leaves out, z > 0: of its series term by term from 10 + n on; below, what
 * digamma or polygamma leaves of log z - 1/(2z) or its derivatives. 0 at inf. Error 1e-15, relative from 10 + n on and
 * below to 1 + 1/z^n. */
double pni_stirling_slope(int n, double z) {
  if (n <= 0 || !(z > 0)) return n == 0 ? pni_stirling_error(z) : NAN;
  if (z >= 10 + n) {
    double sum = 0, r = 1 / z;
    for (int k = COUNT(stirling); k >= 1; k--) {
      double power = 1;
      for (int i = 0; i < n; i++) power *= 1 - 2 * k - i;
      sum = sum * r * r + stirling[k - 1] * power;
    }
    for (int i = 0; i <= n; i++) sum *= r;
    return sum;
  }
  if (n == 1) return pni_digamma(z) - log(z) + 0.5 / z;
  double main = 1 / z; /* (n - 2)! / z^(n-1) */
  for (int i = 2; i < n; i++) main *= (i - 1) / z;
  main += main * 0.5 * (n - 1) / z;
  return pni_polygamma(n - 1, z) + (n % 2 ? main : -main);
}

/* log Gamma(b) - log Gamma(a + b) for b >= 10, from Stirling's formula. */
static double lgamma_drop(double a, double b) {
  double main = -(b - 0.5) * log1p(a / b) - a * (log(a + b) - 1);
  return main + (pni_stirling_error(b) - pni_stirling_error(a + b));
}

/* log B(a, b) = log Gamma(a) + log Gamma(b) - log Gamma(a + b), large arguments through Stirling's formula so
 * that the big parts cancel on paper. inf if either is 0, -inf if either is inf, NaN if negative.
 * Max error 4.5e-15 relative to max(1, |log B|) for arguments in [1e-10, 1e10]. */
double pni_lbeta(double a, double b) {
  if (isnan(a) || isnan(b) || a < 0 || b < 0) return NAN;
  double low = a < b ? a : b, high = a < b ? b : a;
  if (low == 0 || isinf(high)) return low == 0 && isinf(high) ? NAN : low == 0 ? INFINITY : -INFINITY;
  if (high < 10) return pni_lgamma(low) + (pni_lgamma(high) - pni_lgamma(low + high));
  if (low < 10) return pni_lgamma(low) + lgamma_drop(low, high);
  double h = low / high, error = pni_stirling_error(low) + (pni_stirling_error(high) - pni_stirling_error(low + high));
  double main = (low - 0.5) * log(h / (1 + h)) - high * log1p(h);
  return main - 0.5 * log(high) + HALF_LOG_2PI + error;
}
