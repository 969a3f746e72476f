/*
** layer_recurrent.c: gated recurrent layers over sequences [T, ..., in]: the first axis is time, those between are batch.
** Equations, order of the gates, shapes of the parameters and the start (uniform on +-1 / sqrt(hidden)) are PyTorch's, so
** that its weights can be loaded as they are; see nn/recurrent/recurrent.h. The input of all steps is projected by one
** product, the recurrence is one node.
*/
#include <math.h>
#include <string.h>
#include "layer.h"
#include "recurrent/nn_op.h"

enum { W_IH, W_HH, B_IH, B_HH };
enum { BIAS };
enum { IN, HIDDEN };

static pn_tensor *start(pn_context *c, const pn_layer *l, pn_dtype dtype, pn_rng *rng, int ndim, const int64_t *shape) {
  double bound = 1 / sqrt((double)l->size[HIDDEN]);
  pn_tensor *u = pn_rand(c, rng, dtype, ndim, shape);
  return pn_mul(c, pn_sub(c, u, pni_like(c, u, 0.5)), pni_like(c, u, 2 * bound));
}

static pn_status init(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng, int gates) {
  int64_t g = gates * l->size[HIDDEN];
  if (pni_layer_set(c, l, W_IH, start(c, l, dtype, rng, 2, (int64_t[]){g, l->size[IN]})) ||
      pni_layer_set(c, l, W_HH, start(c, l, dtype, rng, 2, (int64_t[]){g, l->size[HIDDEN]})) || l->option[BIAS] == 0)
    return c->status;
  if (pni_layer_set(c, l, B_IH, start(c, l, dtype, rng, 1, &g))) return c->status;
  return pni_layer_set(c, l, B_HH, start(c, l, dtype, rng, 1, &g));
}

static pn_status init_gru(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) { return init(c, l, dtype, rng, 3); }
static pn_status init_lstm(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  return init(c, l, dtype, rng, 4);
}

/* ---- shapes: inside, x is [T, B, in] and states are [B, hidden] ---- */

typedef struct {
  int64_t steps, batch;
  int ndim;                   /* of x */
  int64_t shape[PN_MAX_DIMS]; /* of all states: [T, ..., hidden] */
} frame;

static pn_status measure(pn_context *c, const pn_layer *l, const pn_tensor *x, frame *f) {
  char s[160];
  if (x->ndim < 2 || x->shape[0] < 1)
    return pni_fail(c, PN_SHAPE, "%s: input must have shape [T, ..., %lld] with at least one step, got %s",
                    l->type->name, (long long)l->size[IN], pni_shape_text(x->ndim, x->shape, s));
  f->steps = x->shape[0];
  f->ndim = x->ndim;
  f->batch = pni_count(x->ndim - 2, x->shape + 1);
  memcpy(f->shape, x->shape, sizeof f->shape);
  f->shape[x->ndim - 1] = l->size[HIDDEN];
  return PN_OK;
}

/* The given state as [B, hidden], or zeros. */
static pn_tensor *state_of(pn_context *c, const pn_layer *l, const frame *f, pn_tensor *h, pn_dtype dtype) {
  int64_t flat[2] = {f->batch, l->size[HIDDEN]};
  if (!h) return pn_zeros(c, dtype, 2, flat);
  char s[160], t[160];
  if (h->ndim != f->ndim - 1 || memcmp(h->shape, f->shape + 1, (size_t)h->ndim * sizeof *h->shape) != 0) {
    pni_fail(c, PN_SHAPE, "%s: state must have shape %s, got %s", l->type->name,
             pni_shape_text(f->ndim - 1, f->shape + 1, s), pni_shape_text(h->ndim, h->shape, t));
    return NULL;
  }
  return pn_reshape(c, h, 2, flat);
}

static pn_tensor *project(pn_context *c, const pn_layer *l, const frame *f, pn_tensor *x, pn_tensor *bias) {
  pn_tensor *w = pn_transpose(c, l->param[W_IH], 0, 1);
  pn_tensor *flat = pn_reshape(c, x, 3, (int64_t[]){f->steps, f->batch, l->size[IN]});
  return bias ? pn_linear(c, flat, w, bias) : pn_matmul(c, flat, w);
}

