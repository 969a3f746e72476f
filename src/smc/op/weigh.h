/*
** weigh.h: the kernel behind op_weigh.c, once per float type. A filter's particles are adjacent; they are taken by
** blocks, so that sums do not depend on who does them.
*/
#ifndef PN_SMC_OP_WEIGH_H
#define PN_SMC_OP_WEIGH_H

#include <stdint.h>

enum { PNI_WEIGH_BLOCK = 4096 };

/* What a block knows of its v = log w + log_increment. */
typedef struct pni_weigh_part {
  double top;         /* what was taken off before the exponential: the largest v, 0 where none is finite */
  double sum, square; /* of e = exp(v - top), and of e^2 */
} pni_weigh_part;

/* log_w[i] = v, w[i] = exp(v - top) with v = before[i] + increment[i], or constant + increment[i] without `before`. */
typedef struct pni_weigh_kernel {
  void (*begin)(const void *increment, const void *before, double constant, int64_t n, void *log_w, void *w,
                pni_weigh_part *part);
  /* log_w -= shift, w *= scale. */
  void (*end)(double shift, double scale, int64_t n, void *log_w, void *w);
} pni_weigh_kernel;

extern const pni_weigh_kernel pni_weigh_f64, pni_weigh_f32;

#endif
