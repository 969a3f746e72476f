/*
** rng_test.c: the generator is Philox4x32-10 word for word; every sampler fits its distribution
** (Kolmogorov-Smirnov or chi squared, 6 sigma, fixed seeds); streams are independent; a saved state goes
** on exactly; numbers do not depend on threads or on how a fill is cut.
*/
#include <stdlib.h>
#include "../../src/base/context.h"
#include "../../src/math/special.h"
#include "../../src/base/processor.h"
#include "../../src/math/random/rng_fill.h"
#include "check.h"
#include "soak.h"

/* Known answers of the Random123 distribution (Salmon et al. 2011), kat_vectors: philox 4x32 10. */
static void known_answers(void) {
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } kat[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
    uint32_t w[4];
    const uint32_t *n = kat[i].counter, *k = kat[i].key;
    pni_philox_block((uint64_t)k[1] << 32 | k[0], (uint64_t)n[1] << 32 | n[0], n[2], n[3], w);
    for (int j = 0; j < 4; j++) CHECK_INT(w[j], kat[i].out[j]);
  }
}

/* ---- goodness of fit ---- */

enum { N = 200000 };
static double sample[N];

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* sup |F_n - F| sqrt n; 2 exp(-2 D^2) is 2e-9, six sigma, at D = 3.22. */
static void check_ks(const char *what, double *x, int n, double (*cdf)(double, double), double parameter) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  double worst = 0;
  for (int i = 0; i < n; i++) {
    double f = cdf(x[i], parameter), d = fmax(f - (double)i / n, (double)(i + 1) / n - f);
    if (!(d <= worst)) worst = d;
  }
  double k = worst * sqrt(n);
  if (!check_record(k < 3.22)) printf("%s(%g): Kolmogorov-Smirnov distance %.3g\n", what, parameter, k);
}

/* chi squared of counts against expectations in `bins` cells, as a standard normal (Wilson-Hilferty). */
static void check_chi2(const char *what, double parameter, const double *count, const double *expected, int bins) {
  double sum = 0, k = bins - 1, t = 2 / (9 * k);
  for (int i = 0; i < bins; i++) sum += (count[i] - expected[i]) * (count[i] - expected[i]) / expected[i];
  double z = (cbrt(sum / k) - (1 - t)) / sqrt(t);
  if (!check_record(z < 6 && z > -6))
    printf("%s(%g): chi squared %.6g in %d cells, z %.3g\n", what, parameter, sum, bins, z);
}

/* Whole-number draws in sample[] against a distribution function, in cells of at least a 1/60 of them. */
static void check_counts(const char *what, double parameter, double low, double high, double (*cdf)(double)) {
  enum { CELLS = 64 };
  double edge[CELLS], expected[CELLS + 1], count[CELLS + 1] = {0}, before = 0;
  int cells = 0;
  double step = fmax(1, floor((high - low) / 4000));
  for (double k = low; k < high && cells < CELLS; k += step) {
    double f = cdf(k);
    if (f - before < 1.0 / 60 || 1 - f < 1.0 / 60) continue;
    edge[cells] = k;
    expected[cells++] = N * (f - before);
    before = f;
  }
  expected[cells] = N * (1 - before);
  for (int i = 0; i < N; i++) {
    int at = 0;
    while (at < cells && sample[i] > edge[at]) at++;
    count[at]++;
  }
  CHECK(cells > 0);
  check_chi2(what, parameter, count, expected, cells + 1);
}

static double cdf_uniform(double x, double unused) { return (void)unused, x; }
static double cdf_normal(double x, double unused) { return (void)unused, pni_ndtr(x); }
static double cdf_exponential(double x, double unused) { return (void)unused, -expm1(-x); }
static double cdf_gamma(double x, double a) { return pni_gammainc(a, x); }
/* of log Gamma(a) for tiny a, where P(a, e^u) = e^(a u) but for terms of order a */
static double cdf_log_gamma(double u, double a) {
  return u < -700 ? exp(a * u - pni_lgamma1p(a)) : pni_gammainc(a, exp(u));
}

static double poisson_rate, binomial_n, binomial_p;
static double cdf_poisson(double k) { return pni_gammaincc(k + 1, poisson_rate); }
static double cdf_binomial(double k) {
  if (k >= binomial_n) return 1;
  return pni_betainc(binomial_n - k, k + 1, 1 - binomial_p);
}

