/*
** adaptation.h: the warm-up of a chain. The step size follows the acceptance by dual averaging, the mass matrix the
** draws of a window, by one of two estimators (metric_estimate.c) and on one of two schedules, in any combination.
*/
#ifndef PN_INFER_SAMPLING_ADAPTATION_H
#define PN_INFER_SAMPLING_ADAPTATION_H

#include "hamiltonian.h"
#include "metric_estimate.h"

/* How; warmup: iterations, and at most how many there may ever be. */
typedef struct pni_adaptation_plan {
  int warmup, most;
  int estimator, schedule; /* PN_ESTIMATOR_..., PN_SCHEDULE_... */
  double target;
} pni_adaptation_plan;

typedef struct pni_adaptation {
  pni_adaptation_plan plan;
  int first, last; /* iterations before the first window (overlapping: in which windows are short) and after the last */
  int window, window_end;
  double mu, mean_error, log_mean_step; /* of dual averaging */
  int count;                            /* its updates since the last restart */
  bool full;                            /* a mass matrix is to be made of the window */
  bool search;                          /* the mass matrix is new: a step size is to be looked for */
  int estimates;                        /* how many mass matrices were made */
  pni_window draws;
  pni_estimate estimate;
} pni_adaptation;

/* Numbers that `memory` of pni_adaptation_start holds. */
int64_t pni_adaptation_room(int64_t n, int metric, const pni_adaptation_plan *plan);
void pni_adaptation_start(pni_adaptation *a, const pni_chain *h, const pni_adaptation_plan *plan, double *memory);
/* The iteration after which mass matrices are made no more. */
int pni_adaptation_settled(const pni_adaptation *a);
/* So many more iterations; where the windows overlap, at pni_adaptation_settled. */
void pni_adaptation_extend(pni_adaptation *a, int more);
/* Before an iteration: where pni_adapt has asked for it, the mass matrix of the window and perhaps a step size for it.
 * If it is interrupted it can be done again. */
pn_status pni_adapt_search(pni_adaptation *a, pni_chain *h);
/* After iteration `i` (0-based) of the warm-up, which moved to h->at as t says: a new step size, and perhaps the end of
 * a window. */
void pni_adapt(pni_adaptation *a, pni_chain *h, int i, const pni_transition *t);

#endif
