/*
** geometric_mean.h: work of n^3 operations on one matrix that looks at the watch between pieces: Cholesky factors and
** the geometric mean A # B^-1 of positive definite matrices, the X with X B X = A.
*/
#ifndef PN_INFER_SAMPLING_GEOMETRIC_MEAN_H
#define PN_INFER_SAMPLING_GEOMETRIC_MEAN_H

#include "../../base/clock.h"

/* Lower Cholesky factor of the n x n matrix at f, in place; what is above the diagonal has no meaning. False if it has
 * none, or the watch says that the rest is to be left. */
bool pni_factorise(pni_watch *w, int64_t n, double *f);
/* Numbers that `work` of pni_geometric_mean holds. */
int64_t pni_geometric_mean_room(int64_t n);
/* a becomes a # b^-1, symmetric; b is lost. False as above. */
bool pni_geometric_mean(pni_watch *w, int64_t n, double *a, double *b, double *work);

#endif
