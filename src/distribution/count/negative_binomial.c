/*
** negative_binomial.c: NegativeBinomial(total_count r > 0, probs p or logits l) on 0, 1, 2 ...: successes, each with
** probability p, before the r-th failure; r need not be whole,
**   log p(x) = lgamma(x + r) - lgamma(x + 1) - lgamma(r) + r log(1 - p) + x log p
**   mean r e^l,  variance r e^l / (1 - p)
** Draws are Poisson with a gamma rate. Kullback-Leibler: count_divergence.c.
*/
#include "../formula.h"
#include "count_draw.h"
#include "count_mass.h"
#include "count_quantile.h"
#include "count_sum.h"
#include "count_tail.h"
#include "../kernel/log_share.h"

enum { TOTAL_COUNT, PROBS, LOGITS };
#define r d->param[TOTAL_COUNT]

static T *derive_probs(C *c, D *d) { return pn_sigmoid(c, d->param[LOGITS]); }
static T *derive_logits(C *c, D *d) {
  T *p = d->param[PROBS];
  return pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
}
/* 1 - p */
static T *failure(C *c, D *d) {
  return pni_dist_given(d, LOGITS) ? pn_sigmoid(c, pn_neg(c, d->param[LOGITS])) : from(c, 1, d->param[PROBS]);
}

static T *log_prob(C *c, D *d, T *x) { return pni_negative_binomial(c, x, r, pni_dist_param(c, d, LOGITS)); }

/* I_(1-p)(r, k + 1) and what is left */
static T *lower(C *c, D *d, T *k) { return pn_betainc(c, r, plus(c, k, 1), failure(c, d)); }
static T *log_part(C *c, D *d, T *k, bool upper) {
  return pni_log_beta_share(c, plus(c, k, 1), r, pni_dist_param(c, d, PROBS), failure(c, d), !upper);
}
STEPS
LOG_PARTS

static T *icdf(C *c, D *d, T *p) {
  return pni_count_quantile(c, d, &pni_family_negative_binomial, p, 2, (T *[]){r, failure(c, d)});
}

static T *odds(C *c, D *d) {
  return pni_dist_given(d, LOGITS) ? pn_exp(c, d->param[LOGITS]) : pn_div(c, d->param[PROBS], failure(c, d));
}
static T *mean(C *c, D *d) { return pn_mul(c, r, odds(c, d)); }
static T *variance(C *c, D *d) { return pn_div(c, mean(c, d), failure(c, d)); }
static T *mode(C *c, D *d) { return pn_floor(c, pn_mul(c, pn_relu(c, plus(c, r, -1)), odds(c, d))); }

static T *entropy(C *c, D *d) {
  T *decay = pn_reciprocal(c, failure(c, d));
  return pni_count_sum(c, d, &(pni_count_place){.mean = mean(c, d), .variance = variance(c, d), .decay = decay}, NULL);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *gamma = pn_exp(c, log_gamma(c, rng, r, out));
  return pni_count_draw(c, rng, out, &pni_count_poisson, pn_mul(c, gamma, odds(c, d)), NULL);
}

const pni_distribution pni_dist_negative_binomial = {
    .name = "negative_binomial",
    .doc = "successes of probability probs before the r-th failure, r = total_count: log p(x) = lgamma(x + r) - "
           "lgamma(x + 1) - lgamma(r) + r log(1 - probs) + x log(probs); or by logits = log(probs / (1 - probs))",
    .source = "Johnson, Kemp & Kotz, Univariate Discrete Distributions, ch. 5",
    .moments = "mean r p / (1 - p), variance r p / (1 - p)^2, p = probs",
    .param = {{.name = "total_count", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "probs",
               .constraint = &pni_constraint_open_unit_interval,
               .axes = "",
               .choice = 1,
               .derive = derive_probs},
              {.name = "logits", .constraint = &pni_constraint_real, .axes = "", .choice = 1, .derive = derive_logits}},
    .support = &pni_constraint_nonnegative_integer,
    .event = "",
    .flags = PNI_DIST_DISCRETE | PNI_DIST_IN_DOUBLE,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .sample = sample};
