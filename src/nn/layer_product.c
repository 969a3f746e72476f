/*
** layer_product.c: layers of products besides the affine one: bilinear forms, rows of a table, the highway, which
** mixes its input with a transformed one, and the gated linear unit, whose input is its own gate.
*/
#include <math.h>
#include "../autodiff/op/op.h"
#include "layer.h"

enum { BIAS, INIT };

/* ---- bilinear ---- */

enum { IN1, IN2, OUT };

static pn_status init_bilinear(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  int64_t shape[] = {l->size[OUT], l->size[IN1], l->size[IN2]};
  pni_init_call a = {.rng = rng, .dtype = dtype, .ndim = 3, .shape = shape};
  a.fan_in = (double)l->size[IN1] * (double)l->size[IN2];
  a.fan_out = (double)l->size[OUT];
  if (pni_layer_set(c, l, 0, pni_initialise(c, (int)l->option[INIT], &a)) || l->option[BIAS] == 0) return c->status;
  return pni_layer_set(c, l, 1, pn_zeros(c, dtype, 1, &l->size[OUT]));
}

static pn_tensor *forward_bilinear(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *y = pn_einsum(c, "...i,kij,...j->...k", 3, (pn_tensor *[]){call->in[0], l->param[0], call->in[1]});
  return l->param[1] ? pn_add(c, y, l->param[1]) : y;
}

/* ---- embedding ---- */

static pn_status init_embedding(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  return pni_layer_set(c, l, 0, pn_randn(c, rng, dtype, 2, l->size));
}

static pn_tensor *forward_embedding(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  return pn_take(c, l->param[0], 0, call->in[0]);
}

/* ---- highway ---- */

enum { HIGHWAY_BIAS, HIGHWAY_INIT };

static pn_status init_highway(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  int64_t n = l->size[0], shape[] = {n, n};
  pni_init_call a = {.rng = rng, .dtype = dtype, .ndim = 2, .shape = shape, .fan_in = (double)n, .fan_out = (double)n};
  for (int k = 0; k < 4; k += 2) {
    if (pni_layer_set(c, l, k, pni_initialise(c, (int)l->option[HIGHWAY_INIT], &a)) ||
        pni_layer_set(c, l, k + 1, pn_full(c, dtype, 1, &n, k ? l->option[HIGHWAY_BIAS] : 0)))
      return c->status;
  }
  return PN_OK;
}

/* x + t (h - x) */
static pn_tensor *forward_highway(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *x = call->in[0], *h = pn_relu(c, pn_linear(c, x, l->param[0], l->param[1]));
  pn_tensor *t = pn_sigmoid(c, pn_linear(c, x, l->param[2], l->param[3]));
  return pn_add(c, x, pn_mul(c, t, pn_sub(c, h, x)));
}

/* ---- glu ---- */

enum { AXIS };

static pn_tensor *forward_glu(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *x = call->in[0];
  char s[PNI_SHAPE_TEXT];
  int64_t given = (int64_t)l->option[AXIS], axis = given < 0 ? given + x->ndim : given - 1;
  if (axis < 0 || axis >= x->ndim || x->shape[axis] % 2) {
    pni_fail(c, PN_SHAPE, "%s: input must have an even size along axis %lld, got %s", l->type->name, (long long)given,
             pni_shape_text(x->ndim, x->shape, s));
    return NULL;
  }
  int64_t half = x->shape[axis] / 2;
  pn_tensor *gate = pn_sigmoid(c, pn_slice(c, x, (int)axis, half, half, 1));
  return pn_mul(c, pn_slice(c, x, (int)axis, 0, half, 1), gate);
}

static const pni_option glu_options[] = {
    {"axis", NULL, -1, -PN_MAX_DIMS, PN_MAX_DIMS, PNI_OPTION_WHOLE, "that is halved: from 1, or from -1 for the last"},
    {0}};
static const pni_option bilinear_options[] = {
    {"bias", "false true", 1, 0, 1, false, "add b"},
    {"init", pni_initialiser_names, PNI_INIT_lecun, 0, 0, false, "of the weight, in1 in2 inputs"},
    {0}};
static const pni_option none[] = {{0}};
static const pni_option highway_options[] = {
    {"gate_bias", NULL, -1, -HUGE_VAL, HUGE_VAL, PNI_OPTION_CLOSED, "of the gate at first: negative carries x on"},
    {"init", pni_initialiser_names, PNI_INIT_lecun, 0, 0, false, "of both weights"},
    {0}};

const pni_layer pni_layer_bilinear = {
    .name = "bilinear",
    .doc = "y_k = x1' W_k x2 + b_k: [..., in1] and [..., in2] -> [..., out], weight [out, in1, in2], bias [out]",
    .size = {"in1", "in2", "out"},
    .input = {{"x1", "[..., in1]", 0}, {"x2", "[..., in2]", 0}},
    .param = {"weight", "bias"},
    .torch = "weight bias",
    .options = bilinear_options,
    .init = init_bilinear,
    .forward = forward_bilinear};

const pni_layer pni_layer_embedding = {.name = "embedding",
                                       .doc = "row x of the weight [count, size]: whole numbers 0 .. count - 1 of any "
                                              "shape -> [..., size]; the weight starts "
                                              "standard normal",
                                       .size = {"count", "size"},
                                       .input = {{"x", NULL, PNI_LAYER_WHOLE | PNI_LAYER_INDEX}},
                                       .param = {"weight"},
                                       .torch = "weight",
                                       .options = none,
                                       .init = init_embedding,
                                       .forward = forward_embedding};

const pni_layer pni_layer_highway = {
    .name = "highway",
    .doc = "t h + (1 - t) x with h = max(x W + b, 0), t = sigmoid(x W_t + b_t): [..., size]",
    .source = "Srivastava, Greff & Schmidhuber 2015",
    .size = {"size"},
    .input = {{"x", "[..., size]", 0}},
    .param = {"weight", "bias", "gate_weight", "gate_bias"},
    .options = highway_options,
    .init = init_highway,
    .forward = forward_highway};

const pni_layer pni_layer_glu = {.name = "glu",
                                 .doc = "a sigmoid(b) of the halves a and b of an axis: [..., 2 n] -> [..., n]",
                                 .source = "Dauphin, Fan, Auli & Grangier 2017",
                                 .options = glu_options,
                                 .forward = forward_glu};
