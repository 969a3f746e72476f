/*
** stirling_kernel.h: the body (density_kernel.h) of what is left of the distance of lgamma from its tangent.
*/
#ifndef PN_DISTRIBUTION_KERNEL_STIRLING_KERNEL_H
#define PN_DISTRIBUTION_KERNEL_STIRLING_KERNEL_H

#include "density_kernel.h"

/* Of p and q, in double: stirling.h. */
void pni_bend_body(const pni_piece *p, void *out);

#endif
