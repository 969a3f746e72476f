/*
** pareto_tail.h: the generalised Pareto distribution of the largest importance weights, with density
** (1 / sigma) (1 + k x / sigma)^(-1 - 1/k). A tail with shape k has moments up to order 1/k.
*/
#ifndef PN_INFER_OP_PARETO_TAIL_H
#define PN_INFER_OP_PARETO_TAIL_H

#include "infer_op.h"

typedef struct pni_pareto {
  double k, sigma;
} pni_pareto;

/* The fit to excesses x over a threshold, ascending, n >= 5, x[n - 1] > 0; of a cancelled context NaN. */
pni_pareto pni_pareto_fit(pn_context *c, const double *x, int64_t n);
/* The value with this probability below it. */
double pni_pareto_quantile(pni_pareto p, double probability);
/* A log-weight and the draw that it belongs to. */
typedef struct pni_ranked {
  double log_w;
  int64_t draw;
} pni_ranked;

/* For pni_sort: ascending. */
int pni_by_weight(const void *a, const void *b);
enum { PNI_SHORTEST_TAIL = 5 };
#define PNI_EVEN_WEIGHTS 0.01
/* r[1 .. n - 1], n = 1 + pni_pareto_tail(K, 1), are the largest log-weights of K, r[0] the next one, ascending; the
 * last is 0. Smooths what lies above r[0]; excess has room for n numbers. Gives k-hat: infinite for a tail of fewer
 * than PNI_SHORTEST_TAIL draws; 0, and nothing is smoothed, where weights differ by less than PNI_EVEN_WEIGHTS: what
 * spread they have is no tail, and a fit to it finds any shape. */
double pni_pareto_tail_smooth(pn_context *c, pni_ranked *r, int64_t n, double *excess);
/* How many of so many draws of a relative efficiency are the tail. */
int64_t pni_pareto_tail(int64_t draws, double efficiency);

#endif
