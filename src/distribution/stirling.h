/*
** stirling.h: parts of entropies and divergences of gamma, beta, Dirichlet and Wishart laws, in which lgamma(a) and
** a digamma(a) of large a cancel: what Stirling's formula leaves of them, the large terms having cancelled on paper.
*/
#ifndef PN_DISTRIBUTION_STIRLING_H
#define PN_DISTRIBUTION_STIRLING_H

#include "distribution.h"

/* lgamma(a) + a - (a - s) digamma(a), about (s - 1/2) log a + log(2 pi e) / 2. Scoped. */
pn_tensor *pni_gamma_surprise(pn_context *c, pn_tensor *a, pn_tensor *s);
/* lgamma(q) - lgamma(p) - (q - p) digamma(p) - D(q, p), D(q, p) = q log(q / p) + p - q: what is left of the distance of
 * lgamma from its tangent. Scoped. */
pn_tensor *pni_lgamma_bend(pn_context *c, pn_tensor *p, pn_tensor *q);

#endif
