/*
** op_sde.h: the solution of a stochastic differential equation as an operation.
*/
#ifndef PN_AUTODIFF_SDE_OP_SDE_H
#define PN_AUTODIFF_SDE_OP_SDE_H

#include "sde.h"

/* y [T, shape of y0...] at the times [T], float64, of the paths along the first axis of y0 (where it has two axes or
 * more). key: int64 [1], of the Brownian motions. shared: the numbers of all parameters that all paths share, one after
 * another; of_path [paths, ...]: a row of the others for each path. Dtypes but those of times and key are y0's. step
 * and pullback as in sde.h, for own [parameters]. Scoped. */
pn_tensor *pni_sde_apply(pn_context *c, pn_plan *step, pn_plan *pullback, const pni_sde_config *set, int parameters,
                         const bool *own, pn_tensor *y0, pn_tensor *times, pn_tensor *key, pn_tensor *shared,
                         pn_tensor *of_path);

#endif
