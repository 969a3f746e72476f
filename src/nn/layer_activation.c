/*
** layer_activation.c: activations as layers, so that they stand in a sequential; those of straight pieces and the
** exponential ones also take a mean and a variance (moment/activation_moments.h).
*/
#include <math.h>
#include "../autodiff/op/op.h"
#include "layer.h"
#include "moment/activation_moments.h"

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
BODY(leaky_relu) { return pni_leaky_relu(c, x, option[2]); }
/* x above 0, alpha (e^x - 1) below */
BODY(elu) { return joined(c, x, pn_expm1(c, lower(c, x)), option[0]); }
BODY(gelu) { return (void)option, pn_mul(c, x, pn_ndtr(c, x)); }
BODY(silu) { return (void)option, pn_mul(c, x, pn_sigmoid(c, x)); }

/* The fixed point (0, 1) of mean and variance decides both constants. */
#define SELU_ALPHA 1.6732632423543772848170429916717
#define SELU_SCALE 1.0507009873554804934193349852946
BODY(selu) {
  (void)option;
  T *y = joined(c, x, pn_expm1(c, lower(c, x)), SELU_ALPHA);
  return pn_mul(c, y, x ? pni_like(c, x, SELU_SCALE) : NULL);
}
BODY(softsign) { return (void)option, pn_div(c, x, pn_add(c, pn_abs(c, x), x ? pni_like(c, x, 1) : NULL)); }
BODY(hard_tanh) { return pn_clamp(c, x, option[2], option[3]); }
BODY(hard_sigmoid) {
  return x ? pn_clamp(c, pn_add(c, pn_mul(c, x, pni_like(c, x, option[2])), pni_like(c, x, 0.5)), 0, 1) : NULL;
}
BODY(hard_swish) {
  (void)option;
  T *gate = x ? pn_add(c, pn_mul(c, x, pni_like(c, x, 1.0 / 6)), pni_like(c, x, 0.5)) : NULL;
  return pn_mul(c, x, pn_clamp(c, gate, 0, 1));
}
BODY(mish) { return (void)option, pn_mul(c, x, pn_tanh(c, pn_softplus(c, x))); }

/* ---- with a learned slope: one for all, or one per channel of [batch, channels, ...] ---- */

static pn_status init_prelu(C *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  int64_t n = (int64_t)l->option[2];
  return (void)rng, pni_layer_set(c, l, 0, pn_full(c, dtype, 1, &n, l->option[3]));
}

/* The slope as it broadcasts against x; NULL with the reason where it does not. */
static T *slope_of(C *c, const pn_layer *l, const T *x) {
  T *w = l->param[0];
  int64_t shape[PN_MAX_DIMS];
  char s[PNI_SHAPE_TEXT];
  if (w->numel > 1 && (x->ndim < 2 || x->shape[1] != w->numel)) {
    pni_fail(c, PN_SHAPE, "prelu: input must have shape [batch, %lld, ...], got %s", (long long)w->numel,
             pni_shape_text(x->ndim, x->shape, s));
    return NULL;
  }
  for (int i = 0; i < x->ndim; i++) shape[i] = i == 1 ? w->numel : 1;
  return pn_reshape(c, w, w->numel > 1 ? x->ndim : 0, shape);
}

static T *forward_prelu(C *c, const pn_layer *l, const pni_layer_call *call) {
  T *x = call->in[0], *slope = slope_of(c, l, x);
  return slope ? pn_add(c, pn_relu(c, x), pn_mul(c, lower(c, x), slope)) : NULL;
}

/* ---- with a mean and a variance ---- */

/* The options that begin those of rows with moments. */
enum { RULE, SHARPNESS, OWN };
#define RULES                                                                                                          \
  {"rule",                                                                                                             \
   "clt identity_heaviside",                                                                                           \
   0,                                                                                                                  \
   0,                                                                                                                  \
   0,                                                                                                                  \
   false,                                                                                                              \
   "how moments pass: clt matches those of a normal input, identity_heaviside takes x times an independent gate"},     \
  {                                                                                                                    \
    "sharpness", NULL, HUGE_VAL, 0, HUGE_VAL, PNI_OPTION_OPEN, "of gates: sigmoid(sharpness mean) of them are open"    \
  }

