/*
** inside_rows.h: vectors and matrices outside of a support.
*/
#ifndef PN_DIST_KERNEL_INSIDE_ROWS_H
#define PN_DIST_KERNEL_INSIDE_ROWS_H

#include "../../autodiff/op.h"

/* The items of x, of its last `rank` axes, where mask (bool) is true, else member, which broadcasts to an item. Scoped. */
pn_tensor *pni_inside_rows(pn_context *c, pn_tensor *mask, pn_tensor *x, pn_tensor *member, int rank);
/* The log density lp where mask is true; elsewhere -inf, or NaN where x has a NaN in its last `rank` axes. Gradients
 * pass to lp alone, and only where mask is true. Scoped. */
pn_tensor *pni_inside_row_density(pn_context *c, pn_tensor *mask, pn_tensor *lp, pn_tensor *x, int rank);

#endif
