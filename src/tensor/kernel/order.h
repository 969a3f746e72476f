/*
** order.h: the order that sorts a row. Integers alone decide, so that every processor gives the same one.
*/
#ifndef PN_TENSOR_KERNEL_ORDER_H
#define PN_TENSOR_KERNEL_ORDER_H

#include "../tensor.h"

/* Bytes of scratch that a row of n elements needs. */
size_t pni_order_scratch(int64_t n);
/* order[k * step] = position of the k-th of the n elements x[0], x[step] ... of a type, rising or falling (`down`).
 * Equal elements, as -0 and 0 are, keep their order; NaN stands last either way. n >= 1. Of a cancelled sort nothing
 * can be used. */
pn_status pni_order_row(pn_context *c, int dtype, const void *x, int64_t n, int64_t step, bool down, int64_t *order,
                        void *scratch);

#endif
