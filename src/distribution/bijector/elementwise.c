/*
** elementwise.c: bijectors of single numbers without shape. Determinants are written so that nothing overflows
** or cancels in either tail:
**   softplus  log(1 + e^x)         log sigmoid(x)
**   sigmoid   1 / (1 + e^-x)       log sigmoid(x) + log sigmoid(-x)
**   tanh                           2 (log 2 - x - softplus(-2 x))
*/
#include <math.h>
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
#define K(v) pni_like(c, x, v)

static T *identity_forward(C *c, B *b, T *x) { return (void)c, (void)b, x; }
static T *identity_inverse(C *c, B *b, T *y) { return (void)c, (void)b, y; }
static T *identity_log_abs_det(C *c, B *b, T *x, T *y) { return (void)b, (void)y, K(0); }

static T *exp_forward(C *c, B *b, T *x) { return (void)b, pn_exp(c, x); }
static T *exp_inverse(C *c, B *b, T *y) { return (void)b, pn_log(c, y); }
static T *exp_log_abs_det(C *c, B *b, T *x, T *y) { return (void)c, (void)b, (void)y, x; }

static T *softplus_forward(C *c, B *b, T *x) { return (void)b, pn_softplus(c, x); }
/* log(e^y - 1) = y + log(1 - e^-y) */
static T *softplus_inverse(C *c, B *b, T *y) { return (void)b, pn_add(c, y, pn_log1mexp(c, pn_neg(c, y))); }
static T *softplus_log_abs_det(C *c, B *b, T *x, T *y) { return (void)b, (void)y, pn_log_sigmoid(c, x); }

static T *sigmoid_forward(C *c, B *b, T *x) { return (void)b, pn_sigmoid(c, x); }
static T *sigmoid_inverse(C *c, B *b, T *y) { return (void)b, pn_sub(c, pn_log(c, y), pn_log1p(c, pn_neg(c, y))); }
static T *sigmoid_log_abs_det(C *c, B *b, T *x, T *y) {
  return (void)b, (void)y, pn_add(c, pn_log_sigmoid(c, x), pn_log_sigmoid(c, pn_neg(c, x)));
}

static T *tanh_forward(C *c, B *b, T *x) { return (void)b, pn_tanh(c, x); }
static T *tanh_inverse(C *c, B *b, T *x) {
  return (void)b, pn_mul(c, pn_sub(c, pn_log1p(c, x), pn_log1p(c, pn_neg(c, x))), K(0.5));
}
static T *tanh_log_abs_det(C *c, B *b, T *x, T *y) {
  (void)b, (void)y;
  T *t = pn_add(c, x, pn_softplus(c, pn_mul(c, x, K(-2))));
  return pn_mul(c, pn_sub(c, t, K(0.69314718055994530942)), K(-2));
}

#define exponent b->param[0]
/* NaN for what is not positive, where pow may have a value. */
static T *positive(C *c, T *x) { return pn_where(c, pn_gt(c, x, K(0)), x, K(NAN)); }
static T *power_forward(C *c, B *b, T *x) { return pn_pow(c, positive(c, x), exponent); }
static T *power_inverse(C *c, B *b, T *y) { return pn_pow(c, positive(c, y), pn_reciprocal(c, exponent)); }
static T *power_log_abs_det(C *c, B *b, T *x, T *y) {
  (void)y;
  T *slope = pn_mul(c, pn_sub(c, exponent, K(1)), pn_log(c, x));
  return pn_add(c, pn_log(c, pn_abs(c, exponent)), slope);
}

static T *power_sign(C *c, B *b) { return pn_sign(c, exponent); }

#define ROW(id, doc_, domain_, codomain_, flags_, sign_, ...)                                                          \
  const pni_bijector pni_bijector_##id = {.name = #id,                                                                 \
                                          .doc = doc_,                                                                 \
                                          .source = "definition",                                                      \
                                          .param = {__VA_ARGS__},                                                      \
                                          .domain = &pni_constraint_##domain_,                                         \
                                          .codomain = &pni_constraint_##codomain_,                                     \
                                          .in = "",                                                                    \
                                          .out = "",                                                                   \
                                          .flags = flags_,                                                             \
                                          .forward = id##_forward,                                                     \
                                          .inverse = id##_inverse,                                                     \
                                          .log_abs_det = id##_log_abs_det,                                             \
                                          .sign = sign_};

ROW(identity, "y = x", real, real, PNI_BIJECTOR_AFFINE | PNI_BIJECTOR_EVEN, NULL, {.name = NULL})
ROW(exp, "y = e^x", real, positive, PNI_BIJECTOR_LINEAR_DET, NULL, {.name = NULL})
ROW(softplus, "y = log(1 + e^x)", real, positive, 0, NULL, {.name = NULL})
ROW(sigmoid, "y = 1 / (1 + e^-x)", real, open_unit_interval, 0, NULL, {.name = NULL})
ROW(tanh, "y = tanh(x)", real, symmetric_interval, 0, NULL, {.name = NULL})
ROW(power, "y = x^exponent for positive x, exponent not 0", positive, positive, 0, power_sign,
    {.name = "exponent", .constraint = &pni_constraint_nonzero, .axes = ""})
