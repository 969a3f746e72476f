/*
** gaussian_test.c: whole sequences of Kalman steps against their steps one by one (kalman_test.c), values and
** gradients: operands that are one for all, vary with the series, with time or with both, some of them missing;
** densities alone, predictions in both directions, roots, means alone; both types, many series, orders beyond a lane's;
** refusals.
*/
#include "../../src/smc/gaussian/gaussian_sequence.h"
#include "poisoned.h"

typedef pn_tensor T;
typedef pn_context C;

enum { MEAN, COV, A, B, Q, Y, H, D, R, OPERANDS, LONGEST = 4 };
enum { ONE, OF_TIME, OF_SERIES, OF_BOTH, ONE_OF_ALL_AXES, FORMS };

typedef struct {
  pn_dtype dtype;
  int64_t t, n, p, batch[2];
  int nbatch;
  T *in[OPERANDS], *observed;
} series;

static int rank_of(int k) { return k == COV || k == A || k == Q || k == H || k == R ? 2 : 1; }

/* Axes before an operand's own. */
static int lead(const series *s, int k, int form, int64_t *shape) {
  int n = 0;
  bool timed = form != ONE && form != OF_SERIES;
  if (k <= COV && form != OF_SERIES && form != OF_BOTH) return 0;
  if (k > COV && (timed || k == Y)) shape[n++] = form == OF_TIME || form == OF_BOTH || k == Y ? s->t : 1;
  if (form == ONE) return n;
  for (int i = 0; i < s->nbatch; i++) shape[n++] = form == OF_SERIES || form == OF_BOTH ? s->batch[i] : 1;
  return n;
}

static T *positive(C *c, T *x, double by) {
  int64_t n = pn_tensor_shape(x)[pn_tensor_ndim(x) - 1];
  T *squares = pn_matmul(c, x, pn_transpose(c, x, -2, -1)), *unit = pn_eye(c, pn_tensor_dtype(x), n, n);
  return pn_add(c, pn_mul(c, squares, pn_full(c, pn_tensor_dtype(x), 0, NULL, by)), unit);
}

static void make(C *c, series *s, int form) {
  for (int k = 0; k < OPERANDS; k++) {
    int64_t shape[6], n = s->n, p = s->p;
    const int64_t rows[] = {n, n, n, n, n, p, p, p, p}, cols[] = {0, n, n, 0, n, 0, n, 0, p};
    int own = k == Y ? OF_BOTH : form < FORMS ? form : (form + k) % FORMS, axes = lead(s, k, own, shape);
    shape[axes++] = rows[k];
    if (cols[k]) shape[axes++] = cols[k];
    T *x = pn_randn(c, NULL, s->dtype, axes, shape);
    if (k == COV || k == Q || k == R) x = positive(c, x, 0.3 / (double)rows[k]);
    if (k == A || k == H) x = pn_mul(c, x, pn_full(c, s->dtype, 0, NULL, 0.7 / sqrt((double)n)));
    s->in[k] = pn_param(c, x);
  }
  T *y = s->in[Y];
  s->observed =
      pn_gt(c, pn_randn(c, NULL, s->dtype, pn_tensor_ndim(y), pn_tensor_shape(y)), pn_full(c, s->dtype, 0, NULL, -0.4));
}

/* Operand x at step t. */
static T *at_time(C *c, const series *s, T *x, int own, int64_t t) {
  if (!x || pn_tensor_ndim(x) - own <= s->nbatch) return x;
  return pn_select(c, x, 0, pn_tensor_shape(x)[0] == 1 ? 0 : t);
}

/* What is one for all is summed where it arises, not copied for each series and step. */
static void extents(C *c) {
  size_t mark = pn_scope_open(c);
  series s = {.dtype = PN_FLOAT64, .t = 3, .n = 2, .p = 1, .nbatch = 2, .batch = {4, 5}};
  for (int form = 0; form < FORMS; form++)
    for (int k = A; k < OPERANDS; k++)
      for (int kind = PNI_SEQUENCE_FILTER; kind <= PNI_SEQUENCE_PREDICT; kind++) {
        pni_sequence q = {.kind = (pni_sequence_kind)kind, .steps = s.t, .batch = s.nbatch};
        if (k == A) make(c, &s, form);
        bool varying = form == OF_TIME || form == OF_BOTH || k == Y || (kind == PNI_SEQUENCE_PREDICT && k != A);
        CHECK_INT(pni_sequence_extent_of(&q, k, s.in[k]), varying             ? PNI_SEQUENCE_VARYING
                                                          : form == OF_SERIES ? PNI_SEQUENCE_CONSTANT
                                                                              : PNI_SEQUENCE_SHARED);
        CHECK_INT(pni_sequence_extent_of(&q, MEAN + k % 2, s.in[MEAN + k % 2]), PNI_SEQUENCE_CONSTANT);
      }
  pn_scope_close(c, mark);
}

