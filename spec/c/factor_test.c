/*
** factor_test.c: QR, symmetric eigenproblem and SVD: reconstruction, orthogonality, values of NumPy, batches
** against single matrices, empty and strided inputs, derivatives, and spectra with equal values.
*/
#include "../../src/autodiff/op/op.h"
#include "../golden/linalg/linalg_golden.h"
#include "alloc_sweep.h"
#include "gradient.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef pn_tensor T;
typedef pn_context C;

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }

static double largest(C *c, T *x) {
  double d = NAN;
  if (x && x->numel == 0) return 0;
  if (x) pn_tensor_item(c, pn_max(c, pn_abs(c, x), PN_ALL, 0), &d);
  return d;
}
#define CHECK_SAME(c, x, y, tolerance) CHECK(largest(c, pn_sub(c, x, y)) <= (tolerance))

static T *identity(C *c, const T *like, int64_t n) { return pn_eye(c, (pn_dtype)like->dtype, n, n); }

static void factors(C *c, T *x, double tolerance) {
  int64_t m = x->shape[x->ndim - 2], n = x->shape[x->ndim - 1], k = m < n ? m : n;
  T *q = NULL, *r = NULL, *u = NULL, *s = NULL, *vt = NULL;
  CHECK_STATUS(c, pn_qr(c, x, &q, &r), PN_OK);
  CHECK_SAME(c, pn_matmul(c, q, r), x, tolerance);
  CHECK_SAME(c, pn_matmul(c, mt(c, q), q), identity(c, x, k), tolerance);
  CHECK(largest(c, pn_tril(c, r, -1)) == 0);
  CHECK_STATUS(c, pn_svd(c, x, &u, &s, &vt), PN_OK);
  CHECK_SAME(c, pn_matmul(c, pn_mul(c, u, pn_unsqueeze(c, s, -2)), vt), x, tolerance);
  CHECK_SAME(c, pn_matmul(c, mt(c, u), u), identity(c, x, k), tolerance);
  CHECK_SAME(c, pn_matmul(c, vt, mt(c, vt)), identity(c, x, k), tolerance);
  CHECK_SAME(c, pn_sort(c, s, -1, 1), s, 0);
  if (m != n) return;
  T *w = NULL, *v = NULL, *symmetric = pn_mul(c, pn_add(c, x, mt(c, x)), pn_scalar(c, (pn_dtype)x->dtype, 0.5));
  CHECK_STATUS(c, pn_eigh(c, x, &w, &v), PN_OK);
  CHECK_SAME(c, pn_matmul(c, pn_mul(c, v, pn_unsqueeze(c, w, -2)), mt(c, v)), symmetric, tolerance);
  CHECK_SAME(c, pn_matmul(c, mt(c, v), v), identity(c, x, n), tolerance);
  CHECK_SAME(c, pn_sort(c, w, -1, 0), w, 0);
}

static void shapes(C *c, pn_dtype dtype, double tolerance) {
  const int64_t side[] = {0, 1, 2, 5, 33};
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 5; j++) {
      size_t mark = pn_scope_open(c);
      factors(c, pn_randn(c, NULL, dtype, SHAPE(side[i], side[j])), tolerance);
      factors(c, pn_randn(c, NULL, dtype, SHAPE(2, 3, side[i], side[j])), tolerance);
      factors(c, pn_flip(c, mt(c, pn_randn(c, NULL, dtype, SHAPE(11, side[i], side[j]))), -1), tolerance);
      factors(c, pn_randn(c, NULL, dtype, SHAPE(0, side[i], side[j])), tolerance);
      pn_scope_close(c, mark);
    }
}

static void golden(C *c, T *x, const double *want, int64_t size) {
  double got[2048];
  CHECK_STATUS(c, pn_tensor_copy_out(c, x, got, size), PN_OK);
  bool ok = true;
  for (int64_t i = 0; i < size; i++) ok = ok && fabs(got[i] - want[i]) <= 1e-10 * fmax(1, fabs(want[i]));
  CHECK(ok);
}
#define GOLDEN(c, x, name) golden(c, x, golden_##name, (int64_t)(sizeof golden_##name / sizeof(double)))

