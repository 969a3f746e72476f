/*
** count_sum.h: sums over the values of a distribution of counts, sum_x f(x), as a weighted sum over few points. Values
** in short runs are points of weight 1; a long run of N whole numbers, on which f is smooth, has the 12 points of
** Gauss's rule for the counting measure (its orthogonal polynomials are Gram's, NIST DLMF 18.19). Runs double in length
** with the distance from the ends of the support and from the mean, and are at most two standard deviations at the
** mean: 1e-13 of the sum, from 60 points for small counts to about 900 for counts of 1e15.
** f must make sense between whole numbers. Points and weights are constants: gradients of any order are those of f.
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_SUM_H
#define PN_DISTRIBUTION_COUNT_COUNT_SUM_H

#include "../distribution.h"

/* Where the mass of d lies: mean and variance; decay s: the right tail falls at least like e^(-x/s), s >= 1 (NULL: 1);
 * top: the largest value (NULL: inf); last: values above it are left out of the sum (NULL: none). Each broadcasts to
 * the batch. */
typedef struct pni_count_place {
  pn_tensor *mean, *variance, *decay, *top, *last;
} pni_count_place;

/* f(c, d, x): x [batch, points], the parameters of d [own shape, points], in float64 */
typedef pn_tensor *(*pni_count_term)(pn_context *c, const pn_dist *d, pn_tensor *x);

/* sum over x of p(x) f(x), p(x) the mass of d, of which all parameters are numbers; f NULL: -log p(x), the sum is the
 * entropy. Values of mass below e^-740 count as 0. In d's dtype. */
pn_tensor *pni_count_sum(pn_context *c, const pn_dist *d, const pni_count_place *where, pni_count_term f);

/* The same of numbers: the sum of f over low .. high for a law with this mean, deviation and largest value. */
double pni_count_range(double mean, double deviation, double low, double high, double top,
                       double (*f)(double x, const double *data), const double *data);

#endif
