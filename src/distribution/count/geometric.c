/*
** geometric.c: Geometric(probs p or logits l) on 0, 1, 2 ...: failures before the first success,
**   log p(x) = x log(1 - p) + log p,  mean (1 - p) / p,  variance (1 - p) / p^2
** Draws are floor(log u / log(1 - p)). Kullback-Leibler: log(p / q) + (1 - p) / p log((1 - p) / (1 - q)).
*/
#include "../formula.h"
#include "../kernel/density.h"
#include "count_tail.h"

enum { PROBS, LOGITS };

static T *probs(C *c, D *d) { return pni_dist_param(c, d, PROBS); }
static T *derive_probs(C *c, D *d) { return pn_sigmoid(c, d->param[LOGITS]); }
static T *derive_logits(C *c, D *d) {
  T *p = d->param[PROBS];
  return pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
}
static T *log_success(C *c, D *d) {
  return pni_dist_given(d, LOGITS) ? pn_log_sigmoid(c, d->param[LOGITS]) : pn_log(c, d->param[PROBS]);
}
static T *log_failure(C *c, D *d) {
  return pni_dist_given(d, LOGITS) ? pn_log_sigmoid(c, pn_neg(c, d->param[LOGITS]))
                                   : pn_log1p(c, pn_neg(c, d->param[PROBS]));
}

static T *log_prob(C *c, D *d, T *x) {
  if (pni_dist_given(d, LOGITS)) return pni_geometric_mass(c, x, d->param[LOGITS]);
  return pn_add(c, pn_mul(c, x, log_failure(c, d)), log_success(c, d));
}

/* 1 - (1 - p)^(k + 1) */
static T *log_upper(C *c, D *d, T *k) { return pn_mul(c, plus(c, k, 1), log_failure(c, d)); }
static T *lower(C *c, D *d, T *k) { return pn_neg(c, pn_expm1(c, log_upper(c, d, k))); }
STEPS

static T *log_cdf(C *c, D *d, T *x) {
  T *inside = pn_log1mexp(c, log_upper(c, d, whole_below(c, x)));
  return but(c, before_all(c, x), -INFINITY, but(c, after_all(c, x), 0, inside));
}
static T *log_survival(C *c, D *d, T *x) {
  T *inside = log_upper(c, d, whole_below(c, x));
  return but(c, before_all(c, x), 0, but(c, after_all(c, x), -INFINITY, inside));
}

/* The least k with 1 - (1 - p)^(k + 1) >= u: a guess by logarithms, put right by the distribution function. */
static T *icdf(C *c, D *d, T *u) {
  T *guess =
      pn_detach(c, pn_ceil(c, pn_div(c, pn_log1p(c, pn_neg(c, u)), log_failure(c, d)))); /* flat, also at u = 1 */
  T *k = pn_relu(c, plus(c, guess, -1));
  T *down = pn_logical_and(c, above(c, k, 0), pn_ge(c, cdf(c, d, plus(c, k, -1)), u));
  k = pn_where(c, down, plus(c, k, -1), k);
  return pn_where(c, pn_lt(c, cdf(c, d, k), u), plus(c, k, 1), k);
}

static T *mean(C *c, D *d) {
  if (pni_dist_given(d, LOGITS)) return pn_exp(c, pn_neg(c, d->param[LOGITS]));
  return pn_div(c, from(c, 1, d->param[PROBS]), d->param[PROBS]);
}
static T *variance(C *c, D *d) { return pn_div(c, mean(c, d), probs(c, d)); }
static T *mode(C *c, D *d) { return constant(c, d, 0); }
static T *entropy(C *c, D *d) {
  return pn_neg(c, pn_add(c, log_success(c, d), pn_mul(c, mean(c, d), log_failure(c, d))));
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *log_u = pn_log(c, uniform_draw(c, rng, out));
  return pn_floor(c, pn_div(c, log_u, log_failure(c, d)));
}

T *pni_kl_geometric_geometric(C *c, D *p, D *d) {
  T *fail = pn_mul(c, mean(c, p), pn_sub(c, log_failure(c, p), log_failure(c, d)));
  return pn_add(c, fail, pn_sub(c, log_success(c, p), log_success(c, d)));
}

const pni_distribution pni_dist_geometric = {
    .name = "geometric",
    .doc = "failures before the first success: log p(x) = x log(1 - probs) + log(probs), x = 0, 1, ...; "
           "or by logits = log(probs / (1 - probs))",
    .source = "Johnson, Kemp & Kotz, Univariate Discrete Distributions, ch. 5.2",
    .moments = "mean (1 - p) / p, variance (1 - p) / p^2, mode 0",
    .param = {{.name = "probs",
               .constraint = &pni_constraint_open_unit_interval,
               .axes = "",
               .choice = 1,
               .derive = derive_probs},
              {.name = "logits", .constraint = &pni_constraint_real, .axes = "", .choice = 1, .derive = derive_logits}},
    .support = &pni_constraint_nonnegative_integer,
    .event = "",
    .flags = PNI_DIST_DISCRETE,
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
