/*
** layer_recurrent.c: recurrent layers over sequences [T, ..., in]: the first axis is time, those between are batch.
** Equations, order of the gates, shapes of the parameters and the start (uniform on +-1 / sqrt(hidden)) are PyTorch's,
** so that its weights can be loaded as they are; see nn/recurrent/recurrent.h. The input of all steps is projected by
** one product, the recurrence of the gated ones is one node. With lengths [...] sequences end before the last step:
** outputs are 0 from there on, and the last state is that of their own end.
*/
#include <math.h>
#include <string.h>
#include "layer.h"
#include "recurrent/nn_op.h"

enum { W_IH, W_HH, B_IH, B_HH };
enum { BIAS, REVERSE, ACTIVATION };
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
static pn_status init_rnn(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) { return init(c, l, dtype, rng, 1); }
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
  char s[PNI_SHAPE_TEXT];
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
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
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

/* ---- lengths: sequences of a batch that end before the last step, and the direction of time ---- */

enum { BOTH = 2 }; /* h and c */

/* lengths [...] as whole numbers [1, B, 1], or NULL. */
static pn_tensor *lengths_of(pn_context *c, const pn_layer *l, const frame *f, pn_tensor *lengths) {
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  if (!lengths) return NULL;
  if (lengths->ndim == f->ndim - 2 &&
      memcmp(lengths->shape, f->shape + 1, (size_t)lengths->ndim * sizeof *f->shape) == 0)
    return pn_reshape(c, lengths, 3, (int64_t[]){1, f->batch, 1});
  pni_fail(c, PN_SHAPE, "%s: lengths must have shape %s, got %s", l->type->name,
           pni_shape_text(f->ndim - 2, f->shape + 1, s), pni_shape_text(lengths->ndim, lengths->shape, t));
  return NULL;
}

/* The steps 0 .. T - 1 as [T, 1, 1]. */
static pn_tensor *steps_of(pn_context *c, const frame *f) {
  return pn_reshape(c, pn_arange(c, PN_INT64, 0, (double)f->steps, 1), 3, (int64_t[]){f->steps, 1, 1});
}

/* x [T, B, n] backwards in time: each sequence within its own length. */
static pn_tensor *reversed(pn_context *c, const frame *f, pn_tensor *x, pn_tensor *lengths) {
  if (!x || !lengths) return pn_flip(c, x, 0);
  pn_tensor *t = steps_of(c, f), *back = pn_sub(c, pn_sub(c, lengths, pn_scalar(c, PN_INT64, 1)), t);
  return pn_gather(c, x, 0, pn_broadcast_to(c, pn_where(c, pn_lt(c, t, lengths), back, t), 3, x->shape));
}

/* Zeros after the end of each sequence. */
static pn_tensor *ended(pn_context *c, const frame *f, pn_tensor *h, pn_tensor *lengths) {
  return lengths ? pn_where(c, pn_lt(c, steps_of(c, f), lengths), h, pni_like(c, h, 0)) : h;
}

/* The state after the last step of each sequence, from all steps and the state before the first. */
static pn_tensor *last(pn_context *c, const frame *f, pn_tensor *h, pn_tensor *start, pn_tensor *lengths) {
  if (!h || !start) return NULL;
  int64_t one[] = {1, f->batch, h->shape[2]};
  if (!lengths) return pn_reshape(c, pn_select(c, h, 0, f->steps - 1), f->ndim - 1, f->shape + 1);
  pn_tensor *all = pn_concatenate(c, 2, (pn_tensor *[]){pn_reshape(c, start, 3, one), h}, 0);
  return pn_reshape(c, pn_gather(c, all, 0, pn_broadcast_to(c, lengths, 3, one)), f->ndim - 1, f->shape + 1);
}

/* All steps of a sequence x from the states `start`: the hidden states, and the cells of an lstm, each [T, B,
 * hidden]. */
typedef void (*recurrence)(pn_context *c, const pn_layer *l, const frame *f, pn_tensor *x, pn_tensor *const *start,
                           pn_tensor **all);

static pn_status unroll(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *const *state,
                        pn_tensor **out, recurrence run) {
  frame f;
  pn_tensor *x = call->in[0], *start[BOTH] = {NULL}, *all[BOTH] = {NULL};
  if (measure(c, l, x, &f)) return c->status;
  pn_tensor *lengths = lengths_of(c, l, &f, call->in[1]);
  bool reverse = l->option[REVERSE] != 0;
  if (reverse || lengths) x = pn_reshape(c, x, 3, (int64_t[]){f.steps, f.batch, l->size[IN]});
  if (reverse) x = reversed(c, &f, x, lengths);
  for (int k = 0; k < l->type->states; k++) start[k] = state_of(c, l, &f, state[k], (pn_dtype)call->in[0]->dtype);
  if (pni_failed(c)) return c->status;
  run(c, l, &f, x, start, all);
  pn_tensor *h = ended(c, &f, all[0], lengths);
  out[0] = pn_reshape(c, reverse ? reversed(c, &f, h, lengths) : h, f.ndim, f.shape);
  for (int k = 0; k < l->type->states; k++) out[k + 1] = last(c, &f, all[k], start[k], lengths);
  return c->status;
}

