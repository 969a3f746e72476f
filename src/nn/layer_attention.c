/*
** layer_attention.c: multi-head attention (Vaswani et al. 2017): softmax(q k' / sqrt(d)) v for each head of d = size /
** heads. Parameters are PyTorch's: the projections of query, key and value under each other in one weight [3 size,
** size].
*/
#include <math.h>
#include "../autodiff/op/op.h"
#include "layer.h"

enum { SIZE, HEADS };
enum { IN_WEIGHT, IN_BIAS, OUT_WEIGHT, OUT_BIAS };
enum { BIAS, CAUSAL, INIT, DROPOUT };
enum { QUERY, KEY, VALUE, MASK };

static pn_status init(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  int64_t n = l->size[SIZE], in[] = {3 * n, n}, out[] = {n, n};
  if (n % l->size[HEADS])
    return pni_fail(c, PN_SHAPE, "%s: heads must divide size, %lld, got %lld", l->type->name, (long long)n,
                    (long long)l->size[HEADS]);
  pni_init_call a = {.rng = rng, .dtype = dtype, .ndim = 2, .shape = in, .fan_in = (double)n, .fan_out = (double)n};
  if (pni_layer_set(c, l, IN_WEIGHT, pni_initialise(c, (int)l->option[INIT], &a))) return c->status;
  a.shape = out;
  if (pni_layer_set(c, l, OUT_WEIGHT, pni_initialise(c, (int)l->option[INIT], &a)) || l->option[BIAS] == 0)
    return c->status;
  if (pni_layer_set(c, l, IN_BIAS, pn_zeros(c, dtype, 1, in))) return c->status;
  return pni_layer_set(c, l, OUT_BIAS, pn_zeros(c, dtype, 1, out));
}

/* x W_k' + b_k for part k of the projections: [batch, T, size] -> [batch, heads, T, d] */
static pn_tensor *project(pn_context *c, const pn_layer *l, pn_tensor *x, int k) {
  int64_t n = l->size[SIZE], heads = l->size[HEADS];
  pn_tensor *w = pn_transpose(c, pn_slice(c, l->param[IN_WEIGHT], 0, k * n, n, 1), 0, 1);
  pn_tensor *b = l->param[IN_BIAS] ? pn_slice(c, l->param[IN_BIAS], 0, k * n, n, 1) : NULL;
  pn_tensor *y = b ? pn_linear(c, x, w, b) : pn_matmul(c, x, w);
  y = pn_reshape(c, y, 4, (int64_t[]){x->shape[0], x->shape[1], heads, n / heads});
  return pn_permute(c, y, 4, (int[]){0, 2, 1, 3});
}

/* Scores where the mask forbids are -inf; a mask of numbers is added. */
static pn_tensor *masked(pn_context *c, pn_tensor *scores, pn_tensor *mask) {
  if (!mask || !scores) return scores;
  if (mask->dtype != PN_BOOL) return pn_add(c, scores, mask);
  return pn_where(c, mask, scores, pni_like(c, scores, -INFINITY));
}

static pn_tensor *not_later(pn_context *c, const pn_tensor *q, const pn_tensor *k) {
  int64_t shape[] = {q->shape[1], k->shape[1]};
  pn_tensor *ones = pn_tril(c, pn_full(c, PN_FLOAT64, 2, shape, 1), 0);
  return pn_gt(c, ones, pni_like(c, ones, 0));
}

static pn_tensor *forward(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *q = call->in[QUERY], *k = call->in[KEY] ? call->in[KEY] : q, *v = call->in[VALUE] ? call->in[VALUE] : k;
  int64_t n = l->size[SIZE];
  if (v->shape[1] != k->shape[1]) {
    pni_fail(c, PN_SHAPE, "%s: value must be as long as key, %lld, got %lld", l->type->name, (long long)k->shape[1],
             (long long)v->shape[1]);
    return NULL;
  }
  pn_tensor *scores = pn_matmul(c, project(c, l, q, 0), pn_transpose(c, project(c, l, k, 1), 2, 3));
  scores = pn_mul(c, scores, pni_like(c, q, 1 / sqrt((double)(n / l->size[HEADS]))));
  scores = masked(c, scores, call->in[MASK]);
  if (l->option[CAUSAL] != 0) scores = masked(c, scores, not_later(c, q, k));
  scores = pn_softmax(c, scores, 3);
  if (l->option[DROPOUT] > 0 && call->mode == PN_MODE_TRAINING)
    scores = pni_dropped(c, scores, l->option[DROPOUT], call->rng);
  pn_tensor *y = pn_matmul(c, scores, project(c, l, v, 2));
  y = pn_reshape(c, pn_permute(c, y, 4, (int[]){0, 2, 1, 3}), 3, (int64_t[]){q->shape[0], q->shape[1], n});
  pn_tensor *w = pn_transpose(c, l->param[OUT_WEIGHT], 0, 1);
  return l->param[OUT_BIAS] ? pn_linear(c, y, w, l->param[OUT_BIAS]) : pn_matmul(c, y, w);
}

static const pni_option options[] = {
    {"bias", "false true", 1, 0, 1, false, "add biases to the projections"},
    {"causal", "false true", 0, 0, 1, false, "places see no later ones"},
    {"init", pni_initialiser_names, PNI_INIT_xavier, 0, 0, false, "of the weights, each projection for itself"},
    {"dropout", NULL, 0, 0, 1, PNI_OPTION_CLOSED, "probability that a place is not seen, in training"},
    {0}};

const pni_layer pni_layer_multi_head_attention = {
    .name = "multi_head_attention",
    .doc = "softmax(q k' / sqrt(size / heads)) v in each head, projected: [batch, target, size]; without key it is the "
           "query, without value the key. mask: true where a place takes part, or numbers to add, broadcast to [batch, "
           "heads, target, source]",
    .source = "Vaswani et al. 2017",
    .size = {"size", "heads"},
    .input = {{"query", "[batch, target, size]", 0},
              {"key", "[batch, source, size]", PNI_LAYER_MAYBE},
              {"value", "[batch, source, size]", PNI_LAYER_MAYBE},
              {"mask", NULL, PNI_LAYER_MAYBE | PNI_LAYER_ANY}},
    .param = {"in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias"},
    .torch = "in_proj_weight in_proj_bias out_proj.weight out_proj.bias",
    .options = options,
    .init = init,
    .forward = forward};
