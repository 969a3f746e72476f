/*
** relaxed_bernoulli.c: RelaxedBernoulli(temperature t, probs or logits l) on 0 < x < 1 (the binary Concrete of
** Maddison, Mnih & Teh 2017): logit x = (l + L) / t with L logistic,
**   log p(x) = log t + z - 2 softplus(z) - log x - log(1 - x),  z = l - t logit x
*/
#include "../formula.h"

enum { TEMPERATURE, PROBS, LOGITS };
#define t d->param[TEMPERATURE]

static T *derive_probs(C *c, D *d) { return pn_sigmoid(c, d->param[LOGITS]); }
static T *derive_logits(C *c, D *d) {
  T *p = d->param[PROBS];
  return pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
}
static T *logits(C *c, D *d) { return pni_dist_param(c, d, LOGITS); }

static T *log_prob(C *c, D *d, T *x) {
  T *log_x = pn_log(c, x), *log_y = pn_log1p(c, pn_neg(c, x));
  T *z = pn_sub(c, logits(c, d), pn_mul(c, t, pn_sub(c, log_x, log_y)));
  T *density = pn_add(c, pn_log_sigmoid(c, z), pn_log_sigmoid(c, pn_neg(c, z)));
  return pn_sub(c, pn_add(c, pn_log(c, t), density), pn_add(c, log_x, log_y));
}

static T *cdf(C *c, D *d, T *x) {
  T *odds = pn_sub(c, pn_log(c, x), pn_log1p(c, pn_neg(c, x)));
  return pn_sigmoid(c, pn_sub(c, pn_mul(c, t, odds), logits(c, d)));
}

/* t logit x - l */
static T *excess(C *c, D *d, T *x) {
  T *odds = pn_sub(c, pn_log(c, x), pn_log1p(c, pn_neg(c, x)));
  return pn_sub(c, pn_mul(c, t, odds), logits(c, d));
}
static T *log_cdf(C *c, D *d, T *x) { return pn_log_sigmoid(c, excess(c, d, x)); }
static T *log_survival(C *c, D *d, T *x) { return pn_log_sigmoid(c, pn_neg(c, excess(c, d, x))); }

static T *icdf(C *c, D *d, T *p) {
  T *odds = pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
  return pn_sigmoid(c, pn_div(c, pn_add(c, logits(c, d), odds), t));
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *u = pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype));
  return pn_clamp(c, icdf(c, d, u), tiny(out->dtype), below_one(out->dtype));
}

const pni_distribution pni_dist_relaxed_bernoulli = {
    .name = "relaxed_bernoulli",
    .doc = "a Bernoulli draw softened by a temperature: log p(x) = log(t) + z - 2 log(1 + e^z) - log(x (1 - x)), "
           "z = logits - t log(x / (1 - x)), t = temperature, 0 < x < 1",
    .source = "Maddison, Mnih & Teh, The Concrete distribution, ICLR 2017 (BinConcrete)",
    .moments = "no closed form",
    .param = {{.name = "temperature", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "probs",
               .constraint = &pni_constraint_open_unit_interval,
               .axes = "",
               .choice = 1,
               .derive = derive_probs},
              {.name = "logits", .constraint = &pni_constraint_real, .axes = "", .choice = 1, .derive = derive_logits}},
    .support = &pni_constraint_open_unit_interval,
    .event = "",
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .rsample = rsample};
