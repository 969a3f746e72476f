/*
** ordered.c: y_1 = x_1, y_i = y_{i-1} + e^{x_i}: rising vectors, log |det dy/dx| = x_2 + ... + x_n.
*/
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
#define LAST ((pn_axes){1, {-1}})

/* The entries from `start` on. */
static T *rest(C *c, T *x, int64_t start) {
  int64_t n = x->shape[x->ndim - 1];
  return pn_slice(c, x, -1, start, n - start, 1);
}
static T *first(C *c, T *x, int64_t count) { return pn_slice(c, x, -1, 0, count, 1); }
static T *join(C *c, T *a, T *b) { return a && b ? pn_concatenate(c, 2, (T *[]){a, b}, -1) : NULL; }

static T *forward(C *c, B *b, T *x) {
  (void)b;
  if (x->shape[x->ndim - 1] < 1) return x;
  return pn_cumsum(c, join(c, first(c, x, 1), pn_exp(c, rest(c, x, 1))), -1);
}

static T *inverse(C *c, B *b, T *y) {
  (void)b;
  int64_t n = y->shape[y->ndim - 1];
  if (n < 1) return y;
  T *steps = pn_sub(c, rest(c, y, 1), first(c, y, n - 1));
  return join(c, first(c, y, 1), pn_log(c, steps));
}

static T *log_abs_det(C *c, B *b, T *x, T *y) {
  (void)b, (void)y;
  return pn_sum(c, x->shape[x->ndim - 1] < 1 ? x : rest(c, x, 1), LAST, 0);
}

const pni_bijector pni_bijector_ordered = {.name = "ordered",
                                           .doc = "rising vectors: y_1 = x_1, y_i = y_{i-1} + e^{x_i}",
                                           .source = "Stan reference manual, Ordered vector",
                                           .domain = &pni_constraint_real_vector,
                                           .codomain = &pni_constraint_ordered_vector,
                                           .in = "x",
                                           .out = "x",
                                           .flags = PNI_BIJECTOR_LINEAR_DET,
                                           .forward = forward,
                                           .inverse = inverse,
                                           .log_abs_det = log_abs_det};
