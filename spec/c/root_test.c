/*
** root_test.c: square roots of covariances. tria and Cholesky updates against factors in 60 digits and against the
** products they stand for; the Kalman filter on roots against the one on covariances, and at conditions where
** covariances fail; derivatives; what is missing; failures.
*/
#include "../../src/autodiff/op/op.h"
#include "../../src/smc/kalman/kalman.h"
#include "../golden/linalg/kalman_root_golden.h"
#include "alloc_sweep.h"
#include "gradient.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define GIVEN(name, ...) pn_from_data(c, PN_FLOAT64, SHAPE(__VA_ARGS__), golden_##name)

typedef pn_tensor T;
typedef pn_context C;

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }
static T *square(C *c, T *x) { return pn_matmul(c, x, mt(c, x)); }
static T *times(C *c, T *x, double by) { return pn_mul(c, x, x ? pn_scalar(c, (pn_dtype)x->dtype, by) : NULL); }

static double largest(C *c, T *x) {
  double d = NAN;
  if (x) pn_tensor_item(c, pn_max(c, pn_abs(c, x), PN_ALL, 0), &d);
  return d;
}
#define CHECK_SAME(c, x, y, tolerance) CHECK(largest(c, pn_sub(c, x, y)) <= (tolerance)*fmax(1, largest(c, y)))

/* ---- tria ---- */

static void products(C *c, pn_dtype dtype, int64_t batch, int64_t n, int64_t k, double tolerance) {
  size_t mark = pn_scope_open(c);
  T *x = pn_randn(c, NULL, dtype, SHAPE(batch, n, k)), *l = pn_tria(c, x), *least = NULL;
  double d = -1;
  CHECK_SAME(c, square(c, l), square(c, x), tolerance);
  CHECK(largest(c, pn_triu(c, l, 1)) == 0);
  least = pn_min(c, pn_diagonal(c, l), PN_ALL, 0);
  CHECK(least && pn_tensor_item(c, least, &d) == PN_OK && d > 0);
  /* other strides, and every matrix by itself */
  T *turned = mt(c, pn_contiguous(c, mt(c, x)));
  CHECK(largest(c, pn_sub(c, pn_tria(c, turned), l)) == 0);
  CHECK(largest(c, pn_sub(c, pn_tria(c, pn_select(c, x, 0, batch - 1)), pn_select(c, l, 0, batch - 1))) == 0);
  T *holes = pn_mul(c, x, pn_cast(c, pn_gt(c, x, pn_scalar(c, dtype, 0)), dtype)); /* zeros here and there */
  T *alone = pn_tria(c, pn_select(c, holes, 0, batch - 1)), *among = pn_select(c, pn_tria(c, holes), 0, batch - 1);
  CHECK(largest(c, pn_sub(c, alone, among)) == 0);
  pn_scope_close(c, mark);
}

static void trias(C *c) {
  const int64_t sides[][2] = {{1, 1}, {1, 3}, {2, 2}, {3, 6}, {4, 8}, {7, 9}, {16, 16}, {32, 64}};
  for (int i = 0; i < 8; i++) {
    products(c, PN_FLOAT64, 19, sides[i][0], sides[i][1], 1e-13);
    products(c, PN_FLOAT32, 19, sides[i][0], sides[i][1], 1e-5);
  }
  products(c, PN_FLOAT64, 3, 33, 40, 1e-13);
  products(c, PN_FLOAT64, 2, 20, 70, 1e-13);
  size_t mark = pn_scope_open(c);
  T *l = pn_tria(c, GIVEN(tria_x, 4, 7)), *want = GIVEN(tria_l, 4, 4);
  /* relative to the size of the row, and the last pivot, 1e-7 of its row, to 8 digits */
  double got[16];
  CHECK_STATUS(c, pn_tensor_copy_out(c, l, got, 16), PN_OK);
  for (int i = 0; i < 16; i++) CHECK(fabs(got[i] - golden_tria_l[i]) <= 1e-14 * (i < 4 ? 1 : i < 8 ? 1e4 : 10));
  CHECK_NEAR(got[15], golden_tria_l[15], 1e-8);
  /* tiny and huge ones: squares are not what is stored */
  T *small = times(c, GIVEN(tria_x, 4, 7), 1e-200), *big = times(c, GIVEN(tria_x, 4, 7), 1e200);
  CHECK_SAME(c, times(c, pn_tria(c, small), 1e200), want, 1e-13);
  CHECK_SAME(c, times(c, pn_tria(c, big), 1e-200), want, 1e-13);
  CHECK(largest(c, pn_tria(c, pn_zeros(c, PN_FLOAT64, SHAPE(5, 3, 4)))) == 0);
  /* a factor and what is added to it */
  T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(6, 5, 5)), *v = pn_randn(c, NULL, PN_FLOAT64, SHAPE(5, 2));
  T *factor = pn_cholesky(c, square(c, x)), *sum = pn_add(c, square(c, x), square(c, v));
  CHECK_SAME(c, pn_cholesky_update(c, factor, v), pn_cholesky(c, sum), 1e-12);
  CHECK_SAME(c, pn_cholesky_update(c, x, v), pn_cholesky(c, sum), 1e-12);
  pn_scope_close(c, mark);
}