static void continuous(void) {
  static float narrow[N];
  uint64_t key = pni_philox_seed(11).key;
  pni_fill_uniform_f64(key, 0, 0, N, sample);
  check_ks("uniform", sample, N, cdf_uniform, 64);
  CHECK(sample[0] > 0 && sample[N - 1] <= 1);
  pni_fill_normal_f64(key, 0, 0, N, sample);
  check_ks("normal", sample, N, cdf_normal, 64);
  CHECK(sample[N - 1] > 3.5 && sample[N - 1] < 8.6);
  pni_fill_exponential_f64(key, 0, 0, N, sample);
  check_ks("exponential", sample, N, cdf_exponential, 64);
  CHECK(sample[0] >= 0);
  pni_fill_uniform_f32(key, 0, 0, N, narrow);
  for (int i = 0; i < N; i++) sample[i] = (double)narrow[i];
  check_ks("uniform", sample, N, cdf_uniform, 32);
  CHECK(sample[0] > 0 && sample[N - 1] <= 1);
  pni_fill_normal_f32(key, 0, 0, N, narrow);
  for (int i = 0; i < N; i++) sample[i] = (double)narrow[i];
  check_ks("normal", sample, N, cdf_normal, 32);

  static const double a[] = {0.05, 0.3, 0.9, 1, 1.5, 3, 12, 100, 1e4, 1e8};
  for (size_t k = 0; k < sizeof a / sizeof *a; k++) {
    if (!soak_takes((long)k)) continue;
    for (int i = 0; i < N; i++) sample[i] = pni_gamma_draw(key, (uint64_t)i, a[k]);
    check_ks("gamma", sample, N, cdf_gamma, a[k]);
  }
  static const double tiny[] = {1e-2, 1e-3, 1e-6};
  for (size_t k = 0; k < sizeof tiny / sizeof *tiny; k++) {
    if (!soak_takes((long)k)) continue;
    for (int i = 0; i < N; i++) sample[i] = pni_log_gamma_draw(key, (uint64_t)i, tiny[k]);
    check_ks("log_gamma", sample, N, cdf_log_gamma, tiny[k]);
  }
}

static void discrete(void) {
  uint64_t key = pni_philox_seed(12).key;
  static const double rate[] = {0.05, 0.7, 3, 9.99, 10, 33.3, 1000, 1e6};
  for (size_t k = 0; k < sizeof rate / sizeof *rate; k++) {
    if (!soak_takes((long)k)) continue;
    poisson_rate = rate[k];
    for (int i = 0; i < N; i++) sample[i] = pni_poisson_draw(key, (uint64_t)i, poisson_rate);
    double d = 6 * sqrt(poisson_rate) + 1;
    check_counts("poisson", poisson_rate, fmax(0, floor(poisson_rate - d)), ceil(poisson_rate + d), cdf_poisson);
  }
  static const double n[] = {1, 5, 40, 40, 1000, 1000, 1000, 1e6, 1e6},
                      p[] = {0.3, 0.5, 0.2, 0.9, 0.004, 0.0101, 0.6, 0.5, 1e-6};
  for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
    if (!soak_takes((long)k)) continue;
    binomial_n = n[k];
    binomial_p = p[k];
    for (int i = 0; i < N; i++) sample[i] = pni_binomial_draw(key, (uint64_t)i, binomial_n, binomial_p);
    double mean = n[k] * p[k], d = 6 * sqrt(mean * (1 - p[k])) + 1;
    check_counts("binomial", mean, fmax(0, floor(mean - d)), fmin(n[k], ceil(mean + d)), cdf_binomial);
  }
}

/* Mean and variance of standardised draws where no distribution function reaches. */
static void check_moments(const char *what, double mean, double sd) {
  double m = 0, v = 0;
  for (int i = 0; i < N; i++) {
    double z = (sample[i] - mean) / sd;
    m += z / N;
    v += z * z / N;
  }
  bool ok = fabs(m) < 6 / sqrt(N) && fabs(v - 1) < 6 * sqrt(2.0 / N);
  if (!check_record(ok)) printf("%s: standardised mean %.4g, variance %.6g\n", what, m, v);
}

static void huge_parameters(void) {
  uint64_t key = pni_philox_seed(13).key;
  for (int i = 0; i < N; i++) sample[i] = pni_poisson_draw(key, (uint64_t)i, 1e14);
  check_moments("poisson(1e14)", 1e14, 1e7);
  for (int i = 0; i < N; i++) sample[i] = pni_binomial_draw(key, (uint64_t)i, 0x1p53, 0.25);
  check_moments("binomial(2^53, 1/4)", 0x1p51, sqrt(0x1p53 * 3 / 16));
  for (int i = 0; i < N; i++) sample[i] = pni_gamma_draw(key, (uint64_t)i, 1e14);
  check_moments("gamma(1e14)", 1e14, 1e7);
}

