/*
** cholesky.c: vectors to triangular and symmetric matrices. Free coordinates are lower triangles, row by row.
**   cholesky        v of n (n + 1) / 2 numbers fills the lower triangle of L, its diagonal through exp:
**                   log |det| = sum of the diagonal's numbers
**   cholesky_outer  S = L L^T: log |det| = n log 2 + sum_i (n - i + 1) log L_ii, i = 1 .. n
*/
#include <math.h>
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
#define LAST ((pn_axes){1, {-1}})

/* ---- cholesky ---- */

/* n with n (n + 1) / 2 = m, or -1 with the reason in c. */
static int64_t size_of(C *c, int64_t m) {
  int64_t n = (int64_t)floor(sqrt(2 * (double)m));
  if (n * (n + 1) / 2 == m) return n;
  pni_fail(c, PN_SHAPE, "cholesky: forward: x must have vectors of n (n + 1) / 2 numbers, got %lld", (long long)m);
  return -1;
}

/* Index tensor of `count` entries out of a list made here. */
static T *index_of(C *c, int64_t count, int64_t n, int64_t (*entry)(int64_t k, int64_t n)) {
  int64_t *list = pni_alloc_array(c, count, sizeof *list);
  if (!list) return NULL;
  for (int64_t k = 0; k < count; k++) list[k] = entry(k, n);
  T *t = pn_from_data(c, PN_INT64, 1, &count, list);
  pni_free(c, list);
  return t;
}

/* Matrix entry k = i n + j comes from place i (i + 1) / 2 + j of the vector; above the diagonal from any. */
static int64_t from_vector(int64_t k, int64_t n) {
  int64_t i = k / n, j = k % n;
  return j <= i ? i * (i + 1) / 2 + j : 0;
}

/* Place k of the vector comes from entry i n + j. */
static int64_t from_matrix(int64_t k, int64_t n) {
  int64_t i = (int64_t)floor((sqrt(8 * (double)k + 1) - 1) / 2);
  return i * n + (k - i * (i + 1) / 2);
}

static int64_t from_diagonal(int64_t i, int64_t n) { return (void)n, i * (i + 3) / 2; }

/* x [..., n, n] with its diagonal replaced, the part above it 0 */
static T *with_diagonal(C *c, T *x, T *diagonal) { return pn_add(c, pn_tril(c, x, -1), pn_diag_embed(c, diagonal)); }

static T *cholesky_forward(C *c, B *b, T *x) {
  (void)b;
  int64_t n = size_of(c, x->shape[x->ndim - 1]), shape[PN_MAX_DIMS + 1];
  if (n < 0) return NULL;
  if (x->ndim == PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "cholesky: forward: at most %d axes are possible", PN_MAX_DIMS - 1);
    return NULL;
  }
  for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
  shape[x->ndim - 1] = shape[x->ndim] = n;
  T *square = pn_reshape(c, pn_take(c, x, -1, index_of(c, n * n, n, from_vector)), x->ndim + 1, shape);
  return with_diagonal(c, square, pn_exp(c, pn_diagonal(c, square)));
}

static T *cholesky_inverse(C *c, B *b, T *y) {
  (void)b;
  int64_t n = y->shape[y->ndim - 1], m = n * (n + 1) / 2, shape[PN_MAX_DIMS];
  if (y->shape[y->ndim - 2] != n) {
    pni_fail(c, PN_SHAPE, "cholesky: inverse: y must have square matrices, got %lld x %lld",
             (long long)y->shape[y->ndim - 2], (long long)n);
    return NULL;
  }
  T *filled = with_diagonal(c, y, pn_log(c, pn_diagonal(c, y)));
  for (int i = 0; i < y->ndim; i++) shape[i] = y->shape[i];
  shape[y->ndim - 2] = n * n;
  return pn_take(c, pn_reshape(c, filled, y->ndim - 1, shape), -1, index_of(c, m, n, from_matrix));
}

static T *cholesky_log_abs_det(C *c, B *b, T *x, T *y) {
  (void)b;
  int64_t n = y->shape[y->ndim - 1];
  return pn_sum(c, pn_take(c, x, -1, index_of(c, n, n, from_diagonal)), LAST, 0);
}

const pni_bijector pni_bijector_cholesky = {
    .name = "cholesky",
    .doc = "n (n + 1) / 2 numbers, row by row, to a lower triangular matrix; its diagonal is e^x",
    .source = "Stan reference manual, Cholesky factors of covariance matrices",
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_lower_cholesky,
    .in = "x",
    .out = "yy",
    .flags = PNI_BIJECTOR_LINEAR_DET,
    .forward = cholesky_forward,
    .inverse = cholesky_inverse,
    .log_abs_det = cholesky_log_abs_det};

/* ---- cholesky_outer ---- */

static T *outer_forward(C *c, B *b, T *x) { return (void)b, pn_matmul(c, x, pn_transpose(c, x, -2, -1)); }
static T *outer_inverse(C *c, B *b, T *y) { return (void)b, pn_cholesky(c, y); }

static T *outer_log_abs_det(C *c, B *b, T *x, T *y) {
  (void)b, (void)y;
  int64_t n = x->shape[x->ndim - 1];
  T *weight = pn_cast(c, pn_arange(c, PN_FLOAT64, (double)n, 0, -1), (pn_dtype)x->dtype);
  T *sum = pn_sum(c, pn_mul(c, weight, pn_log(c, pn_diagonal(c, x))), LAST, 0);
  return pn_add(c, sum, pni_like(c, x, (double)n * 0.69314718055994530942));
}

const pni_bijector pni_bijector_cholesky_outer = {.name = "cholesky_outer",
                                                  .doc = "S = L L^T for lower triangular L with positive diagonal",
                                                  .source = "Muirhead 1982, theorem 2.1.9",
                                                  .domain = &pni_constraint_lower_cholesky,
                                                  .codomain = &pni_constraint_positive_definite,
                                                  .in = "xx",
                                                  .out = "xx",
                                                  .forward = outer_forward,
                                                  .inverse = outer_inverse,
                                                  .log_abs_det = outer_log_abs_det};
