/*
** operation.h: the operations of this layer: what estimators need and no composition of the general operations
** gives in one pass or with the right gradient. Log-weights are [K, B]: K draws for each of B data.
*/
#ifndef PN_INFER_OPERATION_H
#define PN_INFER_OPERATION_H

#include "../autodiff/op.h"

#define X(name) extern const pni_op pni_infer_op_##name;
#include "operation.def"
#undef X

/* The mean of all elements; an element of -inf makes it -inf and gets gradient 0. */
pn_tensor *pni_live_mean(pn_context *c, pn_tensor *x);

/* PN_OK if `bound`, computed from the log-weights x, shows that these can be used: no NaN, no +inf, and not all of them
 * -inf. Else PN_NAN, PN_DOMAIN or PN_DEGENERATE naming estimator (`where`), input (`role`) and place. Only a bound that
 * is not finite costs a look at x. Both names are static. */
pn_status pni_require_weights(pn_context *c, const char *where, const char *role, pn_tensor *bound, pn_tensor *x);

#endif
