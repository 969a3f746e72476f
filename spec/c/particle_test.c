/*
** particle_test.c: what a machine keeps of its particles, by plain loops over whole histories: the trace with the
** variance of the log-evidence, ancestors in order or not, over blocks, filters of which some are due; the ancestry,
** pruned, against all that was given; the choice of states with its adjoint, read in place or copied; weights with
** their gradients, whatever they were before; and ancestors, each filter's by numbers of its own.
*/
#include <math.h>
#include "../../src/smc/ancestry.h"
#include "../../src/smc/op/smc_op.h"
#include "../../src/smc/trace.h"
#include "poisoned.h"

typedef pn_tensor T;
typedef pn_context C;

/* ---- numbers ---- */

static uint64_t state;

static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)n);
}

/* [n, filters]: in ascending order, or in none; own places where a filter is not due. */
static void choose(int64_t *a, int64_t n, int64_t filters, bool ascending, const uint8_t *due) {
  for (int64_t f = 0; f < filters; f++) {
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
      at = ascending ? (at + below(3) < n ? at + below(3) % (n - at) : n - 1) : below(n);
      a[i * filters + f] = due && !due[f] ? i : at;
    }
  }
}

/* ---- the trace ---- */

enum { MOST = 2 * PNI_PARTICLE_BLOCK + 5, FILTERS = 3 };

typedef struct {
  double row[PNI_TRACE_ROWS][FILTERS];
} step_row;

static int64_t eve[MOST * FILTERS], spare[MOST * FILTERS], chosen[MOST * FILTERS], rounds[FILTERS];
static double packed[(2 * MOST + PNI_WEIGHED_ROWS) * FILTERS], sums[MOST];

static double variance_of(int64_t n, int64_t filters, int64_t f) {
  double together = 0;
  for (int64_t i = 0; i < n; i++) sums[i] = 0;
  for (int64_t i = 0; i < n; i++) sums[eve[i * filters + f]] += packed[(n + i) * filters + f];
  for (int64_t i = 0; i < n; i++) together += sums[i] * sums[i];
  return 1 - pow((double)n / (double)(n - 1), (double)(rounds[f] + 1)) * (1 - together);
}

/* What weigh gives: only weights and the three rows behind them are read. */
static T *weights(C *c, pn_dtype dtype, int64_t n, int64_t filters) {
  for (int64_t f = 0; f < filters; f++) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) total += packed[(n + i) * filters + f] = (double)(1 + below(9));
    for (int64_t i = 0; i < n; i++) packed[(n + i) * filters + f] = (float)(packed[(n + i) * filters + f] / total);
    for (int k = 0; k < PNI_WEIGHED_ROWS; k++) packed[(2 * n + k) * filters + f] = (double)(1 + below(64)) / 8;
  }
  return pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){2 * n + PNI_WEIGHED_ROWS, filters}, packed),
                 dtype);
}

static void trace(C *c, pn_dtype dtype, int64_t n, int64_t filters, int steps, bool ascending) {
  pni_trace *t = pni_trace_new(c, n, filters);
  CHECK(t != NULL);
  bool same = true;
  for (int turn = 0; turn < 2; turn++) { /* the second time after it was reset */
    if (turn) pni_trace_reset(t);
    for (int64_t i = 0; i < n * filters; i++) eve[i] = i / filters;
    for (int64_t f = 0; f < filters; f++) rounds[f] = 0;
    for (int s = 0; s < steps; s++) {
      size_t mark = pn_scope_open(c);
      step_row want = {{{0}}};
      uint8_t due[FILTERS];
      for (int64_t f = 0; f < filters; f++) {
        due[f] = s > 0 && (s + f) % 3 != 0;
        want.row[PNI_TRACE_UNIQUE][f] = (double)n;
        want.row[PNI_TRACE_RESAMPLED][f] = due[f];
        rounds[f] += due[f];
      }
      if (s > 0) {
        choose(chosen, n, filters, ascending, due);
        T *a = pn_from_data(c, PN_INT64, 2, (const int64_t[]){n, filters}, chosen);
        for (int64_t f = 0; f < filters; f++) {
          int64_t unique = 0;
          for (int64_t i = 0; i < n; i++) sums[i] = 0;
          for (int64_t i = 0; i < n; i++) unique += sums[chosen[i * filters + f]]++ == 0;
          want.row[PNI_TRACE_UNIQUE][f] = (double)unique;
          for (int64_t i = 0; i < n; i++) spare[i * filters + f] = eve[chosen[i * filters + f] * filters + f];
        }
        memcpy(eve, spare, sizeof eve);
        if (s % 2) a = pn_transpose(c, pn_contiguous(c, pn_transpose(c, a, 0, 1)), 0, 1);
        CHECK_STATUS(c, pni_trace_resampled(c, t, a, due), PN_OK);
        chosen[(n - 1) * filters + s % filters] = s % 2 ? n : -1;
        CHECK_STATUS(
            c, pni_trace_resampled(c, t, pn_from_data(c, PN_INT64, 2, (const int64_t[]){n, filters}, chosen), due),
            PN_DOMAIN);
        CHECK_FAIL(c, PN_DOMAIN, "trace: ancestors must lie in 0 to ");
      }
      for (int k = 0; k < 1 + s % 2; k++) { /* weights that do not end the step: their increment counts */
        T *w = weights(c, dtype, n, filters);
        bool ends = k == s % 2;
        if (ends) CHECK_STATUS(c, pni_trace_reserve(c, t), PN_OK);
        pni_trace_weighed(c, t, w, ends);
        for (int64_t f = 0; f < filters; f++) {
          want.row[PNI_TRACE_INCREMENT][f] += packed[(2 * n + PNI_WEIGHED_INCREMENT) * filters + f];
          want.row[PNI_TRACE_SIZE][f] = packed[(2 * n + PNI_WEIGHED_SIZE) * filters + f];
          want.row[PNI_TRACE_LARGEST][f] = packed[(2 * n + PNI_WEIGHED_LARGEST) * filters + f];
          if (ends) want.row[PNI_TRACE_VARIANCE][f] = variance_of(n, filters, f);
        }
      }
      CHECK_INT(t->length, s + 1);
      for (int k = 0; k < PNI_TRACE_ROWS; k++)
        for (int64_t f = 0; f < filters; f++) {
          double got = t->rows[(s * PNI_TRACE_ROWS + k) * filters + f], near = k == PNI_TRACE_VARIANCE ? 1e-10 : 0;
          if (fabs(got - want.row[k][f]) > near * (1 + fabs(want.row[k][f])) || isnan(got)) {
            printf("%lld particles, step %d, row %d: %g for %g\n", (long long)n, s, k, got, want.row[k][f]);
            same = false;
          }
        }
      pn_scope_close(c, mark);
    }
  }
  CHECK(same);
  pni_trace_free(c, t);
  pni_trace_free(c, NULL);
}

