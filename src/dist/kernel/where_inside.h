/*
** where_inside.h: the end of a density of numbers some of which lie outside its support.
*/
#ifndef PN_DIST_KERNEL_WHERE_INSIDE_H
#define PN_DIST_KERNEL_WHERE_INSIDE_H

#include "../distribution.h"

/* log_prob where inside (bool) holds, elsewhere -inf, or NaN where x is NaN; all broadcast. x gets no gradient. Scoped. */
pn_tensor *pni_where_inside(pn_context *c, pn_tensor *log_prob, pn_tensor *inside, pn_tensor *x);

#endif
