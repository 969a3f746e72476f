/*
** correlation.c: vectors of n (n - 1)/2 numbers onto Cholesky factors L of n x n correlation matrices: lower triangular
** with positive diagonal and rows of length 1. With z = tanh(x) filling the part below the diagonal row by row,
**   L_ij = z_ij sqrt(prod_{k < j} (1 - z_ik^2)),  z_ii = 1,
**   log |det| = sum over i > j of log(1 - z_ij^2) + sum_{k < j} log(1 - z_ik^2) / 2
** in the entries below the diagonal (canonical partial correlations; Lewandowski, Kurowicka & Joe 2009). Backwards,
** 1 - z_ij^2 = r_{i, j + 1} / r_ij with r_ij = sum_{k >= j} L_ik^2, which cancels nothing.
*/
#include <math.h>
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;

#define LAST_TWO ((pn_axes){2, {-2, -1}})

/* Index tensor of `count` places out of a list made here. */
static T *places(C *c, int64_t count, int64_t n, int64_t (*place)(int64_t k, int64_t n)) {
  int64_t *list = pni_alloc_array(c, count, sizeof *list);
  if (!list) return NULL;
  for (int64_t k = 0; k < count; k++) list[k] = place(k, n);
  T *t = pn_from_data(c, PN_INT64, 1, &count, list);
  pni_free(c, list);
  return t;
}

/* Matrix entry k = i n + j comes from place i (i - 1)/2 + j + 1 of the vector behind a 0; on and above the diagonal it
 * is that 0. */
static int64_t from_vector(int64_t k, int64_t n) {
  int64_t i = k / n, j = k % n;
  return j < i ? i * (i - 1) / 2 + j + 1 : 0;
}

/* Place k of the vector comes from entry i n + j, j < i. */
static int64_t from_matrix(int64_t k, int64_t n) {
  int64_t i = (int64_t)floor((sqrt(8 * (double)k + 1) + 1) / 2);
  return i * n + (k - i * (i - 1) / 2);
}

/* x below the diagonal of [..., n, n], zeros elsewhere */
static T *below_diagonal(C *c, T *x) {
  int64_t m = x->shape[x->ndim - 1], n = (int64_t)floor((sqrt(8 * (double)m + 1) + 1) / 2), shape[PN_MAX_DIMS + 1];
  if (n * (n - 1) / 2 != m) {
    pni_fail(c, PN_SHAPE, "correlation_cholesky: forward: x must have vectors of n (n - 1) / 2 numbers, got %lld",
             (long long)m);
    return NULL;
  }
  if (x->ndim == PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "correlation_cholesky: forward: at most %d axes are possible", PN_MAX_DIMS - 1);
    return NULL;
  }
  for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
  shape[x->ndim - 1] = shape[x->ndim] = n;
  T *padded = pn_pad(c, x, -1, 1, 0, 0);
  return pn_reshape(c, pn_take(c, padded, -1, places(c, n * n, n, from_vector)), x->ndim + 1, shape);
}

/* log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), 0 outside the part below the diagonal */
static T *log_rest(C *c, T *x) {
  T *t = pn_add(c, x, pn_softplus(c, pn_mul(c, x, pni_like(c, x, -2))));
  t = pn_mul(c, pn_sub(c, pni_like(c, x, 0.69314718055994530942), t), pni_like(c, x, 2));
  return pn_tril(c, t, -1);
}

/* half of the sum of what stands before each entry of a row */
static T *half_before(C *c, T *rest) {
  return pn_mul(c, pn_sub(c, pn_cumsum(c, rest, -1), rest), pni_like(c, rest, 0.5));
}

static T *forward(C *c, B *b, T *x) {
  (void)b;
  T *full = below_diagonal(c, x);
  if (!full) return NULL;
  int64_t n = full->shape[full->ndim - 1];
  T *z = pn_add(c, pn_tanh(c, full), pn_eye(c, (pn_dtype)x->dtype, n, n));
  return pn_mul(c, z, pn_exp(c, half_before(c, log_rest(c, full))));
}

/* tanh^-1(z) = log(1 + z) - log(1 - z^2)/2 for z >= 0, and odd */
static T *inverse(C *c, B *b, T *y) {
  (void)b;
  int64_t n = y->shape[y->ndim - 1], m = n * (n - 1) / 2, shape[PN_MAX_DIMS];
  if (y->shape[y->ndim - 2] != n) {
    pni_fail(c, PN_SHAPE, "correlation_cholesky: inverse: y must have square matrices, got %lld x %lld",
             (long long)y->shape[y->ndim - 2], (long long)n);
    return NULL;
  }
  for (int i = 0; i < y->ndim; i++) shape[i] = y->shape[i];
  shape[y->ndim - 2] = n * n;
  T *at = places(c, m, n, from_matrix), *square = pn_square(c, y);
  T *from_here = pn_flip(c, pn_cumsum(c, pn_flip(c, square, -1), -1), -1);
  T *next = n > 1 ? pn_pad(c, pn_slice(c, from_here, -1, 1, n - 1, 1), -1, 0, 1, 1) : from_here;
  T *l = pn_take(c, pn_reshape(c, y, y->ndim - 1, shape), -1, at);
  T *r = pn_take(c, pn_reshape(c, from_here, y->ndim - 1, shape), -1, at);
  T *after = pn_take(c, pn_reshape(c, next, y->ndim - 1, shape), -1, at);
  T *up = pn_ge(c, l, pni_like(c, l, 0)), *z = pn_div(c, l, pn_sqrt(c, r));
  T *half_log = pn_mul(c, pn_sub(c, pn_log(c, after), pn_log(c, r)), pni_like(c, l, 0.5));
  T *size = pn_sub(c, pn_log1p(c, pn_where(c, up, z, pn_neg(c, z))), half_log);
  return pn_where(c, up, size, pn_neg(c, size));
}

static T *log_abs_det(C *c, B *b, T *x, T *y) {
  (void)b, (void)y;
  T *rest = log_rest(c, below_diagonal(c, x));
  return pn_sum(c, pn_tril(c, pn_add(c, rest, half_before(c, rest)), -1), LAST_TWO, 0);
}

const pni_bijector pni_bijector_correlation_cholesky = {
    .name = "correlation_cholesky",
    .doc = "n (n - 1) / 2 numbers, row by row, to the Cholesky factor of a correlation matrix: L_ij = tanh(x_ij) "
           "sqrt(1 - L_i1^2 - ... - L_i,j-1^2), and what remains of length 1 on the diagonal",
    .source = "Lewandowski, Kurowicka & Joe 2009; Stan reference manual, Cholesky factors of correlation matrices",
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_correlation_cholesky,
    .in = "x",
    .out = "yy",
    .forward = forward,
    .inverse = inverse,
    .log_abs_det = log_abs_det};
