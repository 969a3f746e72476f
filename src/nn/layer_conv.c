/*
** layer_conv.c: convolutions (cross-correlations, as everywhere in deep learning) and the transposed one. Weights are
** laid out as PyTorch's: [out, in / groups, kernel...], transposed [in, out / groups, kernel...]. A sequence is an
** image of one row. A place of a volume's result sees as many planes as the kernel is deep: they stand beside each
** other as channels of one image.
*/
#include <math.h>
#include "../autodiff/op/op.h"
#include "layer.h"

enum { IN, OUT };
enum { KERNEL, STRIDE, PADDING, DILATION, GROUPS, BIAS, INIT, BIAS_INIT, OUTPUT_PADDING };

typedef pn_tensor *(*convolve)(pn_context *c, pn_tensor *x, pn_tensor *w, const pn_conv2d_options *o);

/* Option k as depth, rows and columns, `other` where the layer has no such axis; how many it has. */
static int window_of(const pn_layer *l, int k, int64_t other, int64_t out[3]) {
  int64_t v[3];
  int n = pni_option_list(&l->type->options[k], l->option[k], v);
  for (int i = 0; i < 3; i++) out[i] = i < 3 - n ? other : v[i - 3 + n];
  return n;
}

static void pair_of(const pn_layer *l, int k, int64_t other, int64_t out[2]) {
  int64_t v[3];
  window_of(l, k, other, v);
  out[0] = v[1];
  out[1] = v[2];
}

static pn_status init_weight(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng, int64_t first, int64_t second) {
  int64_t shape[5] = {first, second}, kernel[3], groups = (int64_t)l->option[GROUPS], bias = l->size[OUT];
  int axes = window_of(l, KERNEL, 1, kernel);
  if (l->size[IN] % groups || l->size[OUT] % groups)
    return pni_fail(c, PN_SHAPE, "%s: groups must divide in and out, %lld and %lld, got %lld", l->type->name,
                    (long long)l->size[IN], (long long)l->size[OUT], (long long)groups);
  for (int k = 0; k < axes; k++) shape[2 + k] = kernel[3 - axes + k];
  pni_init_call a = {.rng = rng, .dtype = dtype, .ndim = 2 + axes, .shape = shape};
  double window = (double)kernel[0] * (double)kernel[1] * (double)kernel[2];
  a.fan_in = (double)(l->size[IN] / groups) * window;
  a.fan_out = (double)(l->size[OUT] / groups) * window;
  if (pni_layer_set(c, l, 0, pni_initialise(c, (int)l->option[INIT], &a)) || l->option[BIAS] == 0) return c->status;
  a.ndim = 1;
  a.shape = &bias;
  return pni_layer_set(c, l, 1, pni_initialise(c, (int)l->option[BIAS_INIT], &a));
}

static pn_status init(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  return init_weight(c, l, dtype, rng, l->size[OUT], l->size[IN] / (int64_t)l->option[GROUPS]);
}

static pn_status init_transpose(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  return init_weight(c, l, dtype, rng, l->size[IN], l->size[OUT] / (int64_t)l->option[GROUPS]);
}

/* How many slices of n elements that lie `step` apart there are where the last one's kernel still fits. */
static int64_t places(int64_t n, int64_t kernel, int64_t stride, int64_t dilation) {
  int64_t reach = pni_times(dilation, kernel - 1);
  return n > reach ? (n - reach - 1) / stride + 1 : 0;
}

/* x [batch, in, depth, height, width] as images [batch depth', in kernel, height, width]: the planes that each place of
 * the result sees, beside each other. */
