/* pool.h: pooling of contiguous images, the geometry of which is that of a convolution (conv.h). */
#ifndef PN_TENSOR_IMAGE_POOL_H
#define PN_TENSOR_IMAGE_POOL_H

#include "conv.h"

/* Pooling uses image, kernel, out, stride, padding; n counts planes. Every window meets the image. */
enum { PNI_POOL_MAX, PNI_POOL_MAX_AT, PNI_POOL_MEAN, PNI_POOL_MEAN_INSIDE };
/* Largest element (NaN wins), its place in the plane (out is int64), mean with the padding counted as zeros, mean of
 * the elements inside the image. */
pn_status pni_pool(pn_context *c, const pni_conv *g, int what, const pn_tensor *x, pn_tensor *y);
/* The adjoint of a mean: x from y. */
pn_status pni_unpool(pn_context *c, const pni_conv *g, int what, const pn_tensor *y, pn_tensor *x);

/* One element type's kernels, for one plane; each leaves the rest when the watch says so. */
typedef struct pni_pool_kernels {
  void (*pool)(pni_watch *w, const pni_conv *g, int what, const void *x, void *y);
  void (*unpool)(pni_watch *w, const pni_conv *g, int what, const void *y, void *x);
  /* The same where windows overlap much, with room for pni_pool_room(g) numbers of 8 bytes. */
  void (*slide)(pni_watch *w, const pni_conv *g, int what, const void *x, void *y, void *room);
  void (*slide_back)(pni_watch *w, const pni_conv *g, int what, const void *y, void *x, void *room);
} pni_pool_kernels;
extern const pni_pool_kernels pni_pool_kernels_f64, pni_pool_kernels_f32;

/* One axis of windows: window p covers places p stride - padding .. + kernel - 1 that lie in 0 .. n - 1, of which only
 * multiples of `gap` hold something, `width` numbers each. */
typedef struct pni_slide {
  int64_t n, gap, kernel, stride, padding, windows, width;
} pni_slide;

#endif
