/*
** sort.h: sorting with memory from the account and a look at the clock now and then.
*/
#ifndef PN_BASE_SORT_H
#define PN_BASE_SORT_H

#include "context.h"

/* < 0, 0, > 0, as qsort's. */
typedef int (*pni_compare)(const void *a, const void *b);
/* Sorts n elements of `size` bytes; equal ones keep their order. PN_NOMEM, PN_CANCELLED: v is then of no use, though
 * its elements are still some of those that it held. */
pn_status pni_sort(pn_context *c, void *v, int64_t n, size_t size, pni_compare compare);

#endif
