/*
** resampling_hostile_test.c: weights that are none (NaN, infinite, negative, all 0, beyond what can be summed) in every
** resampling scheme: kernels stay below n whatever they are given, and who runs them is told. The same packed as
** `weigh` gives them, float64 and float32, one filter and several: a failure that names the role. What machines tell of
** weights that are some, by loops.
*/
#include <math.h>
#include <stdlib.h>
#include "../../src/smc/op/smc_op.h"
#include "../../src/smc/weighed.h"
#include "check.h"

enum { CASES = 14, KEYS = 8, GUARD = 64 };

/* n weights of a case; true: a law, whatever its sum. */
static bool fill(int which, int64_t n, double *w) {
  static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 1e300, -1e300, 5e-324};
  for (int64_t i = 0; i < n; i++) w[i] = 1 / (double)n;
  int64_t middle = n / 2;
  if (which < 7) { /* one of them */
    w[middle] = odd[which];
    return odd[which] > 0 && odd[which] < INFINITY && (n > 1 || odd[which] > 1e-300);
  }
  double all = which < 10 ? odd[which - 7] : which == 10 ? 0 : which == 11 ? 5e-324 : which == 12 ? 1e308 : 1e300;
  for (int64_t i = 0; i < n; i++) w[i] = all;
  if (which == 12) return n < 2;
  return which == 13;
}

static bool within(const int64_t *a, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; i++)
    if (a[i] < 0 || a[i] >= n) return false;
  return true;
}

/* ---- the kernels themselves ---- */

static void kernels(int64_t n) {
  double *w = malloc((size_t)n * sizeof *w);
  int64_t *out = malloc((size_t)(n + GUARD) * sizeof *out);
  for (int s = 0; s < pni_resampler_count(); s++) {
    const pni_resampler *scheme = pni_resampler_at(s);
    double *scratch = malloc((size_t)scheme->scratch(n) * sizeof *scratch);
    bool safe = true, told = true, kept = true;
    for (int which = 0; which < CASES; which++)
      for (uint64_t key = 0; key < KEYS; key++) {
        bool law = fill(which, n, w);
        for (int64_t i = 0; i < n + GUARD; i++) out[i] = i < n ? 0 : -7;
        pni_resampling r = {NULL, w, n, n, {pni_seed_key(key), 0}, scratch, out};
        scheme->run(&r);
        safe = safe && within(out, n, n);
        for (int64_t i = 0; i < n; i++) out[i] = -7;
        bool is = pni_resampler_run(scheme, &r);
        told = told && is == law && within(out, n, n);
        for (int64_t i = n; i < n + GUARD; i++) kept = kept && out[i] == -7;
      }
    if (!safe || !told || !kept) printf("scheme %s, %lld particles\n", scheme->name, (long long)n);
    CHECK(safe);
    CHECK(told);
    CHECK(kept);
    free(scratch);
  }
  free(out);
  free(w);
}

/* ---- packed ---- */

/* [2 N + 3, filters] of equal weights, but for `one` in the last filter. */
static pn_tensor *packed(pn_context *c, pn_dtype dtype, int64_t n, int64_t filters, int which, bool *law) {
  int64_t shape[] = {2 * n + PNI_WEIGHED_ROWS, filters}, all = shape[0] * filters;
  double *x = malloc((size_t)all * sizeof *x), *w = malloc((size_t)n * sizeof *w);
  *law = fill(which, n, w);
  for (int64_t i = 0; i < shape[0]; i++)
    for (int64_t f = 0; f < filters; f++) {
      double v = i < n ? -log((double)n) : i < 2 * n ? 1 / (double)n : 1;
      if (i >= n && i < 2 * n && f == filters - 1) v = w[i - n];
      x[i * filters + f] = v;
    }
  for (int64_t i = n; i < 2 * n && dtype == PN_FLOAT32; i++) { /* what float32 makes of it */
    double v = (double)(float)x[i * filters + filters - 1];
    if (!(v >= 0) || isinf(v)) *law = false;
  }
  pn_tensor *t = pn_cast(c, pn_from_data(c, PN_FLOAT64, filters > 1 ? 2 : 1, shape, x), dtype);
  free(w);
  free(x);
  return t;
}

