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

/* ---- what kernels share, of whole numbers, by plain loops ---- */

enum { MOST = 4200 };

typedef struct {
  const int32_t *end;
  int64_t n;
  int astray; /* calls for what is no particle, or not of one block */
} known_ends;

static void tell_ends(const void *data, int64_t begin, int64_t n, int32_t *to) {
  known_ends *k = (known_ends *)(intptr_t)data;
  bool fits =
      begin >= 0 && n > 0 && begin + n <= k->n && begin / PNI_PARTICLE_BLOCK == (begin + n - 1) / PNI_PARTICLE_BLOCK;
  if (!fits) k->astray++;
  for (int64_t i = 0; i < n; i++) to[i] = fits ? k->end[begin + i] : 0;
}

/* Copies by their ends, of which the last one's are too few (-2), as many as asked for or too many (3). */
static void placed(pn_context *c, int64_t n, int64_t dead, int32_t off) {
  static int32_t end[MOST];
  static int64_t out[MOST + GUARD];
  int64_t last = n - 1 - dead, at = 0;
  for (int64_t i = 0; i < n; i++) { /* 0, 1 or 6 copies; none in a stretch longer than a chunk, then many */
    int64_t more = i > 600 && i < 1200 ? 0 : i == 1200 ? 601 : i % 7 == 2 ? 6 : i % 7 == 4;
    at = i >= last || at + more > n ? n : at + more;
    end[i] = (int32_t)at + (i >= last ? off : 0);
  }
  for (int64_t i = 0; i < n + GUARD; i++) out[i] = -7;
  known_ends k = {end, n, 0};
  pni_place_copies(&(pni_resampling){.c = c, .n = n, .count = n, .out = out}, last, tell_ends, &k);
  bool same = true;
  at = 0;
  for (int64_t i = 0; i <= last; i++) {
    int64_t until = i == last ? n : end[i];
    for (; at < until; at++) same = same && out[at] == i;
  }
  for (int64_t i = n; i < n + GUARD; i++) same = same && out[i] == -7;
  if (!same) printf("%lld particles, %lld of no weight, %d\n", (long long)n, (long long)dead, off);
  CHECK(same);
  CHECK_INT(k.astray, 0);
}

/* Positions 1, 2, ... of `count` ones among sums of whole numbers: the first sum above each. */
static void merged(pn_context *c, int64_t n, int64_t count) {
  static double cumulative[MOST], gaps[MOST + 1], sums[4];
  static int64_t out[MOST + GUARD];
  int64_t last = 0;
  for (int64_t i = 0; i < n; i++) {
    cumulative[i] = fmin((i ? cumulative[i - 1] : 0) + (i % 5 == 3) * 4 + (i % 5 == 1), (double)count + 1);
    if (i && cumulative[i] > cumulative[i - 1]) last = i;
  }
  for (int64_t j = 0; j <= count; j++) gaps[j] = 1;
  for (int64_t j = 0; j < count + GUARD; j++) out[j] = -7;
  pni_merge(&(pni_resampling){.c = c, .n = n}, cumulative, last, gaps, sums, (double)count + 1, count, out);
  bool same = true;
  for (int64_t j = 0, i = 0; j < count; j++) {
    while (i < last && !(cumulative[i] > (double)j + 1)) i++;
    same = same && out[j] == i;
  }
  for (int64_t j = count; j < count + GUARD; j++) same = same && out[j] == -7;
  if (!same) printf("%lld positions among %lld\n", (long long)count, (long long)n);
  CHECK(same);
}

