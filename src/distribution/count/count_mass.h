/*
** count_mass.h: parts of the masses of counts as operations (special_count.c); D is the deviance, E the excess:
**   Poisson(m):      log p(k) = -E(k) - D(k, m)
**   Binomial(n, p):  log p(k) = E(n) - E(k) - E(n - k) - D(k, n p) - D(n - k, n (1 - p))
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_MASS_H
#define PN_DISTRIBUTION_COUNT_COUNT_MASS_H

#include "../distribution.h"

/* D(k, m) = k log(k/m) + m - k. Differentiable in m, and in k > 0. */
pn_tensor *pni_deviance(pn_context *c, pn_tensor *k, pn_tensor *m);
/* The same of l = log m. */
pn_tensor *pni_deviance_log(pn_context *c, pn_tensor *k, pn_tensor *l);
/* E(k) = log k! - (k log k - k). Differentiable in k > 0. */
pn_tensor *pni_excess(pn_context *c, pn_tensor *k);

/* log of the negative binomial's mass of x with r > 0 and log odds l. Differentiable in all. */
pn_tensor *pni_negative_binomial(pn_context *c, pn_tensor *x, pn_tensor *r, pn_tensor *l);

/* log of the binomial mass of x among n trials with log odds l. Differentiable in x and l. */
pn_tensor *pni_binomial(pn_context *c, pn_tensor *x, pn_tensor *n, pn_tensor *l);
/* log of the Poisson mass of x with rate m. Differentiable in both. */
pn_tensor *pni_poisson(pn_context *c, pn_tensor *x, pn_tensor *m);

#endif
