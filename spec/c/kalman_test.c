/*
** kalman_test.c: the two steps of the Kalman filter against dense loops in long double and against the joint Gaussian
** of a whole sequence; what is missing against the observation without it; batches against single filters; strided
** and shared operands; every instruction set; derivatives; covariances that stay semidefinite; failures.
*/
#include <stdlib.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/smc/kalman/kalman.h"
#include "../../src/smc/kalman/kalman_op.h"
#include "../golden/linalg/kalman_golden.h"
#include "alloc_sweep.h"
#include "gradient.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef pn_tensor T;
typedef pn_context C;
typedef long double L;

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }

static double largest(C *c, T *x) {
  double d = NAN;
  if (x) pn_tensor_item(c, pn_max(c, pn_abs(c, x), PN_ALL, 0), &d);
  return d;
}
#define CHECK_SAME(c, x, y, tolerance) CHECK(largest(c, pn_sub(c, x, y)) <= (tolerance))

/* Operands of a filter: batch of mean, cov and y; batch 0: none of the operands has a batch axis. */
typedef struct {
  T *mean, *cov, *a, *b, *q, *y, *c, *d, *r;
} filter;

static T *random_matrix(C *c, pn_dtype dtype, int64_t batch, int64_t rows, int64_t cols) {
  return batch ? pn_randn(c, NULL, dtype, SHAPE(batch, rows, cols)) : pn_randn(c, NULL, dtype, SHAPE(rows, cols));
}
static T *random_vector(C *c, pn_dtype dtype, int64_t batch, int64_t n) {
  return batch ? pn_randn(c, NULL, dtype, SHAPE(batch, n)) : pn_randn(c, NULL, dtype, SHAPE(n));
}
static T *positive(C *c, pn_dtype dtype, int64_t batch, int64_t n) {
  T *x = random_matrix(c, dtype, batch, n, n);
  return pn_add(c, pn_mul(c, pn_matmul(c, x, mt(c, x)), pn_scalar(c, dtype, 1.0 / (double)n)),
                pn_mul(c, pn_eye(c, dtype, n, n), pn_scalar(c, dtype, 0.5)));
}

static filter make(C *c, pn_dtype dtype, int64_t batch, int64_t shared, int64_t n, int64_t p) {
  int64_t own = shared ? 0 : batch;
  filter f = {.mean = random_vector(c, dtype, batch, n), .cov = positive(c, dtype, batch, n)};
  f.a = pn_mul(c, random_matrix(c, dtype, own, n, n), pn_scalar(c, dtype, 1 / sqrt((double)n)));
  f.b = random_vector(c, dtype, own, n);
  f.q = positive(c, dtype, own, n);
  f.y = random_vector(c, dtype, batch, p);
  f.c = pn_mul(c, random_matrix(c, dtype, own, p, n), pn_scalar(c, dtype, 1 / sqrt((double)n)));
  f.d = random_vector(c, dtype, own, p);
  f.r = positive(c, dtype, own, p);
  return f;
}

static pn_status update(C *c, const filter *f, T *observed, pn_kalman *out) {
  return pn_kalman_update(c, f->mean, f->cov, f->y, f->c, f->d, f->r, observed, 1, out);
}

/* ---- the dense reference ---- */

enum { N = 33 };

/* Filter i's operand, whatever is shared, as long double. */
static void load(C *c, T *x, int64_t i, int axes, L *out) {
  double v[N * N];
  if (pn_tensor_ndim(x) > axes) x = pn_select(c, x, 0, i);
  if (x && x->numel <= N * N && pn_tensor_copy_out(c, pn_cast(c, x, PN_FLOAT64), v, x->numel) == PN_OK)
    for (int64_t k = 0; k < x->numel; k++) out[k] = v[k];
}

static bool near_all(C *c, T *x, int64_t i, int axes, const L *want, int64_t size, double tolerance) {
  L got[N * N];
  if (!x) return false;
  load(c, x, i, axes, got);
  for (int64_t k = 0; k < size; k++)
    if (!(fabsl(got[k] - want[k]) <= tolerance * fmaxl(1, fabsl(want[k])))) {
      printf("element %lld of filter %lld: got %.17Lg, want %.17Lg\n", (long long)k, (long long)i, got[k], want[k]);
      return false;
    }
  return true;
}

/* z = x y or x y^T */
static void multiply(const L *x, const L *y, L *z, int64_t n, int64_t inner, int64_t k, bool transposed) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k; j++) {
      L s = 0;
      for (int64_t l = 0; l < inner; l++) s += x[i * inner + l] * (transposed ? y[j * inner + l] : y[l * k + j]);
      z[i * k + j] = s;
    }
}

/* inv = x^-1 by Gauss and Jordan, x positive definite; returns log det x. */
static L invert(const L *x, L *inv, int64_t n) {
  L m[N][2 * N], log_det = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) m[i][j] = x[i * n + j], m[i][n + j] = i == j;
  for (int64_t k = 0; k < n; k++) {
    L pivot = m[k][k];
    log_det += logl(pivot);
    for (int64_t j = 0; j < 2 * n; j++) m[k][j] /= pivot;
    for (int64_t i = 0; i < n; i++) {
      L factor = m[i][k];
      for (int64_t j = 0; i != k && j < 2 * n; j++) m[i][j] -= factor * m[k][j];
    }
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) inv[i * n + j] = m[i][n + j];
  return log_det;
}

/* log N(v; 0, S) from S^-1 and log det S. */
static L gaussian(const L *v, const L *inverse, L log_det, int64_t n) {
  L quad = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) quad += v[i] * inverse[i * n + j] * v[j];
  return -0.5L * (quad + log_det + (L)n * logl(2 * acosl(-1)));
}

static void check_predict(C *c, const filter *f, int64_t i, T *mean, T *cov, double tolerance) {
  int64_t n = f->mean->shape[f->mean->ndim - 1], k = f->b->shape[f->b->ndim - 1];
  static L m[N], p[N * N], a[N * N], b[N], q[N * N], t[N * N], to[N * N], x[N];
  load(c, f->mean, i, 1, m), load(c, f->cov, i, 2, p), load(c, f->a, i, 2, a);
  load(c, f->b, i, 1, b), load(c, f->q, i, 2, q);
  multiply(a, m, x, k, n, 1, false);
  multiply(a, p, t, k, n, n, false);
  multiply(t, a, to, k, n, k, true);
  for (int64_t j = 0; j < k; j++) x[j] += b[j];
  for (int64_t j = 0; j < k * k; j++) to[j] += q[j];
  CHECK(near_all(c, mean, i, 1, x, k, tolerance));
  CHECK(near_all(c, cov, i, 2, to, k * k, tolerance));
}