static void operation(pn_context *c, pn_dtype dtype, int64_t n, int64_t filters) {
  for (int s = 0; s < pni_resampler_count(); s++)
    for (int which = 0; which < CASES; which++) {
      bool law;
      size_t mark = pn_scope_open(c);
      pn_tensor *weighed = packed(c, dtype, n, filters, which, &law);
      pni_resampling_rule rule = {.scheme = pni_resampler_at(s), .threshold = 1};
      pn_tensor *a = pni_resample(c, &rule, NULL, weighed, NULL);
      if (a) {
        CHECK(within(pni_data(a), a->numel, n));
        CHECK(law || (dtype == PN_FLOAT32 && which >= 11));
      } else
        CHECK_FAIL(c, PN_DOMAIN, "resample: weights of each filter must be finite, not negative and not all 0");
      CHECK(law || !a);
      pn_scope_close(c, mark);
    }
}

/* ---- what may be packed weights: each number of one filter of three at its bounds, 1 % beside what it must be ---- */

enum { PACKED = 4, PACKED_ROWS = 2 * PACKED + PNI_WEIGHED_ROWS };

static void bounds(pn_context *c, pn_dtype dtype) {
  static const double weights[PACKED] = {0.1, 0.4, 0.2, 0.3};
  enum { SIZE = 2 * PACKED + PNI_WEIGHED_SIZE, LARGEST = 2 * PACKED + PNI_WEIGHED_LARGEST };
  enum { INCREMENT = 2 * PACKED + PNI_WEIGHED_INCREMENT };
  static const struct {
    int row;
    double value;
    bool fits;
  } rows[] = {{0, -INFINITY, true},
              {3, INFINITY, false},
              {2, NAN, false},
              {PACKED, 0.109, true},
              {PACKED, 0.111, false},
              {PACKED + 1, 0.391, true},
              {PACKED + 1, 0.389, false},
              {PACKED + 3, NAN, false},
              {SIZE, 1 - 1e-2, true},
              {SIZE, 0.989, false},
              {SIZE, PACKED * (1 + 1e-2), true},
              {SIZE, PACKED * 1.011, false},
              {SIZE, NAN, false},
              {LARGEST, 1e-9, true},
              {LARGEST, 0, false},
              {LARGEST, 1 + 1e-2, true},
              {LARGEST, 1.011, false},
              {LARGEST, NAN, false},
              {INCREMENT, -INFINITY, true},
              {INCREMENT, INFINITY, false},
              {INCREMENT, NAN, false}};
  size_t mark = pn_scope_open(c);
  double v[PACKED_ROWS][3];
  for (int f = 0; f < 3; f++)
    for (size_t k = 0; k <= sizeof rows / sizeof *rows; k++) {
      for (int i = 0; i < PACKED_ROWS * 3; i++) v[i / 3][i % 3] = 1;
      for (int i = 0; i < PACKED * 3; i++) {
        v[i / 3][i % 3] = log(weights[i / 3]);
        v[PACKED + i / 3][i % 3] = weights[i / 3];
      }
      if (k) v[rows[k - 1].row][f] = rows[k - 1].value;
      pn_tensor *t = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){PACKED_ROWS, 3}, v), dtype);
      bool fits = k == 0 || rows[k - 1].fits;
      CHECK_INT(pni_is_weighed(c, t), fits);
      CHECK_INT(pni_is_weighed(c, pn_transpose(c, pn_contiguous(c, pn_transpose(c, t, 0, 1)), 0, 1)), fits);
      if (k) continue;
      CHECK(pni_is_weighed(c, pn_select(c, t, 1, f)) && !pni_is_weighed(c, pn_slice(c, t, 1, f, 0, 1)));
      CHECK(!pni_is_weighed(c, pn_slice(c, t, 0, 0, PACKED_ROWS - 1, 1)) &&
            !pni_is_weighed(c, pn_sum(c, t, PN_ALL, 0)));
      CHECK(!pni_is_weighed(c, pn_slice(c, t, 0, 0, PNI_WEIGHED_ROWS, 1)) &&
            !pni_is_weighed(c, pn_cast(c, t, PN_INT64)));
    }
  static const double few[][2] = {{0, 1}, {-1e-9, 1}, {0, 1 - 1e-2}, {0, 1 + 1e-2}}; /* two of them, and zeros */
  for (int k = 0; k < 4; k++) {
    double w[PACKED_ROWS];
    for (int i = 0; i < PACKED_ROWS; i++) w[i] = i < PACKED ? -1 : i < 2 * PACKED ? 0 : 1;
    memcpy(w + PACKED, few[k], sizeof few[k]);
    pn_tensor *t = pn_from_data(c, PN_FLOAT64, 1, (const int64_t[]){PACKED_ROWS}, w);
    CHECK_INT(pni_is_weighed(c, pn_cast(c, t, dtype)), k != 1);
  }
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
}

