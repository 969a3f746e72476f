/*
** op_math.c: elementwise functions of one argument with their derivatives. Where the derivative is
** cheapest through the result, it uses the node y itself.
*/
#include "op.h"
#include "../../tensor/kernel/map.h"

typedef pn_tensor T;
typedef pn_context C;
#define IN   pni_in(y, 0)
#define K(v) pni_like(c, y, v)

static T *d_neg(C *c, T *y, T *g, int k) { return (void)y, (void)k, pn_neg(c, g); }
static T *d_abs(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_sign(c, IN)); }
static T *d_square(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_mul(c, IN, K(2))); }
static T *d_sqrt(C *c, T *y, T *g, int k) { return (void)k, pn_div(c, g, pn_mul(c, y, K(2))); }
/* d x^(-1/2) = -1/2 x^(-3/2) = -y^3 / 2 */
static T *d_rsqrt(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_mul(c, pn_pow(c, y, K(3)), K(-0.5))); }
static T *d_reciprocal(C *c, T *y, T *g, int k) { return (void)k, pn_neg(c, pn_mul(c, g, pn_square(c, y))); }
static T *d_exp(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, y); }
static T *d_expm1(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_exp(c, IN)); }
static T *d_log(C *c, T *y, T *g, int k) { return (void)k, pn_div(c, g, IN); }
static T *d_log1p(C *c, T *y, T *g, int k) { return (void)k, pn_div(c, g, pn_add(c, IN, K(1))); }
/* d log(1 - e^x) = -e^x / (1 - e^x) = -1 / expm1(-x) */
/* -e^x / (1 - e^x) = -e^(x - y), which stays finite far out, and so do its own slopes */
static T *d_log1mexp(C *c, T *y, T *g, int k) { return (void)k, pn_neg(c, pn_mul(c, g, pn_exp(c, pn_sub(c, IN, y)))); }
static T *d_sin(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_cos(c, IN)); }
static T *d_cos(C *c, T *y, T *g, int k) { return (void)k, pn_neg(c, pn_mul(c, g, pn_sin(c, IN))); }
static T *d_tan(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_add(c, pn_square(c, y), K(1))); }
static T *circle(C *c, T *x) { return pn_rsqrt(c, pn_sub(c, pni_like(c, x, 1), pn_square(c, x))); }
static T *d_asin(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, circle(c, IN)); }
static T *d_acos(C *c, T *y, T *g, int k) { return (void)k, pn_neg(c, pn_mul(c, g, circle(c, IN))); }
static T *d_atan(C *c, T *y, T *g, int k) { return (void)k, pn_div(c, g, pn_add(c, pn_square(c, IN), K(1))); }
static T *d_sinh(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_cosh(c, IN)); }
static T *d_cosh(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_sinh(c, IN)); }
static T *d_asinh(C *c, T *y, T *g, int k) {
  return (void)k, pn_mul(c, g, pn_rsqrt(c, pn_add(c, pn_square(c, IN), K(1))));
}
/* (x - 1) (x + 1) in place of x^2 - 1, which cancels near 1 */
static T *d_acosh(C *c, T *y, T *g, int k) {
  return (void)k, pn_mul(c, g, pn_rsqrt(c, pn_mul(c, pn_sub(c, IN, K(1)), pn_add(c, IN, K(1)))));
}
static T *d_atanh(C *c, T *y, T *g, int k) {
  return (void)k, pn_div(c, g, pn_mul(c, pn_sub(c, K(1), IN), pn_add(c, IN, K(1))));
}
static T *d_tanh(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_sub(c, K(1), pn_square(c, y))); }
static T *d_sigmoid(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_mul(c, y, pn_sub(c, K(1), y))); }
static T *d_log_sigmoid(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_sigmoid(c, pn_neg(c, IN))); }
static T *d_softplus(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_sigmoid(c, IN)); }
/* Subgradient 0 at 0. */
static T *d_relu(C *c, T *y, T *g, int k) { return (void)k, pni_apply2(c, &pni_op_relu_slope, g, y, NULL); }
/* Steps are constant wherever they have a derivative. */
static T *d_step(C *c, T *y, T *g, int k) { return (void)g, (void)k, K(0); }
/* constant in y wherever it has a derivative */
static T *d_relu_slope(C *c, T *y, T *g, int k) {
  return k == 0 ? pni_apply2(c, &pni_op_relu_slope, g, pni_in(y, 1), NULL) : K(0);
}
/* The result has the sign of x; 0 itself belongs to the lower branch. */
static T *d_leaky_relu(C *c, T *y, T *g, int k) {
  return (void)k, pni_apply2(c, &pni_op_leaky_relu_slope, g, y, y->attr);
}
static T *d_leaky_relu_slope(C *c, T *y, T *g, int k) {
  return k == 0 ? pni_apply2(c, &pni_op_leaky_relu_slope, g, pni_in(y, 1), y->attr) : K(0);
}

#define BUILDER(name)                                                                                                  \
  pn_tensor *pn_##name(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_##name, x, NULL); }