/* ---- the ancestry ---- */

enum { LEAVES = 5, STEPS = 24, EVENT = 2 };

/* Paths of all against what was given, and of `which` of them. */
static void paths(C *c, const pni_ancestry *a, int64_t filters, int steps, const double *given, const int64_t *from) {
  size_t mark = pn_scope_open(c);
  const int64_t leaves = LEAVES * filters;
  int64_t node[LEAVES * FILTERS], which[FILTERS], kept = 0;
  static bool alive[STEPS][LEAVES * FILTERS];
  T *all[2], *some[2];
  for (int64_t f = 0; f < filters; f++) which[f] = (f * 3 + steps) % LEAVES;
  T *w = pn_from_data(c, PN_INT64, 1, &filters, which);
  if (steps % 2) w = pn_flip(c, pn_contiguous(c, pn_flip(c, w, 0)), 0);
  for (int k = 0; k < 2; k++) all[k] = pni_ancestry_paths(c, a, k, NULL), some[k] = pni_ancestry_paths(c, a, k, w);
  CHECK(all[0] && all[1] && some[0] && some[1]);
  CHECK(all[0] && pn_tensor_ndim(all[0]) == 4 && pn_tensor_shape(all[0])[0] == steps &&
        pn_tensor_shape(all[0])[3] == 2);
  CHECK(some[1] && pn_tensor_ndim(some[1]) == 2 && pn_tensor_shape(some[1])[1] == filters);
  const double *x = pni_data(all[0]), *y = pni_data(some[0]);
  const float *u = pni_data(all[1]), *v = pni_data(some[1]);
  bool same = true;
  memset(alive, 0, sizeof alive);
  for (int64_t i = 0; i < leaves; i++) node[i] = i;
  for (int t = steps - 1; t >= 0; t--)
    for (int64_t i = 0; i < leaves; i++) {
      const double *at = given + (t * leaves + node[i]) * EVENT;
      for (int e = 0; e < EVENT; e++) same = same && x[(t * leaves + i) * EVENT + e] == at[e];
      same = same && u[t * leaves + i] == (float)at[0];
      int64_t f = i % filters;
      if (i / filters == which[f]) {
        for (int e = 0; e < EVENT; e++) same = same && y[(t * filters + f) * EVENT + e] == at[e];
        same = same && v[t * filters + f] == (float)at[0];
      }
      kept += !alive[t][node[i]];
      alive[t][node[i]] = true;
      node[i] = from[t * leaves + node[i]] * filters + node[i] % filters;
    }
  CHECK(same);
  CHECK_INT(pni_ancestry_nodes(a), kept);
  CHECK_INT(pni_ancestry_length(a), steps);
  pn_scope_close(c, mark);
}

