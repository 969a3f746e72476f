/*
** autocovariance.h: sums of lagged products of series of one length, all lags in n log n: those of a short lag term by
** term, as chains that mix ask for no others, and from the first longer one on all at once out of the power spectrum
** (Wiener-Khinchin; the series padded with as many zeros, so that none meets itself).
*/
#ifndef PN_INFER_SAMPLING_AUTOCOVARIANCE_H
#define PN_INFER_SAMPLING_AUTOCOVARIANCE_H

#include "../../math/fourier/fourier.h"

typedef struct pni_autocovariance {
  pn_context *c;
  int64_t count, n;         /* series, and how long each is */
  const double *x;          /* [count, n] */
  bool known;               /* sums of all lags of this x stand in sum */
  pni_real_fourier *plan;   /* the plan and its room are made once they are needed, and kept */
  double *room;             /* of the four below */
  double *padded, *re, *im; /* [length], [length / 2 + 1] each */
  double *sum;              /* first the power spectrum, then sums by lag */
  int64_t length;
} pni_autocovariance;

/* Begins with other numbers. */
void pni_autocovariance_of(pni_autocovariance *a, const double *x);
/* sum over the series of sum_i x_i x_(i + lag), 0 <= lag < n. Of a context that failed, anything. */
double pni_autocovariance_at(pni_autocovariance *a, int64_t lag);
void pni_autocovariance_end(pni_autocovariance *a);

#endif