/* ---- machines ---- */

static void machines(pn_context *c, pn_dtype dtype) {
  for (int s = 0; s < pn_resampler_count(); s++)
    for (int which = 0; which < CASES; which++) {
      bool law;
      pn_smc_config config = {.num_particles = 6, .resampling = pn_resampler_name(s), .threshold = 1, .trace = 1};
      pn_smc *m = pn_smc_new(c, &config, NULL);
      size_t mark = pn_scope_open(c);
      pn_tensor *weighed = packed(c, dtype, 6, 1, which, &law), *a = NULL;
      pn_smc_restore(c, m, weighed); /* what is a law here has a sum far from 1 */
      CHECK_FAIL(c, PN_DOMAIN, "restore: weights must be as a machine gave them");
      CHECK_STATUS(c, pn_smc_resample(c, m, &a), PN_OK);
      CHECK(!a || within(pni_data(a), a->numel, 6));
      pn_scope_close(c, mark);
      pn_smc_free(m);
    }
}

/* ---- ancestors that a host assigns, batches whose product is none ---- */

static void assigned(pn_context *c) {
  static const int64_t wrong[] = {-1, 6, INT64_MIN, INT64_MAX, (int64_t)1 << 32};
  pn_smc_config config = {
      .num_particles = 6, .resampling = "multinomial", .threshold = 1, .trace = 1, .conditional = 1};
  pn_smc *m = pn_smc_new(c, &config, NULL);
  size_t mark = pn_scope_open(c);
  int64_t n = 6;
  CHECK(pn_smc_weigh(c, m, pn_zeros(c, PN_FLOAT64, 1, &n)) != NULL);
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    pn_smc_assign(c, m, pn_from_data(c, PN_INT64, 0, NULL, &wrong[k]));
    CHECK_FAIL(c, PN_DOMAIN, "assign: ancestors must lie in 0 to 5");
  }
  int64_t last = 5;
  pn_tensor *a = NULL;
  CHECK_STATUS(c, pn_smc_assign(c, m, pn_from_data(c, PN_INT64, 0, NULL, &last)), PN_OK);
  CHECK_STATUS(c, pn_smc_resample(c, m, &a), PN_OK);
  CHECK(a && within(pni_data(a), 6, 6));
  pn_scope_close(c, mark);
  pn_smc_free(m);
}