/* ---- the filter ---- */

typedef struct {
  T *mean, *l, *a, *b, *q, *y, *c, *d, *r;
} filter;

static filter make(C *c, pn_dtype dtype, int64_t batch, int64_t n, int64_t p) {
  filter f = {.mean = pn_randn(c, NULL, dtype, SHAPE(batch, n)), .l = pn_randn(c, NULL, dtype, SHAPE(batch, n, n))};
  f.a = pn_randn(c, NULL, dtype, SHAPE(n, n));
  f.b = pn_randn(c, NULL, dtype, SHAPE(n));
  f.q = pn_randn(c, NULL, dtype, SHAPE(n, n));
  f.y = pn_randn(c, NULL, dtype, SHAPE(batch, p));
  f.c = pn_randn(c, NULL, dtype, SHAPE(p, n));
  f.d = pn_randn(c, NULL, dtype, SHAPE(p));
  f.r = pn_add(c, pn_randn(c, NULL, dtype, SHAPE(p, p)), times(c, pn_eye(c, dtype, p, p), 2));
  return f;
}

static void against_covariances(C *c, pn_dtype dtype, int64_t n, int64_t p, double tolerance) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, dtype, 19, n, p);
  T *mean = NULL, *l = NULL, *want_mean = NULL, *want = NULL;
  T *coin = pn_gt(c, pn_randn(c, NULL, dtype, SHAPE(19, p)), pn_scalar(c, dtype, 0));
  CHECK_STATUS(c, pn_kalman_root_predict(c, f.mean, f.l, f.a, f.b, f.q, &mean, &l), PN_OK);
  CHECK_STATUS(c, pn_kalman_predict(c, f.mean, square(c, f.l), f.a, f.b, square(c, f.q), &want_mean, &want), PN_OK);
  CHECK_SAME(c, mean, want_mean, tolerance);
  CHECK_SAME(c, square(c, l), want, tolerance);
  for (int part = 0; part < 2; part++) {
    pn_kalman u = {0}, w = {0};
    T *there = part ? coin : NULL, *y = part ? pn_where(c, coin, f.y, pn_scalar(c, dtype, NAN)) : f.y;
    CHECK_STATUS(c, pn_kalman_root_update(c, f.mean, f.l, y, f.c, f.d, f.r, there, &u), PN_OK);
    CHECK_STATUS(c, pn_kalman_update(c, f.mean, square(c, f.l), y, f.c, f.d, square(c, f.r), there, 0, &w), PN_OK);
    CHECK_SAME(c, u.mean, w.mean, tolerance * 10);
    CHECK_SAME(c, square(c, u.cov), w.cov, tolerance * 10);
    CHECK_SAME(c, u.log_prob, w.log_prob, tolerance * 10);
    CHECK(!u.innovation && !u.gain && largest(c, pn_triu(c, u.cov, 1)) == 0);
  }
  pn_scope_close(c, mark);
}

/* The kernels, without gradients, against the rows that steps with gradients are composed of; every instruction set. */
static void kernels(C *c, pn_dtype dtype, int64_t n, int64_t p, double tolerance) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, dtype, 19, n, p);
  T *coin = pn_gt(c, pn_randn(c, NULL, dtype, SHAPE(19, p)), pn_scalar(c, dtype, 0)), *mean[2] = {0}, *l[2] = {0};
  T *bits = pn_cast(c, coin, dtype), *out[3];
  pn_kalman u[2] = {{0}, {0}};
  for (int part = 0; part < 2; part++) {
    T *y = part ? pn_where(c, coin, f.y, pn_scalar(c, dtype, NAN)) : f.y;
    for (int way = 0; way < 2; way++) {
      T *root = way ? pn_param(c, f.l) : f.l;
      CHECK_STATUS(c, pn_kalman_root_predict(c, f.mean, root, f.a, f.b, f.q, &mean[way], &l[way]), PN_OK);
      CHECK_STATUS(c, pn_kalman_root_update(c, f.mean, root, y, f.c, f.d, f.r, part ? coin : NULL, &u[way]), PN_OK);
    }
    CHECK_SAME(c, mean[0], mean[1], tolerance);
    CHECK_SAME(c, l[0], l[1], tolerance);
    CHECK_SAME(c, u[0].mean, u[1].mean, tolerance);
    CHECK_SAME(c, u[0].cov, u[1].cov, tolerance);
    CHECK_SAME(c, u[0].log_prob, u[1].log_prob, tolerance);
    T *in[] = {f.mean, f.l, f.y, f.c, f.d, f.r, bits};
    for (int level = 0; level < 3; level++) {
      out[level] = pn_zeros(c, dtype, SHAPE(19, n + n * n + 1));
      CHECK_STATUS(c, pni_kalman_step(c, "test", level, PNI_KALMAN_ROOT_UPDATE, false, 6 + part, in, out[level]),
                   PN_OK);
      CHECK(largest(c, pn_sub(c, out[level], out[0])) == 0);
    }
  }
  pn_scope_close(c, mark);
}

