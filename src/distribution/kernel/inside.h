/*
** inside.h: the end of densities some of whose values lie outside their support, and vectors and matrices there.
*/
#ifndef PN_DISTRIBUTION_KERNEL_INSIDE_H
#define PN_DISTRIBUTION_KERNEL_INSIDE_H

#include "../distribution.h"

/* where_inside.c: log_prob where inside (bool) holds, elsewhere -inf, or NaN where x is NaN; all broadcast. x gets no
 * gradient. Scoped. */
pn_tensor *pni_where_inside(pn_context *c, pn_tensor *log_prob, pn_tensor *inside, pn_tensor *x);

/* inside_rows.c: the items of x, of its last `rank` axes, where mask (bool) is true, else member, which broadcasts to
 * an item. Scoped. */
pn_tensor *pni_inside_rows(pn_context *c, pn_tensor *mask, pn_tensor *x, pn_tensor *member, int rank);
/* The log density lp where mask is true; elsewhere -inf, or NaN where x has a NaN in its last `rank` axes. Gradients
 * pass to lp alone, and only where mask is true. Scoped. */
pn_tensor *pni_inside_row_density(pn_context *c, pn_tensor *mask, pn_tensor *lp, pn_tensor *x, int rank);

#endif