/* ---- comparison ---- */

static double largest(C *c, T *x) {
  double v = NAN;
  if (x && pn_tensor_numel(x) == 0) return 0;
  if (x) pn_tensor_item(c, pn_max(c, pn_abs(c, x), PN_ALL, 0), &v);
  return v;
}

static bool near(C *c, T *got, T *want, double most) {
  if (!got || !want || pn_tensor_ndim(got) != pn_tensor_ndim(want)) return false;
  for (int i = 0; i < pn_tensor_ndim(got); i++)
    if (pn_tensor_shape(got)[i] != pn_tensor_shape(want)[i]) return false;
  return largest(c, pn_sub(c, got, want)) <= most * (1 + largest(c, want));
}

/* A sum of all numbers of x, each with a weight of its own. */
static T *weighted(C *c, T *x, double shift) {
  if (!x) return NULL;
  int64_t n = pn_tensor_numel(x);
  T *w = pn_cast(c, pn_cos(c, pn_linspace(c, PN_FLOAT64, shift, shift + 0.37 * (double)n, n)), pn_tensor_dtype(x));
  return pn_sum(c, pn_mul(c, pn_reshape(c, x, 1, &n), w), PN_ALL, 0);
}

static T *all_weighted(C *c, const pn_kalman *k) {
  T *sum = pn_add(c, weighted(c, k->mean, 0.3), weighted(c, k->cov, 1.1));
  return k->log_prob ? pn_add(c, sum, weighted(c, k->log_prob, 2)) : sum;
}

/* Gradients of `value`, by the kernel and with a graph, against those of `steps`; `used`: bit k for operand k. */
static void gradients(C *c, const series *s, T *value, T *steps, unsigned used, const char *what, int form) {
  double most = s->dtype == PN_FLOAT64 ? 1e-10 : 2e-4;
  T *in[OPERANDS], *want[OPERANDS] = {0}, *got[2][OPERANDS] = {{0}}, *one = NULL;
  int n = 0;
  for (int k = 0; k < OPERANDS; k++)
    if (used >> k & 1) in[n++] = s->in[k];
  CHECK_STATUS(c, pn_grad(c, steps, n, in, 0, want), PN_OK);
  for (int graph = 0; graph < 2; graph++) CHECK_STATUS(c, pn_grad(c, value, n, in, graph, got[graph]), PN_OK);
  bool same = true;
  for (int k = 0; k < n; k++)
    for (int graph = 0; graph < 2; graph++) {
      bool fits = near(c, got[graph][k], want[k], most);
      if (!fits) printf("%s, form %d: gradient %d of %d, graph %d\n", what, form, k, n, graph);
      same = same && fits;
    }
  CHECK_STATUS(c, pn_grad(c, value, 1, &in[n - 1], 0, &one), PN_OK); /* of one alone */
  CHECK(same && near(c, one, got[0][n - 1], 0));
}

/* ---- sequences ---- */

static void stack(C *c, const series *s, T **mean, T **cov, T **density, pn_kalman *out) {
  *out = (pn_kalman){.mean = pn_stack(c, (int)s->t, mean, 0), .cov = pn_stack(c, (int)s->t, cov, 0)};
  if (density) out->log_prob = pn_stack(c, (int)s->t, density, 0);
}

static void filter(C *c, series *s, int form, bool gaps) {
  size_t mark = pn_scope_open(c);
  double exact = s->dtype == PN_FLOAT64 ? 1e-13 : 2e-6;
  T *mean[LONGEST], *cov[LONGEST], *density[LONGEST];
  pn_kalman want = {0}, got = {0}, one;
  make(c, s, form);
  T **x = s->in, *observed = gaps ? s->observed : NULL, *in[OPERANDS] = {x[MEAN], x[COV]};
  for (int64_t t = 0; t < s->t; t++) {
    for (int k = A; k < OPERANDS; k++) in[k] = at_time(c, s, x[k], rank_of(k), t);
    CHECK_STATUS(c,
                 pn_kalman_step(c, in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8],
                                at_time(c, s, observed, 1, t), &one),
                 PN_OK);
    in[MEAN] = mean[t] = one.mean, in[COV] = cov[t] = one.cov, density[t] = one.log_prob;
  }
  stack(c, s, mean, cov, density, &want);
  pn_kalman_system system = {x[MEAN], x[COV], x[A], x[B], x[Q], x[H], x[D], x[R]};
  CHECK_STATUS(c, pn_kalman_filter(c, &system, x[Y], observed, &got), PN_OK);
  T *alone = pn_kalman_log_prob(c, &system, x[Y], observed);
  bool same = near(c, got.mean, want.mean, exact) && near(c, got.cov, want.cov, exact) &&
              near(c, got.log_prob, want.log_prob, exact) && near(c, alone, got.log_prob, 0);
  if (!same) printf("filter, form %d\n", form);
  CHECK(same);
  if (same) gradients(c, s, all_weighted(c, &got), all_weighted(c, &want), 0x1ff, "filter", form);
  if (same) gradients(c, s, weighted(c, alone, 0.7), weighted(c, want.log_prob, 0.7), 0x1ff, "log_prob", form);
  pn_scope_close(c, mark);
}

