/*
** metric_estimate.h: the inverse mass matrix that a window's draws and scores speak for.
*/
#ifndef PN_INFER_SAMPLING_METRIC_ESTIMATE_H
#define PN_INFER_SAMPLING_METRIC_ESTIMATE_H

#include "mass_matrix.h"
#include "window.h"

typedef struct pni_estimate {
  int estimator;    /* PN_ESTIMATOR_... */
  int64_t n, order; /* order: of the matrices within */
  int64_t nwork, niwork;
  double *work, *eigen; /* eigen: of LAPACK */
  int *ieigen;
} pni_estimate;

/* Numbers that `memory` of pni_estimate_start holds. */
int64_t pni_estimate_room(int64_t n, int metric, int estimator, int warmup);
void pni_estimate_start(pni_estimate *e, int64_t n, int metric, int estimator, int warmup, double *memory);
/* The metric of the window's foreground, which has at least two draws; where a variance is 0 or not finite the old one
 * stays. PN_CANCELLED: m is as it was and it can be asked again. */
pn_status pni_estimate_metric(pni_estimate *e, pn_context *c, const pni_window *w, pni_metric *m);

#endif
