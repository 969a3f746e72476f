/*
** layer_dropout.c: each element is dropped with probability p = rate in training, the others grow by 1 / (1 - p), so
** that means stay. With `always` evaluation drops out too: draws of a network are then draws from an approximate
** posterior (Gal & Ghahramani 2016).
*/
#include "../autodiff/op/op.h"
#include "layer.h"

enum { RATE, ALWAYS };

static bool drops(const pn_layer *l, pn_mode mode) {
  return l->option[RATE] > 0 && (mode == PN_MODE_TRAINING || (mode == PN_MODE_EVALUATION && l->option[ALWAYS] != 0));
}

static pn_tensor *forward(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *x = call->in[0];
  return drops(l, call->mode) ? pni_dropped(c, x, l->option[RATE], call->rng) : x;
}

pn_tensor *pni_dropped(pn_context *c, pn_tensor *x, double p, pn_rng *rng) {
  if (!x) return NULL;
  if (!pni_is_float(x)) {
    pni_fail(c, PN_DTYPE, "dropout: input must be float64 or float32, got %s", pn_dtype_name((pn_dtype)x->dtype));
    return NULL;
  }
  pn_tensor *u = pn_rand(c, rng, (pn_dtype)x->dtype, x->ndim, x->shape);
  pn_tensor *kept = pn_cast(c, pn_ge(c, u, pni_like(c, x, p)), (pn_dtype)x->dtype);
  return pn_mul(c, x, pn_mul(c, kept, pni_like(c, x, p < 1 ? 1 / (1 - p) : 0)));
}

/* The mask z is independent of x, with mean 1 and second moment 1 / (1 - p): var(x z) = (v + m^2) / (1 - p) - m^2. */
static pn_status moments(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  pn_tensor *m = call->in[0], *v = call->variance;
  double p = l->option[RATE];
  out[0] = m;
  out[1] = v;
  if (!drops(l, call->mode)) return c->status;
  pn_tensor *second = v ? pn_add(c, v, pn_mul(c, pn_square(c, m), pni_like(c, m, p))) : NULL;
  if (!v) second = pn_mul(c, pn_square(c, m), pni_like(c, m, p));
  out[1] = pn_div(c, second, pni_like(c, m, 1 - p));
  return c->status;
}

static const pni_option options[] = {{"rate", NULL, 0.5, 0, 1, PNI_OPTION_CLOSED, "probability of being dropped"},
                                     {"always", "false true", 0, 0, 1, false, "drops out in evaluation too"},
                                     {0}};

const pni_layer pni_layer_dropout = {.name = "dropout",
                                     .doc = "in training 0 with probability rate, else x / (1 - rate); in evaluation x",
                                     .source = "Srivastava et al. 2014; always: Gal & Ghahramani 2016",
                                     .options = options,
                                     .forward = forward,
                                     .moments = moments};
