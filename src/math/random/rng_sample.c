/* Rejection samplers: gamma, von Mises, Poisson, binomial. One position a draw; trial k reads the counters whose
 * attempt is k (or 2k, 2k + 1), so that a draw never depends on how many trials its neighbours took. */
#include "../../base/processor.h"
#include "rng_fill.h"
#include "../special.h"

#include <math.h>
#include <stdbool.h>

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

double pni_log_gamma_draw(uint64_t key, uint64_t position, double concentration) {
  double z;
  pni_fill_gamma(key, position, 1, &concentration, &z, false);
  return z;
}

double pni_gamma_draw(uint64_t key, uint64_t position, double concentration) {
  return exp(pni_log_gamma_draw(key, position, concentration));
}

void pni_fill_gamma(uint64_t key, uint64_t position, uint64_t n, const double *a, double *out, bool plain) {
  const pni_rng_level *level = pni_rng_at(pni_cpu_level());
  for (uint64_t i = 0; i < n; i += PNI_GAMMA_LOT)
    level->gamma(key, position + i, n - i < PNI_GAMMA_LOT ? (int)(n - i) : PNI_GAMMA_LOT, a + i, out + i, plain);
}

/* Best & Fisher (Applied Statistics 28, 1979): rejection from a wrapped Cauchy with parameter r,
 *   cos z = f = (1 + r c) / (r + c), c = cos(pi u), accepted by w = k (r - f) and another uniform number.
 * With t = sqrt(1 + 4 k^2) and s = 1 + t it is r = (1 + q^2) / (2 q), q = 2 k / (s + sqrt(2 s)). Everything is
 * written in r - 1 and 1 - f, so that huge k loses nothing; small k neither. */
double pni_von_mises_draw(uint64_t key, uint64_t position, double concentration) {
  if (!(concentration > 0) || isinf(concentration)) return NAN;
  double k = fmax(concentration, 1e-290), t = hypot(1, 2 * k), s = 1 + t, sum = s + sqrt(2 * s), q = 2 * k / sum;
  double gap = (1 + 1 / (t + 2 * k) + sqrt(2 * s)) / sum; /* 1 - q */
  double lead = gap * gap / (2 * q);                      /* r - 1 */
  for (uint32_t attempt = 0;; attempt += 2) {
    pair first = uniforms(key, position, attempt, PNI_DOMAIN_VON_MISES);
    double half_sin = sin(0.25 * TWO_PI * first.u), half_cos = cos(0.25 * TWO_PI * first.u);
    double down = 2 * half_sin * half_sin, up = 2 * half_cos * half_cos; /* 1 - c, 1 + c */
    double low = down / (1 + up / lead), w = k * (lead + low);           /* 1 - f */
    if (w * (2 - w) <= first.v && log(w / first.v) + 1 - w < 0) continue;
    double high = up * (1 + 2 / lead) / (1 + up / lead); /* 1 + f */
    double z = 2 * atan2(sqrt(low), sqrt(high));
    return uniforms(key, position, attempt + 1, PNI_DOMAIN_VON_MISES).u > 0.5 ? z : -z;
  }
}

/* Sequential search for u among weights w_0 = start, w_k = w_(k-1) ratio(k), ratio(k) = slope / k - drop; -1 if u lies
 * beyond the last weight that double precision can tell from 1. */
static double search(const pni_count_law *l, double u) {
  double weight = l->start, sum = weight;
  for (int k = 0; k < 200 && weight > 0; k++) {
    if (u <= sum) return k;
    weight *= l->slope / (k + 1) - l->drop;
    sum += weight;
  }
  return -1;
}

/* Transformed rejection with squeeze, PTRS of Hoermann (1993), for m >= 10: trial u, v; -1 if it is rejected. */
static double poisson_trial(const pni_count_law *l, double u, double v) {
  u -= 0.5;
  double us = 0.5 - fabs(u), k = floor((2 * l->a / us + l->b) * u + l->centre);
  if (us >= 0.07 && v <= l->squeeze) return k;
  if (!(us > 0) || k < 0 || (us < 0.013 && v > us)) return -1;
  double log_mass = -pni_count_deviance(k, l->m) - pni_count_excess(k);
  return log(v * l->scale / (l->a / (us * us) + l->b)) <= log_mass ? k : -1;
}

