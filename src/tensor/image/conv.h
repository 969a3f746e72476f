/*
** conv.h: 2-d convolution of contiguous images [n, channels, rows, columns]. Convolution is the
** trilinear form sum_p y[p] x[s p + d q - pad] w[q]; forward, adjoint in the image and adjoint in the weight are
** its three partial products, each a matrix product with the columns of image patches (im2col: Chellapilla,
** Puri and Simard, 2006, "High performance convolutional neural networks for document processing"). Patches are
** made for a tile at a time, so that they stay in the cache. Samples are sharded over the threads;
** results do not depend on the number of threads.
*/
#ifndef PN_TENSOR_IMAGE_CONV_H
#define PN_TENSOR_IMAGE_CONV_H

#include "../tensor.h"

typedef struct pni_conv {
  int64_t n, groups, ci, co; /* samples; channels in and out of one group */
  int64_t image[2], kernel[2], out[2];
  int64_t stride[2], padding[2], dilation[2];
} pni_conv;

/* Positions of a window of `kernel` along an image axis; < 1: it does not fit. */
static inline int64_t pni_window_count(int64_t image, int64_t kernel, int64_t stride, int64_t padding,
                                       int64_t dilation) {
  int64_t room = image + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

/* y = x * w; x [n, groups ci, image], w [groups co, ci, kernel], y [n, groups co, out]. */
pn_status pni_conv_forward(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *w, pn_tensor *y);
/* The adjoint in x: x from y. */
pn_status pni_conv_image(pn_context *c, const pni_conv *g, const pn_tensor *y, const pn_tensor *w, pn_tensor *x);
/* The adjoint in w: w from x and y. */
pn_status pni_conv_weight(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *y, pn_tensor *w);

/* A part of one group's patches: output rows and columns, the columns all of them unless there is one row, and rows
 * first .. last - 1 of the matrix, which stand for places of the kernel in the channels. */
typedef struct pni_conv_tile {
  int64_t row, rows, column, columns, first, last;
} pni_conv_tile;

/* One element type's kernels, for one plane or one group of a sample. */
typedef struct pni_conv_kernels {
  /* col [last - first, rows columns] from the patches of a tile. */
  void (*patches)(const pni_conv *g, const pni_conv_tile *t, const void *x, void *col);
  /* Adds col to the places it came from. */
  void (*scatter)(const pni_conv *g, const pni_conv_tile *t, const void *col, void *x);
  /* The same of a whole result by the places of one channel's n elements (-1: beyond the image), plane apart in x. */
  void (*gather)(const int32_t *place, int64_t n, int64_t channels, int64_t plane, const void *x, void *col);
  void (*put_back)(const int32_t *place, int64_t n, int64_t channels, int64_t plane, const void *col, void *x);
  /* c [m, n] = op(a) op(b) + beta c. */
  void (*gemm)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
               int64_t ldb, int beta, void *c, int64_t ldc);
  void (*add)(void *sum, const void *x, int64_t n);
} pni_conv_kernels;
extern const pni_conv_kernels pni_conv_kernels_f64, pni_conv_kernels_f32;

/* Output places q0 <= q < q1 whose image place start + stride q lies in [0, size). */
static inline void pni_conv_inside(int64_t start, int64_t stride, int64_t size, int64_t count, int64_t *q0,
                                   int64_t *q1) {
  *q0 = start >= 0 ? 0 : (-start + stride - 1) / stride;
  *q1 = start >= size ? 0 : (size - 1 - start) / stride + 1;
  if (*q1 > count) *q1 = count;
  if (*q0 > *q1) *q0 = *q1;
}

#endif