/* Variances from 1e-12 to 1e12 in one state, mixed by a: roots keep every element to its own size, d_i d_j of the
 * standard deviations, and the evidence. A covariance of float64 cannot hold that, in whatever form. */
static void diffuse(C *c) {
  enum { N = 3, STEPS = 30 };
  size_t mark = pn_scope_open(c);
  T *a = pn_from_data(c, PN_FLOAT64, SHAPE(N, N), (const double[]){1, 1, 0.5, 0, 1, 1, 0, 0, 1});
  T *h = pn_from_data(c, PN_FLOAT64, SHAPE(1, N), (const double[]){1, 0, 0}), *eye = pn_eye(c, PN_FLOAT64, N, N);
  T *q = times(c, eye, 1e-4), *r = pn_full(c, PN_FLOAT64, SHAPE(1, 1), 1e-6), *l = times(c, eye, 1e6);
  T *mean = pn_zeros(c, PN_FLOAT64, SHAPE(N));
  double total = 0, worst = 0;
  for (int t = 0; t < STEPS; t++) {
    pn_kalman u = {0};
    double one = NAN, cov[N * N], got_mean[N];
    const double *want = golden_diffuse_cov + t * N * N;
    T *y = pn_full(c, PN_FLOAT64, SHAPE(1), golden_diffuse_y[t]);
    CHECK_STATUS(c, pn_kalman_root_predict(c, mean, l, a, NULL, q, &mean, &l), PN_OK);
    CHECK_STATUS(c, pn_kalman_root_update(c, mean, l, y, h, NULL, r, NULL, &u), PN_OK);
    mean = u.mean, l = u.cov;
    CHECK_STATUS(c, pn_tensor_copy_out(c, square(c, l), cov, N * N), PN_OK);
    CHECK_STATUS(c, pn_tensor_copy_out(c, mean, got_mean, N), PN_OK);
    CHECK(pn_tensor_item(c, u.log_prob, &one) == PN_OK);
    total += one;
    for (int i = 0; i < N; i++) {
      worst = fmax(worst, fabs(got_mean[i] - golden_diffuse_mean[t * N + i]) / sqrt(want[i * N + i]));
      for (int j = 0; j < N; j++)
        worst = fmax(worst, fabs(cov[i * N + j] - want[i * N + j]) / sqrt(want[i * N + i] * want[j * N + j]));
    }
    CHECK_NEAR(total, golden_diffuse_total[t], 1e-8);
  }
  printf("variances 1e-12 to 1e12: roots off by %.1e standard deviations\n", worst);
  CHECK(worst < 1e-9);
  pn_scope_close(c, mark);
}

/* P - K S K^T */
static T *plain_update(C *c, T *p, T *h, T *r) {
  pn_kalman u = {0};
  T *none = pn_zeros(c, (pn_dtype)p->dtype, SHAPE(2)), *y = pn_zeros(c, (pn_dtype)p->dtype, SHAPE(1));
  if (pn_kalman_update(c, none, p, y, h, NULL, r, NULL, 1, &u) != PN_OK) return NULL;
  return pn_sub(c, p, pn_matmul(c, pn_matmul(c, u.gain, u.innovation_cov), mt(c, u.gain)));
}

/* Two correlated states of variance 1e12, each observed by turns with variance 1e-12: after k looks at both the
 * variances are 1e-12 / k. Joseph's form and roots have them; P - K S K^T is not positive after the first look. */
