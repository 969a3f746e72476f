/*
** exponential.c: Exponential(rate) on x >= 0,
**   log p(x) = log rate - rate x,  mean 1 / rate,  variance 1 / rate^2
** Kullback-Leibler: r_q / r_p - 1 - log(r_q / r_p).
*/
#include "../formula.h"

#define rate d->param[0]

static T *log_prob(C *c, D *d, T *x) { return pn_sub(c, pn_log(c, rate), pn_mul(c, rate, x)); }
static T *cdf(C *c, D *d, T *x) { return pn_neg(c, pn_expm1(c, pn_neg(c, pn_mul(c, rate, x)))); }
static T *log_cdf(C *c, D *d, T *x) { return pn_log1mexp(c, pn_neg(c, pn_mul(c, rate, x))); }
static T *log_survival(C *c, D *d, T *x) { return pn_neg(c, pn_mul(c, rate, x)); }

static T *icdf(C *c, D *d, T *p) { return pn_neg(c, pn_div(c, pn_log1p(c, pn_neg(c, p)), rate)); }
static T *mean(C *c, D *d) { return pn_reciprocal(c, rate); }
static T *variance(C *c, D *d) { return pn_reciprocal(c, pn_square(c, rate)); }
static T *mode(C *c, D *d) { return constant(c, d, 0); }
static T *entropy(C *c, D *d) { return from(c, 1, pn_log(c, rate)); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pn_neg(c, pn_div(c, pn_log(c, uniform_draw(c, rng, out)), rate));
}

T *pni_kl_exponential_exponential(C *c, D *p, D *d) {
  T *ratio = pn_div(c, rate, p->param[0]);
  return pn_sub(c, plus(c, ratio, -1), pn_log(c, ratio));
}

const pni_distribution pni_dist_exponential = {
    .name = "exponential",
    .doc = "waiting time at a constant rate: log p(x) = log(rate) - rate x, x >= 0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 19",
    .moments = "mean 1 / rate, variance 1 / rate^2, mode 0",
    .param = {{.name = "rate", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_nonnegative,
    .event = "",
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