static pni_moment_rule rule_of(const pn_layer *l) {
  return (pni_moment_rule){(int)l->option[RULE], l->option[SHARPNESS]};
}

/* Of x and slope x below 0; a covariance has an axis more than its mean. */
static pn_status leaky(C *c, const pn_layer *l, const pni_layer_call *call, T *slope, T *out[2]) {
  pni_moment_rule r = rule_of(l);
  T *m = call->in[0], *v = call->variance;
  return (v->ndim > m->ndim ? pni_leaky_relu_covariance : pni_leaky_relu_moments)(c, &r, slope, m, v, out);
}

static pn_status moments_relu(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  return leaky(c, l, call, NULL, out);
}
static pn_status moments_leaky_relu(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  return leaky(c, l, call, pni_like(c, call->in[0], l->option[OWN]), out);
}
static pn_status moments_prelu(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  return leaky(c, l, call, slope_of(c, l, call->in[0]), out);
}
static pn_status moments_elu(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  return pni_elu_moments(c, l->option[0], 1, call->in[0], call->variance, out);
}
static pn_status moments_selu(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  return (void)l, pni_elu_moments(c, SELU_ALPHA, SELU_SCALE, call->in[0], call->variance, out);
}
/* Three pieces, rising from 0 to `height` between middle - width and middle + width: with t = (x - middle) / width,
 * base + height / 2 hard_tanh(t). */
typedef struct three_pieces {
  double middle, width, base, height;
} three_pieces;

static pn_status moments_three(C *c, const pn_layer *l, const pni_layer_call *call, three_pieces p, T *out[2]) {
  pni_moment_rule r = rule_of(l);
  double half = p.height / 2;
  T *m = call->in[0], *v = call->variance;
  r.sharpness *= p.width;
  m = pn_mul(c, pn_sub(c, m, pni_like(c, m, p.middle)), pni_like(c, m, 1 / p.width));
  v = pn_mul(c, v, pni_like(c, v, 1 / (p.width * p.width)));
  if (pni_hard_tanh_moments(c, &r, m, v, out)) return c->status;
  out[0] = pn_add(c, pn_mul(c, out[0], pni_like(c, v, half)), pni_like(c, v, p.base));
  out[1] = pn_mul(c, out[1], pni_like(c, v, half * half));
  return c->status;
}

static pn_status moments_hard_tanh(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  double low = l->option[OWN], high = l->option[OWN + 1], middle = (low + high) / 2, width = (high - low) / 2;
  if (!(width > 0) || !isfinite(width))
    return pni_fail(c, PN_DOMAIN, "hard_tanh: low and high must be finite and low below high for moments");
  return moments_three(c, l, call, (three_pieces){middle, width, middle, high - low}, out);
}
static pn_status moments_hard_sigmoid(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {
  return moments_three(c, l, call, (three_pieces){0, 1 / (2 * l->option[OWN]), 0.5, 1}, out);
}

/* Certain inputs go through `forward`. */
#define MOMENTS(name)                                                                                                  \
  static pn_status pass_##name(C *c, const pn_layer *l, const pni_layer_call *call, T *out[2]) {                       \
    if (call->variance) return moments_##name(c, l, call, out);                                                        \
    out[0] = forward_##name(c, l, call);                                                                               \
    return c->status;                                                                                                  \
  }
MOMENTS(relu)
MOMENTS(leaky_relu)
MOMENTS(prelu)
MOMENTS(elu)
MOMENTS(selu)
MOMENTS(hard_tanh)
MOMENTS(hard_sigmoid)
#undef MOMENTS

static const pni_option none[] = {{0}};
static const pni_option rules[] = {RULES, {0}};
static const pni_option slope[] = {RULES, {"slope", NULL, 0.01, 0, 1, false, "factor below zero"}, {0}};
static const pni_option alpha[] = {{"alpha", NULL, 1, 0, HUGE_VAL, false, "-alpha is the limit at -inf"}, {0}};