static void edges(void) {
  CHECK_NEAR(pni_gamma_draw(1, 2, 0), 0, 0);
  CHECK_NEAR(pni_gamma_draw(1, 2, INFINITY), INFINITY, 0);
  CHECK(isnan(pni_gamma_draw(1, 2, -1)) && isnan(pni_gamma_draw(1, 2, NAN)));
  CHECK(isfinite(pni_log_gamma_draw(1, 2, 1e-306)));
  CHECK_NEAR(pni_poisson_draw(1, 2, 0), 0, 0);
  CHECK_NEAR(pni_poisson_draw(1, 2, INFINITY), INFINITY, 0);
  CHECK(isnan(pni_poisson_draw(1, 2, -1)) && isnan(pni_poisson_draw(1, 2, NAN)));
  CHECK_NEAR(pni_binomial_draw(1, 2, 0, 0.5), 0, 0);
  CHECK_NEAR(pni_binomial_draw(1, 2, 9, 0), 0, 0);
  CHECK_NEAR(pni_binomial_draw(1, 2, 9, 1), 9, 0);
  CHECK_NEAR(pni_binomial_draw(1, 2, 1e15, 1), 1e15, 0);
  CHECK(isnan(pni_binomial_draw(1, 2, 2.5, 0.5)) && isnan(pni_binomial_draw(1, 2, -1, 0.5)));
  CHECK(isnan(pni_binomial_draw(1, 2, 9, 1.1)) && isnan(pni_binomial_draw(1, 2, 9, NAN)));
  for (uint64_t i = 0; i < 2000; i++) {
    double b = pni_binomial_draw(5, i, 3, 0.999999), p = pni_poisson_draw(5, i, 1e-300);
    CHECK(b >= 0 && b <= 3 && p == 0);
  }
}

/* ---- integers and permutations ---- */

static void integers(void) {
  static int64_t draw[N];
  static const int64_t range[][2] = {
      {0, 10}, {-3, 0}, {5, 6}, {-7, 57}, {INT64_MIN, INT64_MAX}, {INT64_MIN / 2 - 1, INT64_MAX / 2 + 2}};
  uint64_t key = pni_philox_seed(14).key;
  for (size_t k = 0; k < sizeof range / sizeof *range; k++) {
    int64_t low = range[k][0], high = range[k][1];
    pni_fill_int64(key, 0, 0, N, low, high, draw);
    uint64_t width = (uint64_t)high - (uint64_t)low;
    int cells = width < 64 ? (int)width : 64;
    double count[64] = {0}, expected[64];
    int outside = 0;
    for (int i = 0; i < N; i++) {
      outside += draw[i] < low || draw[i] >= high;
      double at = (double)((uint64_t)draw[i] - (uint64_t)low) / (double)width * cells;
      count[at < cells ? (int)at : cells - 1]++;
    }
    CHECK_INT(outside, 0);
    for (int i = 0; i < cells; i++) expected[i] = (double)N / cells;
    if (cells > 1) check_chi2("integers", (double)k, count, expected, cells);
  }
  pni_fill_int64(key, 0, 0, 5, 9, 9, draw);
  for (int i = 0; i < 5; i++) CHECK_INT(draw[i], 9);
}

static void permutations(void) {
  double count[24] = {0}, expected[24];
  for (uint64_t i = 0; i < 48000; i++) {
    int64_t p[4];
    pni_permutation(77, 4 * i, 4, p);
    int seen = 0, rank = 0;
    for (int j = 0; j < 4; j++) {
      int smaller = 0;
      seen |= 1 << p[j];
      for (int k = j + 1; k < 4; k++) smaller += p[k] < p[j];
      rank = rank * (4 - j) + smaller;
    }
    if (seen == 15) count[rank]++;
  }
  for (int i = 0; i < 24; i++) expected[i] = 2000;
  check_chi2("permutation", 4, count, expected, 24);
  pni_permutation(77, 0, 0, NULL);
}

/* ---- streams ---- */

static double correlation(const double *x, const double *y, int n) {
  double s = 0, xx = 0, yy = 0;
  for (int i = 0; i < n; i++) {
    s += x[i] * y[i];
    xx += x[i] * x[i];
    yy += y[i] * y[i];
  }
  return s / sqrt(xx * yy);
}

