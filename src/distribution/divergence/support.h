/*
** support.h: KL(p || q) is infinite where p has mass outside the support of q, whatever else is known of the pair: by
** the two kinds alone, or by their parameters.
*/
#ifndef PN_DISTRIBUTION_DIVERGENCE_SUPPORT_H
#define PN_DISTRIBUTION_DIVERGENCE_SUPPORT_H

#include "../distribution.h"

/* Is it infinite for all parameters? */
bool pni_support_never_inside(const pni_distribution *p, const pni_distribution *q);
/* May it depend on parameters? */
bool pni_support_moves(const pni_distribution *p, const pni_distribution *q);
/* Where p has mass outside: bool, broadcasts to the joint base batch. Of pairs of which pni_support_moves. Scoped. */
pn_tensor *pni_support_outside(pn_context *c, const pn_dist *p, const pn_dist *q);
/* inf where p has mass outside; PN_MISSING, naming the pair, if it has none somewhere. Scoped. */
pn_tensor *pni_support_kl(pn_context *c, const pn_dist *p, const pn_dist *q);

#endif
