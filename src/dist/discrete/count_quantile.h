/*
** count_quantile.h: quantiles of counts: the least whole number k >= 0 whose distribution function reaches p.
*/
#ifndef PN_DIST_DISCRETE_COUNT_QUANTILE_H
#define PN_DIST_DISCRETE_COUNT_QUANTILE_H

#include "../distribution.h"

/* A family with up to two parameters. */
typedef struct pni_count_family {
  double (*cdf)(double k, double a, double b); /* of whole k >= 0 */
  /* mean and standard deviation, from where the search starts */
  void (*place)(double a, double b, double *mean, double *deviation);
  double (*top)(double a, double b); /* the largest value, inf */
} pni_count_family;

extern const pni_count_family pni_family_poisson;           /* rate */
extern const pni_count_family pni_family_binomial;          /* total_count, prob of success */
extern const pni_count_family pni_family_negative_binomial; /* total_count, prob of failure */

/* Of 0 <= p <= 1, broadcasting with a and b (NULL: none). No gradient: it is 0 between the jumps. */
pn_tensor *pni_count_quantile(pn_context *c, const pni_count_family *f, pn_tensor *p, pn_tensor *a, pn_tensor *b);

#endif
