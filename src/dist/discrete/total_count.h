/*
** total_count.h: divergences of counts exist in closed form where the factor without probabilities cancels.
*/
#ifndef PN_DIST_DISCRETE_TOTAL_COUNT_H
#define PN_DIST_DISCRETE_TOTAL_COUNT_H

#include "../distribution.h"

/* PN_OK if p, the total_count of a distribution of kind p_name, equals q everywhere (at_least: is not below it);
 * else PN_MISSING. p and q broadcast. A capture checks at every call. */
pn_status pni_require_totals(pn_context *c, const char *p_name, const char *q_name, pn_tensor *p, pn_tensor *q,
                             bool at_least);

#endif