static void refuse(C *c, pni_ancestry *a, int64_t filters, T *x, T *y) {
  T *many[65];
  for (int k = 0; k < 65; k++) many[k] = x;
  pni_ancestry_add(c, a, NULL, 65, many);
  CHECK_FAIL(c, PN_LIMIT, "keep: a state may have at most 64 parts, got 65");
  pni_ancestry_add(c, a, NULL, 1, many);
  CHECK_FAIL(c, PN_SHAPE, "keep: state must have the parts that it had first, 2, got 1");
  T *wrong[] = {pn_cast(c, y, PN_FLOAT64), pn_slice(c, y, 0, 0, LEAVES - 1, 1),
                pn_unsqueeze(c, y, -1),    pn_concatenate(c, 2, (T *[]){y, y}, 1),
                pn_sum(c, y, PN_ALL, 0),   pn_slice(c, y, 1, 0, 0, 1)};
  for (int k = 0; k < 6; k++) {
    pni_ancestry_add(c, a, NULL, 2, (T *[]){x, wrong[k]});
    CHECK_FAIL(c, PN_SHAPE, "keep: state must be [5, B..., event...] as it was first, [5,");
  }
  int64_t place[LEAVES * FILTERS] = {0}, shape[] = {LEAVES, filters};
  for (int k = 0; k < 2; k++) {
    place[LEAVES * filters - 1] = k ? LEAVES : -1;
    pni_ancestry_add(c, a, pn_from_data(c, PN_INT64, 2, shape, place), 2, (T *[]){x, y});
    CHECK_FAIL(c, PN_DOMAIN, k ? "keep: ancestors must lie in 0 to 4, got 5" : "in 0 to 4, got -1");
  }
  pni_ancestry_add(c, a, pn_zeros(c, PN_INT64, 1, (const int64_t[]){7}), 2, (T *[]){x, y});
  CHECK_FAIL(c, PN_SHAPE, filters > 1 ? "keep: ancestors must be int64, 15 of them, got 7 int64" : "int64, 5 of them");
  CHECK(!pni_ancestry_paths(c, a, 2, NULL));
  CHECK_FAIL(c, PN_DOMAIN, "paths: part must be from 1 to 2, got 3");
  CHECK(!pni_ancestry_paths(c, a, 0, pn_full(c, PN_INT64, 1, &filters, LEAVES)));
  CHECK_FAIL(c, PN_DOMAIN, "paths: particles must lie in 0 to 4, got 5");
}

static void ancestry(C *c, int64_t filters, int most) {
  static double given[STEPS * LEAVES * FILTERS * EVENT];
  static int64_t from[STEPS * LEAVES * FILTERS];
  const int64_t leaves = LEAVES * filters, shape[] = {LEAVES, filters, EVENT};
  pni_ancestry *a = pni_ancestry_new(c, LEAVES, filters);
  size_t empty = pni_ancestry_bytes(a), row = 2 * sizeof(int64_t) + sizeof(int32_t) + EVENT * 8 + 4;
  for (int t = 0; t < most; t++) {
    size_t mark = pn_scope_open(c);
    double *now = given + t * leaves * EVENT;
    int64_t *own = from + t * leaves;
    for (int64_t i = 0; i < leaves * EVENT; i++) now[i] = (double)(below(1000) + 1000 * t);
    choose(own, LEAVES, filters, t % 3 == 1, NULL);
    if (t % 4 == 3)
      for (int64_t i = 0; i < leaves; i++) own[i] = i / filters;
    T *x = pn_from_data(c, PN_FLOAT64, 3, shape, now), *places = pn_from_data(c, PN_INT64, 2, shape, own);
    T *y = pn_cast(c, pn_select(c, x, -1, 0), PN_FLOAT32);
    if (t % 2) x = pn_transpose(c, pn_contiguous(c, pn_transpose(c, x, 0, 2)), 0, 2);
    if (t == 0) {
      T *bare[] = {pn_scalar(c, PN_FLOAT64, 1), pn_slice(c, x, 0, 0, LEAVES - 1, 1), pn_slice(c, x, 2, 0, 0, 1)};
      for (int k = 0; k < 3; k++) {
        pni_ancestry_add(c, a, NULL, 1, &bare[k]);
        CHECK_FAIL(c, PN_SHAPE, "keep: state must be [5, B..., event...]");
      }
      CHECK_INT(pni_ancestry_length(a), 0);
    }
    CHECK_STATUS(c, pni_ancestry_add(c, a, t % 4 == 3 || t == 0 ? NULL : places, 2, (T *[]){x, y}), PN_OK);
    refuse(c, a, filters, x, y);
    paths(c, a, filters, t + 1, given, from);
    size_t rooms = (pni_ancestry_bytes(a) - empty) / row;
    CHECK((pni_ancestry_bytes(a) - empty) % row == 0 && (int64_t)rooms >= pni_ancestry_nodes(a));
    CHECK(rooms <= 2 * (size_t)(most * leaves));
    pn_scope_close(c, mark);
  }
  pni_ancestry_free(c, a);
  pni_ancestry_free(c, NULL);
}

/* ---- the choice of states ---- */

/* x [n, filters, inner] as it stands, within more numbers, or in another order of axes. */
static T *laid(C *c, T *x, int layout) {
  if (layout == 1)
    return pn_slice(c, pn_concatenate(c, 3, (T *[]){x, x, x}, 2), 2, pn_tensor_shape(x)[2], pn_tensor_shape(x)[2], 1);
  if (layout == 2) return pn_transpose(c, pn_contiguous(c, pn_transpose(c, x, 0, 2)), 0, 2);
  if (layout == 3) return pn_slice(c, pn_concatenate(c, 2, (T *[]){x, x}, 1), 1, 0, pn_tensor_shape(x)[1], 1);
  if (layout == 4) return pn_flip(c, pn_contiguous(c, pn_flip(c, x, 0)), 0);
  return x;
}