#define GOLDENS(tag, batch, n)                                                                                         \
  static void goldens_##tag(C *c) {                                                                                    \
    size_t mark = pn_scope_open(c);                                                                                    \
    T *a = pn_slice(c, pn_from_data(c, PN_FLOAT64, SHAPE(batch, n, n), golden_a_##tag), 2, 0, n - 1, 1);               \
    T *p = pn_from_data(c, PN_FLOAT64, SHAPE(batch, n, n), golden_p_##tag);                                            \
    T *w = NULL, *v = NULL, *q = NULL, *r = NULL, *u = NULL, *s = NULL, *vt = NULL;                                    \
    CHECK_STATUS(c, pn_eigh(c, p, &w, &v), PN_OK);                                                                     \
    GOLDEN(c, w, eigh_##tag);                                                                                          \
    CHECK_STATUS(c, pn_qr(c, a, &q, &r), PN_OK);                                                                       \
    GOLDEN(c, pn_abs(c, r), qr_##tag);                                                                                 \
    CHECK_STATUS(c, pn_svd(c, a, &u, &s, &vt), PN_OK);                                                                 \
    GOLDEN(c, s, svd_##tag);                                                                                           \
    pn_scope_close(c, mark);                                                                                           \
  }
GOLDENS(s, 3, 4)
GOLDENS(l, 2, 20)

/* ---- derivatives: products and squares do not depend on free signs ---- */

static T *f_qr(C *c, T *const *x) {
  T *q = NULL, *r = NULL;
  if (pn_qr(c, x[0], &q, &r)) return NULL;
  return pn_concatenate(
      c, 2,
      (T *[]){pn_reshape(c, pn_square(c, q), 1, (int64_t[]){-1}), pn_reshape(c, pn_square(c, r), 1, (int64_t[]){-1})},
      0);
}

static T *f_eigh(C *c, T *const *x) {
  T *w = NULL, *v = NULL;
  if (pn_eigh(c, x[0], &w, &v)) return NULL;
  return pn_add(c, pn_square(c, v), pn_unsqueeze(c, w, -2));
}

static T *f_svd(C *c, T *const *x) {
  T *u = NULL, *s = NULL, *vt = NULL;
  if (pn_svd(c, x[0], &u, &s, &vt)) return NULL;
  T *uu = pn_mul(c, pn_square(c, u), pn_unsqueeze(c, s, -2)), *vv = pn_square(c, vt);
  return pn_concatenate(c, 2, (T *[]){pn_reshape(c, uu, 1, (int64_t[]){-1}), pn_reshape(c, vv, 1, (int64_t[]){-1})}, 0);
}

/* The product of the factors again: couples u and vt (q and r) with their own signs. */
static T *f_svd_product(C *c, T *const *x) {
  T *u = NULL, *s = NULL, *vt = NULL;
  return pn_svd(c, x[0], &u, &s, &vt) ? NULL : pn_matmul(c, pn_mul(c, u, pn_exp(c, pn_unsqueeze(c, s, -2))), vt);
}

static void gradients(C *c) {
  const int64_t size[][2] = {{3, 3}, {4, 2}, {2, 4}, {1, 3}, {3, 1}, {1, 1}};
  for (int i = 0; i < 6; i++) {
    size_t mark = pn_scope_open(c);
    T *x = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(2, size[i][0], size[i][1])));
    gradient_check(c, "qr", f_qr, 1, &x);
    gradient_check(c, "svd", f_svd, 1, &x);
    gradient_check(c, "svd product", f_svd_product, 1, &x);
    if (size[i][0] == size[i][1]) gradient_check(c, "eigh", f_eigh, 1, &x);
    pn_scope_close(c, mark);
  }
}

/* Equal values: sums over them have the exact gradient, and nothing is NaN. */
static void degenerate(C *c) {
  size_t mark = pn_scope_open(c);
  T *x = pn_param(c, pn_eye(c, PN_FLOAT64, 3, 3)), *w = NULL, *v = NULL, *g = NULL, *u = NULL, *s = NULL, *vt = NULL;
  CHECK_STATUS(c, pn_eigh(c, x, &w, &v), PN_OK);
  T *cubes = pn_sum(c, pn_mul(c, w, pn_square(c, w)), PN_ALL, 0); /* trace x^3: gradient 3 x^2 */
  CHECK_STATUS(c, pn_grad(c, cubes, 1, &x, 0, &g), PN_OK);
  CHECK_SAME(c, g, pn_mul(c, pn_eye(c, PN_FLOAT64, 3, 3), pn_scalar(c, PN_FLOAT64, 3)), 1e-14);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_mul(c, v, v), PN_ALL, 0), 1, &x, 0, &g), PN_OK);
  CHECK_SAME(c, g, pn_zeros(c, PN_FLOAT64, SHAPE(3, 3)), 1e-14);
  T *zero = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(4, 2)));
  CHECK_STATUS(c, pn_svd(c, zero, &u, &s, &vt), PN_OK);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, s, PN_ALL, 0), 1, &zero, 0, &g), PN_OK);
  CHECK(isfinite(largest(c, g)));
  CHECK_STATUS(c, pn_svd(c, x, &u, &s, &vt), PN_OK); /* nuclear norm at I: gradient u vt = I */
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, s, PN_ALL, 0), 1, &x, 0, &g), PN_OK);
  CHECK_SAME(c, g, pn_eye(c, PN_FLOAT64, 3, 3), 1e-14);
  pn_scope_close(c, mark);
}