/* Weights k / 4 that add up to n but for a factor: whole parts, and what is left. */
static void rounded(int64_t n, double factor) {
  static double w[MOST], rest[MOST];
  static int32_t counts[MOST];
  static int64_t out[MOST + GUARD];
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += w[i] = i == n - 1 ? (double)n - total : (double)(i * 5 % 8) / 4;
  int64_t missing = n;
  for (int64_t i = 0; i < n; i++) missing -= (int64_t)floor(w[i]);
  for (int64_t i = 0; i < n; i++) w[i] *= factor;
  pni_resampling r = {.w = w, .n = n, .out = out};
  CHECK_INT(pni_whole_copies(&r, rest, counts), missing);
  bool same = true;
  for (int64_t i = 0; i < n; i++) {
    double x = round(w[i] / factor * 4) / 4, left = x - floor(x);
    same = same && counts[i] == (int32_t)floor(x) && fabs(rest[i] - left) < 1e-9 && (left > 0 || rest[i] == 0);
  }
  CHECK(same);
  for (int surplus = 0; surplus < 2; surplus++) { /* counts that fall short leave places their own; too many are cut */
    int64_t at = 0;
    for (int64_t i = 0; i < n + GUARD; i++) out[i] = -7;
    if (surplus) counts[n - 1] += (int32_t)missing + 3;
    pni_write_copies(&r, counts);
    for (int64_t i = 0; i < n; i++)
      for (int32_t k = 0; k < counts[i] && at < n; k++) same = same && out[at++] == i;
    CHECK_INT(at, surplus ? n : n - missing);
    for (; at < n; at++) same = same && out[at] == at;
    for (; at < n + GUARD; at++) same = same && out[at] == -7;
  }
  CHECK(same);
}

static void cumulated(pn_context *c, int64_t n, int64_t dead) {
  static double w[MOST], within_blocks[MOST], all[MOST], sums[4];
  double total = 0;
  bool same = true;
  for (int64_t i = 0; i < n; i++) w[i] = i < n - dead ? (double)(1 + i * 7 % 5) : 0;
  pni_resampling r = {.c = c, .w = w, .n = n};
  sums[pni_particle_blocks(n)] = -7;
  double first = pni_cumulate_within(&r, within_blocks, sums);
  for (int64_t i = 0; i < n; i++) same = same && within_blocks[i] + sums[i / PNI_PARTICLE_BLOCK] == (total += w[i]);
  CHECK(first == total && pni_cumulate(&r, all, sums) == total && sums[pni_particle_blocks(n)] == -7);
  total = 0;
  for (int64_t i = 0; i < n; i++) same = same && all[i] == (total += w[i]);
  CHECK(same);
  CHECK_INT(pni_last_alive(&r), n > dead ? n - dead - 1 : 0);
}

/* Of ones, one is a weight or none: at every place of a group of four, of the rest, of a block and the next. */
static void told(pn_context *c, int64_t n) {
  static const double odd[] = {-0.5, NAN, INFINITY, 0, 2};
  static double w[MOST];
  static int64_t out[MOST];
  const pni_resampler *scheme = pni_resampler_find("systematic");
  double *scratch = malloc((size_t)scheme->scratch(n) * sizeof *scratch);
  pni_resampling r = {c, w, n, n, {pni_seed_key(1), 0}, scratch, out};
  bool same = true;
  for (int64_t i = 0; i < n; i++) w[i] = 1;
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < 5 && (i < 6 || i > n - 7); k++) {
      w[i] = odd[k];
      same = same && pni_resampler_run(scheme, &r) == (k == 4 || (k == 3 && n > 1));
      w[i] = 1;
    }
  CHECK(same);
  free(scratch);
}

/* Weights 4 or 1 / 4 times as large, exactly, are the same law. */
static void scaled(pn_context *c, int64_t n) {
  static double w[MOST];
  static int64_t want[MOST], out[MOST];
  for (int s = 0; s < pni_resampler_count(); s++) {
    const pni_resampler *scheme = pni_resampler_at(s);
    double *scratch = malloc((size_t)scheme->scratch(n) * sizeof *scratch);
    bool same = true;
    for (int k = 0; k < 3; k++) {
      pni_resampling r = {c, w, n, n, {pni_seed_key(5), 0}, scratch, k ? out : want};
      for (int64_t i = 0; i < n; i++)
        w[i] = (double)(1 + i * 7 % 5) / (3 * (double)n) * (k == 0 ? 1 : k == 1 ? 4 : 0.25);
      same = same && pni_resampler_run(scheme, &r);
      if (k) same = same && memcmp(out, want, (size_t)n * sizeof *out) == 0;
    }
    if (!same) printf("scheme %s, %lld particles\n", scheme->name, (long long)n);
    CHECK(same);
    free(scratch);
  }
}

