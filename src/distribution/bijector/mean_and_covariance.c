/*
** mean_and_covariance.c: vectors of n + n (n + 1)/2 numbers onto pairs of a mean and a covariance as
** normal_inverse_wishart has them, (n + 1) x n matrices: the first n numbers are the mean, the others the covariance
** through the bijectors cholesky and cholesky_outer, whose log |det| it has.
*/
#include <math.h>
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;

#define LOWER (&pni_bijector_cholesky)
#define OUTER (&pni_bijector_cholesky_outer)

/* n with n (n + 3)/2 = m, or -1 with the reason in c */
static int64_t size_of(C *c, const T *x) {
  int64_t m = x->shape[x->ndim - 1], n = (int64_t)floor((sqrt(8 * (double)m + 9) - 3) / 2 + 0.5);
  if (n * (n + 3) / 2 == m) return n;
  pni_fail(c, PN_SHAPE, "mean_and_covariance: forward: x must have vectors of n (n + 3) / 2 numbers, got %lld",
           (long long)m);
  return -1;
}

static T *triangle_of(C *c, T *x, int64_t n) { return pn_slice(c, x, -1, n, n * (n + 1) / 2, 1); }

static T *forward(C *c, B *b, T *x) {
  int64_t n = size_of(c, x);
  T *v = n < 0 ? NULL : triangle_of(c, x, n), *l = v ? LOWER->forward(c, b, v) : NULL;
  if (!l) return NULL;
  T *both[2] = {pn_unsqueeze(c, pn_slice(c, x, -1, 0, n, 1), -2), OUTER->forward(c, b, l)};
  return both[0] && both[1] ? pn_concatenate(c, 2, both, -2) : NULL;
}

static T *inverse(C *c, B *b, T *y) {
  int64_t n = y->shape[y->ndim - 1];
  if (y->shape[y->ndim - 2] != n + 1) {
    pni_fail(c, PN_SHAPE, "mean_and_covariance: inverse: y must have %lld rows of %lld numbers, got %lld",
             (long long)n + 1, (long long)n, (long long)y->shape[y->ndim - 2]);
    return NULL;
  }
  T *l = OUTER->inverse(c, b, pn_slice(c, y, -2, 1, n, 1)), *v = l ? LOWER->inverse(c, b, l) : NULL;
  T *both[2] = {pn_select(c, y, -2, 0), v};
  return both[0] && both[1] ? pn_concatenate(c, 2, both, -1) : NULL;
}

static T *log_abs_det(C *c, B *b, T *x, T *y) {
  int64_t n = y->shape[y->ndim - 1];
  T *v = triangle_of(c, x, n), *l = v ? LOWER->forward(c, b, v) : NULL;
  return l ? pn_add(c, LOWER->log_abs_det(c, b, v, l), OUTER->log_abs_det(c, b, l, y)) : NULL;
}

const pni_bijector pni_bijector_mean_and_covariance = {.name = "mean_and_covariance",
                                                       .doc =
                                                           "n numbers to a mean, the row above, and n (n + 1) / 2 to a "
                                                           "covariance L L^T below it, L row by row with e^x on "
                                                           "its diagonal",
                                                       .source = "Stan reference manual, covariance matrices",
                                                       .domain = &pni_constraint_real_vector,
                                                       .codomain = &pni_constraint_mean_and_covariance,
                                                       .in = "x",
                                                       .out = "yy",
                                                       .flags = PNI_BIJECTOR_LINEAR_DET,
                                                       .forward = forward,
                                                       .inverse = inverse,
                                                       .log_abs_det = log_abs_det};