static void sensors(C *c, pn_dtype dtype, double joseph, double roots) {
  enum { LOOKS = 20 };
  size_t mark = pn_scope_open(c);
  T *h[2], *r = pn_full(c, dtype, SHAPE(1, 1), 1e-12), *root = pn_full(c, dtype, SHAPE(1, 1), 1e-6);
  T *p = pn_cast(c, pn_from_data(c, PN_FLOAT64, SHAPE(2, 2), (const double[]){1e12, 5e11, 5e11, 1e12}), dtype);
  T *l = pn_cholesky(c, p), *plain, *none = pn_zeros(c, dtype, SHAPE(2)), *y = pn_zeros(c, dtype, SHAPE(1));
  double least = 1, by_joseph[4], by_roots[4];
  for (int k = 0; k < 2; k++) h[k] = pn_slice(c, pn_eye(c, dtype, 2, 2), 0, k, 1, 1);
  plain = plain_update(c, p, h[0], r);
  pn_tensor_item(c, pn_min(c, pn_diagonal(c, plain), PN_ALL, 0), &least);
  for (int look = 0; look < 2 * LOOKS; look++) {
    pn_kalman u = {0}, w = {0};
    CHECK_STATUS(c, pn_kalman_update(c, none, p, y, h[look % 2], NULL, r, NULL, 0, &u), PN_OK);
    CHECK_STATUS(c, pn_kalman_root_update(c, none, l, y, h[look % 2], NULL, root, NULL, &w), PN_OK);
    p = u.cov, l = w.cov;
  }
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_cast(c, p, PN_FLOAT64), by_joseph, 4), PN_OK);
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_cast(c, square(c, l), PN_FLOAT64), by_roots, 4), PN_OK);
  printf("%s, variance 1e12 seen with 1e-12: %.3e of 1e-12 / %d by Joseph's form, %.3e by roots, %.1e at first by "
         "P - K S K^T\n",
         pn_dtype_name(dtype), by_joseph[0], LOOKS, by_roots[0], least);
  for (int i = 0; i < 4; i += 3) {
    CHECK_NEAR(by_joseph[i], 1e-12 / LOOKS, joseph);
    CHECK_NEAR(by_roots[i], 1e-12 / LOOKS, roots);
  }
  CHECK(by_joseph[1] == by_joseph[2] && fabs(by_joseph[1]) < 1e-16 && fabs(by_roots[1]) < 1e-16);
  CHECK(least <= 0);
  pn_scope_close(c, mark);
}

/* 1e5 steps in float32: roots and Joseph's form stay at the steady state. */
static void steady(C *c) {
  size_t outer = pn_scope_open(c);
  T *a = pn_from_data(c, PN_FLOAT32, SHAPE(2, 2), (const float[]){0.75f, 0.5f, -0.5f, 0.75f});
  T *h = pn_from_data(c, PN_FLOAT32, SHAPE(1, 2), (const float[]){1, 0}), *eye = pn_eye(c, PN_FLOAT32, 2, 2);
  T *q = times(c, eye, 0x1p-7), *r = pn_full(c, PN_FLOAT32, SHAPE(1, 1), 0x1p-10), *mean = NULL;
  T *l = pn_tensor_ref(times(c, eye, 0x1p10)), *p = pn_tensor_ref(times(c, eye, 0x1p20));
  T *zero = pn_zeros(c, PN_FLOAT32, SHAPE(2)), *y = pn_zeros(c, PN_FLOAT32, SHAPE(1)), *qq = square(c, q);
  T *rr = square(c, r);
  pn_status s = PN_OK;
  for (int t = 0; t < 100000 && s == PN_OK; t++) {
    size_t mark = pn_scope_open(c);
    pn_kalman u = {0}, w = {0};
    T *next = NULL;
    s = pn_kalman_root_predict(c, zero, l, a, NULL, q, &mean, &next);
    if (s == PN_OK) s = pn_kalman_root_update(c, zero, next, y, h, NULL, r, NULL, &u);
    if (s == PN_OK) s = pn_kalman_step(c, zero, p, a, NULL, qq, y, h, NULL, rr, NULL, &w);
    if (s == PN_OK) {
      pn_tensor_ref(u.cov);
      pn_tensor_ref(w.cov);
      pn_tensor_unref(l);
      pn_tensor_unref(p);
      l = u.cov, p = w.cov;
    }
    pn_scope_close(c, mark);
  }
  CHECK_STATUS(c, s, PN_OK);
  T *want = pn_cast(c, GIVEN(steady_cov, 2, 2), PN_FLOAT32);
  double off = largest(c, pn_sub(c, square(c, l), want)) / largest(c, want);
  double joseph = largest(c, pn_sub(c, p, want)) / largest(c, want);
  printf("1e5 steps of float32: roots off by %.1e of the steady state, Joseph's form by %.1e\n", off, joseph);
  CHECK(off < 1e-5 && joseph < 1e-5);
  pn_tensor_unref(l);
  pn_tensor_unref(p);
  pn_scope_close(c, outer);
}

