/*
** layer_reshape.c: layers that arrange the same elements in another way. The first axis stays: it is the batch.
** Variances are arranged like the elements they belong to.
*/
#include "../autodiff/op/op.h"
#include "layer.h"

typedef pn_tensor *(*arrange)(pn_context *c, const pn_layer *l, pn_tensor *x);

static pn_tensor *flatten(pn_context *c, const pn_layer *l, pn_tensor *x) {
  (void)l;
  return pn_reshape(c, x, 2, (int64_t[]){x->shape[0], pni_count(x->ndim - 1, x->shape + 1)});
}

static pn_tensor *reshape(pn_context *c, const pn_layer *l, pn_tensor *x) {
  int64_t shape[PN_MAX_DIMS], known = 1, each = pni_count(x->ndim - 1, x->shape + 1);
  int open = -1;
  shape[0] = x->shape[0];
  for (int i = 0; i < l->nsizes && i + 1 < PN_MAX_DIMS; i++) {
    shape[i + 1] = l->size[i];
    if (l->size[i] < 0)
      open = i + 1;
    else
      known *= l->size[i];
  }
  if (open > 0 && each % known == 0) shape[open] = each / known;
  return pn_reshape(c, x, l->nsizes + 1, shape);
}

static pn_status init_reshape(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  int open = 0;
  (void)dtype, (void)rng;
  for (int i = 0; i < l->nsizes; i++) {
    if (l->size[i] == 0) return pni_fail(c, PN_SHAPE, "reshape: size must be at least 1, or -1 once, got 0");
    open += l->size[i] < 0;
  }
  if (open > 1 || l->nsizes >= PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "reshape: sizes must be at most %d, of them one -1, got %d and %d", PN_MAX_DIMS - 1,
                    l->nsizes, open);
  return PN_OK;
}

/* [batch, channels r^2, height, width] -> [batch, channels, r height, r width] */
static pn_tensor *shuffle(pn_context *c, const pn_layer *l, pn_tensor *x) {
  int64_t r = (int64_t)l->option[0], n = x->shape[0], h = x->shape[2], w = x->shape[3], out = x->shape[1] / (r * r);
  if (x->shape[1] % (r * r)) {
    pni_fail(c, PN_SHAPE, "pixel_shuffle: channels must be a multiple of factor^2 = %lld, got %lld", (long long)(r * r),
             (long long)x->shape[1]);
    return NULL;
  }
  pn_tensor *y = pn_reshape(c, x, 6, (int64_t[]){n, out, r, r, h, w});
  y = pn_permute(c, y, 6, (int[]){0, 1, 4, 2, 5, 3});
  return pn_reshape(c, y, 4, (int64_t[]){n, out, h * r, w * r});
}

static const pni_option none[] = {{0}};
static const pni_option factor[] = {
    {"factor", NULL, 2, 1, 1 << 12, PNI_OPTION_WHOLE, "r, by which height and width grow"}, {0}};

#define BODY(id)                                                                                                       \
  static pn_tensor *forward_##id(pn_context *c, const pn_layer *l, const pni_layer_call *call) {                       \
    return id(c, l, call->in[0]);                                                                                      \
  }                                                                                                                    \
  static pn_status moments_##id(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {     \
    out[0] = id(c, l, call->in[0]);                                                                                    \
    out[1] = call->variance ? id(c, l, call->variance) : NULL;                                                         \
    return c->status;                                                                                                  \
  }
BODY(flatten)
BODY(reshape)
BODY(shuffle)
#undef BODY

const pni_layer pni_layer_flatten = {.name = "flatten",
                                     .doc = "[batch, ...] -> [batch, elements]",
                                     .input = {{"x", "[batch, ...]", 0}},
                                     .options = none,
                                     .forward = forward_flatten,
                                     .moments = moments_flatten};

const pni_layer pni_layer_reshape = {.name = "reshape",
                                     .doc = "[batch, ...] -> [batch, sizes]; one of the sizes may be -1: what is left",
                                     .size = {"size..."},
                                     .free_sizes = true,
                                     .input = {{"x", "[batch, ...]", 0}},
                                     .options = none,
                                     .init = init_reshape,
                                     .forward = forward_reshape,
                                     .moments = moments_reshape};

const pni_layer pni_layer_pixel_shuffle = {
    .name = "pixel_shuffle",
    .doc = "sub-pixel shuffle: [batch, channels r^2, height, width] -> [batch, channels, r height, r width]",
    .source = "Shi et al. 2016",
    .input = {{"x", "[batch, channels, height, width]", 0}},
    .options = factor,
    .forward = forward_shuffle,
    .moments = moments_shuffle};
