/*
** location_scale.h: densities of the laws that are moved by loc and stretched by scale, as one operation,
**   log p(x) = h(z) - log scale,  z = (x - loc) / scale
*/
#ifndef PN_DIST_KERNEL_LOCATION_SCALE_H
#define PN_DIST_KERNEL_LOCATION_SCALE_H

#include "../distribution.h"

/* Laws of z; those on z >= 0 are halves. */
typedef enum pni_law {
  PNI_LAW_NORMAL,
  PNI_LAW_HALF_NORMAL,
  PNI_LAW_CAUCHY,
  PNI_LAW_HALF_CAUCHY,
  PNI_LAW_LAPLACE,
  PNI_LAW_LOGISTIC,
  PNI_LAW_GUMBEL
} pni_law;

/* log p(x). loc NULL: 0. Scoped. */
pn_tensor *pni_location_scale(pn_context *c, pni_law law, pn_tensor *x, pn_tensor *loc, pn_tensor *scale);

#endif
