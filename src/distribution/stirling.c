/*
** stirling.c: with e(a) = lgamma(a) - [(a - 1/2) log a - a + log(2 pi) / 2] and e'(a) = digamma(a) - log a + 1 / (2 a),
**   lgamma(a) + a - (a - s) digamma(a) = (s - 1/2) log a + (1 + log(2 pi)) / 2 - s / (2 a) + e(a) - (a - s) e'(a)
**   lgamma(q) - lgamma(p) - (q - p) digamma(p) - D(q, p)
**     = (u - log(1 + u)) / 2 + e(q) - e(p) - (q - p) e'(p),  u = (q - p) / p
*/
#include "stirling.h"
#include "formula.h"

static T *error_slope(C *c, T *a, int64_t order) {
  return pni_apply1(c, &pni_op_stirling_slope, a, &(pni_attr){.ni = 1, .i = {order}});
}

T *pni_gamma_surprise(C *c, T *a, T *s) {
  T *main = plus(c, pn_mul(c, plus(c, s, -0.5), pn_log(c, a)), 0.5 + LOG_ROOT_TWO_PI);
  T *less = pn_add(c, times(c, pn_div(c, s, a), 0.5), pn_mul(c, pn_sub(c, a, s), error_slope(c, a, 1)));
  return pn_sub(c, pn_add(c, main, error_slope(c, a, 0)), less);
}

T *pni_lgamma_bend(C *c, T *p, T *q) {
  T *step = pn_sub(c, q, p), *gap = pni_apply1(c, &pni_op_log1p_gap, pn_div(c, step, p), NULL);
  T *bend = pn_sub(c, pn_sub(c, error_slope(c, q, 0), error_slope(c, p, 0)), pn_mul(c, step, error_slope(c, p, 1)));
  return pn_add(c, times(c, gap, 0.5), bend);
}
