/*
** affine_recursion.h: affine recursions over a batch of series, x_t = m_t x_(t-1) + c_t: the means of filters whose
** covariances do not differ, paths of draws, and their own gradients backwards in time.
*/
#ifndef PN_SMC_GAUSSIAN_AFFINE_RECURSION_H
#define PN_SMC_GAUSSIAN_AFFINE_RECURSION_H

#include "../../base/clock.h"

enum { PNI_AFFINE_BLOCK = 8 };

/* x [count, n], c and out [steps, count, n], contiguous; m_t of series b begins at t m_step + b m_series elements,
 * [n, n], contiguous. */
typedef struct pni_affine {
  int n;
  bool reverse; /* from the last place to the first */
  int64_t steps, count, m_step, m_series;
  const void *x, *m, *c;
  void *out;
} pni_affine;

/* Series first ... first + count - 1, count <= PNI_AFFINE_BLOCK; scratch of 2 n PNI_AFFINE_BLOCK elements. Steps are
 * left when the watch says so. */
void pni_affine_f64(const pni_affine *s, pni_watch *w, int64_t first, int count, void *scratch);
void pni_affine_f32(const pni_affine *s, pni_watch *w, int64_t first, int count, void *scratch);

#endif