/* The last particle of each filter descends from what was assigned to it, the others as the scheme has it. */
static void assigned_each(pn_context *c) {
  enum { N = 5, FILTERS = 6 };
  static const int64_t shape[] = {N, 2, 3}, last[FILTERS] = {4, 0, 3, 1, 0, 2};
  pn_smc_config config = {.num_particles = N, .nbatch = 2, .batch = {2, 3}, .threshold = 1, .conditional = 1};
  for (int s = 0; s < pn_resampler_count(); s++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *a = NULL;
    config.resampling = pn_resampler_name(s);
    pn_smc *m = pn_smc_new(c, &config, NULL);
    if (m) { /* the others have no conditional form */
      CHECK(pn_smc_weigh(c, m, pn_zeros(c, PN_FLOAT64, 3, shape)) != NULL);
      CHECK_STATUS(c, pn_smc_assign(c, m, pn_from_data(c, PN_INT64, 2, shape + 1, last)), PN_OK);
      CHECK_STATUS(c, pn_smc_resample(c, m, &a), PN_OK);
      CHECK(a && within(pni_data(a), N * FILTERS, N) && pn_tensor_ndim(a) == 3 &&
            memcmp(pn_tensor_shape(a), shape, sizeof shape) == 0);
      const int64_t *v = a ? pni_data(a) : NULL;
      for (int f = 0; v && f < FILTERS; f++) CHECK_INT(v[(N - 1) * FILTERS + f], last[f]);
    }
    pn_context_clear_error(c);
    pn_smc_free(m);
    pn_scope_close(c, mark);
  }
}

static void batches(pn_context *c) {
  static const int64_t sizes[][2] = {{(int64_t)1 << 40, (int64_t)1 << 40},
                                     {(int64_t)1 << 32, (int64_t)1 << 32},
                                     {INT64_MAX, INT64_MAX},
                                     {INT64_MAX, 1}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int trace = 0; trace < 2; trace++) {
      pn_smc_config config = {.num_particles = 4, .nbatch = 2, .batch = {sizes[k][0], sizes[k][1]}, .trace = trace};
      config.history = 1;
      CHECK(pn_smc_new(c, &config, NULL) == NULL);
      CHECK_FAIL(c, PN_DOMAIN, "smc: particles of all filters must be at most 2^40");
    }
}

/* ---- what a machine tells, at each stage of a step, of filters of which some are due ---- */

enum { KNOWN_N = 5, KNOWN_FILTERS = 6 };

static double at(const pn_tensor *t, int64_t i) {
  if (!t) return NAN;
  return pn_tensor_dtype(t) == PN_FLOAT32 ? (double)((const float *)pni_data(t))[i] : ((const double *)pni_data(t))[i];
}

/* Weights by loops over log_weights; *due: bit f where filter f would be due at half. */
static void identities(pn_context *c, pn_smc *m, const double *evidence, double near, unsigned *due) {
  static const char *const names[] = {"log_weights", "weights", "effective_sample_size", "largest_weight",
                                      "log_evidence"};
  pn_tensor *t[5];
  for (int k = 0; k < 5; k++) {
    t[k] = pn_contiguous(c, pn_smc_get(c, m, names[k]));
    CHECK(t[k] && pn_tensor_ndim(t[k]) == (k < 2 ? 3 : 2) && pn_tensor_numel(t[k]) == KNOWN_FILTERS * (k < 2 ? 5 : 1));
  }
  *due = 0;
  for (int f = 0; f < KNOWN_FILTERS; f++) {
    double sum = 0, square = 0, most = 0;
    for (int i = 0; i < KNOWN_N; i++) {
      double w = exp(at(t[0], i * KNOWN_FILTERS + f));
      CHECK_NEAR(at(t[1], i * KNOWN_FILTERS + f), w, near);
      sum += w, square += w * w, most = fmax(most, w);
    }
    CHECK_NEAR(sum, 1, near);
    CHECK_NEAR(at(t[2], f), 1 / square, near);
    CHECK_NEAR(at(t[3], f), most, near);
    CHECK_NEAR(at(t[4], f), evidence[f], near * 10);
    if (1 / square <= 0.5 * KNOWN_N) *due |= 1u << f;
  }
}

