/*
** permutation.c: y_i = x_{index_i}, index 0-based; log |det| = 0.
*/
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
#define order b->param[0]

static pn_status check(C *c, B *b) {
  if (order->ndim == 1) return PN_OK;
  return pni_fail(c, PN_SHAPE, "permutation: index must have one axis, got %d", order->ndim);
}

static T *forward(C *c, B *b, T *x) { return pn_take(c, x, -1, order); }
static T *inverse(C *c, B *b, T *y) { return pn_take(c, y, -1, pn_argsort(c, order, 0, 0)); }

static T *log_abs_det(C *c, B *b, T *x, T *y) {
  (void)b, (void)y;
  return pni_like(c, x, 0);
}

const pni_bijector pni_bijector_permutation = {
    .name = "permutation",
    .doc = "y_i = x[index_i] along the last axis, index 0-based",
    .source = "definition",
    .param = {{.name = "index", .constraint = &pni_constraint_permutation, .axes = "n"}},
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_real_vector,
    .in = "n",
    .out = "n",
    .flags = PNI_BIJECTOR_AFFINE | PNI_BIJECTOR_MOVES | PNI_BIJECTOR_EVEN,
    .check = check,
    .forward = forward,
    .inverse = inverse,
    .log_abs_det = log_abs_det};