/* ---- derivatives ---- */

static const filter *fixed;
static T *mask;

static T *f_tria(C *c, T *const *x) { return pn_tria(c, x[0]); }
static T *f_update(C *c, T *const *x) { return pn_cholesky_update(c, x[0], x[1]); }
static T *f_predict(C *c, T *const *x) {
  T *mean = NULL, *l = NULL;
  if (pn_kalman_root_predict(c, x[0], x[1], x[2], fixed->b, x[3], &mean, &l) != PN_OK) return NULL;
  return pn_concatenate(c, 2, (T *[]){mean, pn_reshape(c, l, 2, (int64_t[]){2, -1})}, 1);
}
static T *all_of(C *c, const pn_kalman *u) {
  T *cov = pn_reshape(c, u->cov, 2, (int64_t[]){2, -1}), *density = pn_unsqueeze(c, u->log_prob, -1);
  return pn_concatenate(c, 3, (T *[]){u->mean, cov, density}, 1);
}
static T *f_state(C *c, T *const *x) {
  pn_kalman u;
  if (pn_kalman_root_update(c, x[0], x[1], x[2], fixed->c, x[3], fixed->r, mask, &u) != PN_OK) return NULL;
  return all_of(c, &u);
}
static T *f_model(C *c, T *const *x) {
  pn_kalman u;
  if (pn_kalman_root_update(c, fixed->mean, x[0], fixed->y, x[1], fixed->d, x[2], mask, &u) != PN_OK) return NULL;
  return all_of(c, &u);
}

static void derivatives(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 2, 3, 2), v;
  for (int k = 0; k < 9; k++) (&v.mean)[k] = pn_param(c, (&f.mean)[k]);
  fixed = &f;
  T *wide = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(2, 3, 5)));
  gradient_check(c, "tria", f_tria, 1, &wide);
  gradient_check(c, "tria, square", f_tria, 1, &v.l);
  gradient_check(c, "cholesky_update", f_update, 2, (T *[]){v.q, wide});
  gradient_check(c, "root predict", f_predict, 4, (T *[]){v.mean, v.l, v.a, v.q});
  for (int part = 0; part < 2; part++) {
    mask = part ? pn_from_data(c, PN_BOOL, SHAPE(2, 2), (const unsigned char[]){1, 0, 1, 1}) : NULL;
    gradient_check(c, "root update, state", f_state, 4, (T *[]){v.mean, v.l, v.y, v.d});
    gradient_check(c, "root update, model", f_model, 3, (T *[]){v.l, v.c, v.r});
  }
  pn_scope_close(c, mark);
}