static double element(const T *t, int64_t i) {
  return pn_tensor_dtype(t) == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

static void choice(C *c, pn_dtype dtype, int64_t n, int64_t m, int64_t filters, int64_t inner, int layout) {
  size_t mark = pn_scope_open(c);
  const int64_t shape[] = {n, filters, inner}, rows[] = {m, filters}, out[] = {m, filters, inner};
  double *v = malloc((size_t)(n * filters * inner) * sizeof *v),
         *sum = calloc((size_t)(n * filters * inner), sizeof *sum);
  int64_t *a = malloc((size_t)(m * filters) * sizeof *a);
  for (int64_t i = 0; i < n * filters * inner; i++) v[i] = (double)(i % 4093);
  for (int64_t i = 0; i < m * filters; i++) a[i] = below(n);
  T *plain = pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, shape, v), dtype));
  T *places = pn_from_data(c, PN_INT64, 2, rows, a), *g = NULL, *x = laid(c, plain, layout);
  if (layout == 2) places = pn_transpose(c, pn_contiguous(c, pn_transpose(c, places, 0, 1)), 0, 1);
  T *y = pni_select_particles(c, x, places);
  bool same = y && pn_tensor_ndim(y) == 3 && memcmp(pn_tensor_shape(y), out, sizeof out) == 0;
  for (int64_t i = 0; same && i < m * filters * inner; i++) {
    int64_t k = i / inner, from = (a[k] * filters + k % filters) * inner + i % inner;
    same = element(y, i) == v[from];
    sum[from] += (double)(i % 7 - 2);
  }
  double *slope = malloc((size_t)(m * filters * inner) * sizeof *slope);
  for (int64_t i = 0; i < m * filters * inner; i++) slope[i] = (double)(i % 7 - 2);
  T *weight = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, out, slope), dtype);
  T *by = pn_param(c, weight);
  if (pn_grad(c, pn_sum(c, pn_mul(c, y, by), PN_ALL, 0), 1, &plain, 1, &g) == PN_OK)
    for (int64_t i = 0; same && i < n * filters * inner; i++) same = element(g, i) == sum[i];
  T *square = pn_mul(c, g, plain), *second = NULL; /* sum g x: its slope in the weights is what was chosen */
  if (pn_grad(c, pn_sum(c, square, PN_ALL, 0), 1, &by, 0, &second) == PN_OK)
    for (int64_t i = 0; same && i < m * filters * inner; i++) same = element(second, i) == element(y, i);
  if (!same || pn_context_status(c))
    printf("n %lld, m %lld, filters %lld, inner %lld, layout %d: %s\n", (long long)n, (long long)m, (long long)filters,
           (long long)inner, layout, pn_context_message(c));
  CHECK(same && g && second);
  pn_context_clear_error(c);
  for (int k = 0; k < 4; k++) { /* the first and the last place, too low and too high */
    int64_t at = k % 2 ? m * filters - 1 : 0, was = a[at];
    char text[80];
    a[at] = k < 2 ? -1 : n;
    snprintf(text, sizeof text, "select: ancestors must lie in 0 to %lld, got %lld", (long long)n - 1,
             (long long)a[at]);
    CHECK(!pni_select_particles(c, x, pn_from_data(c, PN_INT64, 2, rows, a)));
    CHECK_FAIL(c, PN_DOMAIN, text);
    a[at] = was;
  }
  free(slope);
  free(sum);
  free(v);
  free(a);
  pn_scope_close(c, mark);
}