static void independence(void) {
  enum { M = N / 2 };
  double *x = sample, *y = sample + M, limit = 6 / sqrt(M - 10);
  pni_philox parent = pni_philox_seed(3);
  pni_fill_normal_f64(parent.key, 0, 0, M, x);
  for (int lag = 1; lag <= 8; lag++) CHECK(fabs(correlation(x, x + lag, M - lag)) < limit);
  for (uint64_t k = 0; k < 20; k++) { /* parent and child, neighbouring children, neighbouring seeds */
    pni_fill_normal_f64(parent.key, 0, 0, M, x);
    pni_fill_normal_f64(pni_philox_split(&parent, k).key, 0, 0, M, y);
    CHECK(fabs(correlation(x, y, M)) < limit);
    pni_fill_normal_f64(pni_philox_split(&parent, k + 1).key, 0, 0, M, x);
    CHECK(fabs(correlation(x, y, M)) < limit);
    pni_fill_normal_f64(pni_philox_seed(k).key, 0, 0, M, x);
    pni_fill_normal_f64(pni_philox_seed(k + 1).key, 0, 0, M, y);
    CHECK(fabs(correlation(x, y, M)) < limit);
  }
  /* the first number of each of many streams is uniform as well */
  for (int i = 0; i < N; i++) pni_fill_uniform_f64(pni_philox_split(&parent, (uint64_t)i).key, 0, 0, 1, &sample[i]);
  check_ks("first of streams", sample, N, cdf_uniform, 0);
  for (int i = 0; i < N; i++) pni_fill_uniform_f64(pni_philox_seed((uint64_t)i).key, 0, 0, 1, &sample[i]);
  check_ks("first of seeds", sample, N, cdf_uniform, 0);
  /* different uses of one position do not see each other */
  pni_fill_uniform_f64(parent.key, 0, 0, M, x);
  pni_fill_exponential_f64(parent.key, 0, 0, M, y);
  for (int i = 0; i < M; i++) x[i] -= 0.5, y[i] -= 1;
  CHECK(fabs(correlation(x, y, M)) < limit);
}

static void saved_state(void) {
  pn_context *c = pn_context_new(NULL);
  pn_rng *r = pn_rng_new(c, 9);
  uint64_t state[2], after[2];
  int64_t n = 1001;
  double a[2], b[2];
  pn_tensor_item(c, pn_sum(c, pn_randn(c, r, PN_FLOAT64, 1, &n), PN_ALL, 0), &a[0]);
  pn_rng_get_state(r, state);
  pn_tensor_item(c, pn_sum(c, pn_rand(c, r, PN_FLOAT32, 1, &n), PN_ALL, 0), &a[0]);
  pn_tensor_item(c, pn_sum(c, pn_randn(c, r, PN_FLOAT64, 1, &n), PN_ALL, 0), &a[1]);
  pn_rng_get_state(r, after);
  CHECK(after[0] == state[0] && after[1] > state[1]);

  pn_context *other = pn_context_new(NULL);
  pn_rng *s = pn_context_rng(other);
  pn_rng_set_state(s, state);
  pn_tensor_item(other, pn_sum(other, pn_rand(other, NULL, PN_FLOAT32, 1, &n), PN_ALL, 0), &b[0]);
  pn_tensor_item(other, pn_sum(other, pn_randn(other, NULL, PN_FLOAT64, 1, &n), PN_ALL, 0), &b[1]);
  CHECK(a[0] == b[0] && a[1] == b[1]);

  /* splitting leaves the parent alone and depends on the key, not on the position */
  pn_rng *k1 = pn_rng_split(c, r, 4), *k2 = pn_rng_split(c, s, 4);
  uint64_t s1[2], s2[2], now[2];
  pn_rng_get_state(k1, s1);
  pn_rng_get_state(k2, s2);
  pn_rng_get_state(r, now);
  CHECK(s1[0] == s2[0] && s1[1] == s2[1] && now[1] == after[1]);
  pn_rng_free(k1);
  pn_rng_free(k2);
  pn_rng_free(r);
  pn_rng_free(NULL);

  pn_seed(c, 42);
  pn_tensor *x = pn_rand(c, NULL, PN_FLOAT64, 1, (int64_t[]){3}), *y = pn_rand(c, NULL, PN_FLOAT64, 1, (int64_t[]){3});
  const double *p = pn_tensor_data(x), *q = pn_tensor_data(y);
  for (int i = 0; i < 3; i++) /* odd sizes leave gaps, never overlaps */
    for (int j = 0; j < 3; j++) CHECK(p[i] != q[j]);
  pn_seed(c, 42);
  CHECK(memcmp(pn_tensor_data(pn_rand(c, NULL, PN_FLOAT64, 1, (int64_t[]){3})), p, 3 * sizeof *p) == 0);
  pn_context_close(other);
  pn_context_close(c);
}