/* A batch of any number of axes, those of one root for several means among them, against the same in one axis. */
static void batches(C *c) {
  enum { B = 12 };
  static const int64_t shapes[][8] = {{B}, {3, 4}, {3, 2, 2}, {1, 3, 2, 2}, {3, 1, 2, 1, 2}, {3, 1, 2, 1, 1, 2}};
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, B, 3, 2);
  T *mean = NULL, *l = NULL;
  pn_kalman u = {0};
  CHECK_STATUS(c, pn_kalman_root_predict(c, f.mean, f.l, f.a, f.b, f.q, &mean, &l), PN_OK);
  CHECK_STATUS(c, pn_kalman_root_update(c, f.mean, f.l, f.y, f.c, f.d, f.r, NULL, &u), PN_OK);
  for (int axes = 1; axes <= 6; axes++) {
    int64_t s[8];
    memcpy(s, shapes[axes - 1], sizeof s);
    T *m = NULL, *root = NULL;
    pn_kalman w = {0};
    s[axes] = s[axes + 1] = 3;
    T *x = pn_reshape(c, f.mean, axes + 1, s), *p = pn_reshape(c, f.l, axes + 2, s);
    s[axes] = 2;
    T *y = pn_reshape(c, f.y, axes + 1, s);
    CHECK_STATUS(c, pn_kalman_root_predict(c, x, p, f.a, f.b, f.q, &m, &root), PN_OK);
    CHECK_STATUS(c, pn_kalman_root_update(c, x, p, y, f.c, f.d, f.r, NULL, &w), PN_OK);
    CHECK(m && pn_tensor_ndim(m) == axes + 1 && root && pn_tensor_ndim(root) == axes + 2 && w.log_prob);
    CHECK((m->storage == root->storage) == (axes < 6) &&
          (w.mean->storage == w.cov->storage) == (axes < 6)); /* kernel */
    CHECK(w.log_prob && pn_tensor_ndim(w.log_prob) == axes && memcmp(pn_tensor_shape(m), s, (size_t)axes * 8) == 0);
    CHECK_SAME(c, pn_reshape(c, m, SHAPE(B, 3)), mean, 1e-12);
    CHECK_SAME(c, pn_reshape(c, square(c, root), SHAPE(B, 3, 3)), square(c, l), 1e-12);
    CHECK_SAME(c, pn_reshape(c, w.mean, SHAPE(B, 3)), u.mean, 1e-12);
    CHECK_SAME(c, pn_reshape(c, square(c, w.cov), SHAPE(B, 3, 3)), square(c, u.cov), 1e-12);
    CHECK_SAME(c, pn_reshape(c, w.log_prob, SHAPE(B)), u.log_prob, 1e-12);
  }
  T *several = pn_reshape(c, f.mean, SHAPE(4, 3, 3)),
    *one = pn_slice(c, pn_reshape(c, f.l, SHAPE(4, 3, 3, 3)), 1, 0, 1, 1);
  T *each = pn_reshape(c, pn_broadcast_to(c, one, SHAPE(4, 3, 3, 3)), SHAPE(B, 3, 3)), *m = NULL, *root = NULL;
  CHECK_STATUS(c, pn_kalman_root_predict(c, several, one, f.a, f.b, f.q, &m, &root), PN_OK);
  CHECK_STATUS(c, pn_kalman_root_predict(c, f.mean, each, f.a, f.b, f.q, &mean, &l), PN_OK);
  CHECK_SAME(c, pn_reshape(c, m, SHAPE(B, 3)), mean, 1e-12);
  CHECK(root && pn_tensor_shape(root)[0] == 4 && pn_tensor_shape(root)[1] == 1);
  CHECK_SAME(c, square(c, pn_select(c, root, 1, 0)), square(c, pn_slice(c, l, 0, 0, 4, 3)), 1e-12);
  pn_scope_close(c, mark);
}

/* A step that needs no gradient and has a root for each filter is one kernel, whose results are views of one row; each
 * operand with a batch or without. */
static void ways(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 2, 3, 2);
  T *coin = pn_from_data(c, PN_BOOL, SHAPE(2, 2), (const unsigned char[]){1, 0, 1, 1}), *mean = NULL, *l = NULL;
  T *all[] = {f.mean, f.l, f.y, f.c, f.d, f.r, coin}, *of_time[] = {f.mean, f.l, f.a, f.b, f.q};
  for (int k = 3; k < 6; k++) all[k] = pn_stack(c, 2, (T *[]){all[k], times(c, all[k], 1.5)}, 0);
  for (int k = 2; k < 5; k++) of_time[k] = pn_stack(c, 2, (T *[]){of_time[k], times(c, of_time[k], 0.7)}, 0);
  for (int which = 0; which < 128; which++) {
    T *own[7], *full[7];
    pn_kalman u = {0}, w = {0};
    for (int k = 0; k < 7; k++) {
      own[k] = which >> k & 1 ? all[k] : pn_select(c, all[k], 0, 1);
      full[k] = which >> k & 1 ? all[k] : pn_stack(c, 2, (T *[]){own[k], own[k]}, 0);
    }
    pn_kalman_root_update(c, own[0], own[1], own[2], own[3], own[4], own[5], own[6], &u);
    pn_kalman_root_update(c, full[0], full[1], full[2], full[3], full[4], full[5], full[6], &w);
    CHECK(u.mean && u.cov && (u.mean->storage == u.cov->storage) == (which == 0 || (which & 0x6a) != 0));
    CHECK_SAME(c, u.mean, which ? w.mean : pn_select(c, w.mean, 0, 1), 1e-12);
    CHECK_SAME(c, u.log_prob, which ? w.log_prob : pn_select(c, w.log_prob, 0, 1), 1e-12);
    for (int k = 0; k < 5; k++) {
      own[k] = which >> k & 1 ? of_time[k] : pn_select(c, of_time[k], 0, 1);
      full[k] = which >> k & 1 ? of_time[k] : pn_stack(c, 2, (T *[]){own[k], own[k]}, 0);
    }
    if (which > 31) continue;
    CHECK_STATUS(c, pn_kalman_root_predict(c, own[0], own[1], own[2], own[3], own[4], &u.mean, &u.cov), PN_OK);
    CHECK_STATUS(c, pn_kalman_root_predict(c, full[0], full[1], full[2], full[3], full[4], &w.mean, &w.cov), PN_OK);
    CHECK((u.mean->storage == u.cov->storage) == (!(which & 0x16) == !(which & 0x0d)));
    CHECK_SAME(c, u.mean, which & 0x0d ? w.mean : pn_select(c, w.mean, 0, 1), 1e-12);
    CHECK_SAME(c, square(c, u.cov), which & 0x16 ? square(c, w.cov) : pn_select(c, square(c, w.cov), 0, 1), 1e-12);
  }
  for (int k = 0; k < 6; k++)
    for (int off = 0; off < 2; off++) {
      T *own[6], *time[5];
      pn_kalman u = {0};
      int old = pn_set_no_grad(c, off);
      for (int i = 0; i < 6; i++) own[i] = i == k ? pn_param(c, all[i]) : all[i];
      for (int i = 0; i < 5; i++) time[i] = i == k ? pn_param(c, of_time[i]) : of_time[i];
      pn_kalman_root_update(c, own[0], own[1], own[2], own[3], own[4], own[5], coin, &u);
      CHECK(u.mean && (u.mean->storage == u.cov->storage) == (off == 1));
      pn_kalman_root_predict(c, time[0], time[1], time[2], time[3], time[4], &mean, &l);
      CHECK(mean && (mean->storage == l->storage) == (off == 1 || k == 5));
      pn_set_no_grad(c, old);
    }
  pn_scope_close(c, mark);
}