static void tells(pn_context *c, pn_dtype dtype, const char *gradient, double threshold) {
  static const int64_t shape[] = {KNOWN_N, 2, 3};
  const double near = dtype == PN_FLOAT64 ? 1e-13 : 4e-6;
  const bool soft = strcmp(gradient, "soft") == 0;
  pn_smc_config config = {.num_particles = KNOWN_N,
                          .nbatch = 2,
                          .batch = {2, 3},
                          .threshold = threshold,
                          .gradient = gradient,
                          .alpha = 0.7};
  pn_smc *m = pn_smc_new(c, &config, NULL);
  double evidence[KNOWN_FILTERS] = {0}, x[KNOWN_N * KNOWN_FILTERS], w[KNOWN_N * KNOWN_FILTERS];
  for (int step = 0; step < 3; step++) {
    size_t mark = pn_scope_open(c);
    unsigned due, after;
    pn_tensor *a = NULL;
    identities(c, m, evidence, near, &due);
    pn_tensor *before = pn_contiguous(c, pn_smc_get(c, m, "log_weights"));
    CHECK_STATUS(c, pn_smc_resample(c, m, &a), PN_OK);
    CHECK((a != NULL) == (step > 0 && (threshold == 1 || due)));
    identities(c, m, evidence, near, &after);
    pn_tensor *now = pn_contiguous(c, pn_smc_get(c, m, "log_weights"));
    for (int i = 0; i < KNOWN_N * KNOWN_FILTERS; i++) {
      bool chosen = a && (threshold == 1 || due >> i % KNOWN_FILTERS & 1u);
      w[i] = at(before, i);
      if (chosen) { /* w / q of the ancestor, that it was chosen by */
        int64_t from = ((const int64_t *)pni_data(a))[i] * KNOWN_FILTERS + i % KNOWN_FILTERS;
        double own = exp(at(before, from)), q = soft ? 0.7 * own + 0.3 / KNOWN_N : own;
        w[i] = log(own / q / KNOWN_N);
      }
      if (!soft) CHECK(fabs(w[i] - at(now, i)) < near);
    }
    for (int i = 0; i < KNOWN_N * KNOWN_FILTERS; i++) /* the later the filter, the more unequal */
      x[i] = (float)(sin(5.0 * i + step) * (i % KNOWN_FILTERS + 0.2) * 0.7 - 1);
    for (int f = 0; f < KNOWN_FILTERS; f++) {
      double sum = 0;
      for (int i = 0; i < KNOWN_N; i++) sum += exp(w[i * KNOWN_FILTERS + f] + x[i * KNOWN_FILTERS + f]);
      evidence[f] += log(sum);
    }
    pn_tensor *values = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, shape, x), dtype);
    CHECK(step == 1 ? pn_smc_tilt(c, m, values) != NULL : pn_smc_weigh(c, m, values) != NULL);
    CHECK_INT(pn_smc_steps(m), step == 2 ? 2 : 1);
    pn_scope_close(c, mark);
  }
  pn_smc_free(m);
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  static const int64_t sizes[] = {1, 2, 5, 300, 5000};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) kernels(sizes[k]);
  for (int d = 0; d < 2; d++) {
    operation(c, d ? PN_FLOAT32 : PN_FLOAT64, 6, 1);
    operation(c, d ? PN_FLOAT32 : PN_FLOAT64, 3000, 1);
    operation(c, d ? PN_FLOAT32 : PN_FLOAT64, 6, 3);
    bounds(c, d ? PN_FLOAT32 : PN_FLOAT64);
    machines(c, d ? PN_FLOAT32 : PN_FLOAT64);
  }
  for (int k = 0; k < 6; k++) {
    pn_dtype dtype = k % 2 ? PN_FLOAT32 : PN_FLOAT64;
    tells(c, dtype, k < 2 ? "dropped" : k < 4 ? "stop_gradient" : "soft", 0.5);
    tells(c, dtype, k < 2 ? "dropped" : k < 4 ? "score_function" : "soft", 1);
  }
  assigned(c);
  assigned_each(c);
  batches(c);
  pn_context_close(c);
  CHECK_DONE();
}
