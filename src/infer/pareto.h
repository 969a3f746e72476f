/*
** pareto.h: the generalised Pareto distribution of the largest importance weights, with density
** (1 / sigma) (1 + k x / sigma)^(-1 - 1/k). A tail with shape k has moments up to order 1/k.
*/
#ifndef PN_INFER_PARETO_H
#define PN_INFER_PARETO_H

#include "operation.h"

typedef struct pni_pareto {
  double k, sigma;
} pni_pareto;

/* The fit to excesses x over a threshold, ascending, n >= 5, x[n - 1] > 0. */
pni_pareto pni_pareto_fit(const double *x, int64_t n);
/* The value with this probability below it. */
double pni_pareto_quantile(pni_pareto p, double probability);
/* How many of so many draws are the tail. */
int64_t pni_pareto_tail(int64_t draws);

#endif