/* ---- the same numbers however the work is cut ---- */

typedef pn_tensor *(*make)(pn_context *c, int64_t n);
static pn_tensor *rand64(pn_context *c, int64_t n) { return pn_rand(c, NULL, PN_FLOAT64, 1, &n); }
static pn_tensor *rand32(pn_context *c, int64_t n) { return pn_rand(c, NULL, PN_FLOAT32, 1, &n); }
static pn_tensor *randn64(pn_context *c, int64_t n) { return pn_randn(c, NULL, PN_FLOAT64, 1, &n); }
static pn_tensor *randn32(pn_context *c, int64_t n) { return pn_randn(c, NULL, PN_FLOAT32, 1, &n); }
static pn_tensor *int64(pn_context *c, int64_t n) { return pn_randint(c, NULL, -5, 12345, 1, &n); }

static void any_threads(void) {
  static const make makers[] = {rand64, rand32, randn64, randn32, int64};
  static const int threads[] = {1, 2, 3, 7};
  for (size_t k = 0; k < sizeof makers / sizeof *makers; k++) {
    pn_context *one = pn_context_new(&(pn_context_config){.threads = 1, .seed = 8});
    pn_tensor *want = makers[k](one, 1000003);
    for (int t = 1; t < 4; t++) {
      pn_context *c = pn_context_new(&(pn_context_config){.threads = threads[t], .seed = 8});
      pn_tensor *got = makers[k](c, 1000003);
      size_t bytes = (size_t)pn_tensor_numel(got) * pn_dtype_size(pn_tensor_dtype(got));
      CHECK(memcmp(pn_tensor_data(got), pn_tensor_data(want), bytes) == 0);
      pn_context_close(c);
    }
    pn_context_close(one);
  }
}

#define CUTS(fill, type)                                                                                               \
  do {                                                                                                                 \
    static type whole[3000], part[3000];                                                                               \
    fill(99, 7, 0, 3000, whole);                                                                                       \
    uint64_t step = 1;                                                                                                 \
    for (uint64_t begin = 0; begin < 3000; begin += step, step = step * 5 % 523) {                                     \
      uint64_t end = begin + step < 3000 ? begin + step : 3000;                                                        \
      fill(99, 7, begin, end, part + begin);                                                                           \
    }                                                                                                                  \
    CHECK(memcmp(whole, part, sizeof whole) == 0);                                                                     \
    for (uint64_t begin = 0; begin < 40; begin++)                                                                      \
      for (uint64_t end = begin; end < 300; end += 7) {                                                                \
        part[end - begin] = (type)-12345;                                                                              \
        fill(99, 7, begin, end, part);                                                                                 \
        CHECK(memcmp(whole + begin, part, (end - begin) * sizeof *part) == 0);                                         \
        CHECK(part[end - begin] == (type)-12345); /* writes nothing beyond */                                          \
      }                                                                                                                \
  } while (0)

static void int_fill(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, int64_t *out) {
  pni_fill_int64(key, position, begin, end, -4, 1000, out);
}

static void any_cut(void) {
  CUTS(pni_fill_uniform_f64, double);
  CUTS(pni_fill_uniform_f32, float);
  CUTS(pni_fill_normal_f64, double);
  CUTS(pni_fill_normal_f32, float);
  CUTS(pni_fill_exponential_f64, double);
  CUTS(int_fill, int64_t);
  /* far positions: the counter is 64 bits wide */
  double a[4], b[4];
  pni_fill_uniform_f64(1, (uint64_t)1 << 40, 0, 4, a);
  pni_fill_uniform_f64(1, ((uint64_t)1 << 40) - 5, 10, 14, b);
  CHECK(memcmp(a, b, sizeof a) == 0);
  CHECK_INT(pni_fill_positions(PNI_FILL_NORMAL_F64, 5), 3);
  CHECK_INT(pni_fill_positions(PNI_FILL_UNIFORM_F32, 5), 2);
  CHECK_INT(pni_fill_positions(PNI_FILL_INT64, 5), 5);
  CHECK_INT(pni_fill_positions(PNI_FILL_UNIFORM_F64, 0), 0);
}

/* ---- the numbers themselves ---- */

