/*
** layer_activation.c: activations as layers, so that they stand in a sequential.
*/
#include <math.h>
#include "../autodiff/op/op.h"
#include "layer.h"

typedef pn_tensor T;
typedef pn_context C;
#define BODY(name)                                                                                                     \
  static T *f_##name(C *c, const double *option, T *x);                                                                \
  static T *forward_##name(C *c, const pn_layer *l, const pni_layer_call *call) {                                      \
    return f_##name(c, l->option, call->in[0]);                                                                        \
  }                                                                                                                    \
  static T *f_##name(C *c, const double *option, T *x)
#define SIMPLE(name)                                                                                                   \
  BODY(name) { return (void)option, pn_##name(c, x); }

SIMPLE(relu)
SIMPLE(tanh)
SIMPLE(sigmoid)
SIMPLE(softplus)
/* relu has the slope 0 at 0, what is limited to negative numbers 1: 0 itself belongs to the lower branch. */
static T *joined(C *c, T *x, T *below, double factor) {
  return pn_add(c, pn_relu(c, x), pn_mul(c, below, x ? pni_like(c, x, factor) : NULL));
}
static T *lower(C *c, T *x) { return pn_clamp(c, x, -INFINITY, 0); }
/* max(x, slope x) for slopes below one */
BODY(leaky_relu) { return joined(c, x, lower(c, x), option[0]); }
/* x above 0, alpha (e^x - 1) below */
BODY(elu) { return joined(c, x, pn_expm1(c, lower(c, x)), option[0]); }
BODY(gelu) { return (void)option, pn_mul(c, x, pn_ndtr(c, x)); }
BODY(silu) { return (void)option, pn_mul(c, x, pn_sigmoid(c, x)); }

/* The fixed point (0, 1) of mean and variance decides both constants. */
BODY(selu) {
  (void)option;
  T *y = joined(c, x, pn_expm1(c, lower(c, x)), 1.6732632423543772848170429916717);
  return pn_mul(c, y, x ? pni_like(c, x, 1.0507009873554804934193349852946) : NULL);
}
BODY(softsign) { return (void)option, pn_div(c, x, pn_add(c, pn_abs(c, x), x ? pni_like(c, x, 1) : NULL)); }
BODY(hard_tanh) { return pn_clamp(c, x, option[0], option[1]); }
BODY(hard_sigmoid) {
  (void)option;
  return x ? pn_clamp(c, pn_add(c, pn_mul(c, x, pni_like(c, x, 1.0 / 6)), pni_like(c, x, 0.5)), 0, 1) : NULL;
}

/* ---- with a learned slope: one for all, or one per channel of [batch, channels, ...] ---- */

static pn_status init_prelu(C *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  int64_t n = (int64_t)l->option[0];
  return (void)rng, pni_layer_set(c, l, 0, pn_full(c, dtype, 1, &n, l->option[1]));
}

static T *forward_prelu(C *c, const pn_layer *l, const pni_layer_call *call) {
  T *x = call->in[0], *w = l->param[0];
  int64_t shape[PN_MAX_DIMS];
  char s[160];
  if (w->numel > 1 && (x->ndim < 2 || x->shape[1] != w->numel)) {
    pni_fail(c, PN_SHAPE, "prelu: input must have shape [batch, %lld, ...], got %s", (long long)w->numel,
             pni_shape_text(x->ndim, x->shape, s));
    return NULL;
  }
  for (int i = 0; i < x->ndim; i++) shape[i] = i == 1 ? w->numel : 1;
  return pn_add(c, pn_relu(c, x), pn_mul(c, lower(c, x), pn_reshape(c, w, w->numel > 1 ? x->ndim : 0, shape)));
}

static const pni_option none[] = {{0}};
static const pni_option slope[] = {{"slope", NULL, 0.01, 0, 1, false, "factor below zero"}, {0}};
static const pni_option alpha[] = {{"alpha", NULL, 1, 0, HUGE_VAL, false, "-alpha is the limit at -inf"}, {0}};

static const pni_option limits[] = {{"low", NULL, -1, -HUGE_VAL, HUGE_VAL, PNI_OPTION_CLOSED, "smallest value"},
                                    {"high", NULL, 1, -HUGE_VAL, HUGE_VAL, PNI_OPTION_CLOSED, "largest value"},
                                    {0}};
static const pni_option prelu_options[] = {
    {"channels", NULL, 1, 1, 1 << 24, PNI_OPTION_WHOLE, "how many slopes: one for all, or one per channel"},
    {"slope", NULL, 0.25, -HUGE_VAL, HUGE_VAL, PNI_OPTION_CLOSED, "that the weight starts with"},
    {0}};

#define ROW(id, text, origin, opts)                                                                                    \
  const pni_layer pni_layer_##id = {                                                                                   \
      .name = #id, .doc = text, .source = origin, .options = opts, .forward = forward_##id};

ROW(relu, "max(x, 0)", NULL, none)
ROW(leaky_relu, "max(x, slope x)", "Maas, Hannun & Ng 2013", slope)
ROW(elu, "x above 0, alpha (e^x - 1) below", "Clevert, Unterthiner & Hochreiter 2016", alpha)
ROW(gelu, "x times the standard normal cdf of x", "Hendrycks & Gimpel 2016", none)
ROW(silu, "x sigmoid(x)", "Elfwing, Uchibe & Doya 2018", none)
ROW(tanh, "hyperbolic tangent", NULL, none)
ROW(sigmoid, "1 / (1 + e^-x)", NULL, none)
ROW(softplus, "log(1 + e^x)", NULL, none)
ROW(selu, "1.0507 (x above 0, 1.6733 (e^x - 1) below)", "Klambauer et al. 2017", none)
ROW(softsign, "x / (1 + |x|)", NULL, none)
ROW(hard_tanh, "x limited to [low, high]", NULL, limits)
ROW(hard_sigmoid, "x / 6 + 1/2 limited to [0, 1]", NULL, none)

const pni_layer pni_layer_prelu = {.name = "prelu",
                                   .doc = "x above 0, weight x below: any shape, or [batch, channels, ...]",
                                   .source = "He, Zhang, Ren & Sun 2015",
                                   .param = {"weight"},
                                   .options = prelu_options,
                                   .init = init_prelu,
                                   .forward = forward_prelu};
