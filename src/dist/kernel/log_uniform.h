/*
** log_uniform.h: draws and the density of the log-uniform distribution as one operation each.
*/
#ifndef PN_DIST_KERNEL_LOG_UNIFORM_H
#define PN_DIST_KERNEL_LOG_UNIFORM_H

#include "../distribution.h"

/* low (high / low)^u, 0 <= u <= 1, within the ends. Scoped. */
pn_tensor *pni_log_between(pn_context *c, pn_tensor *u, pn_tensor *low, pn_tensor *high);

/* -log x - log(log(high / low)) where low <= x <= high, elsewhere -inf, NaN for NaN. Scoped. */
pn_tensor *pni_log_uniform_density(pn_context *c, pn_tensor *x, pn_tensor *low, pn_tensor *high);

#endif