static pn_tensor *planes(pn_context *c, const pn_layer *l, pn_tensor *x, int64_t *depth) {
  int64_t w[DILATION + 1][3];
  for (int k = 0; k <= DILATION; k++) pni_option_list(&l->type->options[k], l->option[k], w[k]);
  int64_t kernel = *w[KERNEL], stride = *w[STRIDE], padding = *w[PADDING], dilation = *w[DILATION];
  *depth = places(x->shape[2] + 2 * padding, kernel, stride, dilation);
  if (*depth < 1) {
    pni_fail(c, PN_SHAPE, "%s: kernel of depth %lld must fit in the padded volume, got depth %lld", l->type->name,
             (long long)kernel, (long long)(x->shape[2] + 2 * padding));
    return NULL;
  }
  pn_tensor **slice = pni_calloc_array(c, kernel, sizeof *slice);
  pn_tensor *padded = padding ? pn_pad(c, x, 2, padding, padding, 0) : x;
  for (int64_t k = 0; slice && k < kernel; k++) slice[k] = pn_slice(c, padded, 2, k * dilation, *depth, stride);
  pn_tensor *y = slice ? pn_stack(c, (int)kernel, slice, 2) : NULL;
  pni_free(c, slice);
  y = pn_permute(c, y, 6, (int[]){0, 3, 1, 2, 4, 5});
  int64_t n = pni_times(x->shape[0], *depth), channels = pni_times(x->shape[1], kernel);
  return pn_reshape(c, y, 4, (int64_t[]){n, channels, x->shape[3], x->shape[4]});
}

/* x convolved with w, without a bias. */
static pn_tensor *product(pn_context *c, const pn_layer *l, convolve f, pn_tensor *x, pn_tensor *w) {
  pn_conv2d_options o = {.groups = (int64_t)l->option[GROUPS]};
  pair_of(l, STRIDE, 1, o.stride);
  pair_of(l, PADDING, 0, o.padding);
  pair_of(l, DILATION, 1, o.dilation);
  if (f == pn_conv_transpose2d) pair_of(l, OUTPUT_PADDING, 0, o.output_padding);
  if (x->ndim == 4) return f(c, x, w, &o);
  if (x->ndim == 3) return pn_squeeze(c, f(c, pn_unsqueeze(c, x, 2), pn_unsqueeze(c, w, 2), &o), 2);
  int64_t n = x->shape[0], depth, deep[] = {w->shape[0], w->shape[1] * w->shape[2], w->shape[3], w->shape[4]};
  pn_tensor *y = f(c, planes(c, l, x, &depth), pn_reshape(c, w, 4, deep), &o);
  if (!y) return NULL;
  y = pn_reshape(c, y, 5, (int64_t[]){n, depth, y->shape[1], y->shape[2], y->shape[3]});
  return pn_permute(c, y, 5, (int[]){0, 2, 1, 3, 4});
}

/* The same plus a bias per channel (or NULL). */
static pn_tensor *apply(pn_context *c, const pn_layer *l, convolve f, pn_tensor *x, pn_tensor *w, pn_tensor *bias) {
  int64_t channels[] = {l->size[OUT], 1, 1, 1};
  pn_tensor *y = w ? product(c, l, f, x, w) : NULL;
  return bias && y ? pn_add(c, y, pn_reshape(c, bias, y->ndim - 1, channels)) : y;
}

static pn_tensor *forward(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  return apply(c, l, pn_conv2d, call->in[0], l->param[0], l->param[1]);
}

static pn_tensor *forward_transpose(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  return apply(c, l, pn_conv_transpose2d, call->in[0], l->param[0], l->param[1]);
}

/* Variances of independent inputs: the map of w^2. */
static pn_status spread(pn_context *c, const pn_layer *l, convolve f, const pni_layer_call *call, pn_tensor *out[2]) {
  out[0] = apply(c, l, f, call->in[0], l->param[0], l->param[1]);
  if (call->variance) out[1] = apply(c, l, f, call->variance, pn_square(c, l->param[0]), NULL);
  return c->status;
}

static pn_status moments(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  return spread(c, l, pn_conv2d, call, out);
}

static pn_status moments_transpose(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  return spread(c, l, pn_conv_transpose2d, call, out);
}

