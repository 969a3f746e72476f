/*
** von_mises_density.h: the von Mises density as one operation.
*/
#ifndef PN_DIST_KERNEL_VON_MISES_DENSITY_H
#define PN_DIST_KERNEL_VON_MISES_DENSITY_H

#include "../distribution.h"

/* log p(x) = -2 k sin((x - loc)/2)^2 - log(2 pi e^-k I_0(k)), k = concentration. Scoped. */
pn_tensor *pni_von_mises_density(pn_context *c, pn_tensor *x, pn_tensor *loc, pn_tensor *concentration);

#endif
