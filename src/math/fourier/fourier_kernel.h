/*
** fourier_kernel.h: the loops of a transform, for one element type each. All take a range begin .. end - 1 of items
** that do not depend on each other.
*/
#ifndef PN_MATH_FOURIER_KERNEL_H
#define PN_MATH_FOURIER_KERNEL_H

#include "../../base/context.h"

/* Numbers, real and imaginary parts apart. */
typedef struct pni_pair {
  void *re, *im;
} pni_pair;

/* One pass over `rows` * radix groups of `stride` numbers. With w = e^(-2 pi i / (rows radix)), p < rows, q < stride:
 *   y[q + stride (radix p + k)] = w^(p k) sum_j x[q + stride (p + rows j)] e^(-2 pi i j k / radix). */
typedef struct pni_fourier_pass {
  int radix;
  int64_t rows, stride;
  pni_pair turn; /* w^(p k) at [k - 1, p] */
  pni_pair from, to;
} pni_fourier_pass;

/* e^(-2 pi i g(k) / n) */
typedef struct pni_roots {
  pni_pair to;
  int64_t n, step; /* g(k) = step * k < n, or with step 0 k^2 mod n, k below 2^31 */
} pni_roots;

/* to = scale a b, number by number; to may be a or b. */
typedef struct pni_fourier_product {
  pni_pair a, b, to;
  double scale;
} pni_fourier_product;

/* x /= divisor */
typedef struct pni_fourier_scale {
  pni_pair x;
  double divisor;
} pni_fourier_scale;

/* conj h_k at k and, but for the first, at length - k. */
typedef struct pni_fourier_mirror {
  pni_pair h, to;
  int64_t length;
} pni_fourier_mirror;

/* The transform of n real numbers, n odd, out of its first half. */
typedef struct pni_fourier_spread {
  pni_pair half, whole;
  int64_t n;
} pni_fourier_spread;

/* A real transform of 2 h numbers out of the complex one of h numbers z_k = x_2k + i x_(2k+1), in place. */
typedef struct pni_fourier_fold {
  pni_pair z, turn; /* [h + 1]; e^(-2 pi i k / 2h), k <= h / 2 */
  int64_t half;
} pni_fourier_fold;

/* Each real number of x[2k], x[2k + 1] with its place in z. */
typedef struct pni_fourier_weave {
  const void *x;
  void *out;
  pni_pair z;
} pni_fourier_weave;

typedef struct pni_fourier_kernels {
  pni_shard pass;                                  /* of rows * stride butterflies */
  pni_shard roots, product, scale, mirror, spread; /* of numbers */
  pni_shard unfold, fold;                          /* of pairs k, h - k: forward, inverse */
  pni_shard part, weave;                           /* x to z, z to out */
} pni_fourier_kernels;

extern const pni_fourier_kernels pni_fourier_kernels_f64, pni_fourier_kernels_f32;

#endif