static void propagate(C *c, series *s, int form, int reverse) {
  size_t mark = pn_scope_open(c);
  double exact = s->dtype == PN_FLOAT64 ? 1e-13 : 2e-6;
  T *mean[LONGEST], *cov[LONGEST], *out[2] = {0};
  pn_kalman want, got;
  make(c, s, form);
  T **x = s->in;
  for (int k = 0; k < 2; k++) { /* the state decides how many series there are */
    T *all = pn_zeros(c, s->dtype, s->nbatch, s->batch);
    for (int i = 0; i <= k; i++) all = pn_unsqueeze(c, all, -1);
    x[k] = pn_param(c, pn_add(c, x[k], all));
  }
  for (int64_t i = 0; i < s->t; i++) {
    int64_t t = reverse ? s->t - 1 - i : i, before = reverse ? t + 1 : t - 1;
    CHECK_STATUS(c,
                 pn_kalman_predict(c, i ? mean[before] : x[MEAN], i ? cov[before] : x[COV], at_time(c, s, x[A], 2, t),
                                   at_time(c, s, x[B], 1, t), at_time(c, s, x[Q], 2, t), &mean[t], &cov[t]),
                 PN_OK);
  }
  stack(c, s, mean, cov, NULL, &want);
  CHECK_STATUS(c, pn_kalman_propagate(c, s->t, reverse, x[MEAN], x[COV], x[A], x[B], x[Q], &out[0], &out[1]), PN_OK);
  got = (pn_kalman){.mean = out[0], .cov = out[1]};
  bool same = near(c, got.mean, want.mean, exact) && near(c, got.cov, want.cov, exact);
  if (!same) printf("propagate, form %d\n", form);
  CHECK(same);
  if (same) gradients(c, s, all_weighted(c, &got), all_weighted(c, &want), 0x1f, "propagate", form);
  pn_scope_close(c, mark);
}

static void root_filter(C *c, series *s, int form, bool gaps) {
  size_t mark = pn_scope_open(c);
  double exact = s->dtype == PN_FLOAT64 ? 1e-11 : 1e-4;
  pn_kalman want = {0}, got = {0};
  make(c, s, form);
  T **x = s->in, *observed = gaps ? s->observed : NULL, *g;
  pn_kalman_system system = {x[MEAN], x[COV], x[A], x[B], x[Q], x[H], x[D], x[R]}, roots = system;
  roots.cov = pn_cholesky(c, x[COV]), roots.q = pn_cholesky(c, x[Q]), roots.r = pn_cholesky(c, x[R]);
  CHECK_STATUS(c, pn_kalman_filter(c, &system, x[Y], observed, &want), PN_OK);
  CHECK_STATUS(c, pn_kalman_root_filter(c, &roots, x[Y], observed, &got), PN_OK);
  T *cov = pn_matmul(c, got.cov, pn_transpose(c, got.cov, -2, -1));
  CHECK(near(c, got.mean, want.mean, exact) && near(c, cov, want.cov, exact) &&
        near(c, got.log_prob, want.log_prob, exact));
  for (int graph = 0; graph < 2; graph++) {
    CHECK(pn_grad(c, pn_sum(c, got.mean, PN_ALL, 0), 1, &x[A], graph, &g) == PN_MISSING);
    CHECK_FAIL(c, PN_MISSING, "kalman_root_filter: has no gradient: differentiate the filter on covariances");
  }
  pn_scope_close(c, mark);
}

