/*
** beta_binomial_cdf.h: the distribution function of beta-binomial numbers.
*/
#ifndef PN_DISTRIBUTION_COUNT_BETA_BINOMIAL_CDF_H
#define PN_DISTRIBUTION_COUNT_BETA_BINOMIAL_CDF_H

#include "count_quantile.h"

/* P(X <= k) of whole k, 0 for k below 0, 1 from n on. Differentiable in a and b. */
pn_tensor *pni_beta_binomial_cdf(pn_context *c, pn_tensor *k, pn_tensor *n, pn_tensor *a, pn_tensor *b);

extern const pni_count_family pni_family_beta_binomial; /* total_count, concentration1, concentration0 */

#endif