static void check_update(C *c, const filter *f, int64_t i, const pn_kalman *got, double tolerance) {
  int64_t n = f->mean->shape[f->mean->ndim - 1], p = f->y->shape[f->y->ndim - 1];
  static L m[N], cov[N * N], y[N], h[N * N], d[N], r[N * N], u[N * N], s[N * N], inv[N * N], k[N * N], t[N * N], v[N];
  load(c, f->mean, i, 1, m), load(c, f->cov, i, 2, cov), load(c, f->y, i, 1, y);
  load(c, f->c, i, 2, h), load(c, f->d, i, 1, d), load(c, f->r, i, 2, r);
  multiply(h, m, v, p, n, 1, false);
  for (int64_t j = 0; j < p; j++) v[j] = y[j] - v[j] - d[j];
  multiply(cov, h, u, n, n, p, true);
  multiply(h, u, s, p, n, p, false);
  for (int64_t j = 0; j < p * p; j++) s[j] += r[j];
  L log_det = invert(s, inv, p), density = gaussian(v, inv, log_det, p);
  multiply(u, inv, k, n, p, p, false);
  multiply(k, u, t, n, p, n, true);
  for (int64_t j = 0; j < n * n; j++) cov[j] -= t[j];
  CHECK(near_all(c, got->innovation, i, 1, v, p, tolerance));
  CHECK(near_all(c, got->innovation_cov, i, 2, s, p * p, tolerance));
  CHECK(near_all(c, got->gain, i, 2, k, n * p, tolerance));
  CHECK(near_all(c, got->log_prob, i, 0, &density, 1, tolerance));
  CHECK(near_all(c, got->cov, i, 2, cov, n * n, tolerance));
  multiply(k, v, t, n, p, 1, false);
  for (int64_t j = 0; j < n; j++) m[j] += t[j];
  CHECK(near_all(c, got->mean, i, 1, m, n, tolerance));
}

static void reference(C *c, pn_dtype dtype, int64_t batch, int shared, int64_t n, int64_t p, double tolerance) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, dtype, batch, shared, n, p);
  T *mean = NULL, *cov = NULL;
  pn_kalman u = {0};
  CHECK_STATUS(c, pn_kalman_predict(c, f.mean, f.cov, f.a, f.b, f.q, &mean, &cov), PN_OK);
  CHECK_STATUS(c, update(c, &f, NULL, &u), PN_OK);
  CHECK(largest(c, pn_sub(c, cov, mt(c, cov))) == 0 && largest(c, pn_sub(c, u.cov, mt(c, u.cov))) == 0);
  filter seen = f; /* of the observation */
  T *seen_mean = NULL, *seen_cov = NULL;
  seen.a = f.c, seen.b = f.d, seen.q = f.r;
  CHECK_STATUS(c, pn_kalman_predict(c, f.mean, f.cov, f.c, f.d, f.r, &seen_mean, &seen_cov), PN_OK);
  for (int64_t i = 0; i < (batch ? batch : 1); i++) {
    check_predict(c, &f, i, mean, cov, tolerance);
    check_predict(c, &seen, i, seen_mean, seen_cov, tolerance);
    check_update(c, &f, i, &u, tolerance);
  }
  /* both in one pass are the same numbers */
  T *coin = pn_gt(c, random_vector(c, dtype, batch, p), pn_scalar(c, dtype, 0));
  for (int part = 0; part < 2; part++) {
    pn_kalman step = {0};
    T *there = part ? coin : NULL;
    CHECK_STATUS(c, pn_kalman_update(c, mean, cov, f.y, f.c, f.d, f.r, there, 0, &u), PN_OK);
    CHECK_STATUS(c, pn_kalman_step(c, f.mean, f.cov, f.a, f.b, f.q, f.y, f.c, f.d, f.r, there, &step), PN_OK);
    CHECK_SAME(c, step.mean, u.mean, 0);
    CHECK_SAME(c, step.cov, u.cov, 0);
    CHECK_SAME(c, step.log_prob, u.log_prob, 0);
    CHECK(!step.innovation && !step.innovation_cov && !step.gain);
  }
  pn_scope_close(c, mark);
}

/* What is one for all filters and the identity is left out of products, and a diagonal r scales: the same bits as
 * with an identity for each filter, and the dense reference's values. */
static void identities(C *c, pn_dtype dtype, int64_t n, double tolerance) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, dtype, 19, 0, n, n), each;
  f.a = f.c = pn_eye(c, dtype, n, n);
  f.r = pn_mul(c, f.r, f.c);
  each = f;
  each.a = each.c = pn_contiguous(c, pn_broadcast_to(c, f.a, SHAPE(19, n, n)));
  T *coin = pn_gt(c, random_vector(c, dtype, 19, n), pn_scalar(c, dtype, 0));
  T *g = pn_randn(c, NULL, dtype, SHAPE(19, n + n * n + 1));
  for (int part = 0; part < 2; part++) {
    T *there = part ? coin : NULL, *like = part ? pn_cast(c, coin, dtype) : NULL, *grads[2];
    pn_kalman x[2] = {{0}}, y[2] = {{0}};
    for (int k = 0; k < 2; k++) {
      const filter *u = k ? &each : &f;
      CHECK_STATUS(c, update(c, u, there, &x[k]), PN_OK);
      CHECK_STATUS(c, pn_kalman_step(c, u->mean, u->cov, u->a, u->b, u->q, u->y, u->c, u->d, u->r, there, &y[k]),
                   PN_OK);
      T *in[] = {g, u->mean, u->cov, u->a, u->b, u->q, u->y, u->c, u->d, u->r, like};
      grads[k] = pn_zeros(c, dtype, SHAPE(19 * (4 * n + 3 * n * n))); /* mean cov, b q, y, d r */
      CHECK_STATUS(c, pni_kalman_adjoint(c, "test", 2, PNI_KALMAN_STEP_ADJOINT, 0x376, 10 + part, in, grads[k]), PN_OK);
    }
    CHECK_SAME(c, x[0].mean, x[1].mean, 0);
    CHECK_SAME(c, x[0].cov, x[1].cov, 0);
    CHECK_SAME(c, x[0].log_prob, x[1].log_prob, 0);
    CHECK_SAME(c, x[0].gain, x[1].gain, 0);
    CHECK_SAME(c, y[0].cov, y[1].cov, 0);
    CHECK_SAME(c, y[0].mean, y[1].mean, 0);
    CHECK_SAME(c, grads[0], grads[1], 0);
    for (int64_t i = 0; !part && i < 19; i++) check_update(c, &f, i, &x[0], tolerance);
  }
  pn_scope_close(c, mark);
}

static void references(C *c) {
  identities(c, PN_FLOAT64, 3, 1e-11);
  identities(c, PN_FLOAT64, 10, 1e-11);
  identities(c, PN_FLOAT32, 6, 1e-3);
  const int64_t orders[][2] = {{1, 1}, {2, 1}, {3, 3}, {4, 2}, {5, 4}, {7, 1}, {10, 4}, {17, 9}, {32, 32}, {2, 5}};
  for (int k = 0; k < 10; k++)
    for (int shared = 0; shared < 2; shared++) {
      int64_t n = orders[k][0], p = orders[k][1], batch = n > 10 ? 3 : 19;
      reference(c, PN_FLOAT64, batch, shared, n, p, 1e-11);
      reference(c, PN_FLOAT32, batch, shared, n, p, 1e-3);
      reference(c, PN_FLOAT64, 0, shared, n, p, 1e-11);
    }
}

