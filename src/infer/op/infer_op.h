/*
** infer_op.h: the operations of this layer: what estimators need and no composition of the general operations
** gives in one pass or with the right gradient. Log-weights are [K, B]: K draws for each of B data.
*/
#ifndef PN_INFER_OP_INFER_OP_H
#define PN_INFER_OP_INFER_OP_H

#include "../../autodiff/op/op.h"

#define X(name) extern const pni_op pni_infer_op_##name;
#include "infer_op.def"
#undef X

/* Element i of contiguous floats. */
static inline double pni_weight(const pn_tensor *t, int64_t i) {
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}
static inline void pni_set_weight(pn_tensor *t, int64_t i, double v) {
  if (t->dtype == PN_FLOAT64)
    ((double *)pni_data(t))[i] = v;
  else
    ((float *)pni_data(t))[i] = (float)v;
}

/* The mean of all elements; an element of -inf makes it -inf and gets gradient 0. */
pn_tensor *pni_live_mean(pn_context *c, pn_tensor *x);

/* The value of `value` with the gradient of `surrogate`, both 0-d. */
pn_tensor *pni_reported(pn_context *c, pn_tensor *value, pn_tensor *surrogate);

/* The mean of the weights but the k-th, which the others replace: log of (sum_{j != k} w_j + m_k) / K with m_k the
 * geometric mean of the others, or sum_{j != k} w_j / (K - 1), the same with their arithmetic mean. x [K, B], K >= 2;
 * no gradient. */
pn_tensor *pni_others_log_mean(pn_context *c, pn_tensor *x, bool geometric);

/* [K + 1, B] of log-weights [K, B]: the smoothed and normalised ones, then k-hat. No gradient. */
pn_tensor *pni_pareto_smooth(pn_context *c, pn_tensor *x, pn_tensor *efficiency);

/* PN_OK if `bound`, computed from the log-weights x, shows that these can be used: no NaN, no +inf, and not all of them
 * -inf. Else PN_NAN, PN_DOMAIN or PN_DEGENERATE naming estimator (`where`), input (`role`) and place. Only a bound that
 * is not finite costs a look at x. Both names are static. */
pn_status pni_require_weights(pn_context *c, const char *where, const char *role, pn_tensor *bound, pn_tensor *x);
/* The same, and no datum may be without any weight. bound [B], x [K, B]. */
pn_status pni_require_each_weight(pn_context *c, const char *where, const char *role, pn_tensor *bound, pn_tensor *x);

#endif