static void choices(C *c) {
  static const int64_t few[] = {1, 3, 511, 512, 513, 1025};
  for (int d = 0; d < 2; d++)
    for (int layout = 0; layout < 5; layout++) {
      for (int k = 0; k < 6; k++)
        for (int64_t inner = 1; inner < 4; inner++)
          choice(c, d ? PN_FLOAT32 : PN_FLOAT64, 7, few[k], 1 + k % 3, inner, layout);
      choice(c, d ? PN_FLOAT32 : PN_FLOAT64, 301, 20000, 1, 1, layout); /* shared out */
      choice(c, d ? PN_FLOAT32 : PN_FLOAT64, 101, 12000, 3, 2, layout);
    }
  size_t mark = pn_scope_open(c);
  T *x = pn_zeros(c, PN_FLOAT64, 3, (const int64_t[]){4, 2, 3}), *a = pn_zeros(c, PN_INT64, 2, (const int64_t[]){5, 2});
  CHECK(!pni_select_particles(c, x, pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){5, 2})));
  CHECK_FAIL(c, PN_DTYPE, "select: ancestors must be int64, got float64");
  T *wrong[] = {pn_zeros(c, PN_INT64, 2, (const int64_t[]){5, 3}), pn_zeros(c, PN_INT64, 0, NULL),
                pn_zeros(c, PN_INT64, 4, (const int64_t[]){5, 2, 3, 1})};
  for (int k = 0; k < 3; k++) {
    CHECK(!pni_select_particles(c, x, wrong[k]));
    CHECK_FAIL(c, PN_SHAPE, "select: state must be [N, B..., event...] for ancestors [");
  }
  T *adjoint[] = {pn_zeros(c, PN_INT64, 3, (const int64_t[]){5, 2, 3}), x,
                  pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){5, 3})};
  for (int k = 0; k < 3; k++) {
    CHECK(!pni_apply2(c, &pni_smc_op_select_particles_add, adjoint[k], a, &(pni_attr){.ni = 1, .i = {4}}));
    CHECK_FAIL(c, k ? PN_SHAPE : PN_DTYPE,
               k == 0   ? "select: g must be float64 or float32, got int64"
               : k == 1 ? "select: g must have 5 particles, got 4"
                        : "select: state must be [N, B..., event...]");
  }
  T *g = pn_full(c, PN_FLOAT64, 3, (const int64_t[]){5, 2, 3}, 1);
  T *outside = pn_full(c, PN_INT64, 2, (const int64_t[]){5, 2}, 4);
  CHECK(!pni_apply2(c, &pni_smc_op_select_particles_add, g, outside, &(pni_attr){.ni = 1, .i = {4}}));
  CHECK_FAIL(c, PN_DOMAIN, "select: ancestors must lie in 0 to 3, got 4");
  pn_scope_close(c, mark);
}

/* ---- weights ---- */

enum { WEIGHED_MOST = 4097 };
static double increments[WEIGHED_MOST * FILTERS], old[(2 * WEIGHED_MOST + PNI_WEIGHED_ROWS) * FILTERS];
static double slopes[(2 * WEIGHED_MOST + PNI_WEIGHED_ROWS) * FILTERS];
static const double AT_HALF = 0.5;

/* The kinds of what was before; REST: packed, of filters that were resampled where they were due. */
enum { EQUAL, PACKED, REST, ALL_REST, CARRIED, BEFORES };

/* Filter f of REST: at the threshold, just above it, below it. */
static double size_before(int64_t n, int64_t f) {
  double at = (float)(AT_HALF * (double)n);
  return f == 0 ? at : f == 1 ? at * (1 + 1e-6) : at / 2;
}

/* What filter f's weights are before its increments, or NULL: all 1 / n. */
static const double *begins(int kind, int64_t f) {
  if (kind == EQUAL || kind == ALL_REST || (kind == REST && f != 1)) return NULL;
  return old + f;
}

/* The weighted sum of what weigh gives for filter f; rows to `out` unless NULL. */
static long double weighed_sum(int kind, int64_t n, int64_t filters, int64_t f, double *out) {
  long double sum = 0, square = 0, total = 0, most = -INFINITY;
  const double *w = begins(kind, f);
  for (int turn = 0; turn < 2; turn++)
    for (int64_t i = 0; i < n; i++) {
      long double v = (w ? w[i * filters] : -logl((long double)n)) + increments[i * filters + f];
      if (turn == 0) {
        most = v > most ? v : most;
        continue;
      }
      sum += expl(v - most), square += expl(2 * (v - most));
    }
  long double e = most + logl(sum);
  for (int64_t i = 0; i < n; i++) {
    long double v = (w ? w[i * filters] : -logl((long double)n)) + increments[i * filters + f] - e;
    if (v > -INFINITY) total += v * slopes[i * filters + f];
    total += expl(v) * slopes[(n + i) * filters + f];
    if (out) out[i * filters + f] = (double)v, out[(n + i) * filters + f] = (double)expl(v);
  }
  double rest[] = {[PNI_WEIGHED_INCREMENT] = (double)e,
                   [PNI_WEIGHED_SIZE] = (double)(sum * sum / square),
                   [PNI_WEIGHED_LARGEST] = (double)(1 / sum)};
  for (int k = 0; out && k < PNI_WEIGHED_ROWS; k++) out[(2 * n + k) * filters + f] = rest[k];
  return total + e * slopes[2 * n * filters + f];
}

static bool slope_fits(int kind, int64_t n, int64_t filters, int64_t i, double *x, const T *g, double slack) {
  double was = x[i], high = was + 1e-5, low = was - 1e-5, want = 0;
  if (was > -INFINITY) {
    x[i] = high;
    long double up = weighed_sum(kind, n, filters, i % filters, NULL);
    x[i] = low;
    want = (double)((up - weighed_sum(kind, n, filters, i % filters, NULL)) / ((long double)high - (long double)low));
    x[i] = was;
  }
  double got = element(g, i);
  if (fabs(got - want) > slack * (1 + fabs(want)) || isnan(got))
    return printf("n %lld of %lld, kind %d, %lld: %g for %g\n", (long long)n, (long long)filters, kind, (long long)i,
                  got, want) < 0;
  return true;
}

