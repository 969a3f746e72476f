/*
** op_bernoulli.c: the divergence of two events and its inverses as operations. An inverse's gradient is implicit: along
** kl(q || p) = c.
*/
#include <math.h>
#include "op.h"
#include "../../math/special.h"
#include "../../tensor/kernel/map_loop.h"

typedef pn_tensor T;
typedef pn_context C;
#define LIKE(v) pni_like(c, y, v)

/* log(x / (1 - x)) */
static T *log_odds(C *c, T *x) { return pn_sub(c, pn_log(c, x), pn_log1p(c, pn_neg(c, x))); }
/* x (1 - x) */
static T *spread(C *c, T *x) { return pn_mul(c, x, pn_sub(c, pni_like(c, x, 1), x)); }

/* ---- kl(q || p) ---- */

static PNI_LOOP2(kl_f64, double, double,
                 pni_bernoulli_kl(x, y)) static PNI_LOOP2(kl_f32, float, float, pni_bernoulli_kl((double)x, (double)y))

    /* d/dq = log odds of q - log odds of p, d/dp = (p - q) / (p (1 - p)); 0 where they agree */
    static T *vjp_kl(C *c, T *y, T *g, int k) {
  T *q = pni_in(y, 0), *p = pni_in(y, 1);
  T *slope = k ? pn_div(c, pn_sub(c, p, q), spread(c, p)) : pn_sub(c, log_odds(c, q), log_odds(c, p));
  return pn_mul(c, g, pn_where(c, pn_eq(c, q, p), LIKE(0), slope));
}

pn_tensor *pn_bernoulli_kl(pn_context *c, pn_tensor *q, pn_tensor *p) {
  return pni_apply2(c, &pni_op_bernoulli_kl, q, p, NULL);
}

const pni_op pni_op_bernoulli_kl = {.name = "bernoulli_kl",
                                    .args = "q:t p:t",
                                    .doc = "q log(q / p) + (1 - q) log((1 - q) / (1 - p)), of probabilities",
                                    .flags = PNI_OP_ELEMENTWISE,
                                    .domain = {{0.05, 0.45}, {0.55, 0.95}},
                                    .map = (const pni_map_kernel[4]){kl_f64, kl_f32},
                                    .vjp = vjp_kl};

/* ---- inverses ---- */

#define WHICH pni_whole_order(data)

/* The float next to the exact value, outwards. */
static float outwards(int which, double value) {
  float near = (float)value;
  if (which % 2 ? (double)near > value : (double)near < value) return nextafterf(near, which % 2 ? 0.0F : 1.0F);
  return near;
}

static PNI_LOOP2(inverse_f64, double, double, pni_bernoulli_kl_inverse(WHICH, x, y)) static PNI_LOOP2(
    inverse_f32, float, float, outwards(WHICH, pni_bernoulli_kl_inverse(WHICH, (double)x, (double)y)))

    /* Of p along kl(q || p) = c: p (1 - p) / (p - q), which tends to what is left where q is 0 or 1. */
    static T *slope_of_p(C *c, T *y, T *q, bool lower) {
  T *zero = pn_eq(c, q, LIKE(0)), *one = pn_eq(c, q, LIKE(1)), *away = pn_sub(c, y, q);
  T *inner = lower ? pn_neg(c, pn_div(c, spread(c, y), pn_neg(c, away))) : pn_div(c, spread(c, y), away);
  if (lower) return pn_where(c, one, pn_neg(c, y), pn_where(c, zero, LIKE(0), inner));
  return pn_where(c, zero, pn_sub(c, LIKE(1), y), pn_where(c, one, LIKE(0), inner));
}

/* What x moves: all where nothing else is allowed, nothing where the inverse is 0 or 1. */
static T *with_limits(C *c, T *y, T *x, T *slope) {
  T *edge = pn_logical_or(c, pn_eq(c, y, LIKE(0)), pn_eq(c, y, LIKE(1)));
  T *alone = pn_eq(c, pni_in(y, 1), LIKE(0)), *held = pn_logical_or(c, edge, pn_eq(c, y, x));
  return pn_where(c, alone, LIKE(1), pn_where(c, held, LIKE(0), slope));
}

static T *vjp_inverse(C *c, T *y, T *g, int k) {
  const int64_t which = y->attr->i[0];
  T *x = pni_in(y, 0), *odds = pn_sub(c, log_odds(c, y), log_odds(c, x));
  if (which < 2) {
    T *slope = slope_of_p(c, y, x, which == 1);
    return pn_mul(c, g, k ? slope : with_limits(c, y, x, pn_mul(c, slope, odds)));
  }
  T *edge = pn_logical_or(c, pn_eq(c, y, LIKE(0)), pn_eq(c, y, LIKE(1)));
  if (k) return pn_mul(c, g, pn_where(c, edge, LIKE(0), pn_reciprocal(c, odds)));
  return pn_mul(c, g, with_limits(c, y, x, pn_div(c, pn_sub(c, y, x), pn_mul(c, spread(c, x), odds))));
}

pn_tensor *pn_bernoulli_kl_inverse(pn_context *c, pn_tensor *x, pn_tensor *bound, int which) {
  if (which < 0 || which > 3) {
    pni_fail(c, PN_DOMAIN, "bernoulli_kl_inverse: which must be 0, 1, 2 or 3, got %d", which);
    return NULL;
  }
  return pni_apply2(c, &pni_op_bernoulli_kl_inverse, x, bound, &(pni_attr){.ni = 1, .i = {which}});
}

const pni_op pni_op_bernoulli_kl_inverse = {
    .name = "bernoulli_kl_inverse",
    .args = "x:t c:t which:i=0",
    .doc = "largest p with bernoulli_kl(x, p) <= c; which = 1 the smallest, 2 and 3 the largest and smallest q with "
           "bernoulli_kl(q, x) <= c; never inside the exact value",
    .flags = PNI_OP_ELEMENTWISE,
    .domain = {{0.1, 0.9}, {0.01, 0.05}},
    .map = (const pni_map_kernel[4]){inverse_f64, inverse_f32},
    .vjp = vjp_inverse};