/* No b and no d are zeros, one for each of the n and p numbers of their own. */
static void no_offsets(C *c, pn_dtype dtype) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, dtype, 5, 0, 3, 2), g = f;
  f.b = f.d = NULL;
  g.b = pn_zeros(c, dtype, SHAPE(3)), g.d = pn_zeros(c, dtype, SHAPE(2));
  T *mean[2], *cov[2];
  pn_kalman x[2], y[2];
  for (int k = 0; k < 2; k++) {
    const filter *u = k ? &g : &f;
    CHECK_STATUS(c, pn_kalman_predict(c, u->mean, u->cov, u->a, u->b, u->q, &mean[k], &cov[k]), PN_OK);
    CHECK_STATUS(c, update(c, u, NULL, &x[k]), PN_OK);
    CHECK_STATUS(c, pn_kalman_step(c, u->mean, u->cov, u->a, u->b, u->q, u->y, u->c, u->d, u->r, NULL, &y[k]), PN_OK);
  }
  CHECK_SAME(c, mean[0], mean[1], 0);
  CHECK_SAME(c, cov[0], cov[1], 0);
  CHECK_SAME(c, x[0].mean, x[1].mean, 0);
  CHECK_SAME(c, x[0].log_prob, x[1].log_prob, 0);
  CHECK_SAME(c, y[0].mean, y[1].mean, 0);
  CHECK_SAME(c, y[0].log_prob, y[1].log_prob, 0);
  pn_scope_close(c, mark);
}

/* ---- values of NumPy and SciPy ---- */

#define GIVEN(name, ...) pn_from_data(c, PN_FLOAT64, SHAPE(__VA_ARGS__), golden_##name)

static void goldens(C *c) {
  size_t mark = pn_scope_open(c);
  T *m = GIVEN(m, 5, 4), *p = GIVEN(cov, 5, 4, 4), *mean = NULL, *cov = NULL;
  pn_kalman u = {0};
  CHECK_STATUS(c, pn_kalman_predict(c, m, p, GIVEN(a, 4, 4), GIVEN(b, 4), GIVEN(q, 4, 4), &mean, &cov), PN_OK);
  CHECK_SAME(c, mean, GIVEN(predict_mean, 5, 4), 1e-12);
  CHECK_SAME(c, cov, GIVEN(predict_cov, 5, 4, 4), 1e-12);
  CHECK_STATUS(c, pn_kalman_update(c, m, p, GIVEN(y, 5, 2), GIVEN(c, 2, 4), GIVEN(d, 2), GIVEN(r, 2, 2), NULL, 0, &u),
               PN_OK);
  CHECK_SAME(c, u.mean, GIVEN(update_mean, 5, 4), 1e-12);
  CHECK_SAME(c, u.cov, GIVEN(update_cov, 5, 4, 4), 1e-12);
  CHECK_SAME(c, u.log_prob, GIVEN(update_log_prob, 5), 1e-12);
  CHECK_STATUS(c,
               pn_kalman_step(c, m, p, GIVEN(a, 4, 4), GIVEN(b, 4), GIVEN(q, 4, 4), GIVEN(y, 5, 2), GIVEN(c, 2, 4),
                              GIVEN(d, 2), GIVEN(r, 2, 2), NULL, &u),
               PN_OK);
  CHECK_SAME(c, u.mean, GIVEN(step_mean, 5, 4), 1e-12);
  CHECK_SAME(c, u.cov, GIVEN(step_cov, 5, 4, 4), 1e-12);
  CHECK_SAME(c, u.log_prob, GIVEN(step_log_prob, 5), 1e-12);
  pn_scope_close(c, mark);
}

/* ---- the evidence of a sequence: y stacked is one Gaussian ---- */

static void evidence(C *c) {
  enum { STEPS = 4, ORDER = 2 };
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 0, 1, ORDER, 1);
  T *mean = f.mean, *cov = f.cov, *y = pn_randn(c, NULL, PN_FLOAT64, SHAPE(STEPS, 1));
  double total = 0, one = 0;
  for (int64_t t = 0; t < STEPS; t++) {
    pn_kalman u = {0};
    if (t) CHECK_STATUS(c, pn_kalman_predict(c, mean, cov, f.a, f.b, f.q, &mean, &cov), PN_OK);
    CHECK_STATUS(c, pn_kalman_update(c, mean, cov, pn_select(c, y, 0, t), f.c, f.d, f.r, NULL, 0, &u), PN_OK);
    CHECK(!u.innovation && !u.innovation_cov && !u.gain);
    if (!u.log_prob || pn_tensor_item(c, u.log_prob, &one) != PN_OK) return;
    total += one;
    mean = u.mean;
    cov = u.cov;
  }
  /* cov(x_s, x_t) = V_s (a^T)^(t - s), V_t = a V a^T + q */
  L m[N], v[STEPS][ORDER * ORDER], a[N], b[N], q[N], h[N], d[1], r[1], obs[STEPS], s[STEPS * STEPS], e[STEPS];
  L inv[STEPS * STEPS];
  load(c, f.mean, 0, 1, m), load(c, f.cov, 0, 2, v[0]), load(c, f.a, 0, 2, a), load(c, f.b, 0, 1, b);
  load(c, f.q, 0, 2, q), load(c, f.c, 0, 2, h), load(c, f.d, 0, 1, d), load(c, f.r, 0, 2, r), load(c, y, 0, 2, obs);
  for (int t = 0; t < STEPS; t++) {
    L x[N], z[N], cross[N];
    e[t] = obs[t] - d[0];
    for (int i = 0; i < ORDER; i++) e[t] -= h[i] * m[i], cross[i] = 0;
    for (int i = 0; i < ORDER * ORDER; i++) x[i] = v[t][i];
    for (int next = t; next < STEPS; next++) { /* x = cov(x_t, x_next) */
      multiply(x, h, z, ORDER, ORDER, 1, false);
      s[t * STEPS + next] = s[next * STEPS + t] = h[0] * z[0] + h[1] * z[1] + (next == t ? r[0] : 0);
      multiply(x, a, cross, ORDER, ORDER, ORDER, true);
      for (int i = 0; i < ORDER * ORDER; i++) x[i] = cross[i];
    }
    if (t + 1 == STEPS) break;
    multiply(a, m, x, ORDER, ORDER, 1, false);
    for (int i = 0; i < ORDER; i++) m[i] = x[i] + b[i];
    multiply(a, v[t], x, ORDER, ORDER, ORDER, false);
    multiply(x, a, v[t + 1], ORDER, ORDER, ORDER, true);
    for (int i = 0; i < ORDER * ORDER; i++) v[t + 1][i] += q[i];
  }
  L log_det = invert(s, inv, STEPS);
  CHECK_NEAR(total, (double)gaussian(e, inv, log_det, STEPS), 1e-11);
  pn_scope_close(c, mark);
}

/* ---- missing observations ---- */

