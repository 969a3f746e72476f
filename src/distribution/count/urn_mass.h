/*
** urn_mass.h: masses of counts whose probabilities were drawn from beta or Dirichlet distributions (Polya's urn),
**   log p(x) = sum_i w(x_i, a_i) - w(sum x, sum a),  w(x, a) = log Gamma(x + a) / (x! Gamma(a))
** With E and D of count_mass.h and any share t the large terms cancel on paper:
**   w(x, a) = E(x + a) - E(x) - E(a) - log(1 + x/a) - D(x, t (x + a)) - D(a, (1 - t) (x + a)) - x log t - a log(1 - t)
** and with t = sum x / (sum x + sum a) the last two terms and both deviances of the total vanish.
*/
#ifndef PN_DISTRIBUTION_COUNT_URN_MASS_H
#define PN_DISTRIBUTION_COUNT_URN_MASS_H

#include "../formula.h"
#include "count_mass.h"

/* E(x + a) - E(x) - E(a) - log(1 + x/a) */
static inline T *polya_weight(C *c, T *x, T *a) {
  T *parts = pn_add(c, pni_excess(c, x), pni_excess(c, a));
  return pn_sub(c, pn_sub(c, pni_excess(c, pn_add(c, x, a)), parts), pn_log1p(c, pn_div(c, x, a)));
}

/* D(x, t (x + a)) + D(a, (1 - t) (x + a)), t = n / (n + s) */
static inline T *polya_deviance(C *c, T *x, T *a, T *n, T *s) {
  T *all = pn_add(c, x, a), *total = pn_add(c, n, s);
  return pn_add(c, pni_deviance(c, x, pn_mul(c, pn_div(c, n, total), all)),
                pni_deviance(c, a, pn_mul(c, pn_div(c, s, total), all)));
}

#endif
