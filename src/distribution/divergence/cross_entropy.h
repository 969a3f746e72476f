/*
** cross_entropy.h: divergences of two different kinds of densities of numbers, out of expectations (expectation.h) or,
** where they are infinite, from their supports (support.h).
*/
#ifndef PN_DISTRIBUTION_DIVERGENCE_CROSS_ENTROPY_H
#define PN_DISTRIBUTION_DIVERGENCE_CROSS_ENTROPY_H

#include "../distribution.h"

/* What is known of a pair of different kinds. */
pni_kl_state pni_cross_known(const pni_distribution *p, const pni_distribution *q);
/* KL(p || q), which broadcasts to the joint base batch; NULL without a failure if the pair is not known. */
pn_tensor *pni_cross_kl(pn_context *c, const pn_dist *p, const pn_dist *q);

#endif
