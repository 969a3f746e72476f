/*
** layer_normalise.c: layers that take out mean and scale: of each channel over the batch (with running statistics for
** evaluation), of each example over its features or groups of channels; and actnorm, which learns them. Divisors,
** epsilon and the running variance (unbiased) are PyTorch's.
*/
#include <math.h>
#include <string.h>
#include "../autodiff/op/op.h"
#include "layer.h"

typedef pn_tensor T;
typedef pn_context C;

enum { EPSILON, AFFINE, MOMENTUM };

/* The vector t, one number per channel, beside x [batch, channels, ...]. */
static T *beside(C *c, const T *x, T *t) {
  int64_t shape[PN_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++) shape[i] = i == 1 ? x->shape[1] : 1;
  return pn_reshape(c, t, x->ndim, shape);
}

static T *affine(C *c, const pn_layer *l, T *y, bool channels) {
  T *w = l->param[0], *b = l->param[1];
  if (!w || !y) return y;
  return pn_add(c, pn_mul(c, y, channels ? beside(c, y, w) : w), channels ? beside(c, y, b) : b);
}

/* 1 / sqrt(variance + epsilon) */
static T *inverse_scale(C *c, const pn_layer *l, T *variance) {
  return pn_rsqrt(c, pn_add(c, variance, pni_like(c, variance, l->option[EPSILON])));
}

static T *standardised(C *c, const pn_layer *l, T *x, pn_axes axes) {
  T *d = pn_sub(c, x, pn_mean(c, x, axes, 1));
  return pn_mul(c, d, inverse_scale(c, l, pn_mean(c, pn_square(c, d), axes, 1)));
}

static pn_status init_affine(C *c, pn_layer *l, pn_dtype dtype, int ndim, const int64_t *shape) {
  if (l->option[AFFINE] == 0) return PN_OK;
  if (pni_layer_set(c, l, 0, pn_full(c, dtype, ndim, shape, 1))) return c->status;
  return pni_layer_set(c, l, 1, pn_zeros(c, dtype, ndim, shape));
}

/* ---- batch_norm ---- */

static pn_status init_batch(C *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  (void)rng;
  if (init_affine(c, l, dtype, 1, l->size) || pni_layer_set_buffer(c, l, 0, pn_zeros(c, dtype, 1, l->size)))
    return c->status;
  return pni_layer_set_buffer(c, l, 1, pn_full(c, dtype, 1, l->size, 1));
}

static T *train_batch(C *c, const pn_layer *l, T *x) {
  pn_axes axes = {0, {0}};
  double n = (double)x->numel / (double)x->shape[1], rate = l->option[MOMENTUM];
  if (n < 2) {
    pni_fail(c, PN_SHAPE, "batch_norm: training needs two values per channel or more, got %g", n);
    return NULL;
  }
  for (int i = 0; i < x->ndim; i++)
    if (i != 1) axes.axis[axes.n++] = i;
  T *mean = pn_mean(c, x, axes, 1), *d = pn_sub(c, x, mean), *variance = pn_mean(c, pn_square(c, d), axes, 1);
  T *y = affine(c, l, pn_mul(c, d, inverse_scale(c, l, variance)), true);
  T *unbiased = pn_mul(c, pn_detach(c, variance), pni_like(c, x, n / (n - 1)));
  y = pn_with_update(c, y, l->buffer[0], pn_reshape(c, pn_detach(c, mean), 1, l->size), rate);
  return pn_with_update(c, y, l->buffer[1], pn_reshape(c, unbiased, 1, l->size), rate);
}

static T *forward_batch(C *c, const pn_layer *l, const pni_layer_call *call) {
  T *x = call->in[0];
  if (call->mode == PN_MODE_TRAINING) return train_batch(c, l, x);
  T *d = pn_sub(c, x, beside(c, x, l->buffer[0]));
  return affine(c, l, pn_mul(c, d, beside(c, x, inverse_scale(c, l, l->buffer[1]))), true);
}

/* In evaluation a fixed scale per channel. */
static pn_status moments_batch(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  if (call->variance && call->mode == PN_MODE_TRAINING)
    return pni_fail(c, PN_MISSING, "batch_norm: passes variances on in evaluation mode only");
  out[0] = forward_batch(c, l, call);
  if (!call->variance) return c->status;
  T *scale = inverse_scale(c, l, l->buffer[1]);
  if (l->param[0]) scale = pn_mul(c, scale, l->param[0]);
  out[1] = pn_mul(c, call->variance, beside(c, call->in[0], pn_square(c, scale)));
  return c->status;
}

/* ---- layer_norm, group_norm ---- */

static pn_status init_layer(C *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  return (void)rng, init_affine(c, l, dtype, l->nsizes, l->size);
}

static T *forward_layer(C *c, const pn_layer *l, const pni_layer_call *call) {
  T *x = call->in[0];
  pn_axes axes = {.n = l->nsizes};
  for (int i = 0; i < axes.n; i++) axes.axis[i] = x->ndim - l->nsizes + i;
  return affine(c, l, standardised(c, l, x, axes), false);
}

static pn_status init_group(C *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  (void)rng;
  if (l->size[1] % l->size[0])
    return pni_fail(c, PN_SHAPE, "group_norm: groups must divide channels, %lld, got %lld", (long long)l->size[1],
                    (long long)l->size[0]);
  return init_affine(c, l, dtype, 1, &l->size[1]);
}