/* h [T, B, hidden] as the layer's outputs, and its last step as a state. */
static pn_tensor *outputs(pn_context *c, const frame *f, pn_tensor *h) { return pn_reshape(c, h, f->ndim, f->shape); }
static pn_tensor *last(pn_context *c, const frame *f, pn_tensor *h) {
  return pn_reshape(c, pn_select(c, h, 0, f->steps - 1), f->ndim - 1, f->shape + 1);
}

static pn_status unroll_gru(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *const *state,
                            pn_tensor **out) {
  frame f;
  pn_tensor *x = call->in[0];
  if (measure(c, l, x, &f)) return c->status;
  pn_dtype dtype = (pn_dtype)x->dtype;
  pn_tensor *h0 = state_of(c, l, &f, state[0], dtype), *b = l->param[B_HH];
  if (!b) b = pn_zeros(c, dtype, 1, (int64_t[]){3 * l->size[HIDDEN]});
  pn_tensor *in[] = {project(c, l, &f, x, l->param[B_IH]), l->param[W_HH], b, h0};
  pn_tensor *h = pni_apply(c, &pni_nn_op_gru_scan, 4, in, NULL);
  out[0] = outputs(c, &f, h);
  out[1] = last(c, &f, h);
  return c->status;
}

static pn_status unroll_lstm(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *const *state,
                             pn_tensor **out) {
  frame f;
  pn_tensor *x = call->in[0];
  if (measure(c, l, x, &f)) return c->status;
  pn_dtype dtype = (pn_dtype)x->dtype;
  pn_tensor *h0 = state_of(c, l, &f, state[0], dtype), *c0 = state_of(c, l, &f, state[1], dtype);
  pn_tensor *bias = l->param[B_IH] ? pn_add(c, l->param[B_IH], l->param[B_HH]) : NULL;
  pn_tensor *in[] = {project(c, l, &f, x, bias), l->param[W_HH], h0, c0};
  pn_tensor *both = pni_apply(c, &pni_nn_op_lstm_scan, 4, in, NULL), *h = pn_select(c, both, 0, 0);
  out[0] = outputs(c, &f, h);
  out[1] = last(c, &f, h);
  out[2] = last(c, &f, pn_select(c, both, 0, 1));
  return c->status;
}

static pn_tensor *forward(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *none[PNI_LAYER_STATES] = {NULL}, *out[PNI_LAYER_STATES + 1];
  return l->type->unroll(c, l, call, none, out) ? NULL : out[0];
}

static const pni_option options[] = {{"bias", "false true", 1, 0, 1, false, "add bias_ih and bias_hh"}, {0}};

const pni_layer pni_layer_gru = {
    .name = "gru",
    .doc =
        "r, z = sigmoid(x W_ir + b_ir + h W_hr + b_hr), n = tanh(x W_in + b_in + r (h W_hn + b_hn)), h' = (1 - z) n + "
        "z h over time: [T, ..., in] -> [T, ..., hidden]; weights [3 hidden, in] and [3 hidden, hidden] as PyTorch's",
    .source = "Cho et al. 2014, in PyTorch's form",
    .size = {"in", "hidden"},
    .input = {{"x", "[T, ..., in]", 0}},
    .param = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"},
    .options = options,
    .states = 1,
    .init = init_gru,
    .forward = forward,
    .unroll = unroll_gru};

const pni_layer pni_layer_lstm = {
    .name = "lstm",
    .doc =
        "i, f, o = sigmoid(x W_i + b_i + h W_h + b_h), g = tanh(the same), c' = f c + i g, h' = o tanh(c') over time: "
        "[T, ..., in] -> [T, ..., hidden]; weights [4 hidden, in] and [4 hidden, hidden] (i, f, g, o) as PyTorch's",
    .source = "Hochreiter & Schmidhuber 1997; Gers, Schmidhuber & Cummins 2000",
    .size = {"in", "hidden"},
    .input = {{"x", "[T, ..., in]", 0}},
    .param = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"},
    .options = options,
    .states = 2,
    .init = init_lstm,
    .forward = forward,
    .unroll = unroll_lstm};