static void partly_observed(C *c) {
  const unsigned char pattern[] = {1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0};
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 4, 1, 4, 3);
  T *observed = pn_from_data(c, PN_BOOL, SHAPE(4, 3), pattern);
  T *gone = pn_full(c, PN_FLOAT64, SHAPE(4, 3), NAN);
  pn_kalman all = {0}, got = {0};
  f.y = pn_where(c, observed, f.y, gone);
  CHECK_STATUS(c, update(c, &f, observed, &got), PN_OK);
  for (int64_t i = 0; i < 4; i++) {
    int64_t kept[3], count = 0;
    for (int64_t k = 0; k < 3; k++)
      if (pattern[i * 3 + k]) kept[count++] = k;
    T *mean = pn_select(c, f.mean, 0, i), *cov = pn_select(c, f.cov, 0, i);
    T *index = pn_from_data(c, PN_INT64, 1, &count, kept);
    if (count) {
      T *r = pn_take(c, pn_take(c, f.r, 0, index), 1, index), *y = pn_take(c, pn_select(c, f.y, 0, i), 0, index);
      pn_status s =
          pn_kalman_update(c, mean, cov, y, pn_take(c, f.c, 0, index), pn_take(c, f.d, 0, index), r, NULL, 0, &all);
      CHECK_STATUS(c, s, PN_OK);
      CHECK_SAME(c, pn_select(c, got.mean, 0, i), all.mean, 1e-13);
      CHECK_SAME(c, pn_select(c, got.cov, 0, i), all.cov, 1e-13);
      CHECK_SAME(c, pn_select(c, got.log_prob, 0, i), all.log_prob, 1e-13);
    } else {
      CHECK_SAME(c, pn_select(c, got.mean, 0, i), mean, 0);
      CHECK_SAME(c, pn_select(c, got.cov, 0, i), cov, 1e-16);
      CHECK(largest(c, pn_select(c, got.log_prob, 0, i)) == 0);
      CHECK(largest(c, pn_select(c, got.gain, 0, i)) == 0);
    }
  }
  /* without a mask a NaN stays in its own filter, and in what depends on y */
  CHECK_STATUS(c, update(c, &f, NULL, &got), PN_OK);
  CHECK(isfinite(largest(c, pn_select(c, got.mean, 0, 0))) && isfinite(largest(c, got.cov)));
  CHECK(isnan(largest(c, pn_select(c, got.log_prob, 0, 3))));
  CHECK(update(c, &f, f.y, &got) != PN_OK);
  CHECK_FAIL(c, PN_DTYPE, "observed must be bool");
  pn_scope_close(c, mark);
}

/* ---- layout ---- */

/* The same numbers with other strides. */
static T *turned(C *c, T *x) {
  if (x->ndim < 2) return pn_flip(c, pn_contiguous(c, pn_flip(c, x, -1)), -1);
  return mt(c, pn_contiguous(c, mt(c, x)));
}

static void layouts(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 21, 0, 5, 3), g = f, s = make(c, PN_FLOAT64, 21, 1, 5, 3), w = s;
  T **x = &g.mean, **z = &w.mean, *mean[3] = {0}, *cov[3] = {0};
  pn_kalman u[3] = {0};
  for (int k = 0; k < 9; k++) x[k] = turned(c, x[k]);
  CHECK_STATUS(c, update(c, &f, NULL, &u[0]), PN_OK);
  CHECK_STATUS(c, update(c, &g, NULL, &u[1]), PN_OK);
  pn_kalman_predict(c, f.mean, f.cov, f.a, f.b, f.q, &mean[0], &cov[0]);
  pn_kalman_predict(c, g.mean, g.cov, g.a, g.b, g.q, &mean[1], &cov[1]);
  T **first = &u[0].mean, **second = &u[1].mean;
  for (int k = 0; k < 6; k++) CHECK_SAME(c, first[k], second[k], 0);
  CHECK_SAME(c, mean[0], mean[1], 0);
  CHECK_SAME(c, cov[0], cov[1], 0);
  /* one filter at a time */
  for (int64_t i = 0; i < 21; i++) {
    filter one;
    T **to = &one.mean, **from = &f.mean;
    for (int k = 0; k < 9; k++) to[k] = pn_select(c, from[k], 0, i);
    CHECK_STATUS(c, update(c, &one, NULL, &u[2]), PN_OK);
    for (int k = 0; k < 6; k++) CHECK_SAME(c, pn_select(c, (&u[0].mean)[k], 0, i), (&u[2].mean)[k], 0);
    pn_kalman_predict(c, one.mean, one.cov, one.a, one.b, one.q, &mean[2], &cov[2]);
    CHECK_SAME(c, pn_select(c, cov[0], 0, i), cov[2], 0);
    CHECK_SAME(c, pn_select(c, mean[0], 0, i), mean[2], 0);
  }
  /* shared operands against their copies, and two batch axes of which each operand has one */
  for (int k = 2; k < 9; k++)
    if (k != 5) z[k] = pn_contiguous(c, pn_add(c, z[k], pn_zeros(c, PN_FLOAT64, SHAPE(21, 1, 1))));
  w.b = pn_add(c, s.b, pn_zeros(c, PN_FLOAT64, SHAPE(21, 1)));
  w.d = pn_add(c, s.d, pn_zeros(c, PN_FLOAT64, SHAPE(21, 1)));
  CHECK_STATUS(c, update(c, &s, NULL, &u[0]), PN_OK);
  CHECK_STATUS(c, update(c, &w, NULL, &u[1]), PN_OK);
  for (int k = 0; k < 6; k++) CHECK_SAME(c, (&u[0].mean)[k], (&u[1].mean)[k], 0);
  filter cross = f;
  cross.mean = pn_unsqueeze(c, f.mean, 1);
  cross.cov = pn_unsqueeze(c, f.cov, 1);
  CHECK_STATUS(c, update(c, &cross, NULL, &u[2]), PN_OK);
  CHECK(u[2].cov && u[2].cov->ndim == 4 && u[2].cov->shape[0] == 21 && u[2].cov->shape[1] == 21);
  CHECK_STATUS(c, update(c, &f, NULL, &u[1]), PN_OK);
  for (int64_t i = 0; i < 21; i += 5)
    CHECK_SAME(c, pn_select(c, pn_select(c, u[2].cov, 0, i), 0, i), pn_select(c, u[1].cov, 0, i), 0);
  pn_scope_close(c, mark);
}

/* Each operand with some of three axes of the batch, as they stand or turned, against all of them with all axes:
 * values and gradients. */
static void axes(C *c, int form) {
  static const int64_t batch[] = {2, 3, 5};
  size_t mark = pn_scope_open(c);
  filter own, all;
  T **few = &own.mean, **full = &all.mean, *want[9] = {0}, *got[9] = {0};
  pn_kalman u[2] = {{0}, {0}};
  for (int k = 0; k < 9; k++) {
    const int64_t rows[] = {3, 3, 3, 3, 3, 2, 2, 2, 2}, cols[] = {0, 3, 3, 0, 3, 0, 3, 0, 2};
    int has = form == 8 ? 7 : (k * 3 + form) % 8, own_axes = cols[k] ? 2 : 1;
    int64_t shape[5] = {0, 0, 0, rows[k], cols[k]}, wide[5] = {2, 3, 5, rows[k], cols[k]};
    for (int i = 0; i < 3; i++) shape[i] = has >> i & 1 ? batch[i] : 1;
    T *x = pn_randn(c, NULL, PN_FLOAT64, 3 + own_axes, shape);
    if (k == 1 || k == 4 || k == 8)
      x = pn_add(c, pn_mul(c, pn_matmul(c, x, mt(c, x)), pn_scalar(c, PN_FLOAT64, 0.3)),
                 pn_eye(c, PN_FLOAT64, rows[k], rows[k]));
    x = pn_contiguous(c, pn_transpose(c, x, k % 2, 2));
    few[k] = pn_param(c, pn_transpose(c, x, k % 2, 2));
    full[k] = pn_contiguous(c, pn_broadcast_to(c, few[k], 3 + own_axes, wide));
  }
  for (int way = 0; way < 2; way++) {
    filter *f = way ? &all : &own;
    CHECK_STATUS(c, pn_kalman_step(c, f->mean, f->cov, f->a, f->b, f->q, f->y, f->c, f->d, f->r, NULL, &u[way]), PN_OK);
    T *sum = pn_add(c, pn_sum(c, pn_sin(c, u[way].mean), PN_ALL, 0), pn_sum(c, pn_sin(c, u[way].cov), PN_ALL, 0));
    sum = pn_add(c, sum, pn_sum(c, pn_sin(c, u[way].log_prob), PN_ALL, 0));
    CHECK_STATUS(c, pn_grad(c, sum, 9, few, 0, way ? want : got), PN_OK);
  }
  CHECK_SAME(c, u[0].mean, u[1].mean, 0);
  CHECK_SAME(c, u[0].cov, u[1].cov, 0);
  CHECK_SAME(c, u[0].log_prob, u[1].log_prob, 0);
  for (int k = 0; k < 9; k++) CHECK_SAME(c, got[k], want[k], 1e-11);
  pn_scope_close(c, mark);
}