/* A row whose kernels exist for floats only. */
#define ROW(id, lo_, hi_, text)                                                                                        \
  BUILDER(id)                                                                                                          \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t",                                                                           \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ELEMENTWISE,                                                             \
                              .domain = {{lo_, hi_}},                                                                  \
                              .map = (const pni_map_kernel[4]){pni_##id##_f64, pni_##id##_f32},                        \
                              .vjp = d_##id};
/* A row that also takes int64. */
#define INT_ROW(id, lo_, hi_, text)                                                                                    \
  BUILDER(id)                                                                                                          \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t",                                                                           \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ELEMENTWISE | PNI_OP_INTEGER,                                            \
                              .domain = {{lo_, hi_}},                                                                  \
                              .map = (const pni_map_kernel[4]){pni_##id##_f64, pni_##id##_f32, pni_##id##_i64},        \
                              .vjp = d_##id};
/* A row whose gradient is zero (piecewise constant). */
#define STEP_ROW(id, text)                                                                                             \
  BUILDER(id)                                                                                                          \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t",                                                                           \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ELEMENTWISE,                                                             \
                              .domain = {{0.1, 0.4}},                                                                  \
                              .map = (const pni_map_kernel[4]){pni_##id##_f64, pni_##id##_f32},                        \
                              .vjp = d_step};

INT_ROW(neg, 0, 0, "-x")
INT_ROW(abs, 0.1, 5, "|x|; gradient 0 at 0")
INT_ROW(square, 0, 0, "x^2")
ROW(sqrt, 0.1, 5, "square root")
ROW(rsqrt, 0.1, 5, "1 / sqrt(x)")
ROW(reciprocal, 0.2, 5, "1 / x")
ROW(exp, 0, 0, "e^x")
ROW(expm1, 0, 0, "e^x - 1, exact near 0")
ROW(log, 0.1, 5, "natural logarithm")
ROW(log1p, -0.9, 5, "log(1 + x), exact near 0")
ROW(log1mexp, -5, -0.1, "log(1 - e^x) for x < 0")
ROW(sin, 0, 0, "sine of x radians")
ROW(cos, 0, 0, "cosine of x radians")
ROW(tan, -1.4, 1.4, "tangent of x radians")
ROW(asin, -0.9, 0.9, "inverse sine, in radians")
ROW(acos, -0.9, 0.9, "inverse cosine, in radians")
ROW(atan, 0, 0, "inverse tangent, in radians")
ROW(sinh, 0, 0, "hyperbolic sine")
ROW(cosh, 0, 0, "hyperbolic cosine")
ROW(asinh, 0, 0, "inverse of sinh")
ROW(acosh, 1.2, 5, "inverse of cosh, from 1 on")
ROW(atanh, -0.9, 0.9, "inverse of tanh, between -1 and 1")
ROW(tanh, 0, 0, "hyperbolic tangent")
ROW(sigmoid, 0, 0, "1 / (1 + e^-x)")
ROW(log_sigmoid, 0, 0, "log(1 / (1 + e^-x)), exact in both tails")
ROW(softplus, 0, 0, "log(1 + e^x)")
ROW(relu, 0.1, 5, "max(x, 0); gradient 0 at 0, NaN at NaN")
STEP_ROW(floor, "largest whole number not above x; gradient zero")
STEP_ROW(ceil, "smallest whole number not below x; gradient zero")
STEP_ROW(round, "nearest whole number, halves to even; gradient zero")

BUILDER(sign)
const pni_op pni_op_sign = {.name = "sign",
                            .args = "x:t",
                            .doc = "-1, 0 or 1 by the sign of x; gradient zero",
                            .flags = PNI_OP_ELEMENTWISE | PNI_OP_INTEGER,
                            .domain = {{0.1, 5}},
                            .map = (const pni_map_kernel[4]){pni_sign_f64, pni_sign_f32, pni_sign_i64},
                            .vjp = d_step};

const pni_op pni_op_relu_slope = {.name = "relu_slope",
                                  .args = "g:t y:t",
                                  .doc = "g where y > 0, NaN where y is, else 0: the gradient of relu",
                                  .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                  .domain = {{0, 0}, {0.1, 5}},
                                  .map = (const pni_map_kernel[4]){pni_relu_slope_f64, pni_relu_slope_f32},
                                  .vjp = d_relu_slope};

T *pni_leaky_relu(C *c, T *x, double slope) { return pni_apply1(c, &pni_op_leaky_relu, x, &(pni_attr){.r = {slope}}); }

const pni_op pni_op_leaky_relu = {.name = "leaky_relu",
                                  .args = "x:t slope:n",
                                  .doc = "x above 0, else slope x, for a slope above 0; gradient slope at 0",
                                  .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                  .domain = {{0.1, 5}},
                                  .map = (const pni_map_kernel[4]){pni_leaky_relu_f64, pni_leaky_relu_f32},
                                  .vjp = d_leaky_relu};

const pni_op pni_op_leaky_relu_slope = {
    .name = "leaky_relu_slope",
    .args = "g:t y:t slope:n",
    .doc = "g where y > 0, NaN where y is, else slope g: the gradient of leaky_relu",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
    .domain = {{0, 0}, {0.1, 5}},
    .map = (const pni_map_kernel[4]){pni_leaky_relu_slope_f64, pni_leaky_relu_slope_f32},
    .vjp = d_leaky_relu_slope};
