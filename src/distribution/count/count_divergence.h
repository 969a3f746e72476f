/*
** count_divergence.h: divergences of two different kinds of counts; closed forms exist where the factor without
** probabilities cancels.
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_DIVERGENCE_H
#define PN_DISTRIBUTION_COUNT_COUNT_DIVERGENCE_H

#include "../distribution.h"

/* PN_OK if p, the parameter `what` of a distribution of kind p_name, equals q everywhere (at_least: is not below it);
 * else PN_MISSING. p and q broadcast. A capture checks at every call. */
pn_status pni_require_alike(pn_context *c, const char *p_name, const char *q_name, const char *what, pn_tensor *p,
                            pn_tensor *q, bool at_least);
/* The same of total_count. */
pn_status pni_require_totals(pn_context *c, const char *p_name, const char *q_name, pn_tensor *p, pn_tensor *q,
                             bool at_least);

#endif