/* Filters that go side by side, and how many shares of a piece of scratch there are. */
static void choices(void) {
  static const int orders[][2] = {{32, 32}, {33, 1}, {1, 33}, {1, 1}, {33, 33}};
  for (int k = 0; k < 5; k++)
    for (int level = 0; level < 3; level++) {
      bool alone = orders[k][0] > 32 || orders[k][1] > 32;
      int wide = 7, narrow = 7, most = 0;
      pni_kalman_f64(level, &most);
      pni_kalman_group f64 = pni_kalman_choose(8, level, orders[k][0], orders[k][1], &narrow);
      pni_kalman_group f32 = pni_kalman_choose(4, level, orders[k][0], orders[k][1], &wide);
      CHECK((f64 == pni_kalman_alone_f64) == alone && (f32 == pni_kalman_alone_f32) == alone);
      CHECK_INT(narrow, alone ? 1 : most);
      CHECK_INT(wide, alone ? 1 : 2 * most);
    }
  CHECK_INT(pni_kalman_shards(1), 32);
  CHECK_INT(pni_kalman_shards(1 << 23), 32);
  CHECK_INT(pni_kalman_shards((1 << 23) + (1 << 19)), 30);
  CHECK_INT(pni_kalman_shards(1 << 27), 2);
  CHECK_INT(pni_kalman_shards((1 << 27) + 1), 1);
  CHECK_INT(pni_kalman_shards((int64_t)1 << 29), 1);
}

/* Every instruction set gives the same bits, of gradients too. */
static void levels_of(C *c, pn_dtype dtype, int shared, int64_t n, int64_t p) {
  enum { KINDS = 8 };
  const int kinds[] = {PNI_KALMAN_PREDICT,         PNI_KALMAN_UPDATE,         PNI_KALMAN_STEP,
                       PNI_KALMAN_PREDICT_ADJOINT, PNI_KALMAN_UPDATE_ADJOINT, PNI_KALMAN_STEP_ADJOINT,
                       PNI_KALMAN_PREDICT,         PNI_KALMAN_PREDICT_ADJOINT};
  size_t mark = pn_scope_open(c);
  filter f = make(c, dtype, 61, shared, n, p);
  T *g = pn_randn(c, NULL, dtype, SHAPE(61, n + n * n + 1)), *out[KINDS][3];
  T *of_predict = pn_contiguous(c, pn_slice(c, g, 1, 0, n + n * n, 1));
  T *of_seen = pn_contiguous(c, pn_slice(c, g, 1, 0, p + p * p, 1));
  T *in[KINDS][11] = {{f.mean, f.cov, f.a, f.b, f.q},
                      {f.mean, f.cov, f.y, f.c, f.d, f.r},
                      {f.mean, f.cov, f.a, f.b, f.q, f.y, f.c, f.d, f.r},
                      {of_predict, f.mean, f.cov, f.a},
                      {g, f.mean, f.cov, f.y, f.c, f.d, f.r},
                      {g, f.mean, f.cov, f.a, f.b, f.q, f.y, f.c, f.d, f.r},
                      {f.mean, f.cov, f.c, f.d, f.r},
                      {of_seen, f.mean, f.cov, f.c}};
  const int nin[] = {5, 6, 9, 4, 7, 10, 5, 4};
  for (int i = 0; i < KINDS; i++)
    for (int level = 0; level < 3; level++) {
      int kind = kinds[i];
      bool adjoint = kind >= PNI_KALMAN_PREDICT_ADJOINT;
      int64_t size = pni_kalman_size(kind, kind == PNI_KALMAN_UPDATE, i < 6 ? n : p, p), flat = 0;
      for (int k = 1; adjoint && k < nin[i]; k++) flat += in[i][k]->numel;
      out[i][level] = adjoint ? pn_zeros(c, dtype, SHAPE(flat)) : pn_zeros(c, dtype, SHAPE(61, size));
      T *to = out[i][level];
      pn_status s = adjoint ? pni_kalman_adjoint(c, "test", level, kind, 2046, nin[i], in[i], to)
                            : pni_kalman_step(c, "test", level, kind, kind == PNI_KALMAN_UPDATE, nin[i], in[i], to);
      CHECK_STATUS(c, s, PN_OK);
      CHECK_SAME(c, to, out[i][0], 0);
      CHECK(largest(c, to) > 0);
    }
  pn_scope_close(c, mark);
}

static void levels(C *c, pn_dtype dtype) {
  const int64_t orders[][2] = {{1, 1}, {2, 1}, {4, 2}, {7, 3}, {10, 4}};
  for (int k = 0; k < 5; k++)
    for (int shared = 0; shared < 2; shared++) levels_of(c, dtype, shared, orders[k][0], orders[k][1]);
}

/* ---- a very exact observation leaves the covariance semidefinite ---- */

static void semidefinite(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 50, 1, 6, 3);
  T *tiny = pn_mul(c, f.r, pn_scalar(c, PN_FLOAT64, 1e-12)), *values = NULL, *vectors = NULL;
  double least = -1;
  for (int step = 0; step < 20; step++) {
    pn_kalman u = {0};
    CHECK_STATUS(c, pn_kalman_update(c, f.mean, f.cov, f.y, f.c, NULL, tiny, NULL, 0, &u), PN_OK);
    f.mean = u.mean;
    f.cov = u.cov;
  }
  CHECK(f.cov && largest(c, pn_sub(c, f.cov, mt(c, f.cov))) == 0);
  CHECK_STATUS(c, pn_eigh(c, f.cov, &values, &vectors), PN_OK);
  pn_tensor_item(c, pn_min(c, values, PN_ALL, 0), &least);
  CHECK(least > -1e-14 * largest(c, f.cov));
  pn_scope_close(c, mark);
}

/* ---- derivatives ---- */

static const filter *fixed; /* operands that are not varied */
static T *mask;

static T *predict_of(C *c, T *m, T *p, T *a, T *b, T *q) {
  T *mean = NULL, *cov = NULL;
  if (pn_kalman_predict(c, m, p, a, b, q, &mean, &cov) != PN_OK) return NULL;
  return pn_concatenate(c, 2, (T *[]){mean, pn_reshape(c, cov, 2, (int64_t[]){2, -1})}, 1);
}
static T *predict_state(C *c, T *const *x) { return predict_of(c, x[0], x[1], fixed->a, x[2], fixed->q); }
static T *predict_model(C *c, T *const *x) { return predict_of(c, fixed->mean, x[0], x[1], fixed->b, x[2]); }
static T *predict_bends(C *c, T *const *x) { return pn_square(c, predict_of(c, x[0], x[1], x[2], fixed->b, fixed->q)); }