/* Means alone: m is one for all, or of time, of some axes of the batch, of both. */
static void path(C *c, series *s, int form, int reverse) {
  size_t mark = pn_scope_open(c);
  double exact = s->dtype == PN_FLOAT64 ? 1e-13 : 2e-6;
  const int axes = s->nbatch + 1;
  int64_t shape[5] = {s->t}, a[6] = {form & 1 ? s->t : 1};
  for (int i = 0; i < s->nbatch; i++) shape[1 + i] = s->batch[i], a[1 + i] = form >> (1 + i) & 1 ? s->batch[i] : 1;
  shape[axes] = a[axes] = a[axes + 1] = s->n;
  T *x = pn_param(c, pn_randn(c, NULL, s->dtype, axes, shape + 1)), *m = pn_randn(c, NULL, s->dtype, axes + 2, a);
  m = pn_param(c, pn_mul(c, m, pn_full(c, s->dtype, 0, NULL, 0.8)));
  T *offset = pn_param(c, pn_randn(c, NULL, s->dtype, axes + 1, shape)), *all[LONGEST], *now = x;
  for (int64_t i = 0; i < s->t; i++) {
    int64_t t = reverse ? s->t - 1 - i : i;
    T *moved = pn_matmul(c, pn_select(c, m, 0, form & 1 ? t : 0), pn_unsqueeze(c, now, -1));
    all[t] = now = pn_add(c, pn_squeeze(c, moved, -1), pn_select(c, offset, 0, t));
  }
  T *want = pn_stack(c, (int)s->t, all, 0), *got = pn_kalman_path(c, reverse, x, m, offset);
  CHECK(near(c, got, want, exact));
  series as = *s;
  as.in[0] = x, as.in[1] = m, as.in[2] = offset;
  gradients(c, &as, weighted(c, pn_square(c, got), 0.1), weighted(c, pn_square(c, want), 0.1), 7, "path", form);
  pn_scope_close(c, mark);
}

static void battery(C *c, pn_dtype dtype) {
  static const series sizes[] = {{.t = 3, .n = 2, .p = 1},
                                 {.t = 1, .n = 1, .p = 2, .nbatch = 1, .batch = {9}},
                                 {.t = 3, .n = 3, .p = 2, .nbatch = 1, .batch = {17}},
                                 {.t = 2, .n = 2, .p = 2, .nbatch = 2, .batch = {2, 5}}};
  for (int k = 0; k < 4; k++)
    for (int form = 0; form < 2 * FORMS; form++) {
      series s = sizes[k];
      s.dtype = dtype;
      if (form < 8) path(c, &s, form, (form + k) % 2);
      filter(c, &s, form, (form + k) % 2);
      propagate(c, &s, form, (form + k) % 2);
      if (form % 3 == k % 3) root_filter(c, &s, form, form % 2);
    }
}

/* Many series, shared out; orders that no lane takes; and one series as long as it is wide. */
static void large(C *c) {
  series many = {.dtype = PN_FLOAT64, .t = 2, .n = 7, .p = 2, .nbatch = 1, .batch = {210}};
  series wide = {.dtype = PN_FLOAT32, .t = 2, .n = 33, .p = 2, .nbatch = 1, .batch = {2}};
  filter(c, &many, ONE, false);
  filter(c, &many, OF_TIME, true);
  root_filter(c, &many, OF_SERIES, true);
  wide.dtype = PN_FLOAT64;
  filter(c, &wide, OF_BOTH, true);
  path(c, &many, 3, 1);
}

/* ---- failures: the first step and series of several ---- */

