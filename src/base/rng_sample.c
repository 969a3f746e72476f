/* Scalar rejection samplers: gamma, Poisson, binomial. One position a draw; trial k reads the counters whose
 * attempt is k (or 2k, 2k + 1), so that a draw never depends on how many trials its neighbours took. */
#include "rng.h"
#include "special.h"

#include <math.h>

#define TWO_PI 6.28318530717958647693

typedef struct pair {
  double u, v; /* uniform on (0, 1] */
} pair;

static double unit(uint32_t high, uint32_t low) {
  return ((double)(high >> 5) * 67108864.0 + (double)((low >> 6) + 1)) * 0x1p-53;
}

static pair uniforms(uint64_t key, uint64_t position, uint32_t attempt, uint32_t domain) {
  uint32_t w[4];
  pni_philox_block(key, position, attempt, domain, w);
  return (pair){unit(w[0], w[1]), unit(w[2], w[3])};
}

/* log of a Gamma(a) draw, a >= 1: d v with v = (1 + x / sqrt(9d))^3, d = a - 1/3, x normal, accepted when
 * log u < x^2/2 + d (1 - v + log v) (Marsaglia & Tsang 2000). Attempt 2k is the normal, 2k + 1 is u. */
static double log_gamma_large(uint64_t key, uint64_t position, double a) {
  double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (uint32_t k = 0;; k += 2) {
    pair n = uniforms(key, position, k, PNI_DOMAIN_GAMMA);
    double x = sqrt(-2 * log(n.u)) * cos(TWO_PI * n.v), t = c * x;
    if (t <= -1) continue;
    double log_v = 3 * log1p(t), rest = t * (3 + t * (3 + t)); /* v - 1 */
    double u = uniforms(key, position, k + 1, PNI_DOMAIN_GAMMA).u;
    if (log(u) < 0.5 * x * x + d * (log_v - rest)) return log(d) + log_v;
  }
}

/* For a < 1, Gamma(a) = Gamma(a + 1) U^(1/a), in logarithms. */
double pni_log_gamma_draw(uint64_t key, uint64_t position, double concentration) {
  if (!(concentration >= 0)) return NAN;
  if (concentration == 0 || isinf(concentration)) return concentration == 0 ? -INFINITY : INFINITY;
  if (concentration >= 1) return log_gamma_large(key, position, concentration);
  double u = uniforms(key, position, 0, PNI_DOMAIN_GAMMA_BOOST).u;
  return log_gamma_large(key, position, concentration + 1) + log(u) / concentration;
}

double pni_gamma_draw(uint64_t key, uint64_t position, double concentration) {
  return exp(pni_log_gamma_draw(key, position, concentration));
}

/* Sequential search for u among weights w_0 = start, w_k = w_(k-1) ratio(k); u beyond the last weight that
 * double precision can tell from 1 takes a new attempt. ratio(k) = slope / k - drop. */
static double search(uint64_t key, uint64_t position, uint32_t domain, double start, double slope, double drop) {
  for (uint32_t attempt = 0;; attempt++) {
    double u = uniforms(key, position, attempt, domain).u, weight = start;
    for (int k = 0; k < 200 && weight > 0; k++) {
      if (u <= weight) return k;
      u -= weight;
      weight *= slope / (k + 1) - drop;
    }
  }
}

/* k log(k/m) + m - k >= 0, the deviance term of a count k with expectation m (Loader 2000). */
static double deviance(double k, double m) {
  double mu = (m - k) / k;
  if (k == 0) return m;
  return mu > -0.6 ? k * pni_log1p_gap(mu) : m - k - k * log(m / k);
}

/* log k! - (k log k - k + log(2 pi)/2 + log(k)/2); at 0 what makes log_root + error = 0. */
static double count_error(double k) { return k == 0 ? 0 : pni_stirling_error(k); }

/* log sqrt(2 pi k), 0 at 0. */
static double log_root(double k) { return k == 0 ? 0 : 0.5 * log(TWO_PI * k); }

/* Poisson's log probability by the saddle-point form, exact in relative terms for any rate (Loader 2000):
 * -deviance(k, rate) - log sqrt(2 pi k) - stirling_error(k). */
static double poisson_log_prob(double k, double rate) { return -deviance(k, rate) - log_root(k) - count_error(k); }

/* Transformed rejection with squeeze, PTRS of Hoermann (1993), for rate >= 10. */
static double poisson_rejection(uint64_t key, uint64_t position, double rate) {
  double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  double inv_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
  for (uint32_t attempt = 0;; attempt++) {
    pair t = uniforms(key, position, attempt, PNI_DOMAIN_POISSON);
    double u = t.u - 0.5, us = 0.5 - fabs(u);
    double k = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && t.v <= squeeze) return k;
    if (!(us > 0) || k < 0 || (us < 0.013 && t.v > us)) continue;
    if (log(t.v * inv_alpha / (a / (us * us) + b)) <= poisson_log_prob(k, rate)) return k;
  }
}

double pni_poisson_draw(uint64_t key, uint64_t position, double rate) {
  if (!(rate >= 0)) return NAN;
  if (rate == 0 || isinf(rate)) return rate;
  if (rate < 10) return search(key, position, PNI_DOMAIN_POISSON, exp(-rate), rate, 0);
  return poisson_rejection(key, position, rate);
}

/* Binomial's log probability, 0 <= k <= n, by the saddle-point form (Loader 2000). */
static double binomial_log_prob(double k, double n, double p) {
  double error = count_error(n) - count_error(k) - count_error(n - k);
  double root = log_root(n) - log_root(k) - log_root(n - k);
  return error + root - deviance(k, n * p) - deviance(n - k, n * (1 - p));
}

/* Transformed rejection with squeeze, BTRS of Hoermann (1993), for p <= 1/2, n p >= 10. */
static double binomial_rejection(uint64_t key, uint64_t position, double n, double p) {
  double spq = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spq, a = -0.0873 + 0.0248 * b + 0.01 * p;
  double centre = n * p + 0.5, squeeze = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spq;
  double mode_log_prob = binomial_log_prob(floor((n + 1) * p), n, p);
  for (uint32_t attempt = 0;; attempt++) {
    pair t = uniforms(key, position, attempt, PNI_DOMAIN_BINOMIAL);
    double u = t.u - 0.5, us = 0.5 - fabs(u);
    double k = floor((2 * a / us + b) * u + centre);
    if (us >= 0.07 && t.v <= squeeze) return k;
    if (!(us > 0) || k < 0 || k > n) continue;
    if (log(t.v * alpha / (a / (us * us) + b)) <= binomial_log_prob(k, n, p) - mode_log_prob) return k;
  }
}

double pni_binomial_draw(uint64_t key, uint64_t position, double total_count, double prob) {
  double n = total_count;
  if (!(n >= 0 && n <= 0x1p53 && n == floor(n) && prob >= 0 && prob <= 1)) return NAN;
  if (prob > 0.5) return n - pni_binomial_draw(key, position, n, 1 - prob);
  if (n == 0 || prob == 0) return 0;
  if (n * prob >= 10) return binomial_rejection(key, position, n, prob);
  double odds = prob / (1 - prob);
  return search(key, position, PNI_DOMAIN_BINOMIAL, exp(n * log1p(-prob)), (n + 1) * odds, odds);
}