/* Binomial's log mass (Loader 2000). */
static double binomial_log_mass(const pni_count_law *l, double k) {
  double d = pni_count_deviance(k, l->m) + pni_count_deviance(l->n - k, l->n * l->rest);
  return pni_count_excess(l->n) - pni_count_excess(k) - pni_count_excess(l->n - k) - d;
}

/* The same, BTRS of Hoermann (1993), for p <= 1/2, n p >= 10. */
static double binomial_trial(const pni_count_law *l, double u, double v) {
  u -= 0.5;
  double us = 0.5 - fabs(u), k = floor((2 * l->a / us + l->b) * u + l->centre);
  if (us >= 0.07 && v <= l->squeeze) return k;
  if (!(us > 0) || k < 0 || k > l->n) return -1;
  return log(v * l->scale / (l->a / (us * us) + l->b)) <= binomial_log_mass(l, k) - l->peak ? k : -1;
}

void pni_poisson_law(pni_count_law *l, double rate) {
  l->kind = PNI_COUNT_FIXED;
  l->domain = PNI_DOMAIN_POISSON;
  l->mirrored = 0;
  l->start = rate >= 0 ? rate : NAN;
  if (!(rate > 0 && rate < INFINITY)) return;
  l->m = rate;
  if (rate < 10) {
    l->kind = PNI_COUNT_SEARCH;
    l->start = exp(-rate);
    l->slope = rate;
    l->drop = 0;
    return;
  }
  l->kind = PNI_COUNT_POISSON;
  l->b = 0.931 + 2.53 * sqrt(rate);
  l->a = -0.059 + 0.02483 * l->b;
  l->scale = 1.1239 + 1.1328 / (l->b - 3.4);
  l->squeeze = 0.9277 - 3.6224 / (l->b - 2);
  l->centre = rate + 0.43;
}

/* Of the rarer outcome; `mirrored` if that is failure. */
void pni_binomial_law(pni_count_law *l, double n, double p) {
  bool valid = n >= 0 && n < INFINITY && n == floor(n) && p >= 0 && p <= 1;
  l->kind = PNI_COUNT_FIXED;
  l->domain = PNI_DOMAIN_BINOMIAL;
  l->mirrored = p > 0.5;
  l->n = n;
  l->start = valid ? 0 : NAN;
  l->rest = p > 0.5 ? p : 1 - p;
  if (p > 0.5) p = 1 - p;
  l->m = n * p;
  if (!valid || n == 0 || p == 0) return;
  if (l->m < 10) {
    l->kind = PNI_COUNT_SEARCH;
    l->drop = p / (1 - p);
    l->slope = (n + 1) * l->drop;
    l->start = exp(n * log1p(-p));
    return;
  }
  double spq = sqrt(l->m * (1 - p));
  l->kind = PNI_COUNT_BINOMIAL;
  l->b = 1.15 + 2.53 * spq;
  l->a = -0.0873 + 0.0248 * l->b + 0.01 * p;
  l->scale = (2.83 + 5.1 / l->b) * spq;
  l->squeeze = 0.92 - 4.2 / l->b;
  l->centre = l->m + 0.5;
  l->peak = binomial_log_mass(l, floor((n + 1) * p));
}

double pni_count_from(const pni_count_law *l, uint64_t key, uint64_t position, double u, double v) {
  double k = l->start;
  for (uint32_t attempt = 1; l->kind != PNI_COUNT_FIXED; attempt++) {
    k = l->kind == PNI_COUNT_SEARCH    ? search(l, u)
        : l->kind == PNI_COUNT_POISSON ? poisson_trial(l, u, v)
                                       : binomial_trial(l, u, v);
    if (k >= 0) break;
    pair next = uniforms(key, position, attempt, l->domain);
    u = next.u, v = next.v;
  }
  return l->mirrored ? l->n - k : k;
}

static double draw(const pni_count_law *l, uint64_t key, uint64_t position) {
  pair first = {1, 1};
  if (l->kind != PNI_COUNT_FIXED) first = uniforms(key, position, 0, l->domain);
  return pni_count_from(l, key, position, first.u, first.v);
}

double pni_poisson_draw(uint64_t key, uint64_t position, double rate) {
  pni_count_law l;
  pni_poisson_law(&l, rate);
  return draw(&l, key, position);
}

double pni_binomial_draw(uint64_t key, uint64_t position, double total_count, double prob) {
  pni_count_law l;
  pni_binomial_law(&l, total_count, prob);
  return draw(&l, key, position);
}
