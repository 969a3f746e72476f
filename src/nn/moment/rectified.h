/*
** rectified.h: what moments of a rectified normal number and their slopes are made of (op_rectified_moments.c), for
** blocks of numbers of one type.
*/
#ifndef PN_NN_MOMENT_RECTIFIED_H
#define PN_NN_MOMENT_RECTIFIED_H

#include <stdint.h>

enum { PNI_RECTIFIED_BLOCK = 256 };

/* s = |mu| / sigma, at most some number beyond which phi(s) is 0, as it is of numbers without doubt; phi(s);
 * E r / sigma, E r^2 / v and Phi(-s). */
#define PNI_RECTIFIED(REAL)                                                                                            \
  REAL s[PNI_RECTIFIED_BLOCK], density[PNI_RECTIFIED_BLOCK], first[PNI_RECTIFIED_BLOCK], second[PNI_RECTIFIED_BLOCK],  \
      tail[PNI_RECTIFIED_BLOCK]
typedef struct pni_rectified {
  PNI_RECTIFIED(double);
} pni_rectified;
/* Of n numbers, n at most PNI_RECTIFIED_BLOCK. */
void pni_rectified_parts_f64(const double *mu, const double *v, int64_t n, pni_rectified *out);

/* What of max(x, 0): mean, variance, and their slopes in mu and in v. */
enum { PNI_RELU_MEAN, PNI_RELU_VARIANCE, PNI_RELU_MEAN_SLOPE, PNI_RELU_VARIANCE_SLOPE = 4 };
/* Maps (op.h) of mu and v to that. */
void pni_rectified_f64(int what, int64_t n, char *const *p, const int64_t *stride);
void pni_rectified_f32(int what, int64_t n, char *const *p, const int64_t *stride);
/* Both at once of n numbers each: mean and variance to out[0] and out[1]; with g, gradients of these, their gradients
 * in mu and v. */
typedef void pni_rectified_pair(int64_t n, const void *mu, const void *v, const void *const *g, void *const *out);
pni_rectified_pair pni_rectified_pair_f64, pni_rectified_pair_f32;

#endif
