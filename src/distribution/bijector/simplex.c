/*
** simplex.c: y = softmax(x, 0): vectors of n - 1 numbers onto the inside of the simplex of n probabilities,
**   x_i = log y_i - log y_n,  log |det d(y_1 .. y_{n-1}) / dx| = sum_i log y_i  (i = 1 .. n)
** The Jacobian is diag(y) - y y^T without its last row; its determinant follows from the matrix determinant lemma.
*/
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
#define LAST ((pn_axes){1, {-1}})

static T *with_zero(C *c, T *x) { return pn_pad(c, x, -1, 0, 1, 0); }
static T *forward(C *c, B *b, T *x) { return (void)b, pn_softmax(c, with_zero(c, x), -1); }

static T *inverse(C *c, B *b, T *y) {
  (void)b;
  int64_t n = y->shape[y->ndim - 1];
  if (n < 1) {
    pni_fail(c, PN_SHAPE, "softmax_centred: inverse: y must have vectors of at least 1 probability, got 0");
    return NULL;
  }
  T *l = pn_log(c, y);
  return pn_sub(c, pn_slice(c, l, -1, 0, n - 1, 1), pn_slice(c, l, -1, n - 1, 1, 1));
}

static T *log_abs_det(C *c, B *b, T *x, T *y) {
  return (void)b, (void)y, pn_sum(c, pn_log_softmax(c, with_zero(c, x), -1), LAST, 0);
}

const pni_bijector pni_bijector_softmax_centred = {
    .name = "softmax_centred",
    .doc = "y = softmax(x, 0): n - 1 numbers to n probabilities; x_i = log(y_i / y_n)",
    .source = "Aitchison 1986 (additive log-ratio)",
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_simplex,
    .in = "x",
    .out = "y",
    .forward = forward,
    .inverse = inverse,
    .log_abs_det = log_abs_det};