static void weigh(C *c, pn_dtype dtype, int64_t n, int64_t filters, int kind) {
  size_t mark = pn_scope_open(c);
  static double want[(2 * WEIGHED_MOST + PNI_WEIGHED_ROWS) * FILTERS];
  const int64_t rows = 2 * n + PNI_WEIGHED_ROWS, before_rows = kind == CARRIED ? n : rows;
  const int axes = kind == REST ? 3 : 2;
  const int64_t wide[] = {n, 1, filters}, wide_packed[] = {rows, 1, filters}, wide_before[] = {before_rows, 1, filters};
  const int64_t narrow[] = {n, filters}, narrow_packed[] = {rows, filters}, narrow_before[] = {before_rows, filters};
  const int64_t *shape = axes > 2 ? wide : narrow, *packed_shape = axes > 2 ? wide_packed : narrow_packed;
  const int64_t *before_shape = axes > 2 ? wide_before : narrow_before;
  double exact = dtype == PN_FLOAT64 ? 1e-12 : 4e-6, slack = dtype == PN_FLOAT64 ? 1e-8 : 2e-4;
  for (int64_t i = 0; i < n * filters; i++) {
    increments[i] =
        n > 1 && i % 5 == 3 && i >= filters ? -INFINITY : (double)below(4000) / 512 - 40 * (double)(i % filters);
    old[i] = n > 1 && i % 7 == 2 && i >= filters ? -INFINITY : -(double)below(4000) / 1024;
  }
  for (int64_t i = n * filters; i < rows * filters; i++) old[i] = 7;
  for (int64_t f = 0; f < filters; f++) old[(2 * n + PNI_WEIGHED_SIZE) * filters + f] = size_before(n, f);
  for (int64_t i = 0; i < rows * filters; i++) slopes[i] = i < (2 * n + 1) * filters ? (double)below(64) / 32 - 0.7 : 0;
  for (int64_t f = 0; f < filters; f++) weighed_sum(kind, n, filters, f, want);
  for (int64_t i = 0; i < n * filters; i++)
    if (want[i] == -INFINITY) slopes[i] = 0;
  T *x = pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, axes, shape, increments), dtype)), *g[2] = {0};
  T *before =
      kind == EQUAL ? NULL : pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, axes, before_shape, old), dtype));
  T *given = kind % 2 ? pn_transpose(c, pn_contiguous(c, pn_transpose(c, x, 0, 1)), 0, 1) : x;
  pni_weighing how = {.before = kind == CARRIED ? PNI_BEFORE_CARRIED : PNI_BEFORE_WEIGHED,
                      .resampled = kind == REST || kind == ALL_REST,
                      .threshold = kind == ALL_REST ? 1 : AT_HALF};
  T *y = pni_weigh(c, given, before, &how);
  bool same = y && pn_tensor_ndim(y) == axes && memcmp(pn_tensor_shape(y), packed_shape, (size_t)axes * 8) == 0;
  for (int64_t i = 0; same && i < rows * filters; i++) {
    double got = element(y, i), most = exact * (1 + fabs(want[i]));
    if (i >= (2 * n + PNI_WEIGHED_SIZE) * filters) most *= 10;
    if (got == want[i] || fabs(got - want[i]) <= most) continue;
    printf("n %lld of %lld, kind %d, %lld: %g for %g\n", (long long)n, (long long)filters, kind, (long long)i, got,
           want[i]);
    same = false;
  }
  CHECK(same);
  T *by = pn_cast(c, pn_from_data(c, PN_FLOAT64, axes, packed_shape, slopes), dtype);
  T *low = pn_full(c, dtype, 0, NULL, -INFINITY), *zero = pn_full(c, dtype, 0, NULL, 0);
  T *sum = pn_sum(c, pn_mul(c, pn_where(c, pn_gt(c, y, low), y, zero), by), PN_ALL, 0), *in[] = {x, before};
  for (int graph = 0; same && graph < (n < 300 ? 2 : 1); graph++) {
    CHECK_STATUS(c, pn_grad(c, sum, before ? 2 : 1, in, graph, g), PN_OK);
    for (int k = 0; k < 2; k++) g[k] = g[k] ? pn_contiguous(c, g[k]) : NULL;
    for (int64_t i = 0; i < n * filters; i += n < 10 ? 1 : n * filters - 1) {
      same = same && slope_fits(kind, n, filters, i, increments, g[0], slack);
      if (before) same = same && slope_fits(kind, n, filters, i, old, g[1], slack);
    }
    for (int64_t i = n * filters; before && i < before_rows * filters; i++) same = same && element(g[1], i) == 0;
  }
  CHECK(same);
  pn_scope_close(c, mark);
}

/* Of three filters the second has lost all weights: its increment is -inf, its weights are equal, and no gradient goes
 * into it. A failure names the first filter, if there are several, and the step, if it is known. */