static const pni_option limits[] = {RULES,
                                    {"low", NULL, -1, -HUGE_VAL, HUGE_VAL, PNI_OPTION_CLOSED, "smallest value"},
                                    {"high", NULL, 1, -HUGE_VAL, HUGE_VAL, PNI_OPTION_CLOSED, "largest value"},
                                    {0}};
static const pni_option steepness[] = {
    RULES, {"slope", NULL, 1.0 / 6, 0, HUGE_VAL, PNI_OPTION_OPEN, "of the middle piece, which is 1 / slope wide"}, {0}};
static const pni_option prelu_options[] = {
    RULES,
    {"channels", NULL, 1, 1, 1 << 24, PNI_OPTION_WHOLE, "how many slopes: one for all, or one per channel"},
    {"slope", NULL, 0.25, -HUGE_VAL, HUGE_VAL, PNI_OPTION_CLOSED, "that the weight starts with"},
    {0}};

#define ROW(id, text, origin, opts, spread, pairs, ...)                                                                \
  const pni_layer pni_layer_##id = {.name = #id,                                                                       \
                                    .doc = text,                                                                       \
                                    .source = origin,                                                                  \
                                    .options = opts,                                                                   \
                                    .forward = forward_##id,                                                           \
                                    .moments = spread,                                                                 \
                                    .covariance = pairs,                                                               \
                                    .activation = true,                                                                \
                                    .slope = &(const pni_slope){.kind = __VA_ARGS__}};

ROW(relu, "max(x, 0)", NULL, rules, pass_relu, true, PNI_SLOPE_RELU)
ROW(leaky_relu, "max(x, slope x)", "Maas, Hannun & Ng 2013", slope, pass_leaky_relu, true, PNI_SLOPE_RELU,
    .first = "slope")
ROW(elu, "x above 0, alpha (e^x - 1) below", "Clevert, Unterthiner & Hochreiter 2016", alpha, pass_elu, false,
    PNI_SLOPE_ELU, .first = "alpha", .second_value = 1)
ROW(gelu, "x times the standard normal cdf of x", "Hendrycks & Gimpel 2016", none, NULL, false, PNI_SLOPE_GELU)
ROW(silu, "x sigmoid(x)", "Elfwing, Uchibe & Doya 2018", none, NULL, false, PNI_SLOPE_SILU)
ROW(tanh, "hyperbolic tangent", NULL, none, NULL, false, PNI_SLOPE_TANH)
ROW(sigmoid, "1 / (1 + e^-x)", NULL, none, NULL, false, PNI_SLOPE_SIGMOID)
ROW(softplus, "log(1 + e^x)", NULL, none, NULL, false, PNI_SLOPE_SOFTPLUS)
ROW(selu, "1.0507 (x above 0, 1.6733 (e^x - 1) below)", "Klambauer et al. 2017", none, pass_selu, false, PNI_SLOPE_ELU,
    .first_value = SELU_ALPHA, .second_value = SELU_SCALE)
ROW(softsign, "x / (1 + |x|)", NULL, none, NULL, false, PNI_SLOPE_SOFTSIGN)
ROW(hard_tanh, "x limited to [low, high]", NULL, limits, pass_hard_tanh, false, PNI_SLOPE_CLAMP, .first = "low",
    .second = "high")
ROW(hard_sigmoid, "slope x + 1/2 limited to [0, 1], a sigmoid of three pieces", NULL, steepness, pass_hard_sigmoid,
    false, PNI_SLOPE_CLAMP, .factor = "slope", .second_value = 1, .shift = 0.5)
ROW(hard_swish, "x times (x / 6 + 1/2 limited to [0, 1])", "Howard et al. 2019", none, NULL, false,
    PNI_SLOPE_HARD_SWISH)
ROW(mish, "x tanh(log(1 + e^x))", "Misra 2020", none, NULL, false, PNI_SLOPE_MISH)

const pni_layer pni_layer_prelu = {.name = "prelu",
                                   .doc = "x above 0, weight x below: any shape, or [batch, channels, ...]",
                                   .source = "He, Zhang, Ren & Sun 2015",
                                   .param = {"weight"},
                                   .torch = "weight",
                                   .options = prelu_options,
                                   .init = init_prelu,
                                   .forward = forward_prelu,
                                   .moments = pass_prelu,
                                   .covariance = true};
