/*
** layer_bayes_linear.c: an affine layer whose weights and biases are independent normals under the
** variational posterior q and the prior p = normal(0, prior_scale). Blundell et al. (ICML 2015); the
** local estimator is that of Kingma, Salimans & Welling (NIPS 2015).
**
** Parameters are the mean (loc) and the logarithm of the standard deviation (log_scale). In log_scale the
** divergence is -log_scale + e^(2 log_scale) / (2 prior^2) + ..., which needs no softplus and no inverse
** when a scale is given.
**   local:   y ~ normal(x M + b, x^2 S^2 + s_b^2), drawn per row and unit: rows are independent, which
**            gives gradients of low variance and is right whenever rows enter the objective separately
**   weights: one draw of W and b per call: the rows of one call share a function
*/
#include <math.h>
#include "../distribution/kernel/distribution_op.h"
#include "layer.h"

enum { W, LOG_S, B, LOG_SB };
enum { ESTIMATOR, BIAS, PRIOR_SCALE, POSTERIOR_SCALE, INIT, BIAS_INIT };
enum { LOCAL, WEIGHTS };

static pn_status init(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  pni_init_call a = {.rng = rng, .dtype = dtype, .ndim = 2, .shape = l->size};
  a.fan_in = (double)l->size[0];
  a.fan_out = (double)l->size[1];
  double log_scale = log(l->option[POSTERIOR_SCALE]);
  if (pni_layer_set(c, l, W, pni_initialise(c, (int)l->option[INIT], &a)) ||
      pni_layer_set(c, l, LOG_S, pn_full(c, dtype, 2, l->size, log_scale)) || l->option[BIAS] == 0)
    return c->status;
  a.ndim = 1;
  a.shape = &l->size[1];
  if (pni_layer_set(c, l, B, pni_initialise(c, (int)l->option[BIAS_INIT], &a))) return c->status;
  return pni_layer_set(c, l, LOG_SB, pn_full(c, dtype, 1, &l->size[1], log_scale));
}

/* x W + b without b where there is none. */
static pn_tensor *affine(pn_context *c, pn_tensor *x, pn_tensor *w, pn_tensor *b) {
  return b ? pn_linear(c, x, w, b) : pn_matmul(c, x, w);
}

static pn_tensor *mean(pn_context *c, const pn_layer *l, pn_tensor *x) {
  return affine(c, x, l->param[W], l->param[B]);
}

/* s^2 = e^(2 log s) */
static pn_tensor *variance_of(pn_context *c, pn_tensor *log_scale) {
  return log_scale ? pni_apply1(c, &pni_distribution_op_log_scale_variance, log_scale, NULL) : NULL;
}

static pn_tensor *variance(pn_context *c, const pn_layer *l, pn_tensor *x) {
  pn_tensor *v = variance_of(c, l->param[LOG_S]);
  return affine(c, pn_square(c, x), v, variance_of(c, l->param[LOG_SB]));
}

static pn_tensor *noise_like(pn_context *c, const pn_tensor *t, pn_rng *rng) {
  return t ? pn_randn(c, rng, (pn_dtype)t->dtype, t->ndim, t->shape) : NULL;
}

/* A row of zeros without a bias has variance 0, where the root has no derivative; 1e-30 keeps that
 * finite in both dtypes and is below the rounding of any other variance. */
static pn_tensor *local(pn_context *c, const pn_layer *l, pn_tensor *x, pn_rng *rng) {
  pn_tensor *m = mean(c, l, x), *v = variance(c, l, x);
  if (!l->param[B]) v = pn_add(c, v, pni_like(c, v, 1e-30));
  return pni_apply(c, &pni_distribution_op_normal_draw, 3, (pn_tensor *[]){m, v, noise_like(c, m, rng)}, NULL);
}

static pn_tensor *draw(pn_context *c, pn_tensor *loc, pn_tensor *log_scale, pn_rng *rng) {
  if (!loc) return NULL;
  return pn_add(c, loc, pn_mul(c, pn_exp(c, log_scale), noise_like(c, loc, rng)));
}

static pn_tensor *forward(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  pn_tensor *x = call->in[0];
  pn_rng *rng = call->rng;
  if (call->mode == PN_MODE_MEAN) return mean(c, l, x);
  if (l->option[ESTIMATOR] == LOCAL) return local(c, l, x, rng);
  pn_tensor *w = draw(c, l->param[W], l->param[LOG_S], rng);
  return affine(c, x, w, draw(c, l->param[B], l->param[LOG_SB], rng));
}

static pn_tensor *divergence(pn_context *c, pn_tensor *loc, pn_tensor *log_scale, double prior) {
  return pni_apply2(c, &pni_distribution_op_normal_divergence, loc, log_scale, &(pni_attr){.r = {prior}});
}

static pn_tensor *kl(pn_context *c, const pn_layer *l) {
  double prior = l->option[PRIOR_SCALE];
  pn_tensor *d = divergence(c, l->param[W], l->param[LOG_S], prior);
  return l->param[B] ? pn_add(c, d, divergence(c, l->param[B], l->param[LOG_SB], prior)) : d;
}

/* With inputs of variance v: var(x W + b) = (x^2 + v) S^2 + v M^2 + s_b^2. With inputs of covariance V, since columns
 * of W are independent: cov(x W + b) = M' V M + diag((x^2 + diag V) S^2 + s_b^2). */
static pn_status moments(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  pn_tensor *x = call->in[0], *v = call->variance, *square = pn_square(c, x), *m = l->param[W];
  pn_tensor *spread = variance_of(c, l->param[LOG_S]), *own = v;
  out[0] = mean(c, l, x);
  if (v && v->ndim > x->ndim) own = pn_diagonal(c, v);
  out[1] = affine(c, own ? pn_add(c, square, own) : square, spread, variance_of(c, l->param[LOG_SB]));
  if (v && own == v)
    out[1] = pn_add(c, out[1], pn_matmul(c, v, pn_square(c, m)));
  else if (v)
    out[1] = pn_add(c, pn_matmul(c, pn_matmul(c, pn_transpose(c, m, 0, 1), v), m), pn_diag_embed(c, out[1]));
  return c->status;
}

static const pni_option options[] = {
    {"estimator", "local weights", LOCAL, 0, 0, false,
     "local draws the outputs of each row (local reparameterisation), weights draws the weights once a call"},
    {"bias", "false true", 1, 0, 1, false, "add b"},
    {"prior_scale", NULL, 1, 0, HUGE_VAL, true, "standard deviation of the prior"},
    {"posterior_scale", NULL, 0.05, 0, HUGE_VAL, true, "standard deviation that the posterior starts with"},
    {"init", pni_initialiser_names, PNI_INIT_lecun, 0, 0, false, "of the weight's posterior mean"},
    {"bias_init", pni_initialiser_names, PNI_INIT_zeros, 0, 0, false, "of the bias's, with the weight's fans"},
    {0}};

const pni_layer pni_layer_bayes_linear = {
    .name = "bayes_linear",
    .doc = "x W + b with independent normal posteriors over W [in, out] and b [out]: [..., in] -> [..., out]",
    .source = "Blundell et al. 2015; Kingma, Salimans & Welling 2015",
    .size = {"in", "out"},
    .input = {{"x", "[..., in]", 0}},
    .param = {"weight_loc", "weight_log_scale", "bias_loc", "bias_log_scale"},
    .options = options,
    .init = init,
    .forward = forward,
    .kl = kl,
    .moments = moments,
    .covariance = true};