/* The transforms against the C library: Box-Muller and -log u from the same words. */
static void transforms(void) {
  enum { M = 100000 };
  static double normal[M], exponential[M];
  double worst[2] = {0};
  pni_fill_normal_f64(21, 0, 0, M, normal);
  pni_fill_exponential_f64(21, 0, 0, M, exponential);
  for (uint64_t j = 0; j < M / 2; j++) {
    uint32_t w[4];
    pni_philox_block(21, j, 0, PNI_DOMAIN_NORMAL, w);
    double u = ((double)(w[0] >> 5) * 67108864.0 + (w[1] >> 6) + 1) * 0x1p-53;
    double v = ((double)(w[2] >> 5) * 67108864.0 + (w[3] >> 6) + 1) * 0x1p-53;
    double r = sqrt(-2 * log(u)), angle = 6.283185307179586477 * (v - (v > 0.5)); /* kept small for the library */
    worst[0] = fmax(worst[0], fmax(fabs(normal[2 * j] - r * cos(angle)), fabs(normal[2 * j + 1] - r * sin(angle))));
    pni_philox_block(21, j, 0, PNI_DOMAIN_EXPONENTIAL, w);
    u = ((double)(w[0] >> 5) * 67108864.0 + (w[1] >> 6) + 1) * 0x1p-53;
    worst[1] = fmax(worst[1], fabs(exponential[2 * j] + log(u)) / (-log(u) + 1e-300));
  }
  CHECK(worst[0] < 4e-15);
  CHECK(worst[1] < 5e-16);
}

