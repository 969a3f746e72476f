/*
** sde_number.h: runs of numbers of either dtype.
*/
#ifndef PN_AUTODIFF_SDE_SDE_NUMBER_H
#define PN_AUTODIFF_SDE_SDE_NUMBER_H

#include "sde.h"

static inline size_t pni_sde_item(const pni_sde *o) { return o->dtype == PN_FLOAT64 ? sizeof(double) : sizeof(float); }

static inline void pni_sde_put(const pni_sde *o, void *to, int64_t n, const double *from, double scale) {
  double *wide = to;
  float *narrow = to;
  if (o->dtype == PN_FLOAT64)
    for (int64_t i = 0; i < n; i++) wide[i] = scale * from[i];
  else
    for (int64_t i = 0; i < n; i++) narrow[i] = (float)(scale * from[i]);
}

/* to = scale * from, which are of one dtype. */
static inline void pni_sde_scaled(const pni_sde *o, void *to, int64_t n, const void *from, double scale) {
  double *wide = to;
  float *narrow = to;
  const double *wide_from = from;
  const float *narrow_from = from;
  float s = (float)scale;
  if (o->dtype == PN_FLOAT64)
    for (int64_t i = 0; i < n; i++) wide[i] = scale * wide_from[i];
  else
    for (int64_t i = 0; i < n; i++) narrow[i] = s * narrow_from[i];
}

/* to += from */
static inline void pni_sde_add(const pni_sde *o, void *to, int64_t n, const void *from) {
  double *wide = to;
  float *narrow = to;
  const double *wide_from = from;
  const float *narrow_from = from;
  if (o->dtype == PN_FLOAT64)
    for (int64_t i = 0; i < n; i++) wide[i] += wide_from[i];
  else
    for (int64_t i = 0; i < n; i++) narrow[i] += narrow_from[i];
}

static inline void pni_sde_add_up(const pni_sde *o, double *to, int64_t n, const void *from) {
  const double *wide = from;
  const float *narrow = from;
  if (o->dtype == PN_FLOAT64)
    for (int64_t i = 0; i < n; i++) to[i] += wide[i];
  else
    for (int64_t i = 0; i < n; i++) to[i] += (double)narrow[i];
}

static inline double pni_sde_number(const pni_sde *o, const void *from, int64_t i) {
  return o->dtype == PN_FLOAT64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* Are all of them finite? (Infinities and NaN times 0 are NaN.) Many sums, so that none waits for another. */
static inline bool pni_sde_all_finite(const pni_sde *o, const void *from, int64_t n) {
  enum { SUMS = 16 };
  double wide[SUMS] = {0}, all = 0;
  float narrow[SUMS] = {0};
  int64_t i = 0;
  if (o->dtype == PN_FLOAT64)
    for (const double *x = from; i + SUMS <= n; i += SUMS)
      for (int k = 0; k < SUMS; k++) wide[k] += 0 * x[i + k];
  else
    for (const float *x = from; i + SUMS <= n; i += SUMS)
      for (int k = 0; k < SUMS; k++) narrow[k] += 0 * x[i + k];
  for (; i < n; i++) all += 0 * pni_sde_number(o, from, i);
  for (int k = 0; k < SUMS; k++) all += wide[k] + (double)narrow[k];
  return all == 0;
}

#endif
