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

static const pni_option none[] = {{0}};
static const pni_option slope[] = {{"slope", NULL, 0.01, 0, 1, false, "factor below zero"}, {0}};
static const pni_option alpha[] = {{"alpha", NULL, 1, 0, HUGE_VAL, false, "-alpha is the limit at -inf"}, {0}};

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
