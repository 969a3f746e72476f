/*
** layer_pool.c: pooling over images, and upsampling: layers without parameters.
*/
#include "../autodiff/op/op.h"
#include "layer.h"

enum { KERNEL, STRIDE, PADDING };
enum { FACTOR, ALIGN };
enum { MOST = 1 << 24 };

typedef struct {
  int64_t kernel[2], stride[2], padding[2];
} window;

/* A stride of 0 stands for the kernel. */
static window window_of(const pn_layer *l) {
  window w;
  pni_option_pair(l->option[KERNEL], w.kernel);
  pni_option_pair(l->option[STRIDE], w.stride);
  pni_option_pair(l->option[PADDING], w.padding);
  for (int k = 0; k < 2; k++)
    if (w.stride[k] == 0) w.stride[k] = w.kernel[k];
  return w;
}

static pn_tensor *forward_max(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  window w = window_of(l);
  return pn_max_pool2d(c, call->in[0], w.kernel, w.stride, w.padding);
}

/* The mean's largest element and the variance of that element, the first of several: the limit of a sharp gate
 * max(a, b) = a z + b (1 - z), z ~ Bernoulli(sigmoid(sharpness (E a - E b))). */
static pn_status moments_max(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  window w = window_of(l);
  pn_tensor *x = call->in[0], *v = call->variance;
  out[0] = pn_max_pool2d(c, x, w.kernel, w.stride, w.padding);
  if (!v || !out[0]) return c->status;
  pn_tensor *at = pni_max_pool2d_at(c, x, w.kernel, w.stride, w.padding);
  int64_t flat[] = {x->shape[0], x->shape[1], x->shape[2] * x->shape[3]};
  int64_t places[] = {x->shape[0], x->shape[1], out[0]->shape[2] * out[0]->shape[3]};
  out[1] = pn_gather(c, pn_reshape(c, v, 3, flat), -1, pn_reshape(c, at, 3, places));
  out[1] = pn_reshape(c, out[1], 4, out[0]->shape);
  return c->status;
}

static pn_tensor *average(pn_context *c, const pn_layer *l, pn_tensor *x) {
  window w = window_of(l);
  return pn_avg_pool2d(c, x, w.kernel, w.stride, w.padding, 1);
}

static pn_tensor *forward_average(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  return average(c, l, call->in[0]);
}

/* The mean of n independent numbers has their mean variance over n. */
static pn_status moments_average(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  window w = window_of(l);
  pn_tensor *v = call->variance;
  out[0] = average(c, l, call->in[0]);
  if (v) out[1] = pn_mul(c, average(c, l, v), pni_like(c, v, 1 / ((double)w.kernel[0] * (double)w.kernel[1])));
  return c->status;
}

/* ---- upsampling: one matrix for rows, one for columns ---- */

/* [n factor, n]: the weights with which each place of the result takes its two neighbours; PyTorch's two conventions of
 * where places lie. Scoped. */
static pn_tensor *interpolation(pn_context *c, pn_dtype dtype, int64_t n, int64_t factor, bool align) {
  int64_t m = pni_times(n, factor);
  double *a = pni_calloc_array(c, pni_times(m, n), sizeof *a);
  for (int64_t i = 0; a && i < m; i++) {
    double at =
        align ? (m > 1 ? (double)(i * (n - 1)) / (double)(m - 1) : 0) : ((double)i + 0.5) / (double)factor - 0.5;
    if (at < 0) at = 0;
    int64_t low = (int64_t)at, high = low + 1 < n ? low + 1 : n - 1;
    a[i * n + low] += 1 - (at - (double)low);
    a[i * n + high] += at - (double)low;
  }
  pn_tensor *t = a ? pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){m, n}, a) : NULL;
  pni_free(c, a, (size_t)(m * n) * sizeof *a);
  return pn_cast(c, t, dtype);
}

static pn_tensor *forward_upsample(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *x = call->in[0];
  int64_t factor[2];
  pni_option_pair(l->option[FACTOR], factor);
  bool align = l->option[ALIGN] != 0;
  if (!pni_is_float(x)) {
    pni_fail(c, PN_DTYPE, "%s: input must be float64 or float32, got %s", l->type->name,
             pn_dtype_name((pn_dtype)x->dtype));
    return NULL;
  }
  pn_tensor *rows = interpolation(c, (pn_dtype)x->dtype, x->shape[2], factor[0], align);
  pn_tensor *columns = interpolation(c, (pn_dtype)x->dtype, x->shape[3], factor[1], align);
  return pn_matmul(c, pn_matmul(c, rows, x), pn_transpose(c, columns, 0, 1));
}

static const pni_option options[] = {
    {"kernel", NULL, 0, 1, MOST, PNI_OPTION_PAIR | PNI_OPTION_REQUIRED, "size of the window"},
    {"stride", NULL, 0, 0, MOST, PNI_OPTION_PAIR, "step between windows; 0: the kernel"},
    {"padding", NULL, 0, 0, MOST, PNI_OPTION_PAIR, "beyond each edge, at most half of the kernel"},
    {0}};
static const pni_option upsample_options[] = {
    {"factor", NULL, PNI_PAIR_OF(2, 2), 1, 1 << 12, PNI_OPTION_PAIR, "of height and width"},
    {"align_corners", "false true", 0, 0, 1, false, "corners stay corners; else pixels are areas"},
    {0}};

const pni_layer pni_layer_max_pool2d = {
    .name = "max_pool2d",
    .doc = "largest element of each window: [batch, channels, height, width], padded with -inf",
    .input = {{"x", "[batch, channels, height, width]", 0}},
    .options = options,
    .forward = forward_max,
    .moments = moments_max};

const pni_layer pni_layer_avg_pool2d = {
    .name = "avg_pool2d",
    .doc = "mean of each window: [batch, channels, height, width], zeros beyond the edges count",
    .input = {{"x", "[batch, channels, height, width]", 0}},
    .options = options,
    .forward = forward_average,
    .moments = moments_average};

const pni_layer pni_layer_upsample_bilinear = {
    .name = "upsample_bilinear",
    .doc = "bilinear interpolation: [batch, channels, height, width], height and width times factor",
    .input = {{"x", "[batch, channels, height, width]", 0}},
    .options = upsample_options,
    .forward = forward_upsample};