static void run_gru(pn_context *c, const pn_layer *l, const frame *f, pn_tensor *x, pn_tensor *const *start,
                    pn_tensor **all) {
  pn_tensor *b = l->param[B_HH];
  if (!b) b = pn_zeros(c, (pn_dtype)x->dtype, 1, (int64_t[]){3 * l->size[HIDDEN]});
  pn_tensor *in[] = {project(c, l, f, x, l->param[B_IH]), l->param[W_HH], b, start[0]};
  all[0] = pn_select(c, pni_apply(c, &pni_nn_op_gru_scan, 4, in, NULL), 0, 0);
}

static void run_lstm(pn_context *c, const pn_layer *l, const frame *f, pn_tensor *x, pn_tensor *const *start,
                     pn_tensor **all) {
  pn_tensor *bias = l->param[B_IH] ? pn_add(c, l->param[B_IH], l->param[B_HH]) : NULL;
  pn_tensor *in[] = {project(c, l, f, x, bias), l->param[W_HH], start[0], start[1]};
  pn_tensor *both = pni_apply(c, &pni_nn_op_lstm_scan, 4, in, NULL);
  all[0] = pn_select(c, both, 0, 0);
  all[1] = pn_select(c, both, 0, 1);
}

/* One product and one function of it a step; plans make a loop of the steps. */
static void run_rnn(pn_context *c, const pn_layer *l, const frame *f, pn_tensor *x, pn_tensor *const *start,
                    pn_tensor **all) {
  pn_tensor *bias = l->param[B_IH] ? pn_add(c, l->param[B_IH], l->param[B_HH]) : NULL, *h = start[0];
  pn_tensor *gi = project(c, l, f, x, bias), *w = pn_transpose(c, l->param[W_HH], 0, 1);
  pn_tensor **step = pni_alloc_array(c, f->steps, sizeof *step);
  for (int64_t t = 0; step && t < f->steps; t++) {
    pn_tensor *a = pn_add(c, pn_select(c, gi, 0, t), pn_matmul(c, h, w));
    step[t] = h = l->option[ACTIVATION] == 0 ? pn_tanh(c, a) : pn_relu(c, a);
  }
  if (step && !pni_failed(c)) all[0] = pn_stack(c, (int)f->steps, step, 0);
  pni_free(c, step);
}

#define BODY(id)                                                                                                       \
  static pn_status unroll_##id(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *const *state,  \
                               pn_tensor **out) {                                                                      \
    return unroll(c, l, call, state, out, run_##id);                                                                   \
  }
BODY(gru)
BODY(lstm)
BODY(rnn)
#undef BODY

static pn_tensor *forward(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *none[PNI_LAYER_STATES] = {NULL}, *out[PNI_LAYER_STATES + 1];
  return l->type->unroll(c, l, call, none, out) ? NULL : out[0];
}

static const pni_option options[] = {
    {"bias", "false true", 1, 0, 1, false, "add bias_ih and bias_hh"},
    {"reverse", "false true", 0, 0, 1, false, "from the end of each sequence to its first step"},
    {0}};
static const pni_option rnn_options[] = {
    {"bias", "false true", 1, 0, 1, false, "add bias_ih and bias_hh"},
    {"reverse", "false true", 0, 0, 1, false, "from the end of each sequence to its first step"},
    {"activation", "tanh relu", 0, 0, 0, false, "f"},
    {0}};

const pni_layer pni_layer_gru = {
    .name = "gru",
    .doc =
        "r, z = sigmoid(x W_ir + b_ir + h W_hr + b_hr), n = tanh(x W_in + b_in + r (h W_hn + b_hn)), h' = (1 - z) n + "
        "z h over time: [T, ..., in] -> [T, ..., hidden]; weights [3 hidden, in] and [3 hidden, hidden] as PyTorch's",
    .source = "Cho et al. 2014, in PyTorch's form",
    .size = {"in", "hidden"},
    .input = {{"x", "[T, ..., in]", 0}, {"lengths", NULL, PNI_LAYER_MAYBE | PNI_LAYER_WHOLE}},
    .param = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"},
    .torch = "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0",
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
    .input = {{"x", "[T, ..., in]", 0}, {"lengths", NULL, PNI_LAYER_MAYBE | PNI_LAYER_WHOLE}},
    .param = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"},
    .torch = "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0",
    .options = options,
    .states = 2,
    .init = init_lstm,
    .forward = forward,
    .unroll = unroll_lstm};

const pni_layer pni_layer_rnn = {
    .name = "rnn",
    .doc = "h' = f(x W_ih + b_ih + h W_hh + b_hh) over time, f tanh or relu: [T, ..., in] -> [T, ..., hidden]; weights "
           "[hidden, in] and [hidden, hidden] as PyTorch's",
    .source = "Elman 1990",
    .size = {"in", "hidden"},
    .input = {{"x", "[T, ..., in]", 0}, {"lengths", NULL, PNI_LAYER_MAYBE | PNI_LAYER_WHOLE}},
    .param = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"},
    .torch = "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0",
    .options = rnn_options,
    .states = 1,
    .init = init_rnn,
    .forward = forward,
    .unroll = unroll_rnn};