static void failures(C *c) {
  size_t mark = pn_scope_open(c);
  series s = {.dtype = PN_FLOAT64, .t = 3, .n = 2, .p = 2, .nbatch = 1, .batch = {20}};
  pn_kalman out = {0};
  T *mean, *cov;
  make(c, &s, OF_BOTH);
  pn_kalman_system system = {s.in[MEAN], s.in[COV], s.in[A], s.in[B], s.in[Q], s.in[H], s.in[D], s.in[R]}, bad;
  for (int kind = 0; kind < 2; kind++)
    for (int first = 0; first < 60; first += 7) {
      char text[160];
      double r[60][2][2];
      for (int i = 0; i < 60; i++)
        for (int k = 0; k < 4; k++)
          r[i][k / 2][k % 2] = i < first || i % 2 != first % 2 ? k % 3 == 0 : kind ? INFINITY : -90;
      bad = system;
      bad.r = pn_from_data(c, PN_FLOAT64, 4, (const int64_t[]){3, 20, 2, 2}, r);
      snprintf(text, sizeof text, "kalman_filter: step %d: innovation covariance, matrix [%d] of the batch, must be %s",
               first / 20 + 1, first % 20 + 1,
               kind ? "finite, got inf or nan" : "positive definite, got a leading minor of order 1");
      CHECK(pn_kalman_filter(c, &bad, s.in[Y], NULL, &out) != PN_OK && !out.mean);
      CHECK_FAIL(c, kind ? PN_NAN : PN_SINGULAR, text);
    }
  static const char *const names[] = {"mean", "cov", "a", "b", "q", "c", "d", "r"};
  T **part = &bad.mean;
  for (int k = 0; k < 8; k++)
    for (int way = 0; way < 3; way++) { /* an axis too long, one too many, a time axis of its own */
      char text[96];
      int64_t shape[6] = {way == 2 ? 2 : 3, 20};
      const int64_t rows[] = {2, 2, 2, 2, 2, 2, 2, 2}, cols[] = {0, 2, 2, 0, 2, 2, 0, 2};
      int axes = k <= COV ? (way == 1 ? 2 : 1) : way == 1 ? 3 : 2, own = cols[k] ? 2 : 1;
      if (k <= COV) shape[0] = 20;
      if (axes == 3) shape[2] = 20;
      for (int i = 0; i < own; i++) shape[axes + i] = rows[k];
      if (way == 0) shape[axes + own - 1] = 3;
      if (way == 2 && k <= COV) continue;
      bad = system;
      for (int i = A; i < 8 && way == 2; i++) part[i] = pn_slice(c, part[i], 0, 0, 1, 1);
      part[k] = pn_zeros(c, PN_FLOAT64, axes + own, shape);
      if (way == 0) snprintf(text, sizeof text, "kalman_filter: %s must be [..., ", names[k]);
      if (way == 1)
        snprintf(text, sizeof text, "kalman_filter: %s must have at most %d axes before its own %d (%s), got [",
                 names[k], k <= COV ? 1 : 2, own, k <= COV ? "batch" : "time, batch");
      if (way == 2)
        snprintf(text, sizeof text, "kalman_filter: %s must have a time axis of 1 or 1, got [2, 20", names[k]);
      pn_kalman_filter(c, &bad, way == 2 ? pn_slice(c, s.in[Y], 0, 0, 1, 1) : s.in[Y], NULL, &out);
      if (way == 0 && (k == COV || k == 5)) snprintf(text, sizeof text, "kalman_filter: "); /* it decides the orders */
      CHECK_FAIL(c, PN_SHAPE, text);
    }
  bad = system;
  bad.a = NULL;
  CHECK(!pn_kalman_log_prob(c, &bad, s.in[Y], NULL));
  CHECK_FAIL(c, PN_STATE, "kalman_log_prob: a must be a tensor, got NULL");
  CHECK(pn_kalman_root_filter(c, &system, pn_zeros(c, PN_FLOAT64, 1, (const int64_t[]){2}), NULL, &out) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "kalman_root_filter: y must have at least 2 axes, [T, ..., p], got 1");
  CHECK(pn_kalman_root_filter(c, &system, s.in[Y], s.in[Y], &out) == PN_DTYPE);
  CHECK_FAIL(c, PN_DTYPE, "kalman_root_filter: observed must be bool, got float64");
  CHECK(pn_kalman_propagate(c, -1, 0, s.in[MEAN], s.in[COV], s.in[A], NULL, s.in[Q], &mean, &cov) == PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "kalman_propagate: steps must be 0 or more, got -1");
  T *big = pn_broadcast_to(c, pn_scalar(c, PN_FLOAT64, 1), 2, (const int64_t[]){4097, 4097});
  bad = system;
  bad.cov = big;
  CHECK(pn_kalman_filter(c, &bad, s.in[Y], NULL, &out) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "kalman_filter: order of the state must be from 1 to 4096, got 4097");
  bad = system;
  bad.c = pn_broadcast_to(c, pn_scalar(c, PN_FLOAT64, 1), 2, (const int64_t[]){4097, 2});
  CHECK(pn_kalman_filter(c, &bad, s.in[Y], NULL, &out) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "kalman_filter: order of the observation must be from 1 to 4096, got 4097");
  pn_scope_close(c, mark);
}

int main(void) {
  static poisoned_memory memory = {.fresh = 0xFF}; /* no numbers */
  for (int threads = 1; threads < 3; threads++) {
    pn_context_config config = {.threads = threads, .seed = 3};
    if (threads == 1) config.allocate = poisoned_allocate, config.allocator_data = &memory;
    C *c = pn_context_new(&config);
    if (threads == 1)
      battery(c, PN_FLOAT64), battery(c, PN_FLOAT32), failures(c), extents(c);
    else
      large(c);
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
  CHECK_INT(poisoned_end(&memory), 0);
  CHECK_DONE();
}