static T *update_of(C *c, T *m, T *p, T *y, T *h, T *d, T *r, int details) {
  pn_kalman u;
  if (pn_kalman_update(c, m, p, y, h, d, r, mask, details, &u) != PN_OK) return NULL;
  T *all[] = {u.mean,
              pn_reshape(c, u.cov, 2, (int64_t[]){2, -1}),
              pn_unsqueeze(c, u.log_prob, -1),
              u.innovation,
              details ? pn_reshape(c, u.innovation_cov, 2, (int64_t[]){2, -1}) : NULL,
              details ? pn_reshape(c, u.gain, 2, (int64_t[]){2, -1}) : NULL};
  return pn_concatenate(c, details ? 6 : 3, all, 1);
}
static T *update_state(C *c, T *const *x) { return update_of(c, x[0], x[1], x[2], fixed->c, x[3], fixed->r, 0); }
static T *update_model(C *c, T *const *x) { return update_of(c, x[0], x[1], fixed->y, x[2], fixed->d, x[3], 0); }
static T *update_state_all(C *c, T *const *x) { return update_of(c, x[0], x[1], x[2], fixed->c, x[3], fixed->r, 1); }
static T *update_model_all(C *c, T *const *x) { return update_of(c, x[0], x[1], fixed->y, x[2], fixed->d, x[3], 1); }

static T *step_of(C *c, T *const *x) {
  pn_kalman u;
  if (pn_kalman_step(c, x[0], x[1], x[2], fixed->b, x[3], fixed->y, fixed->c, fixed->d, fixed->r, mask, &u) != PN_OK)
    return NULL;
  return pn_concatenate(
      c, 3, (T *[]){u.mean, pn_reshape(c, u.cov, 2, (int64_t[]){2, -1}), pn_unsqueeze(c, u.log_prob, -1)}, 1);
}
static T *step_emission(C *c, T *const *x) {
  pn_kalman u;
  if (pn_kalman_step(c, fixed->mean, fixed->cov, fixed->a, x[0], fixed->q, x[1], x[2], fixed->d, x[3], mask, &u))
    return NULL;
  return pn_concatenate(
      c, 3, (T *[]){u.mean, pn_reshape(c, u.cov, 2, (int64_t[]){2, -1}), pn_unsqueeze(c, u.log_prob, -1)}, 1);
}

static void derivatives(C *c, int shared) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 2, shared, 3, 2), v;
  T **from = &f.mean, **to = &v.mean;
  for (int k = 0; k < 9; k++) to[k] = pn_param(c, from[k]);
  v.cov = pn_param(c, pn_add(c, f.cov,
                             pn_mul(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(3, 3)),
                                    pn_scalar(c, PN_FLOAT64, 0.1)))); /* not quite symmetric */
  fixed = &f;
  gradient_check(c, "predict, state", predict_state, 3, (T *[]){v.mean, v.cov, v.b});
  gradient_check(c, "predict, model", predict_model, 3, (T *[]){v.cov, v.a, v.q});
  gradient_check(c, "predict, squared", predict_bends, 3, (T *[]){v.mean, v.cov, v.a});
  for (int part = 0; part < 2; part++) {
    mask = part ? pn_from_data(c, PN_BOOL, SHAPE(2, 2), (const unsigned char[]){1, 0, 1, 1}) : NULL;
    T *state[] = {v.mean, v.cov, v.y, v.d}, *model[] = {v.mean, v.cov, v.c, v.r};
    gradient_check(c, "update, state", update_state, 4, state);
    gradient_check(c, "update, model", update_model, 4, model);
    gradient_check(c, "update, state, all results", update_state_all, 4, state);
    gradient_check(c, "update, model, all results", update_model_all, 4, model);
    gradient_check(c, "step", step_of, 4, (T *[]){v.mean, v.cov, v.a, v.q});
    gradient_check(c, "step, emission", step_emission, 4, (T *[]){v.b, v.y, v.c, v.r});
  }
  mask = NULL;
  pn_scope_close(c, mark);
}

/* Gradients of all operands of a predict and an update, by the kernels or (graph) by the builders; step: in one
 * pass. */
static pn_status all_gradients(C *c, const filter *f, T *observed, int graph, int step, T **g) {
  T *mean = NULL, *cov = NULL, *x[9];
  pn_kalman u = {0};
  for (int k = 0; k < 9; k++) x[k] = (T *)(uintptr_t)(&f->mean)[k];
  if (step)
    pn_kalman_step(c, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], observed, &u);
  else if (pn_kalman_predict(c, x[0], x[1], x[2], x[3], x[4], &mean, &cov) == PN_OK)
    pn_kalman_update(c, mean, cov, x[5], x[6], x[7], x[8], observed, 0, &u);
  if (!u.mean) return pn_context_status(c);
  T *sum = pn_add(c, pn_sum(c, pn_sin(c, u.mean), PN_ALL, 0), pn_sum(c, pn_sin(c, u.cov), PN_ALL, 0));
  return pn_grad(c, pn_add(c, sum, pn_sum(c, u.log_prob, PN_ALL, 0)), 9, x, graph, g);
}

static filter parameters(C *c, const filter *f) {
  filter v;
  for (int k = 0; k < 9; k++) (&v.mean)[k] = pn_param(c, (&f->mean)[k]);
  return v;
}

static void kernels(C *c, pn_dtype dtype, int64_t batch, int shared, int64_t n, int64_t p, double tolerance) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, dtype, batch, shared, n, p), v = parameters(c, &f);
  T *coin = pn_gt(c, random_vector(c, dtype, batch, p), pn_scalar(c, dtype, 0)), *one[9] = {0}, *two[9] = {0};
  for (int part = 0; part < 2; part++) {
    CHECK_STATUS(c, all_gradients(c, &v, part ? coin : NULL, 1, 0, two), PN_OK);
    for (int way = 0; way < 3; way++) { /* two kernels, one kernel, builders of the one */
      CHECK_STATUS(c, all_gradients(c, &v, part ? coin : NULL, way == 2, way > 0, one), PN_OK);
      for (int k = 0; k < 9; k++) CHECK_SAME(c, one[k], two[k], tolerance * fmax(1, largest(c, two[k])));
    }
  }
  /* some of them alone, and no filters at all */
  T *mean = NULL, *cov = NULL, *some[] = {v.a};
  CHECK_STATUS(c, pn_kalman_predict(c, f.mean, f.cov, v.a, f.b, f.q, &mean, &cov), PN_OK);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_square(c, cov), PN_ALL, 0), 1, some, 0, one), PN_OK);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_square(c, cov), PN_ALL, 0), 1, some, 1, two), PN_OK);
  CHECK_SAME(c, one[0], two[0], tolerance * fmax(1, largest(c, two[0])));
  if (batch) {
    T *none = pn_slice(c, v.mean, 0, 0, 0, 1), *no_cov = pn_slice(c, v.cov, 0, 0, 0, 1);
    filter s = make(c, dtype, 0, 1, n, p), w = parameters(c, &s);
    CHECK_STATUS(c, pn_kalman_predict(c, none, no_cov, w.a, w.b, w.q, &mean, &cov), PN_OK);
    CHECK_STATUS(c, pn_grad(c, pn_sum(c, cov, PN_ALL, 0), 1, &w.a, 0, one), PN_OK);
    CHECK(largest(c, one[0]) == 0);
  }
  pn_scope_close(c, mark);
}

