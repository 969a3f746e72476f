/*
** count_quantile.h: quantiles of counts: the least whole number k >= 0 whose distribution function reaches p.
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_QUANTILE_H
#define PN_DISTRIBUTION_COUNT_COUNT_QUANTILE_H

#include "../distribution.h"

/* A family with up to three parameters v. */
typedef struct pni_count_family {
  double (*cdf)(double k, const double *v); /* of whole k >= 0 */
  /* mean and standard deviation, from where the search starts */
  void (*place)(const double *v, double *mean, double *deviation);
  double (*top)(const double *v); /* the largest value, inf */
} pni_count_family;

extern const pni_count_family pni_family_poisson;           /* rate */
extern const pni_count_family pni_family_binomial;          /* total_count, prob of success */
extern const pni_count_family pni_family_negative_binomial; /* total_count, prob of failure */

/* Of d at 0 <= p <= 1, broadcasting with the n parameters of its family, 1 to 3. No gradient: it is 0 between the
 * jumps. */
pn_tensor *pni_count_quantile(pn_context *c, const pn_dist *d, const pni_count_family *f, pn_tensor *p, int n,
                              pn_tensor *const *v);

#endif