static void degenerate(C *c, pn_dtype dtype) {
  enum { FEW = 4 };
  static const struct {
    double value;
    pn_status status;
    const char *text;
  } kinds[] = {{-INFINITY, PN_DEGENERATE, "leave a particle with a weight, got -inf for all that had one"},
               {INFINITY, PN_DOMAIN, "be below +inf, got inf"},
               {NAN, PN_NAN, "be a number, got NaN"}};
  size_t mark = pn_scope_open(c);
  double v[FEW * FILTERS];
  const int64_t shape[] = {FEW, FILTERS};
  for (int i = 0; i < FEW * FILTERS; i++) v[i] = i % FILTERS == 1 ? -INFINITY : 0.25 * i;
  T *x = pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, shape, v), dtype)), *g = NULL;
  T *y = pni_weigh(c, x, NULL, &(pni_weighing){.zero_possible = true}), *rows = pn_slice(c, y, 0, FEW, FEW, 1);
  const double want[] = {log(0.25), log(0.25), log(0.25), log(0.25), 0.25, 0.25, 0.25, 0.25, -INFINITY, FEW, 0.25};
  for (int i = 0; i < 2 * FEW + PNI_WEIGHED_ROWS; i++) CHECK_NEAR(element(y, i * FILTERS + 1), want[i], 1e-7);
  T *by =
      pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, shape, (const double[]){1, 2, 3, 5, 7, 1, 4, 2, 3, 3, 5, 9}), dtype);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_mul(c, rows, by), PN_ALL, 0), 1, &x, 0, &g), PN_OK);
  for (int i = 0; i < FEW * FILTERS; i++) CHECK((element(g, i) == 0) == (i % FILTERS == 1));
  for (int kind = 0; kind < 3; kind++)
    for (int f = 0; f < 4; f++) /* 3: one filter alone */
      for (int other = 0; other < 4; other++) {
        char text[160], of[32] = "", at[32] = "";
        for (int i = 0; i < FEW * FILTERS; i++) {
          bool here = f == 3 || i % FILTERS >= f;
          v[i] = here && (kind == 0 || i / FILTERS == 2) ? kinds[kind].value
                 : here && i / FILTERS == 1              ? -INFINITY
                                                         : 0.5 * i;
          if (kind == 2 && other % 2 && here && i / FILTERS == 3) v[i] = INFINITY;
        }
        T *bad = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, shape, v), dtype);
        if (f == 3) bad = pn_select(c, bad, 1, 1);
        if (f < 3) snprintf(of, sizeof of, " of filter %d", f + 1);
        if (other % 2) snprintf(at, sizeof at, " at step 9");
        snprintf(text, sizeof text, "%s%s must %s%s", other / 2 ? "resample: log_w" : "weigh: log_increment", of,
                 kinds[kind].text, at);
        CHECK(!pni_weigh(c, bad, NULL, &(pni_weighing){.step = other % 2 ? 9 : 0, .plain = other / 2}));
        CHECK_STR(pn_context_message(c), text);
        CHECK_FAIL(c, kinds[kind].status, text);
      }
  pn_scope_close(c, mark);
}

static void weighings(C *c, int threads) {
  static const int64_t sizes[] = {1, 2, 7, 8, 9, 255, 257, 4095, 4096, 4097};
  for (int k = threads > 1 ? 9 : 0; k < 10; k++)
    for (int kind = 0; kind < BEFORES; kind++)
      for (int d = k == 8 || (k > 6 && kind % 2); d < 2 - (k == 7); d++)
        weigh(c, d ? PN_FLOAT32 : PN_FLOAT64, sizes[k], kind == REST ? FILTERS : 1 + k % 2, kind);
  size_t mark = pn_scope_open(c);
  T *x = pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){4, 2});
  static const int64_t wrong[][2] = {{11, 3}, {9, 2}, {4, 2}};
  for (int k = 0; k < 3; k++)
    for (int kind = PNI_BEFORE_WEIGHED; kind <= PNI_BEFORE_CARRIED; kind++) {
      T *y = pni_weigh(c, x, pn_zeros(c, PN_FLOAT64, 2, wrong[k]), &(pni_weighing){.before = kind});
      bool fits = kind == PNI_BEFORE_CARRIED && k == 2;
      char text[96];
      long long rows = kind == PNI_BEFORE_WEIGHED ? (wrong[k][0] - PNI_WEIGHED_ROWS) / 2 : wrong[k][0];
      snprintf(text, sizeof text, "weigh: log_increment must have shape [%lld, %lld] as the weights, got [4, 2]", rows,
               (long long)wrong[k][1]);
      CHECK(!y == !fits);
      if (!fits) CHECK_FAIL(c, PN_SHAPE, text);
    }
  for (int plain = 0; plain < 2; plain++) {
    CHECK(!pni_weigh(c, pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){0, 2}), NULL, &(pni_weighing){.plain = plain}));
    CHECK_FAIL(c, PN_SHAPE,
               plain ? "resample: log_w must be [N] or [N, B...] with at least one particle, got [0, 2]"
                     : "weigh: log_increment must be [N] or [N, B...] with at least one particle, got [0");
  }
  pn_scope_close(c, mark);
}

/* ---- ancestors ---- */

