/*
** geometric_mass.h: the geometric mass as one operation.
*/
#ifndef PN_DIST_KERNEL_GEOMETRIC_MASS_H
#define PN_DIST_KERNEL_GEOMETRIC_MASS_H

#include "../distribution.h"

/* x log(1 - p) + log p of p = 1 / (1 + e^-logits). Scoped. */
pn_tensor *pni_geometric_mass(pn_context *c, pn_tensor *x, pn_tensor *logits);

#endif
