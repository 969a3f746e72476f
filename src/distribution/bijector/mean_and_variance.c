/*
** mean_and_variance.c: pairs of numbers onto pairs of a mean and a variance, y = (x_1, e^(x_2)); log |det| = x_2.
*/
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;

/* (t_1, f(t_2)) */
static T *second(C *c, T *t, const char *direction, T *(*f)(C *c, T *x)) {
  if (t->shape[t->ndim - 1] != 2) {
    pni_fail(c, PN_SHAPE, "mean_and_variance: %s: vectors must have 2 numbers, got %lld", direction,
             (long long)t->shape[t->ndim - 1]);
    return NULL;
  }
  T *both[2] = {pn_slice(c, t, -1, 0, 1, 1), f(c, pn_slice(c, t, -1, 1, 1, 1))};
  return both[0] && both[1] ? pn_concatenate(c, 2, both, -1) : NULL;
}

static T *forward(C *c, B *b, T *x) { return (void)b, second(c, x, "forward", pn_exp); }
static T *inverse(C *c, B *b, T *y) { return (void)b, second(c, y, "inverse", pn_log); }
static T *log_abs_det(C *c, B *b, T *x, T *y) { return (void)b, (void)y, pn_select(c, x, -1, 1); }

const pni_bijector pni_bijector_mean_and_variance = {.name = "mean_and_variance",
                                                     .doc = "y = (x_1, e^(x_2)): two numbers to a mean and a variance",
                                                     .source = "definition",
                                                     .domain = &pni_constraint_real_vector,
                                                     .codomain = &pni_constraint_mean_and_variance,
                                                     .in = "2",
                                                     .out = "2",
                                                     .forward = forward,
                                                     .inverse = inverse,
                                                     .log_abs_det = log_abs_det};
