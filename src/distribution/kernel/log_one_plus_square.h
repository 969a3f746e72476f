/*
** log_one_plus_square.h: what the distributions with Cauchy tails share. Include it in a .c file only.
*/
#ifndef PN_DISTRIBUTION_KERNEL_LOG_ONE_PLUS_SQUARE_H
#define PN_DISTRIBUTION_KERNEL_LOG_ONE_PLUS_SQUARE_H

#include "../formula.h"

/* log(1 + z^2 / v), whatever z; v NULL: 1. See log_one_plus_square.c. */
T *pni_log_one_plus_square(C *c, T *z, T *v);

/* P(Z > z) of the standard Cauchy, atan2(1, z) / pi: exact for large z */
static inline T *cauchy_tail(C *c, T *z) { return times(c, pn_atan2(c, pni_like(c, z, 1), z), 1 / PI); }

/* Its quantile: tan(pi (p - 1/2)) in the middle, -1 / tan(pi p) and 1 / tan(pi (1 - p)) in the tails */
static inline T *cauchy_quantile(C *c, T *p) {
  T *low = below(c, p, 0.25), *high = above(c, p, 0.75), *tail = pn_logical_or(c, low, high);
  T *middle = pn_tan(c, times(c, plus(c, but(c, tail, 0.5, p), -0.5), PI));
  T *small = pn_where(c, high, from(c, 1, p), only(c, low, p, 0.25));
  T *outer = pn_reciprocal(c, pn_tan(c, times(c, small, PI)));
  return pn_where(c, tail, pn_where(c, high, outer, pn_neg(c, outer)), middle);
}

#endif