enum { MOST = 1 << 24, MOST_OF_THREE = 1 << 16 };
#define WINDOW(kind, pair, most)                                                                                       \
  {"kernel", NULL, 0, 1, most, kind | PNI_OPTION_REQUIRED, "size of the window"},                                      \
      {"stride", NULL, pair(1), 1, most, kind, "step between windows"},                                                \
      {"padding", NULL, pair(0), 0, most, kind, "zeros beyond each edge"},                                             \
      {"dilation", NULL, pair(1), 1, most, kind, "step between elements of a window"},                                 \
      {"groups", NULL, 1, 1, MOST, PNI_OPTION_WHOLE, "of channels that do not mix"},                                   \
      {"bias", "false true", 1, 0, 1, false, "add a number per channel"},                                              \
      {"init", pni_initialiser_names, PNI_INIT_lecun, 0, 0, false, "of the weight"}, {                                 \
    "bias_init", pni_initialiser_names, PNI_INIT_zeros, 0, 0, false, "of the bias, with the weight's fans"             \
  }
#define THRICE(v) PNI_TRIPLE_OF(v, v, v)
#define TWICE(v)  PNI_PAIR_OF(v, v)
#define ONCE(v)   v

static const pni_option options_flat[] = {WINDOW(PNI_OPTION_WHOLE, ONCE, MOST), {0}};
static const pni_option options[] = {WINDOW(PNI_OPTION_PAIR, TWICE, MOST), {0}};
static const pni_option options_volume[] = {WINDOW(PNI_OPTION_TRIPLE, THRICE, MOST_OF_THREE), {0}};
static const pni_option options_transpose_flat[] = {
    WINDOW(PNI_OPTION_WHOLE, ONCE, MOST),
    {"output_padding", NULL, 0, 0, MOST, PNI_OPTION_WHOLE, "places more at the far end, below stride"},
    {0}};
static const pni_option options_transpose[] = {WINDOW(PNI_OPTION_PAIR, TWICE, MOST),
                                               {"output_padding", NULL, TWICE(0), 0, MOST, PNI_OPTION_PAIR,
                                                "rows and columns more at the far edges, below stride"},
                                               {0}};

#define ROW(id, text, shape, table, start, run, spread)                                                                \
  const pni_layer pni_layer_##id = {.name = #id,                                                                       \
                                    .doc = text,                                                                       \
                                    .size = {"in", "out"},                                                             \
                                    .input = {{"x", shape, 0}},                                                        \
                                    .param = {"weight", "bias"},                                                       \
                                    .torch = "weight bias",                                                            \
                                    .options = table,                                                                  \
                                    .init = start,                                                                     \
                                    .forward = run,                                                                    \
                                    .moments = spread};

ROW(conv1d,
    "convolution over sequences: [batch, in, length] -> [batch, out, length'], weight [out, in / groups, kernel]",
    "[batch, in, length]", options_flat, init, forward, moments)
ROW(conv2d,
    "convolution over images: [batch, in, height, width] -> [batch, out, height', width'], size' = floor((size + 2 "
    "padding - dilation (kernel - 1) - 1) / stride) + 1, weight [out, in / groups, rows, columns]",
    "[batch, in, height, width]", options, init, forward, moments)
ROW(conv3d,
    "convolution over volumes: [batch, in, depth, height, width] -> [batch, out, depth', height', width'], weight "
    "[out, "
    "in / groups, depth, rows, columns]",
    "[batch, in, depth, height, width]", options_volume, init, forward, moments)
ROW(conv_transpose1d,
    "transposed convolution: [batch, in, length] -> [batch, out, length'], length' = (length - 1) stride - 2 padding + "
    "dilation (kernel - 1) + 1 + output_padding, weight [in, out / groups, kernel]",
    "[batch, in, length]", options_transpose_flat, init_transpose, forward_transpose, moments_transpose)
ROW(conv_transpose2d,
    "transposed convolution: [batch, in, height, width] -> [batch, out, height', width'], size' = (size - 1) stride - "
    "2 "
    "padding + dilation (kernel - 1) + 1 + output_padding, weight [in, out / groups, rows, columns]",
    "[batch, in, height, width]", options_transpose, init_transpose, forward_transpose, moments_transpose)
#undef ROW
#undef WINDOW
#undef THRICE
#undef TWICE
#undef ONCE
