/*
** stirling.c: with e(a) = lgamma(a) - [(a - 1/2) log a - a + log(2 pi) / 2] and e'(a) = digamma(a) - log a + 1 / (2 a),
**   lgamma(a) + a - (a - s) digamma(a) = (s - 1/2) log a + (1 + log(2 pi)) / 2 - s / (2 a) + e(a) - (a - s) e'(a)
**   lgamma(q) - lgamma(p) - (q - p) digamma(p) - D(q, p)
**     = (u - log(1 + u)) / 2 + e(q) - e(p) - (q - p) e'(p),  u = (q - p) / p
*/
#include "stirling.h"
#include "formula.h"
#include "kernel/stirling_kernel.h"

static T *error_slope(C *c, T *a, int64_t order) {
  return pni_apply1(c, &pni_op_stirling_slope, a, &(pni_attr){.ni = 1, .i = {order}});
}

T *pni_gamma_surprise(C *c, T *a, T *s) {
  T *main = plus(c, pn_mul(c, plus(c, s, -0.5), pn_log(c, a)), 0.5 + LOG_ROOT_TWO_PI);
  T *less = pn_add(c, times(c, pn_div(c, s, a), 0.5), pn_mul(c, pn_sub(c, a, s), error_slope(c, a, 1)));
  return pn_sub(c, pn_add(c, main, error_slope(c, a, 0)), less);
}

/* d/dp = -(q - p) (1 / (2 p^2) + e''(p)), d/dq = (q - p) / (2 p q) + e'(q) - e'(p) */
static T *vjp_bend(C *c, T *y, T *g, int i) {
  T *p = pni_in(y, 0), *q = pni_in(y, 1), *step = pn_sub(c, q, p), *slope;
  if (i == 0) {
    slope = pn_add(c, times(c, pn_reciprocal(c, pn_square(c, p)), 0.5), error_slope(c, p, 2));
    return pn_neg(c, pn_mul(c, g, pn_mul(c, step, slope)));
  }
  slope = times(c, pn_div(c, pn_div(c, step, p), q), 0.5);
  return pn_mul(c, g, pn_add(c, slope, pn_sub(c, error_slope(c, q, 1), error_slope(c, p, 1))));
}

PNI_DENSITY_VALUE(bend, .inputs = 2, .in_double = true, .value = {pni_bend_body, pni_bend_body})
static const pni_op op_bend = {
    .name = "lgamma_bend", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .map = bend_map, .vjp = vjp_bend};

T *pni_lgamma_bend(C *c, T *p, T *q) { return pni_apply2(c, &op_bend, p, q, NULL); }
