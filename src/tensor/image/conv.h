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

/* Numbers behind an array of patches or images that the kernels may touch. */
enum { PNI_CONV_SLACK = 4 };

/* Columns of an image, with its padding, that are a stride apart. */
static inline int64_t pni_conv_split_width(const pni_conv *g) {
  return (g->image[1] + 2 * g->padding[1] + g->stride[1] - 1) / g->stride[1];
}

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
  /* The image with its padding, of each channel every stride-th column beside each other: planes [ci, stride, rows,
   * pni_conv_split_width]. */
  void (*split)(const pni_conv *g, const void *x, void *planes);
  /* Patches of a whole result from these: rows of them are runs. Up to PNI_CONV_SLACK numbers behind planes are read,
   * and behind col are written. */
  void (*gather)(const pni_conv *g, const void *planes, void *col);
  /* c [m, n] = op(a) op(b) + beta c. */
  void (*gemm)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
               int64_t ldb, int beta, void *c, int64_t ldc);
  void (*add)(void *sum, const void *x, int64_t n);
} pni_conv_kernels;
extern const pni_conv_kernels pni_conv_kernels_f64, pni_conv_kernels_f32;

/* ---- conv_inner.c: the same of images that are turned so that their channels lie innermost, where a patch is a few
 * long runs, by tiles of several images where these are small ---- */

enum { PNI_CONV_FORWARD, PNI_CONV_IMAGE, PNI_CONV_WEIGHT };
/* Whether that is faster: channels are many, and rows of patches short or with gaps. */
bool pni_conv_turns(const pni_conv *g);
/* y, x or w from the other two. */
pn_status pni_conv_turned(pn_context *c, const pni_conv *g, int what, const pn_tensor *x, const pn_tensor *w,
                          const pn_tensor *y);

/* One element type's kernels, for images of one group with their channels innermost: patches [places, depth] have a row
 * for each place of a result, of kernel rows, kernel columns and channels in turn. */
typedef struct pni_conv_inner_kernels {
  /* Patches of places first .. last - 1 of images in a row. Up to PNI_CONV_SLACK numbers behind x are read, and behind
   * col are written. */
  void (*patches)(const pni_conv *g, int64_t first, int64_t last, const void *x, void *col);
  /* Adds patches to the places they came from. */
  void (*scatter)(const pni_conv *g, int64_t first, int64_t last, const void *col, void *x);
  /* to [columns, rows] = from [rows, columns] turned, rows of both so far apart. */
  void (*turn)(int64_t rows, int64_t columns, const void *from, int64_t from_row, void *to, int64_t to_row);
  /* c [m, n] = a [m, k] times what pni_gemm_pack has packed. */
  void (*packed)(int64_t m, int64_t n, int64_t k, const void *a, const void *packed, void *c);
} pni_conv_inner_kernels;
extern const pni_conv_inner_kernels pni_conv_inner_kernels_f64, pni_conv_inner_kernels_f32;

/* Output places q0 <= q < q1 whose image place start + stride q lies in [0, size). */
static inline void pni_conv_inside(int64_t start, int64_t stride, int64_t size, int64_t count, int64_t *q0,
                                   int64_t *q1) {
  *q0 = start >= 0 ? 0 : (-start + stride - 1) / stride;
  *q1 = start >= size ? 0 : (size - 1 - start) / stride + 1;
  if (*q1 > count) *q1 = count;
  if (*q0 > *q1) *q0 = *q1;
}

#endif