static uint64_t digest(const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t h = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

/* A seed's numbers are fixed for good, on every machine with IEEE arithmetic, bit for bit. */
static void fixed_numbers(void) {
  static union {
    double f64[4096];
    float f32[4096];
    int64_t i64[4096];
  } t;
  uint64_t key = pni_philox_seed(2024).key;
  pni_fill_uniform_f64(key, 5, 0, 4096, t.f64);
  CHECK_INT(digest(t.f64, sizeof t.f64), 633197198524637677);
  pni_fill_uniform_f32(key, 5, 0, 4096, t.f32);
  CHECK_INT(digest(t.f32, sizeof t.f32), 1421753303694945491);
  pni_fill_normal_f64(key, 5, 0, 4096, t.f64);
  CHECK_INT(digest(t.f64, sizeof t.f64), 9112057961645238328);
  pni_fill_normal_f32(key, 5, 0, 4096, t.f32);
  CHECK_INT(digest(t.f32, sizeof t.f32), 5442311288230598366);
  pni_fill_exponential_f64(key, 5, 0, 4096, t.f64);
  CHECK_INT(digest(t.f64, sizeof t.f64), 3275214518097216119);
  pni_fill_int64(key, 5, 0, 4096, -100, 1000000007, t.i64);
  CHECK_INT(digest(t.i64, sizeof t.i64), 8027283524497980150);
  pni_permutation(key, 5, 4096, t.i64);
  CHECK_INT(digest(t.i64, sizeof t.i64), -7126542664623578643);
}

/* Gamma draws: a fill is its single draws, plain ones are their exponentials, at every level; odd shapes among the
 * usual ones; fixed for good. */
static void gamma_fills(void) {
  enum { COUNT = 1003 };
  static double a[COUNT], z[COUNT], x[COUNT], other[PNI_GAMMA_LOT];
  for (int i = 0; i < COUNT; i++) a[i] = exp(0.02 * (i - 500));
  a[3] = 0, a[70] = INFINITY, a[200] = -1, a[201] = NAN, a[1002] = 1e-306;
  pni_fill_gamma(9, 100, COUNT, a, z, false);
  pni_fill_gamma(9, 100, COUNT, a, x, true);
  int wrong = 0, far = 0;
  for (int i = 0; i < COUNT; i++) {
    double one = pni_log_gamma_draw(9, 100 + (uint64_t)i, a[i]);
    wrong += memcmp(&one, &z[i], sizeof one) != 0 && !(isnan(one) && isnan(z[i]));
    double want = one < -708 ? 0 : exp(one), off = fabs(x[i] - want) - 1e-12 * fabs(want);
    far += isnan(one) ? !isnan(x[i]) : isinf(want) ? x[i] != want : off > 1e-307;
  }
  CHECK_INT(wrong, 0);
  CHECK_INT(far, 0);
  for (int i = 0; i < COUNT; i++) a[i] = 0.05 + 0.02 * i;
  pni_fill_gamma(9, 100, COUNT, a, z, false);
  CHECK_INT(digest(z, sizeof z), -7271096812178204949);
  pni_fill_gamma(9, 100, COUNT, a, x, true);
  CHECK_INT(digest(x, sizeof x), 9099247488646198840);
  for (int level = 0; level <= pni_cpu_level(); level++)
    for (int n = 1; n <= PNI_GAMMA_LOT; n++)
      for (int plain = 0; plain < 2; plain++) {
        pni_rng_at(level)->gamma(9, 100, n, a, other, plain);
        wrong += memcmp(other, plain ? x : z, (size_t)n * sizeof *other) != 0;
      }
  CHECK_INT(wrong, 0);
  pni_fill_gamma(9, 100, COUNT, a, a, false); /* in place */
  CHECK(memcmp(a, z, sizeof a) == 0);
}

/* Every instruction set gives the same bits, chunks of every length too. */
static void any_level(void) {
  for (int level = 1; level <= pni_cpu_level(); level++)
    for (int kind = 0; kind <= PNI_FILL_EXPONENTIAL_F64; kind++)
      for (uint64_t key = 1; key <= 200; key++)
        for (int groups = 1; groups <= PNI_RNG_CHUNK / PNI_RNG_GROUP; groups++) {
          pni_rng_values want = {{0}}, got = {{0}};
          pni_rng_at(PNI_CPU_PORTABLE)->chunk[kind](key * 12345, key << 20, groups, &want);
          pni_rng_at(level)->chunk[kind](key * 12345, key << 20, groups, &got);
          CHECK(memcmp(&got, &want, sizeof got) == 0);
        }
}

/* ---- draws of counts and angles by the definitions of their trials ---- */

static double unit_of(const uint32_t *w) {
  return ((double)(w[0] >> 5) * 67108864.0 + (double)((w[1] >> 6) + 1)) * 0x1p-53;
}

/* log of n over k, or of 1 / k! for n = INFINITY. */
static double log_choices(double n, double k) {
  return (isinf(n) ? 0 : lgamma(n + 1) - lgamma(n - k + 1)) - lgamma(k + 1);
}

/* What a trial (u, v) of rejection is accepted up to: the mass of its k under the hat, beside that of the mode for
 * binomials. */
static double accepted_to(const pni_count_law *l, double n, double p, double u, double *k) {
  double us = 0.5 - fabs(u - 0.5), m = isinf(n) ? p : n * p, at = 0;
  *k = floor((2 * l->a / us + l->b) * (u - 0.5) + l->centre);
  if (!(us > 0) || *k < 0 || *k > n) return 0;
  double mode = floor(isinf(n) ? m : (n + 1) * p);
  double log_mass = log_choices(n, *k) + *k * log(isinf(n) ? m : p) + (isinf(n) ? -m : (n - *k) * log1p(-p));
  if (!isinf(n)) at = log_choices(n, mode) + mode * log(p) + (n - mode) * log1p(-p);
  return exp(log_mass - at) * (l->a / (us * us) + l->b) / l->scale;
}

/* The draw at a position, n = INFINITY: Poisson of rate p. NaN where a trial is too near its bound to be told. */
static double by_definition(const pni_count_law *l, double n, double p, uint64_t key, uint64_t position) {
  for (uint32_t attempt = 0;; attempt++) {
    uint32_t w[4];
    pni_philox_block(key, position, attempt, isinf(n) ? PNI_DOMAIN_POISSON : PNI_DOMAIN_BINOMIAL, w);
    double u = unit_of(w), v = unit_of(w + 2), k, sum = 0;
    if ((isinf(n) ? p : n * p) < 10) { /* where the sum of masses passes u */
      for (k = 0; k < 200; k++) {
        sum += exp(log_choices(n, k) + k * log(p) + (isinf(n) ? -p : (n - k) * log1p(-p)));
        if (fabs(u - sum) < 1e-12) return NAN;
        if (u < sum) return k;
      }
      return NAN;
    }
    double most = accepted_to(l, n, p, u, &k);
    if (fabs(v / most - 1) < 1e-9) return NAN;
    if (v < most) return k;
  }
}

static void count_draws(void) {
  static const double laws[][2] = {{INFINITY, 0.3}, {INFINITY, 9.5}, {INFINITY, 10}, {INFINITY, 17.25}, {INFINITY, 400},
                                   {INFINITY, 1e5}, {7, 0.3},        {90, 0.11},     {40, 0.25},        {60, 0.5},
                                   {1000, 0.0625},  {5000, 0.4375},  {3, 0.5}};
  for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
    double n = laws[i][0], p = laws[i][1], k, area = 0;
    pni_count_law l;
    if (isinf(n))
      pni_poisson_law(&l, p);
    else
      pni_binomial_law(&l, n, p);
    int wrong = 0, told = 0;
    for (uint64_t at = 0; at < 4000; at++) {
      double want = by_definition(&l, n, p, 5, at),
             got = isinf(n) ? pni_poisson_draw(5, at, p) : pni_binomial_draw(5, at, n, p);
      if (isnan(want)) continue;
      told++;
      wrong += got != want;
      if (!isinf(n) && p < 0.5) wrong += pni_binomial_draw(5, at, n, 1 - p) != n - want;
    }
    CHECK_INT(wrong, 0);
    CHECK(told > 3990);
    if ((isinf(n) ? p : n * p) < 10) continue;
    /* the hat is above the law, not far, and above the squeeze what is accepted at once is accepted */
    enum { CELLS = 20000 };
    double highest = 0, lowest = 1;
    for (int c = 0; c < CELLS; c++) {
      double u = (c + 0.5) / CELLS, most = accepted_to(&l, n, p, u, &k);
      area += fmin(most, 1) / CELLS;
      highest = fmax(highest, most);
      if (fabs(u - 0.5) <= 0.43) lowest = fmin(lowest, most);
    }
    CHECK(highest < 1.006 && area > 0.73);
    CHECK(lowest > l.squeeze);
    /* the numbers of Hoermann (1993), PTRS and BTRS */
    double spread = sqrt(isinf(n) ? p : n * p * (1 - p)), b = (isinf(n) ? 0.931 : 1.15) + 2.53 * spread;
    CHECK_NEAR(l.b, b, 1e-14);
    CHECK_NEAR(l.a, isinf(n) ? 0.02483 * b - 0.059 : 0.0248 * b + 0.01 * p - 0.0873, 1e-14);
    CHECK_NEAR(l.scale, isinf(n) ? 1.1239 + 1.1328 / (b - 3.4) : (2.83 + 5.1 / b) * spread, 1e-14);
    CHECK_NEAR(l.squeeze, isinf(n) ? 0.9277 - 3.6224 / (b - 2) : 0.92 - 4.2 / b, 1e-14);
    CHECK_NEAR(l.centre, isinf(n) ? p + 0.43 : n * p + 0.5, 1e-14);
  }
}