/* Filter f by the positions from f each on, if it is due by `decider`; the last one its own ancestor. */
static void ancestors(C *c, const pni_resampler *scheme, pn_dtype dtype, int64_t n, int64_t filters, bool kept) {
  size_t mark = pn_scope_open(c);
  T *decider = weights(c, dtype, n, filters), *weighed;
  double threshold = element(decider, (2 * n + PNI_WEIGHED_SIZE) * filters) / (double)n;
  weighed = weights(c, dtype, n, filters);
  double *w = malloc((size_t)n * sizeof *w), *scratch = malloc((size_t)scheme->scratch(n) * sizeof *scratch);
  int64_t *out = malloc((size_t)n * sizeof *out);
  uint64_t first[2], after[2], each = scheme->positions(n);
  pn_rng *rng = pn_rng_new(c, 11);
  for (int by = 0; by < 2; by++) { /* the weights' own sizes make all due */
    pn_rng_get_state(rng, first);
    T *a = pni_resample(c, &(pni_resampling_rule){scheme, by ? threshold : 1, kept}, rng, weighed, by ? decider : NULL);
    pn_rng_get_state(rng, after);
    bool same = a && pn_tensor_numel(a) == n * filters && after[0] == first[0];
    CHECK_INT((int64_t)(after[1] - first[1]), (int64_t)(each * (uint64_t)filters));
    for (int64_t f = 0; same && f < filters; f++) {
      double size = element(decider, (2 * n + PNI_WEIGHED_SIZE) * filters + f);
      for (int64_t i = 0; i < n; i++) w[i] = element(weighed, (n + i) * filters + f), out[i] = i;
      pni_resampling r = {NULL, w, n, n - kept, {first[0], first[1] + (uint64_t)f * each}, scratch, out};
      if ((!by || threshold >= 1 || size <= threshold * (double)n) && r.count > 0) pni_resampler_run(scheme, &r);
      if (kept) out[n - 1] = n - 1;
      for (int64_t i = 0; i < n; i++) same = same && ((const int64_t *)pni_data(a))[i * filters + f] == out[i];
    }
    if (!same) printf("%s, %lld of %lld, kept %d\n", scheme->name, (long long)n, (long long)filters, kept);
    CHECK(same);
  }
  pn_rng_free(rng);
  free(w), free(out), free(scratch);
  pn_scope_close(c, mark);
}

static void resamplings(C *c) {
  for (int s = 0; s < pni_resampler_count(); s++)
    for (int d = 0; d < 2; d++)
      for (int kept = 0; kept <= pni_resampler_at(s)->independent; kept++)
        for (int64_t filters = 1; filters <= 2; filters++) {
          static const int64_t sizes[] = {1, 2, 5, 300, MOST};
          for (int k = 0; k < 5; k++)
            ancestors(c, pni_resampler_at(s), d ? PN_FLOAT32 : PN_FLOAT64, sizes[k], filters, kept);
        }
  size_t mark = pn_scope_open(c);
  pni_resampling_rule rule = {pni_resampler_at(0), 1, false};
  T *weighed = weights(c, PN_FLOAT64, 4, 2);
  T *wrong[] = {pn_slice(c, weighed, 0, 0, 10, 1), pn_slice(c, weighed, 0, 0, 3, 1)};
  for (int k = 0; k < 2; k++) {
    CHECK(!pni_resample(c, &rule, NULL, wrong[k], NULL));
    CHECK_FAIL(c, PN_SHAPE, "resample: weights must be [2 N + 3, B...], got [");
  }
  CHECK(!pni_resample(c, &rule, NULL, weighed, weights(c, PN_FLOAT64, 4, 3)));
  CHECK_FAIL(c, PN_SHAPE, "resample: weights must be [2 N + 3, B...], got [11, 2]");
  T *most =
      pn_broadcast_to(c, pn_scalar(c, PN_FLOAT64, 1), 1, (const int64_t[]){2 * (int64_t)INT32_MAX + PNI_WEIGHED_ROWS});
  CHECK(!pni_resample(c, &rule, NULL, most, NULL));
  CHECK_FAIL(c, PN_LIMIT, "resample: at most 2147483646 particles are possible, got 2147483647");
  pn_scope_close(c, mark);
}

int main(void) {
  static const int64_t sizes[] = {2, 3, 7, 300, PNI_PARTICLE_BLOCK, PNI_PARTICLE_BLOCK + 1, MOST};
  static poisoned_memory memory = {.fresh = 0xFF}; /* no numbers */
  for (int threads = 1; threads < 3; threads++) {
    pn_context_config config = {.threads = threads};
    if (threads == 1) config.allocate = poisoned_allocate, config.allocator_data = &memory;
    C *c = pn_context_new(&config);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
      for (int ascending = 0; ascending < 2; ascending++)
        trace(c, k % 2 ? PN_FLOAT32 : PN_FLOAT64, sizes[k], k % 2 ? 1 : FILTERS, k < 2 ? 140 : 5, ascending);
    ancestry(c, 1, STEPS);
    ancestry(c, FILTERS, STEPS);
    choices(c);
    weighings(c, threads);
    degenerate(c, PN_FLOAT64);
    degenerate(c, PN_FLOAT32);
    resamplings(c);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
  CHECK_INT(poisoned_end(&memory), 0);
  CHECK_DONE();
}
