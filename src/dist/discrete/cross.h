/*
** cross.h: divergences of two different kinds of counts.
*/
#ifndef PN_DIST_DISCRETE_CROSS_H
#define PN_DIST_DISCRETE_CROSS_H

#include "../distribution.h"

/* Has p mass above any number, and q none? Then KL(p || q) is infinite whatever the parameters are. */
bool pni_counts_never_inside(const pni_distribution *p, const pni_distribution *q);

#endif
