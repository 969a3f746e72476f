/*
** layer_pool.c: pooling over sequences, images and volumes, and upsampling: layers without parameters. A sequence is an
** image of one row. A volume is pooled plane by plane, then along its depth: a window's maximum is that of its planes'
** maxima, its mean their mean.
*/
#include "../autodiff/op/op.h"
#include "layer.h"

enum { KERNEL, STRIDE, PADDING };
enum { FACTOR, ALIGN };
enum { MOST = 1 << 24, MOST_OF_THREE = 1 << 16 };

/* Depth, rows, columns; `axes` of them are the row's, the last ones. */
typedef struct {
  int axes;
  int64_t kernel[3], stride[3], padding[3];
} window;

typedef pn_tensor *(*pool)(pn_context *c, pn_tensor *x, const int64_t kernel[2], const int64_t *stride,
                           const int64_t *padding);

/* Option k where the row's axes are, `other` before them; how many the axes are. */
static int axes_of(const pn_layer *l, int k, int64_t other, int64_t out[3]) {
  int64_t v[3];
  int n = pni_option_list(&l->type->options[k], l->option[k], v);
  for (int i = 0; i < 3; i++) out[i] = i < 3 - n ? other : v[i - 3 + n];
  return n;
}

/* A stride of 0 stands for the kernel. */
static window window_of(const pn_layer *l) {
  window w;
  w.axes = axes_of(l, KERNEL, 1, w.kernel);
  axes_of(l, STRIDE, 1, w.stride);
  axes_of(l, PADDING, 0, w.padding);
  for (int k = 0; k < 3; k++)
    if (w.stride[k] == 0) w.stride[k] = w.kernel[k];
  return w;
}

static pn_tensor *over_volume(pn_context *c, const window *w, pool f, pn_tensor *x) {
  int64_t n = x->shape[0], channels = x->shape[1], depth = x->shape[2];
  pn_tensor *y = pn_reshape(c, x, 4, (int64_t[]){n, pni_times(channels, depth), x->shape[3], x->shape[4]});
  y = f(c, y, w->kernel + 1, w->stride + 1, w->padding + 1);
  if (!y) return NULL;
  int64_t rows = y->shape[2], columns = y->shape[3], deep[2] = {w->kernel[0], 1}, step[2] = {w->stride[0], 1};
  y = pn_reshape(c, y, 4, (int64_t[]){n, channels, depth, pni_times(rows, columns)});
  y = f(c, y, deep, step, (int64_t[]){w->padding[0], 0});
  return y ? pn_reshape(c, y, 5, (int64_t[]){n, channels, y->shape[2], rows, columns}) : NULL;
}

static pn_tensor *apply(pn_context *c, const window *w, pool f, pn_tensor *x) {
  if (w->axes == 3) return over_volume(c, w, f, x);
  if (w->axes == 1) x = pn_unsqueeze(c, x, 2);
  pn_tensor *y = f(c, x, w->kernel + 1, w->stride + 1, w->padding + 1);
  return w->axes == 1 ? pn_squeeze(c, y, 2) : y;
}

static pn_tensor *forward_max(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  window w = window_of(l);
  return apply(c, &w, pn_max_pool2d, call->in[0]);
}

/* [batch, channels, ..., length] as [batch, channels, places] */
static pn_tensor *in_a_row(pn_context *c, pn_tensor *x) {
  return x ? pn_reshape(c, x, 3, (int64_t[]){x->shape[0], x->shape[1], pni_count(x->ndim - 2, x->shape + 2)}) : NULL;
}

/* The mean's largest element and the variance of that element, the first of several: the limit of a sharp gate
 * max(a, b) = a z + b (1 - z), z ~ Bernoulli(sigmoid(sharpness (E a - E b))). Of sequences and images. */