/* Best and Fisher's trials in their own words: r from rho, f = cos z = (1 + r c) / (r + c). */
static void angle_draws(void) {
  static const double sizes[] = {0.2, 1, 3.5, 40};
  for (int i = 0; i < 4; i++)
    for (uint64_t at = 0; at < 3000; at++) {
      double x = sizes[i], tau = 1 + sqrt(1 + 4 * x * x), rho = (tau - sqrt(2 * tau)) / (2 * x),
             r = (1 + rho * rho) / (2 * rho);
      for (uint32_t attempt = 0;; attempt += 2) {
        uint32_t w[4], side[4];
        pni_philox_block(8, at, attempt, PNI_DOMAIN_VON_MISES, w);
        pni_philox_block(8, at, attempt + 1, PNI_DOMAIN_VON_MISES, side);
        double c = cos(3.141592653589793 * unit_of(w)), f = (1 + r * c) / (r + c), y = x * (r - f), v = unit_of(w + 2);
        if (v > y * exp(1 - y)) continue;
        double z = acos(fmax(fmin(f, 1), -1));
        CHECK(fabs(pni_von_mises_draw(8, at, x) - (unit_of(side) > 0.5 ? z : -z)) < 1e-6);
        break;
      }
    }
}

static void refusals(void) {
  pn_context *c = pn_context_new(NULL);
  CHECK(pn_rand(c, NULL, PN_INT64, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "int64");
  CHECK(pn_randint(c, NULL, 5, 5, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "got 5 and 5");
  CHECK(pn_randperm(c, NULL, -1) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "-1");
  CHECK(pn_randn(c, NULL, PN_FLOAT64, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "9");
  CHECK_INT(pn_tensor_numel(pn_randn(c, NULL, PN_FLOAT64, 1, (int64_t[]){0})), 0);
  CHECK_INT(pn_tensor_numel(pn_randperm(c, NULL, 0)), 0);
  pn_context_close(c);
}

int main(void) {
  known_answers();
  continuous();
  discrete();
  huge_parameters();
  edges();
  integers();
  permutations();
  independence();
  saved_state();
  any_threads();
  any_cut();
  transforms();
  fixed_numbers();
  gamma_fills();
  any_level();
  count_draws();
  angle_draws();
  refusals();
  CHECK_DONE();
}
