/*
** op_binary.c: elementwise functions of two arguments. Gradients come in the result's shape; the
** engine sums them back over broadcast axes.
*/
#include "op.h"
#include "../../tensor/kernel/map.h"

typedef pn_tensor T;
typedef pn_context C;
#define A    pni_in(y, 0)
#define B    pni_in(y, 1)
#define K(v) pni_like(c, y, v)

static T *d_add(C *c, T *y, T *g, int k) { return (void)c, (void)y, (void)k, g; }
static T *d_sub(C *c, T *y, T *g, int k) { return (void)y, k ? pn_neg(c, g) : g; }
static T *d_mul(C *c, T *y, T *g, int k) { return pn_mul(c, g, pni_in(y, 1 - k)); }
/* d(a/b) = g/b for a, -g y/b for b */
static T *d_div(C *c, T *y, T *g, int k) {
  T *u = pn_div(c, g, B);
  return k ? pn_neg(c, pn_mul(c, u, y)) : u;
}
/* d(a^b) = b a^(b-1) for a (0 where b = 0, at a = 0 too), a^b log a for b (0 where a = 0) */
static T *d_pow(C *c, T *y, T *g, int k) {
  if (k == 0) {
    T *slope = pn_mul(c, B, pn_pow(c, A, pn_sub(c, B, K(1))));
    return pn_mul(c, g, pn_where(c, pn_eq(c, B, K(0)), K(0), slope));
  }
  T *zero = pn_eq(c, A, K(0));
  T *safe = pn_where(c, zero, K(1), A);
  return pn_mul(c, g, pn_mul(c, y, pn_log(c, safe)));
}
/* Steps are constant wherever they have a derivative. */
static T *d_step(C *c, T *y, T *g, int k) { return (void)g, (void)k, K(0); }
/* 1 where x > y, 0 where x < y, 1/2 for ties, NaN where one is. */
static const pni_op larger_share = {.name = "larger_share",
                                    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                    .map = (const pni_map_kernel[4]){pni_larger_share_f64, pni_larger_share_f32},
                                    .vjp = d_step};
static T *d_maximum(C *c, T *y, T *g, int k) {
  return pn_mul(c, g, pni_apply2(c, &larger_share, pni_in(y, k), pni_in(y, 1 - k), NULL));
}
static T *d_minimum(C *c, T *y, T *g, int k) {
  return pn_mul(c, g, pni_apply2(c, &larger_share, pni_in(y, 1 - k), pni_in(y, k), NULL));
}
static T *d_floor_divide(C *c, T *y, T *g, int k) { return d_step(c, y, g, k); }
/* angle of (x, y) with y = A, x = B: d = (x dy - y dx) / (x^2 + y^2) */
static T *d_atan2(C *c, T *y, T *g, int k) {
  T *r2 = pn_add(c, pn_square(c, A), pn_square(c, B));
  T *u = pn_div(c, g, r2);
  return k ? pn_neg(c, pn_mul(c, u, A)) : pn_mul(c, u, B);
}
static T *d_logaddexp(C *c, T *y, T *g, int k) {
  return pn_mul(c, g, pn_sigmoid(c, pn_sub(c, pni_in(y, k), pni_in(y, 1 - k))));
}
/* d(a log b) = log b for a, a / b for b */
static T *d_xlogy(C *c, T *y, T *g, int k) { return k ? pn_mul(c, g, pn_div(c, A, B)) : pn_mul(c, g, pn_log(c, B)); }
/* a - b q with the whole quotient q = (a - y) / b */
static T *d_remainder(C *c, T *y, T *g, int k) {
  return k ? pn_neg(c, pn_mul(c, g, pn_round(c, pn_div(c, pn_sub(c, A, y), B)))) : g;
}

#define BUILDER(name)                                                                                                  \
  pn_tensor *pn_##name(pn_context *c, pn_tensor *x, pn_tensor *y) { return pni_apply2(c, &pni_op_##name, x, y, NULL); }
#define ROW(id, lo1, hi1, lo2, hi2, text)                                                                              \
  BUILDER(id)                                                                                                          \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t y:t",                                                                       \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ELEMENTWISE,                                                             \
                              .domain = {{lo1, hi1}, {lo2, hi2}},                                                      \
                              .map = (const pni_map_kernel[4]){pni_##id##_f64, pni_##id##_f32},                        \
                              .vjp = d_##id};
#define INT_ROW(id, lo1, hi1, lo2, hi2, text)                                                                          \
  BUILDER(id)                                                                                                          \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t y:t",                                                                       \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ELEMENTWISE | PNI_OP_INTEGER,                                            \
                              .domain = {{lo1, hi1}, {lo2, hi2}},                                                      \
                              .map = (const pni_map_kernel[4]){pni_##id##_f64, pni_##id##_f32, pni_##id##_i64},        \
                              .vjp = d_##id};

INT_ROW(add, 0, 0, 0, 0, "x + y")
INT_ROW(sub, 0, 0, 0, 0, "x - y")
INT_ROW(mul, 0, 0, 0, 0, "x y, element by element")
ROW(div, 0, 0, 0.3, 4, "x / y")
ROW(pow, 0.3, 3, -2, 2, "x^y; differentiable in x for any y, in y for x > 0")
INT_ROW(maximum, 0, 0, 0, 0, "larger of x and y, NaN if one is; ties share the gradient")
INT_ROW(minimum, 0, 0, 0, 0, "smaller of x and y, NaN if one is; ties share the gradient")
ROW(atan2, 0.3, 3, 0.3, 3, "angle of the point (y, x) in radians, -pi to pi")
ROW(logaddexp, 0, 0, 0, 0, "log(e^x + e^y) without overflow")
ROW(xlogy, 0.3, 3, 0.3, 3, "x log y, 0 where x = 0")
INT_ROW(floor_divide, 0.1, 0.9, 1.1, 4, "floor(x / y), as Lua's //; int64 by 0 gives 0; gradient zero")
INT_ROW(remainder, 0.1, 0.9, 1.1, 4,
        "what is left of x after whole multiples of y, exact, with the sign of y and below it in size, as Lua's "
        "%; x or y itself where y is infinite, NaN (int64: 0) where y is 0")