static T *forward_group(C *c, const pn_layer *l, const pni_layer_call *call) {
  T *x = call->in[0];
  int64_t each = pni_count(x->ndim - 1, x->shape + 1) / l->size[0];
  T *rows = pn_reshape(c, x, 3, (int64_t[]){x->shape[0], l->size[0], each});
  T *y = standardised(c, l, rows, (pn_axes){1, {2}});
  return affine(c, l, pn_reshape(c, y, x->ndim, x->shape), true);
}

/* ---- rms_norm ---- */

static pn_status init_rms(C *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  (void)rng;
  return l->option[AFFINE] == 0 ? PN_OK : pni_layer_set(c, l, 0, pn_full(c, dtype, l->nsizes, l->size, 1));
}

static T *forward_rms(C *c, const pn_layer *l, const pni_layer_call *call) {
  T *x = call->in[0];
  pn_axes axes = {.n = l->nsizes};
  for (int i = 0; i < axes.n; i++) axes.axis[i] = x->ndim - l->nsizes + i;
  T *y = pn_mul(c, x, inverse_scale(c, l, pn_mean(c, pn_square(c, x), axes, 1)));
  return l->param[0] ? pn_mul(c, y, l->param[0]) : y;
}

/* ---- actnorm ---- */

static pn_status init_actnorm(C *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  (void)rng;
  if (pni_layer_set(c, l, 0, pn_zeros(c, dtype, 1, l->size))) return c->status;
  return pni_layer_set(c, l, 1, pn_zeros(c, dtype, 1, l->size));
}

static T *forward_actnorm(C *c, const pn_layer *l, const pni_layer_call *call) {
  T *x = call->in[0];
  return pn_mul(c, pn_add(c, x, beside(c, x, l->param[1])), beside(c, x, pn_exp(c, l->param[0])));
}

static pn_status moments_actnorm(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  T *v = call->variance;
  out[0] = forward_actnorm(c, l, call);
  if (v) out[1] = pn_mul(c, v, beside(c, v, pn_exp(c, pn_mul(c, l->param[0], pni_like(c, v, 2)))));
  return c->status;
}

static const pni_option options[] = {{"epsilon", NULL, 1e-5, 0, HUGE_VAL, PNI_OPTION_CLOSED, "added to the variance"},
                                     {"affine", "false true", 1, 0, 1, false, "learn a scale and a shift"},
                                     {0}};
static const pni_option batch_options[] = {
    {"epsilon", NULL, 1e-5, 0, HUGE_VAL, PNI_OPTION_CLOSED, "added to the variance"},
    {"affine", "false true", 1, 0, 1, false, "learn a scale and a shift per channel"},
    {"momentum", NULL, 0.1, 0, 1, PNI_OPTION_CLOSED, "share of the batch in the new running statistics"},
    {0}};
static const pni_option rms_options[] = {
    {"epsilon", NULL, 1e-5, 0, HUGE_VAL, PNI_OPTION_CLOSED, "added to the mean square"},
    {"affine", "false true", 1, 0, 1, false, "learn a scale"},
    {0}};
static const pni_option none[] = {{0}};

const pni_layer pni_layer_batch_norm = {
    .name = "batch_norm",
    .doc = "(x - mean) / sqrt(variance + epsilon) weight + bias per channel, over the batch in training, by running "
           "statistics in evaluation: [batch, channels, ...]",
    .source = "Ioffe & Szegedy 2015",
    .size = {"channels"},
    .input = {{"x", "[batch, channels, ...]", 0}},
    .param = {"weight", "bias"},
    .buffer = {"running_mean", "running_var"},
    .torch = "weight bias running_mean running_var num_batches_tracked=0",
    .options = batch_options,
    .init = init_batch,
    .forward = forward_batch,
    .moments = moments_batch};

const pni_layer pni_layer_layer_norm = {.name = "layer_norm",
                                        .doc = "(x - mean) / sqrt(variance + epsilon) weight + bias over the last "
                                               "axes, those of the sizes given: [..., size...]",
                                        .source = "Ba, Kiros & Hinton 2016",
                                        .size = {"size..."},
                                        .input = {{"x", "[..., size...]", 0}},
                                        .param = {"weight", "bias"},
                                        .torch = "weight bias",
                                        .options = options,
                                        .init = init_layer,
                                        .forward = forward_layer};

const pni_layer pni_layer_rms_norm = {
    .name = "rms_norm",
    .doc = "x / sqrt(mean of x^2 + epsilon) weight over the last axes, those of the sizes given: [..., size...]",
    .source = "Zhang & Sennrich 2019",
    .size = {"size..."},
    .input = {{"x", "[..., size...]", 0}},
    .param = {"weight"},
    .torch = "weight",
    .options = rms_options,
    .init = init_rms,
    .forward = forward_rms};

const pni_layer pni_layer_group_norm = {
    .name = "group_norm",
    .doc = "(x - mean) / sqrt(variance + epsilon) over each group of channels of an example, then weight and bias per "
           "channel: [batch, channels, ...]",
    .source = "Wu & He 2018",
    .size = {"groups", "channels"},
    .input = {{"x", "[batch, channels, ...]", 0}},
    .param = {"weight", "bias"},
    .torch = "weight bias",
    .options = options,
    .init = init_group,
    .forward = forward_group};

const pni_layer pni_layer_actnorm = {.name = "actnorm",
                                     .doc =
                                         "(x + bias) e^log_scale per channel: [batch, channels, ...]; both start at 0",
                                     .source = "Kingma & Dhariwal 2018",
                                     .size = {"channels"},
                                     .input = {{"x", "[batch, channels, ...]", 0}},
                                     .param = {"log_scale", "bias"},
                                     .options = none,
                                     .init = init_actnorm,
                                     .forward = forward_actnorm,
                                     .moments = moments_actnorm};