/* At the ends of groups of four, of chunks and of blocks, with and without a context to share work. */
static void shared(pn_context *two) {
  static const int64_t sizes[] = {1,   2,   3,    4,    5,    7,    8,    255,  256, 257,
                                  511, 513, 1500, 2047, 2048, 2049, 2305, 4096, 4097};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int s = 0; s < 2; s++) {
      int64_t n = sizes[k];
      for (int64_t dead = 0; dead < n && dead < 4; dead++)
        for (int32_t off = -2; off <= 3; off += off < 0 ? 2 : 3) placed(s ? two : NULL, n, dead, off);
      for (int64_t dead = 0; dead <= n && dead < 4; dead++) cumulated(s ? two : NULL, n, dead);
      merged(s ? two : NULL, n, n);
      merged(s ? two : NULL, n, n / 2 + 1);
      merged(s ? two : NULL, n / 2 + 1, n);
      rounded(n, s ? 1 : 1 / 3.0);
      told(s ? two : NULL, n);
      scaled(s ? two : NULL, n);
    }
  CHECK_INT(pn_resampler_count(), pni_resampler_count());
  CHECK(!pni_resampler_at(-1) && !pni_resampler_at(pni_resampler_count()) && !pni_resampler_find("system"));
  for (int s = 0; s < pni_resampler_count(); s++)
    CHECK(pni_resampler_find(pni_resampler_at(s)->name) == pni_resampler_at(s));
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

/* Two particles, of which the first has the weight 1 - u, u the first position's number, and both the weight 2: the
 * position 1 - u stands where the second begins, and is its own. One ulp more, and it is the first one's. */
static void at_a_border(void) {
  const pni_resampler *scheme = pni_resampler_find("stratified");
  int borders = 0;
  for (uint64_t key = 1; key <= 64; key++) {
    pni_philox at = {pni_seed_key(key), 0};
    double u[2], scratch[8];
    int64_t out[2];
    pni_fill_uniform_f64(at.key, at.position, 0, 2, u);
    double w[2] = {1 - u[0], 1 + u[0]};
    if (w[1] - 1 != u[0]) continue; /* rounded */
    CHECK(scheme->scratch(2) <= 8);
    CHECK(pni_resampler_run(scheme, &(pni_resampling){NULL, w, 2, 2, at, scratch, out}) && out[0] == 1 && out[1] == 1);
    w[0] = nextafter(w[0], 1);
    CHECK(pni_resampler_run(scheme, &(pni_resampling){NULL, w, 2, 2, at, scratch, out}) && out[0] == 0 && out[1] == 1);
    borders++;
  }
  CHECK(borders > 8);
}

/* The part of the weights in soft resampling: above 0, at most 1, and of no other gradient asked for. */
static void alphas(pn_context *c) {
  static const double alpha[] = {0, -0.5, 1.0000000000000002, INFINITY, NAN, 5e-324, 1};
  for (int soft = 0; soft < 2; soft++)
    for (int k = 0; k < 7; k++) {
      pn_smc_config config = {.num_particles = 4, .gradient = soft ? "soft" : "dropped", .alpha = alpha[k]};
      pn_smc *m = pn_smc_new(c, &config, NULL);
      CHECK(!m == (soft && k < 5));
      if (!m) CHECK_FAIL(c, PN_DOMAIN, "smc: alpha must be above 0 and at most 1");
      pn_smc_free(m);
    }
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  static const int64_t sizes[] = {1, 2, 5, 300, 5000};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) kernels(sizes[k]);
  at_a_border();
  pn_context *two = pn_context_new(&(pn_context_config){.threads = 2});
  shared(two);
  pn_context_close(two);
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
  alphas(c);
  pn_context_close(c);
  CHECK_DONE();
}