static void failures(C *c) {
  size_t mark = pn_scope_open(c);
  T *x = pn_zeros(c, PN_FLOAT64, SHAPE(2, 3, 3)), *a = x, *b = x, *d = x;
  ((double *)pni_data(x))[12] = NAN;
  CHECK_STATUS(c, pn_qr(c, x, &a, &b), PN_NAN);
  CHECK_FAIL(c, PN_NAN, "qr: matrix [2] of the batch must be finite");
  CHECK_STATUS(c, pn_eigh(c, x, &a, &b), PN_NAN);
  CHECK_FAIL(c, PN_NAN, "eigh: matrix [2] of the batch must be finite");
  CHECK_STATUS(c, pn_svd(c, x, &a, &b, &d), PN_NAN);
  CHECK_FAIL(c, PN_NAN, "svd: matrix [2] of the batch must be finite");
  CHECK(a == x && b == x && d == x);
  CHECK_STATUS(c, pn_eigh(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 3)), &a, &b), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "eigh: matrix must have shape [..., n, n], got [2, 3]");
  CHECK_STATUS(c, pn_qr(c, pn_zeros(c, PN_FLOAT64, SHAPE(2)), &a, &b), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "qr: matrix must have at least 2 axes, got [2]");
  T *w = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(3, 2))), *g = NULL;
  CHECK_STATUS(c, pn_qr(c, w, &a, &b), PN_OK);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, a, PN_ALL, 0), 1, &w, 0, &g), PN_SINGULAR);
  CHECK_FAIL(c, PN_SINGULAR, "invertible");
  pn_scope_close(c, mark);
}

static bool work(C *c, const void *data) {
  (void)data;
  T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(2, 3, 3)), *in[] = {x ? pn_param(c, x) : NULL};
  if (!in[0]) return false;
  T *y = pn_add(c, pn_sum(c, f_qr(c, in), PN_ALL, 0), pn_sum(c, f_svd(c, in), PN_ALL, 0));
  y = pn_add(c, y, pn_sum(c, f_eigh(c, in), PN_ALL, 0));
  return y && pn_backward(c, y) == PN_OK;
}

int main(void) {
  C *c = pn_context_new(&(pn_context_config){.seed = 5, .threads = 2});
  shapes(c, PN_FLOAT64, 1e-12);
  shapes(c, PN_FLOAT32, 2e-4);
  goldens_s(c);
  goldens_l(c);
  gradients(c);
  degenerate(c);
  failures(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  sweep("factors", work, NULL);
  CHECK_DONE();
}