static void all_kernels(C *c) {
  const int64_t orders[][2] = {{1, 1}, {4, 2}, {7, 3}, {10, 4}, {2, 5}, {32, 32}};
  for (int k = 0; k < 6; k++)
    for (int shared = 0; shared < 2; shared++) {
      kernels(c, PN_FLOAT64, k == 5 ? 3 : 21, shared, orders[k][0], orders[k][1], 1e-9);
      kernels(c, PN_FLOAT32, k == 5 ? 3 : 21, shared, orders[k][0], orders[k][1], 2e-3);
      kernels(c, PN_FLOAT64, 0, shared, orders[k][0], orders[k][1], 1e-9);
    }
}

/* The number of threads changes no bit of any gradient. */
static void threads(void) {
  double got[4][9][100];
  for (int way = 0; way < 4; way++) { /* two steps, then one pass */
    C *c = pn_context_new(&(pn_context_config){.seed = 5, .threads = way % 2 ? 3 : 1});
    size_t mark = pn_scope_open(c);
    filter f = make(c, PN_FLOAT64, 2000, 1, 4, 2), v = parameters(c, &f);
    T *g[9] = {0};
    CHECK_STATUS(c, all_gradients(c, &v, NULL, 0, way / 2, g), PN_OK);
    for (int k = 0; k < 9; k++) {
      int64_t size = g[k] ? g[k]->numel : 0, few = size < 100 ? size : 100;
      CHECK_STATUS(c, pn_tensor_copy_out(c, pn_slice(c, pn_reshape(c, g[k], 1, &size), 0, 0, few, 1), got[way][k], few),
                   PN_OK);
      if (way % 2) CHECK(memcmp(got[way - 1][k], got[way][k], (size_t)few * sizeof(double)) == 0);
    }
    pn_scope_close(c, mark);
    pn_context_close(c);
  }
}

/* A missing NaN gives no NaN gradient. */
static void missing_gradient(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 2, 1, 3, 2);
  T *there = pn_from_data(c, PN_BOOL, SHAPE(2), (const unsigned char[]){1, 0});
  T *y = pn_param(c, pn_where(c, there, f.y, pn_full(c, PN_FLOAT64, SHAPE(2), NAN))), *cov = pn_param(c, f.cov);
  T *in[] = {y, cov}, *g[2] = {0};
  pn_kalman u = {0};
  CHECK_STATUS(c, pn_kalman_update(c, f.mean, cov, y, f.c, f.d, f.r, there, 0, &u), PN_OK);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, u.log_prob, PN_ALL, 0), 2, in, 0, g), PN_OK);
  CHECK(isfinite(largest(c, g[0])) && isfinite(largest(c, g[1])) && largest(c, g[0]) > 0);
  CHECK(largest(c, pn_select(c, g[0], 1, 1)) == 0);
  pn_scope_close(c, mark);
}

/* ---- failures ---- */

