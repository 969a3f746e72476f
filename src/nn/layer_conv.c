/*
** layer_conv.c: convolutions (cross-correlations, as everywhere in deep learning) and the transposed one. Weights are
** laid out as PyTorch's: [out, in / groups, kernel...], transposed [in, out / groups, kernel...]. A sequence is an
** image of one row.
*/
#include <math.h>
#include "../autodiff/op/op.h"
#include "layer.h"

enum { IN, OUT };
enum { KERNEL, STRIDE, PADDING, DILATION, GROUPS, BIAS, INIT, BIAS_INIT, OUTPUT_PADDING };

typedef pn_tensor *(*convolve)(pn_context *c, pn_tensor *x, pn_tensor *w, const pn_conv2d_options *o);

static bool is_flat(const pn_layer *l) { return l->type == &pni_layer_conv1d; }

/* Option k as rows and columns. */
static void pair_of(const pn_layer *l, int k, int64_t row, int64_t out[2]) {
  out[0] = row;
  out[1] = (int64_t)l->option[k];
  if (!is_flat(l)) pni_option_pair(l->option[k], out);
}

static pn_status init_weight(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng, int64_t first, int64_t second) {
  int64_t kernel[2], groups = (int64_t)l->option[GROUPS], bias = l->size[OUT];
  pair_of(l, KERNEL, 1, kernel);
  if (l->size[IN] % groups || l->size[OUT] % groups)
    return pni_fail(c, PN_SHAPE, "%s: groups must divide in and out, %lld and %lld, got %lld", l->type->name,
                    (long long)l->size[IN], (long long)l->size[OUT], (long long)groups);
  int64_t flat[] = {first, second, kernel[1]}, image[] = {first, second, kernel[0], kernel[1]};
  pni_init_call a = {.rng = rng, .dtype = dtype, .ndim = is_flat(l) ? 3 : 4, .shape = is_flat(l) ? flat : image};
  double window = (double)kernel[0] * (double)kernel[1];
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

/* x convolved with w, plus a bias per channel (or NULL). */
static pn_tensor *apply(pn_context *c, const pn_layer *l, convolve f, pn_tensor *x, pn_tensor *w, pn_tensor *bias) {
  pn_conv2d_options o = {.groups = (int64_t)l->option[GROUPS]};
  pair_of(l, STRIDE, 1, o.stride);
  pair_of(l, PADDING, 0, o.padding);
  pair_of(l, DILATION, 1, o.dilation);
  if (f == pn_conv_transpose2d) pair_of(l, OUTPUT_PADDING, 0, o.output_padding);
  if (is_flat(l)) {
    x = pn_unsqueeze(c, x, 2);
    w = pn_unsqueeze(c, w, 2);
  }
  pn_tensor *y = f(c, x, w, &o);
  if (bias) y = pn_add(c, y, pn_reshape(c, bias, 3, (int64_t[]){l->size[OUT], 1, 1}));
  return is_flat(l) ? pn_squeeze(c, y, 2) : y;
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

enum { MOST = 1 << 24 };
#define WINDOW(kind, pair)                                                                                             \
  {"kernel", NULL, 0, 1, MOST, kind | PNI_OPTION_REQUIRED, "size of the window"},                                      \
      {"stride", NULL, pair(1), 1, MOST, kind, "step between windows"},                                                \
      {"padding", NULL, pair(0), 0, MOST, kind, "zeros beyond each edge"},                                             \
      {"dilation", NULL, pair(1), 1, MOST, kind, "step between elements of a window"},                                 \
      {"groups", NULL, 1, 1, MOST, PNI_OPTION_WHOLE, "of channels that do not mix"},                                   \
      {"bias", "false true", 1, 0, 1, false, "add a number per channel"},                                              \
      {"init", pni_initialiser_names, PNI_INIT_lecun, 0, 0, false, "of the weight"}, {                                 \
    "bias_init", pni_initialiser_names, PNI_INIT_zeros, 0, 0, false, "of the bias, with the weight's fans"             \
  }
#define TWICE(v) PNI_PAIR_OF(v, v)
#define ONCE(v)  v

static const pni_option options_flat[] = {WINDOW(PNI_OPTION_WHOLE, ONCE), {0}};
static const pni_option options[] = {WINDOW(PNI_OPTION_PAIR, TWICE), {0}};
static const pni_option options_transpose[] = {WINDOW(PNI_OPTION_PAIR, TWICE),
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
ROW(conv_transpose2d,
    "transposed convolution: [batch, in, height, width] -> [batch, out, height', width'], size' = (size - 1) stride - "
    "2 "
    "padding + dilation (kernel - 1) + 1 + output_padding, weight [in, out / groups, rows, columns]",
    "[batch, in, height, width]", options_transpose, init_transpose, forward_transpose, moments_transpose)
#undef ROW
#undef WINDOW
#undef TWICE
#undef ONCE