/* ---- failures ---- */

static void failures(C *c) {
  size_t mark = pn_scope_open(c);
  filter f = make(c, PN_FLOAT64, 5, 3, 2);
  pn_kalman u = {0};
  T *mean = NULL, *l = NULL, *g = NULL;
  CHECK(!pn_tria(c, pn_zeros(c, PN_FLOAT64, SHAPE(3, 2))));
  CHECK_FAIL(c, PN_SHAPE, "tria: matrix must have shape [..., n, k] with k at least n, got [3, 2]");
  CHECK(!pn_tria(c, pn_zeros(c, PN_FLOAT64, SHAPE(40, 35))));
  CHECK_FAIL(c, PN_SHAPE, "tria: matrix must have shape [..., n, k] with k at least n, got [40, 35]");
  CHECK(!pn_tria(c, pn_zeros(c, PN_INT64, SHAPE(3, 3))));
  CHECK_FAIL(c, PN_DTYPE, "tria");
  CHECK(!pn_tria(c, NULL));
  CHECK_FAIL(c, PN_STATE, "tria: input 1 must be a tensor, got NULL");
  CHECK(!pn_tria(c, pn_full(c, PN_FLOAT64, SHAPE(2, 3, 3), NAN)));
  CHECK_FAIL(c, PN_NAN, "tria: matrix [1] of the batch must be finite");
  CHECK(!pn_cholesky_update(c, f.l, f.d));
  CHECK_FAIL(c, PN_SHAPE, "tria: roots must have at least 2 axes, got [2]");
  T *none = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(3, 3)));
  CHECK(pn_grad(c, pn_sum(c, pn_tria(c, none), PN_ALL, 0), 1, &none, 0, &g) != PN_OK);
  CHECK_FAIL(c, PN_SINGULAR, "must be invertible");
  CHECK(pn_kalman_root_predict(c, f.mean, f.l, f.c, NULL, f.q, &mean, &l) != PN_OK && !mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_root_predict: a must be [..., 3, 3], got [2, 3]");
  CHECK(pn_kalman_root_predict(c, f.d, f.l, f.a, NULL, f.q, &mean, &l) != PN_OK && !mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_root_predict: mean must be [..., 3], got [2]");
  CHECK(pn_kalman_root_predict(c, f.mean, NULL, f.a, NULL, f.q, &mean, &l) != PN_OK && !mean);
  CHECK_FAIL(c, PN_STATE, "kalman_root_predict: l must be a tensor");
  CHECK(pn_kalman_root_update(c, f.mean, f.l, f.y, f.c, f.d, f.q, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SHAPE, "kalman_root_update: r must be [..., 2, 2], got [3, 3]");
  CHECK(pn_kalman_root_update(c, f.mean, f.l, f.y, f.c, f.d, f.r, f.y, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_DTYPE, "kalman_root_update: observed must be bool");
  CHECK(pn_kalman_root_update(c, f.mean, f.l, f.y, NULL, f.d, f.r, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_STATE, "kalman_root_update: c must be a tensor");
  /* nothing at all is observed and the state is known: the root of S is 0 */
  T *zero = pn_zeros(c, PN_FLOAT64, SHAPE(3, 3)), *still = pn_zeros(c, PN_FLOAT64, SHAPE(2, 2));
  CHECK(pn_kalman_root_update(c, f.mean, zero, f.y, f.c, f.d, still, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SINGULAR, "must be invertible");
  T *roots[] = {f.r, f.r, pn_diag_embed(c, pn_from_data(c, PN_FLOAT64, SHAPE(2), (const double[]){2, 0})), still, f.r};
  CHECK(pn_kalman_root_update(c, f.mean, zero, f.y, f.c, f.d, pn_stack(c, 5, roots, 0), NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SINGULAR,
             "kalman_root_update: root of the innovation covariance, matrix [3] of the batch, must be invertible, got "
             "0 at place 2 of its diagonal");
  pn_param_set(c, none, zero);
  CHECK(pn_kalman_root_update(c, f.mean, none, f.y, f.c, f.d, still, NULL, &u) != PN_OK && !u.mean);
  CHECK_FAIL(c, PN_SINGULAR, "must be invertible");
  T *nan = pn_full(c, PN_FLOAT64, SHAPE(5, 3, 3), NAN);
  CHECK(pn_kalman_root_predict(c, f.mean, nan, f.a, NULL, f.q, &mean, &l) != PN_OK && !mean);
  CHECK_FAIL(c, PN_NAN, "kalman_root_predict: roots, matrix [1] of the batch, must be finite");
  CHECK(pn_kalman_root_update(c, f.mean, f.l, f.y, f.c, f.d, pn_cast(c, f.r, PN_FLOAT32), NULL, &u) != PN_OK);
  CHECK_FAIL(c, PN_DTYPE, "float32");
  pn_scope_close(c, mark);
}

static bool sweep_filter(C *c, const void *data) {
  T *m = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 2))), *l = pn_param(c, pn_eye(c, PN_FLOAT64, 2, 2));
  T *y = pn_full(c, PN_FLOAT64, SHAPE(2), 0.5), *q = pn_eye(c, PN_FLOAT64, 2, 2), *mean, *root, *g[2];
  T *still = pn_zeros(c, PN_FLOAT64, SHAPE(2));
  T *observed = data ? pn_from_data(c, PN_BOOL, SHAPE(2), (const unsigned char[]){1, 0}) : NULL;
  pn_kalman u;
  if (data && !observed) return false;
  if (pn_kalman_root_predict(c, still, q, q, NULL, q, &mean, &root) != PN_OK) return false;
  if (pn_kalman_root_update(c, mean, root, y, q, NULL, q, observed, &u) != PN_OK) return false;
  if (pn_kalman_root_predict(c, m, l, q, NULL, q, &mean, &root) != PN_OK) return false;
  if (pn_kalman_root_update(c, mean, root, y, q, NULL, q, observed, &u) != PN_OK) return false;
  T *sum = pn_add(c, pn_sum(c, pn_square(c, u.cov), PN_ALL, 0), pn_sum(c, u.log_prob, PN_ALL, 0));
  return sum && pn_grad(c, sum, 2, (T *[]){m, l}, 1, g) == PN_OK;
}

static bool sweep_tria(C *c, const void *data) {
  (void)data;
  T *x = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(33, 35)));
  T *sum = pn_sum(c, pn_tria(c, x), PN_ALL, 0);
  return sum && pn_backward(c, sum) == PN_OK;
}

int main(void) {
  C *c = pn_context_new(&(pn_context_config){.seed = 5, .threads = 2});
  const int64_t orders[][2] = {{1, 1}, {2, 1}, {4, 2}, {7, 3}, {10, 4}, {2, 5}, {20, 14}};
  trias(c);
  for (int k = 0; k < 7; k++) {
    against_covariances(c, PN_FLOAT64, orders[k][0], orders[k][1], 1e-10);
    against_covariances(c, PN_FLOAT32, orders[k][0], orders[k][1], 1e-2);
    kernels(c, PN_FLOAT64, orders[k][0], orders[k][1], 1e-11);
    kernels(c, PN_FLOAT32, orders[k][0], orders[k][1], 1e-3);
  }
  diffuse(c);
  sensors(c, PN_FLOAT64, 1e-8, 1e-12);
  sensors(c, PN_FLOAT32, 0.1, 1e-4); /* float32 rounds a look of Joseph's away */
  steady(c);
  derivatives(c);
  batches(c);
  ways(c);
  failures(c);
  CHECK_INT(pn_context_status(c), PN_OK);
  pn_context_close(c);
  sweep("filter on roots", sweep_filter, NULL);
  sweep("filter on roots, some missing", sweep_filter, "observed");
  sweep("tria of a large matrix", sweep_tria, NULL);
  CHECK_DONE();
}
