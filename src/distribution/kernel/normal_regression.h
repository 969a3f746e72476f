/*
** normal_regression.h: sums of log densities by what their data come to.
*/
#ifndef PN_DISTRIBUTION_KERNEL_NORMAL_REGRESSION_H
#define PN_DISTRIBUTION_KERNEL_NORMAL_REGRESSION_H

#include "../distribution.h"

/* normal_regression.c: in a capture, the sum of log N(x; loc, scale) over all of x [n], constants, if loc [n] is a
 * linear form in fewer numbers with constant coefficients and scale is one number; NULL with no failure: it is not.
 * Checks of loc become checks of those numbers. Scoped. */
pn_tensor *pni_normal_regression(pn_context *c, pn_tensor *x, pn_tensor *loc, pn_tensor *scale);

/* location_scale.c: the sum of log_prob, in a capture by the way above where it is one of a normal distribution.
 * Scoped. */
pn_tensor *pni_sum_log_prob(pn_context *c, pn_tensor *log_prob);

#endif