static void failures(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 5, 1, 3, 2), g = f;
  pn_kalman u = {0};
  T *mean = NULL, *cov = NULL, *bad = pn_mul(c, f.r, pn_scalar(c, PN_FLOAT64, -40));
  T *own[] = {f.r, f.r, f.r, bad, bad};
  g.r = pn_stack(c, 5, own, 0);
  CHECK(update(c, &g, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SINGULAR,
             "kalman_update: innovation covariance, matrix [4] of the batch, must be positive definite");
  own[1] = pn_full(c, PN_FLOAT64, SHAPE(2, 2), INFINITY);
  g.r = pn_stack(c, 5, own, 0);
  CHECK(update(c, &g, NULL, &u) != PN_OK);
  CHECK_FAIL(c, PN_NAN, "matrix [2] of the batch, must be finite");
  g = f;
  g.r = bad;
  CHECK(update(c, &g, NULL, &u) != PN_OK);
  CHECK_FAIL(c, PN_SINGULAR, "matrix [1] of the batch");
  g.r = f.q;
  CHECK(update(c, &g, NULL, &u) != PN_OK);
  CHECK_FAIL(c, PN_SHAPE, "kalman_update: r must be [..., p, p] with n = 3, p = 2, got [3, 3]");
  CHECK(pn_kalman_predict(c, f.mean, f.cov, f.c, NULL, f.q, &mean, &cov) != PN_OK && !mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_predict: q must be [..., p, p] with n = 3, p = 2, got [3, 3]");
  CHECK(pn_kalman_predict(c, f.mean, f.cov, mt(c, f.c), NULL, f.q, &mean, &cov) != PN_OK && !mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_predict: a must be [..., p, n]");
  CHECK(pn_kalman_step(c, f.mean, f.cov, f.a, f.b, f.q, f.y, f.c, f.d, f.q, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_step: r must be [..., p, p] with n = 3, p = 2, got [3, 3]");
  CHECK(pn_kalman_step(c, f.mean, f.cov, f.a, f.b, f.q, f.y, f.c, f.d, bad, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SINGULAR, "kalman_step: innovation covariance, matrix [1] of the batch");
  CHECK(pn_kalman_step(c, f.mean, f.cov, f.a, f.b, f.q, f.y, f.c, f.d, f.r, f.y, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_DTYPE, "kalman_step: observed must be bool");
  CHECK(pn_kalman_step(c, f.mean, f.cov, f.a, f.b, f.q, f.y, NULL, f.d, f.r, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_STATE, "kalman_step: cov and c must be tensors");
  T *flat = pn_zeros(c, PN_FLOAT64, SHAPE(3));
  CHECK(pn_kalman_step(c, f.mean, f.cov, f.a, NULL, f.q, f.y, flat, NULL, f.r, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_step: c must have at least 2 axes, got [3]");
  CHECK(pn_kalman_update(c, f.mean, f.cov, f.y, flat, NULL, f.r, NULL, 0, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_update: c must have at least 2 axes, got [3]");
  T *big = pn_broadcast_to(c, pn_scalar(c, PN_FLOAT64, 1), SHAPE(4097, 4097));
  CHECK(pn_kalman_predict(c, pn_zeros(c, PN_FLOAT64, SHAPE(4097)), big, big, NULL, big, &mean, &cov) != PN_OK);
  CHECK_FAIL(c, PN_SHAPE, "order of the state must be from 1 to 4096, got 4097");
  CHECK(pn_kalman_predict(c, f.mean, NULL, f.a, NULL, f.q, &mean, &cov) != PN_OK);
  CHECK_FAIL(c, PN_STATE, "cov must be a tensor");
  CHECK(pn_kalman_predict(c, NULL, f.cov, f.a, NULL, f.q, &mean, &cov) != PN_OK);
  CHECK_FAIL(c, PN_STATE, "must be a tensor, got NULL");
  CHECK(pn_kalman_predict(c, f.mean, f.cov, pn_cast(c, f.a, PN_FLOAT32), NULL, f.q, &mean, &cov) != PN_OK);
  CHECK_FAIL(c, PN_DTYPE, "float32");
  f.cov = pn_zeros(c, PN_FLOAT64, SHAPE(0, 3, 3)); /* no filters at all */
  f.mean = pn_zeros(c, PN_FLOAT64, SHAPE(0, 3));
  f.y = pn_zeros(c, PN_FLOAT64, SHAPE(0, 2));
  CHECK_STATUS(c, update(c, &f, NULL, &u), PN_OK);
  CHECK(u.gain && u.gain->numel == 0);
  pn_scope_close(c, mark);
}

/* A batch of the most axes and of one more; orders of none; what an adjoint is given. */
static void sizes(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 0, 1, 3, 2);
  T *mean, *cov, **part = &f.mean, *none = pn_zeros(c, PN_FLOAT64, SHAPE(0, 0)),
                 *no = pn_zeros(c, PN_FLOAT64, SHAPE(0));
  for (int axes = 5; axes <= 6; axes++)
    for (int k = 0; k < 9; k++) { /* one operand has them */
      filter g = f;
      pn_kalman u;
      int64_t shape[8] = {1, 1, 1, 1, 1, 1};
      T **own = &g.mean + k, *x = part[k];
      if (x->ndim + axes > PN_MAX_DIMS) continue;
      for (int i = 0; i < x->ndim; i++) shape[axes + i] = x->shape[i];
      *own = pn_reshape(c, x, x->ndim + axes, shape);
      for (int kind = 0; kind < 3; kind++) {
        static const char *const names[] = {"kalman_predict", "kalman_update", "kalman_step"};
        char text[80];
        if ((kind == 0 && k > 4) || (kind == 1 && k > 1 && k < 5)) continue;
        pn_status s = kind == 0   ? pn_kalman_predict(c, g.mean, g.cov, g.a, g.b, g.q, &mean, &cov)
                      : kind == 1 ? update(c, &g, NULL, &u)
                                  : pn_kalman_step(c, g.mean, g.cov, g.a, g.b, g.q, g.y, g.c, g.d, g.r, NULL, &u);
        snprintf(text, sizeof text, "%s: a batch must have at most 5 axes, got 6", names[kind]);
        if (axes == 5)
          CHECK_STATUS(c, s, PN_OK);
        else
          CHECK_FAIL(c, PN_SHAPE, text);
      }
    }
  CHECK(pn_kalman_predict(c, no, none, none, no, none, &mean, &cov) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "kalman_predict: order of the state must be from 1 to 4096, got 0");
  f.c = pn_zeros(c, PN_FLOAT64, SHAPE(0, 3));
  pn_kalman u;
  CHECK(pn_kalman_update(c, f.mean, f.cov, no, f.c, no, none, NULL, 1, &u) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "kalman_update: order of the observation must be from 1 to 4096, got 0");
  filter g = make(c, PN_FLOAT64, 4, 1, 3, 2);
  T *rows[] = {pn_zeros(c, PN_FLOAT64, SHAPE(4, 12)), pn_zeros(c, PN_FLOAT64, SHAPE(2, 4, 12)),
               pn_zeros(c, PN_FLOAT64, SHAPE(4, 11)), pn_zeros(c, PN_FLOAT64, SHAPE(3, 12)),
               pn_zeros(c, PN_FLOAT64, SHAPE(12)),    pn_zeros(c, PN_FLOAT64, SHAPE(4, 2, 12))};
  for (int k = 0; k < 6; k++) {
    pni_attr a = {.ni = 2, .i = {PNI_KALMAN_PREDICT_ADJOINT, 2 | 8}}; /* of mean, one for each filter, and of a */
    T *x = pni_apply(c, &pni_kalman_op_kalman_adjoint, 4, (T *[]){rows[k], g.mean, g.cov, g.a}, &a);
    CHECK(!x == (k > 1) && (!x || x->numel == (k ? 24 : 12) + 9));
    if (!x) CHECK_FAIL(c, PN_SHAPE, "kalman_adjoint: g must be as the packed rows, [4, 12], got [");
  }
  pn_scope_close(c, mark);
}

/* ---- allocation failures ---- */

static bool sweep_steps(C *c, const void *data) {
  bool details = data != NULL;
  T *m = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 2))), *p = pn_param(c, pn_eye(c, PN_FLOAT64, 2, 2));
  T *y = pn_full(c, PN_FLOAT64, SHAPE(2), 0.5), *q = pn_eye(c, PN_FLOAT64, 2, 2), *mean, *cov, *g[2];
  T *observed = details ? pn_from_data(c, PN_BOOL, SHAPE(2), (const unsigned char[]){1, 0}) : NULL;
  pn_kalman u;
  if (pn_kalman_predict(c, m, p, p, NULL, q, &mean, &cov) != PN_OK) return false;
  if (pn_kalman_update(c, mean, cov, y, q, NULL, p, observed, details, &u) != PN_OK) return false;
  T *sum = pn_add(c, pn_sum(c, pn_square(c, u.cov), PN_ALL, 0), pn_sum(c, u.log_prob, PN_ALL, 0));
  if (details) sum = pn_add(c, sum, pn_sum(c, u.gain, PN_ALL, 0));
  if (!sum || pn_grad(c, sum, 2, (T *[]){m, p}, 1, g) != PN_OK) return false;
  T *squares = pn_sum(c, pn_square(c, g[1]), PN_ALL, 0);
  return squares && pn_grad(c, sum, 2, (T *[]){m, p}, 0, g) == PN_OK && pn_backward(c, squares) == PN_OK;
}

static bool sweep_pass(C *c, const void *data) {
  (void)data;
  T *m = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 2))), *p = pn_param(c, pn_eye(c, PN_FLOAT64, 2, 2));
  T *y = pn_full(c, PN_FLOAT64, SHAPE(2), 0.5), *q = pn_eye(c, PN_FLOAT64, 2, 2), *g[2];
  T *observed = pn_from_data(c, PN_BOOL, SHAPE(2), (const unsigned char[]){1, 0});
  pn_kalman u;
  if (pn_kalman_step(c, m, p, p, NULL, q, y, q, NULL, p, observed, &u) != PN_OK) return false;
  T *sum = pn_add(c, pn_sum(c, pn_square(c, u.cov), PN_ALL, 0), pn_sum(c, u.log_prob, PN_ALL, 0));
  if (!sum || pn_grad(c, sum, 2, (T *[]){m, p}, 1, g) != PN_OK) return false;
  T *squares = pn_sum(c, pn_square(c, g[1]), PN_ALL, 0);
  return squares && pn_grad(c, sum, 2, (T *[]){m, p}, 0, g) == PN_OK && pn_backward(c, squares) == PN_OK;
}

int main(void) {
  C *c = pn_context_new(&(pn_context_config){.seed = 3, .threads = 2});
  references(c);
  no_offsets(c, PN_FLOAT64);
  no_offsets(c, PN_FLOAT32);
  goldens(c);
  evidence(c);
  partly_observed(c);
  layouts(c);
  for (int form = 0; form < 9; form++) axes(c, form);
  choices();
  levels(c, PN_FLOAT64);
  levels(c, PN_FLOAT32);
  semidefinite(c);
  derivatives(c, 0);
  derivatives(c, 1);
  missing_gradient(c);
  all_kernels(c);
  failures(c);
  sizes(c);
  CHECK_INT(pn_context_status(c), PN_OK);
  pn_context_close(c);
  threads();
  sweep("kalman", sweep_steps, NULL);
  sweep("kalman, all results", sweep_steps, "details");
  sweep("kalman, one pass", sweep_pass, NULL);
  CHECK_DONE();
}
