/*
** adaptation.h: the warm-up of a chain. The step size follows the acceptance by dual averaging, the mass matrix the
** spread of the draws in windows that double; the schedule is that of Stan.
*/
#ifndef PN_INFER_SAMPLING_ADAPTATION_H
#define PN_INFER_SAMPLING_ADAPTATION_H

#include "hamiltonian.h"

typedef struct pni_adaptation {
  int warmup;
  int first, last; /* iterations before the first window and after the last one */
  int window, window_end;
  double target;
  double mu, mean_error, log_mean_step; /* of dual averaging */
  int count;                            /* its updates since the last restart */
  bool full;                            /* the window is over: a mass matrix is to be made of it */
  bool search;                          /* the mass matrix is new: a step size is to be looked for */
  int64_t n;
  int64_t draws; /* in the window */
  double *mean;  /* [n] of the window */
  double *sum;   /* of squares: [n], or [n, n] */
  double *delta; /* [n] scratch */
} pni_adaptation;

/* Numbers that `memory` of pni_adaptation_start holds. */
int64_t pni_adaptation_room(int64_t n, bool dense);
void pni_adaptation_start(pni_adaptation *a, const pni_chain *h, int warmup, double target, double *memory);
/* Before an iteration: where pni_adapt has ended a window, the mass matrix of it and a step size for that. If it is
 * interrupted it can be done again. */
pn_status pni_adapt_search(pni_adaptation *a, pni_chain *h);
/* After iteration `i` (0-based) of the warm-up, which moved to h->at: a new step size, and perhaps the end of a
 * window. */
void pni_adapt(pni_adaptation *a, pni_chain *h, int i, double accept);

#endif
