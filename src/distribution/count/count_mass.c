/*
** count_mass.c: deviance and excess with their derivatives,
**   dD/dm = 1 - k/m,  dD/dl = m - k,  dD/dk = log(k/m),  dE/dk = digamma(k + 1) - log k
*/
#include "../formula.h"
#include "count_mass.h"
#include "count_kernel.h"

/* k/m is 0 at k = 0, also for m = 0. */
static T *vjp_deviance(C *c, T *y, T *g, int i) {
  T *k = pni_in(y, 0), *m = pni_in(y, 1);
  if (i == 0) return pn_mul(c, g, pn_sub(c, pn_log(c, k), pn_log(c, m)));
  return pn_mul(c, g, from(c, 1, pn_div(c, k, but(c, equals(c, k, 0), 1, m))));
}

static T *vjp_deviance_log(C *c, T *y, T *g, int i) {
  T *k = pni_in(y, 0), *l = pni_in(y, 1);
  return pn_mul(c, g, i == 0 ? pn_sub(c, pn_log(c, k), l) : pn_sub(c, pn_exp(c, l), k));
}

static T *vjp_excess(C *c, T *y, T *g, int i) {
  T *k = pni_in(y, i);
  return pn_mul(c, g, pn_sub(c, pn_digamma(c, plus(c, k, 1)), pn_log(c, k)));
}

/* With p = 1 / (1 + e^-l): d/dx = digamma(x + r) - digamma(x + 1) + log p, d/dr = digamma(x + r) - digamma(r) + log(1 -
 * p), d/dl = x (1 - p) - r p */
static T *vjp_negative_binomial(C *c, T *y, T *g, int i) {
  T *x = pni_in(y, 0), *r = pni_in(y, 1), *l = pni_in(y, 2), *minus = pn_neg(c, l);
  if (i == 2) return pn_mul(c, g, pn_sub(c, pn_mul(c, x, pn_sigmoid(c, minus)), pn_mul(c, r, pn_sigmoid(c, l))));
  T *slope = pn_sub(c, pn_digamma(c, pn_add(c, x, r)), pn_digamma(c, i == 0 ? plus(c, x, 1) : r));
  return pn_mul(c, g, pn_add(c, slope, pn_log_sigmoid(c, i == 0 ? l : minus)));
}

/* d/dx = digamma(n - x + 1) - digamma(x + 1) + l, d/dl = x (1 - p) - (n - x) p; n is a whole number */
static T *vjp_binomial(C *c, T *y, T *g, int i) {
  T *x = pni_in(y, 0), *rest = pn_sub(c, pni_in(y, 1), x), *l = pni_in(y, 2);
  if (i == 1) return pni_like(c, g, 0);
  if (i == 2)
    return pn_mul(c, g, pn_sub(c, pn_mul(c, x, pn_sigmoid(c, pn_neg(c, l))), pn_mul(c, rest, pn_sigmoid(c, l))));
  return pn_mul(c, g, pn_add(c, pn_sub(c, pn_digamma(c, plus(c, rest, 1)), pn_digamma(c, plus(c, x, 1))), l));
}

/* d/dx = log m - digamma(x + 1), d/dm = x/m - 1 */
static T *vjp_poisson(C *c, T *y, T *g, int i) {
  T *x = pni_in(y, 0), *m = pni_in(y, 1);
  if (i == 0) return pn_mul(c, g, pn_sub(c, pn_log(c, m), pn_digamma(c, plus(c, x, 1))));
  return pn_mul(c, g, plus(c, pn_div(c, x, m), -1));
}

#define ROW(id, count, vjp_)                                                                                           \
  PNI_DENSITY_VALUE(id, .inputs = count, .in_double = true, .value = {pni_##id##_body, pni_##id##_body})               \
  static const pni_op op_##id = {                                                                                      \
      .name = "count_" #id, .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .map = id##_map, .vjp = vjp_};
ROW(deviance, 2, vjp_deviance)
ROW(deviance_log, 2, vjp_deviance_log)
ROW(excess, 1, vjp_excess)
ROW(negative_binomial, 3, vjp_negative_binomial)
ROW(binomial, 3, vjp_binomial)
ROW(poisson, 2, vjp_poisson)

T *pni_deviance(C *c, T *k, T *m) { return pni_apply2(c, &op_deviance, k, m, NULL); }
T *pni_deviance_log(C *c, T *k, T *l) { return pni_apply2(c, &op_deviance_log, k, l, NULL); }
T *pni_excess(C *c, T *k) { return pni_apply1(c, &op_excess, k, NULL); }
T *pni_negative_binomial(C *c, T *x, T *r, T *l) {
  return pni_apply(c, &op_negative_binomial, 3, (T *[]){x, r, l}, NULL);
}
T *pni_binomial(C *c, T *x, T *n, T *l) { return pni_apply(c, &op_binomial, 3, (T *[]){x, n, l}, NULL); }
T *pni_poisson(C *c, T *x, T *m) { return pni_apply2(c, &op_poisson, x, m, NULL); }