static pn_status moments_max(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  window w = window_of(l);
  pn_tensor *x = call->in[0], *v = call->variance;
  out[0] = apply(c, &w, pn_max_pool2d, x);
  if (!v || !out[0]) return c->status;
  pn_tensor *at = apply(c, &w, pni_max_pool2d_at, x);
  out[1] = pn_gather(c, in_a_row(c, v), -1, in_a_row(c, at));
  out[1] = pn_reshape(c, out[1], out[0]->ndim, out[0]->shape);
  return c->status;
}

static pn_tensor *mean_pool(pn_context *c, pn_tensor *x, const int64_t kernel[2], const int64_t *stride,
                            const int64_t *padding) {
  return pn_avg_pool2d(c, x, kernel, stride, padding, 1);
}

static pn_tensor *forward_average(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  window w = window_of(l);
  return apply(c, &w, mean_pool, call->in[0]);
}

/* The mean of n independent numbers has their mean variance over n. */
static pn_status moments_average(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  window w = window_of(l);
  pn_tensor *v = call->variance;
  double n = (double)w.kernel[0] * (double)w.kernel[1] * (double)w.kernel[2];
  out[0] = apply(c, &w, mean_pool, call->in[0]);
  if (v) out[1] = pn_mul(c, apply(c, &w, mean_pool, v), pni_like(c, v, 1 / n));
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
  pni_free(c, a);
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

#define WINDOW(kind, most)                                                                                             \
  {"kernel", NULL, 0, 1, most, kind | PNI_OPTION_REQUIRED, "size of the window"},                                      \
      {"stride", NULL, 0, 0, most, kind, "step between windows; 0: the kernel"}, {                                     \
    "padding", NULL, 0, 0, most, kind, "beyond each edge, at most half of the kernel"                                  \
  }
static const pni_option options_flat[] = {WINDOW(PNI_OPTION_WHOLE, MOST), {0}};
static const pni_option options[] = {WINDOW(PNI_OPTION_PAIR, MOST), {0}};
static const pni_option options_volume[] = {WINDOW(PNI_OPTION_TRIPLE, MOST_OF_THREE), {0}};
#undef WINDOW
static const pni_option upsample_options[] = {
    {"factor", NULL, PNI_PAIR_OF(2, 2), 1, 1 << 12, PNI_OPTION_PAIR, "of height and width"},
    {"align_corners", "false true", 0, 0, 1, false, "corners stay corners; else pixels are areas"},
    {0}};

#define FLAT   "[batch, channels, length]"
#define IMAGE  "[batch, channels, height, width]"
#define VOLUME "[batch, channels, depth, height, width]"
#define ROW(id, text, sizes, table, run, spread)                                                                       \
  const pni_layer pni_layer_##id = {.name = #id,                                                                       \
                                    .doc = text ": " sizes,                                                            \
                                    .input = {{"x", sizes, 0}},                                                        \
                                    .options = table,                                                                  \
                                    .forward = run,                                                                    \
                                    .moments = spread};
#define LARGEST "largest element of each window, padded with -inf"
#define MEAN    "mean of each window, zeros beyond the edges count"
ROW(max_pool1d, LARGEST, FLAT, options_flat, forward_max, moments_max)
ROW(max_pool2d, LARGEST, IMAGE, options, forward_max, moments_max)
ROW(max_pool3d, LARGEST, VOLUME, options_volume, forward_max, NULL)
ROW(avg_pool1d, MEAN, FLAT, options_flat, forward_average, moments_average)
ROW(avg_pool2d, MEAN, IMAGE, options, forward_average, moments_average)
ROW(avg_pool3d, MEAN, VOLUME, options_volume, forward_average, moments_average)
#undef ROW
#undef LARGEST
#undef MEAN
#undef FLAT
#undef IMAGE
#undef VOLUME

const pni_layer pni_layer_upsample_bilinear = {
    .name = "upsample_bilinear",
    .doc = "bilinear interpolation: [batch, channels, height, width], height and width times factor",
    .input = {{"x", "[batch, channels, height, width]", 0}},
    .options = upsample_options,
    .forward = forward_upsample};
