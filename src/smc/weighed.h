/*
** weighed.h: what `weigh` gives, coming back from a script or a file.
*/
#ifndef PN_SMC_WEIGHED_H
#define PN_SMC_WEIGHED_H

#include "../tensor/tensor.h"

/* Can `weigh` have given it? float, [2 N + 3, ...] with N >= 1, and in each filter weights that are not negative and
 * sum to 1, log-weights and an increment below +inf, an effective sample size from 1 to N, a largest weight up to 1. */
bool pni_is_weighed(pn_context *c, const pn_tensor *t);

#endif
