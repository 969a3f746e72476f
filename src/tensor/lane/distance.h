/*
** distance.h: |L^-1 (x - m)|^2 of many short vectors x and m under one lower triangle L, and its gradients, a vector
** per lane of the processor's vectors (short_rows.h). A difference that is not finite is at distance inf, or NaN if one
** of its elements is, and has no gradient. Same bits for every instruction set and any number of threads.
*/
#ifndef PN_TENSOR_LANE_DISTANCE_H
#define PN_TENSOR_LANE_DISTANCE_H

#include "../tensor.h"

/* The longest vector, and vectors whose sums of gradients stand apart: results do not depend on who adds them. */
enum { PNI_DISTANCE_LONGEST = 32, PNI_DISTANCE_SHARD = 4096 };

/* l [n, n] and the rest contiguous: x and m [rows, n], or one [n] for all (x_one, m_one); m may be NULL for 0. */
typedef struct pni_distance {
  int n;
  const void *l, *x, *m;
  bool x_one, m_one;
  void *out; /* [rows] */
  /* of the gradient: g [rows] in; then what is wanted, others NULL */
  const void *g;
  void *gx, *gm; /* as large as x and m */
  void *gl;      /* [n, n]; its upper triangle is 0 */
  void *sums;    /* [shards, n n + n], n n of the triangle and n of x; NULL if nothing is summed */
} pni_distance;

/* All rows of a dtype. The second fills what is wanted. PN_SINGULAR if L has a zero on its diagonal. */
pn_status pni_distance_run(pn_context *c, int dtype, const pni_distance *d, int64_t rows);
pn_status pni_distance_adjoint(pn_context *c, int dtype, pni_distance *d, int64_t rows);

/* Rows begin .. end - 1 at `level` at most; of the adjoint, a shard. */
void pni_distance_f64(int level, const pni_distance *d, int64_t begin, int64_t end);
void pni_distance_f32(int level, const pni_distance *d, int64_t begin, int64_t end);

#endif
