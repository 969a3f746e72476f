/*
** gamma_poisson.c: GammaPoisson(concentration a, rate b) on 0, 1, 2 ...: Poisson whose rate was drawn from
** Gamma(a, b); negative binomial of total_count a and logits -log b,
**   log p(x) = lgamma(x + a) - lgamma(x + 1) - lgamma(a) + a log(b / (1 + b)) - x log(1 + b)
**   mean a / b, variance a (1 + b) / b^2
*/
#include "../formula.h"
#include "count_draw.h"
#include "count_mass.h"
#include "count_quantile.h"
#include "count_sum.h"
#include "count_tail.h"
#include "../kernel/log_share.h"
#include "../kernel/draw.h"

enum { CONCENTRATION, RATE };
#define a d->param[CONCENTRATION]
#define b d->param[RATE]

/* b / (1 + b) */
static T *failure(C *c, D *d) { return pn_div(c, b, plus(c, b, 1)); }

static T *log_prob(C *c, D *d, T *x) { return pni_negative_binomial(c, x, a, pn_neg(c, pn_log(c, b))); }

/* I_(b / (1 + b))(a, k + 1) and what is left */
static T *lower(C *c, D *d, T *k) { return pn_betainc(c, a, plus(c, k, 1), failure(c, d)); }
static T *log_part(C *c, D *d, T *k, bool upper) {
  return pni_log_beta_share(c, a, plus(c, k, 1), failure(c, d), pn_reciprocal(c, plus(c, b, 1)), upper);
}
STEPS
LOG_PARTS

static T *icdf(C *c, D *d, T *p) {
  return pni_count_quantile(c, d, &pni_family_negative_binomial, p, 2, (T *[]){a, failure(c, d)});
}
static T *mean(C *c, D *d) { return pn_div(c, a, b); }
static T *variance(C *c, D *d) { return pn_div(c, pn_mul(c, mean(c, d), plus(c, b, 1)), b); }
static T *mode(C *c, D *d) { return pn_floor(c, pn_div(c, pn_relu(c, plus(c, a, -1)), b)); }

static T *entropy(C *c, D *d) {
  T *decay = pn_reciprocal(c, failure(c, d));
  return pni_count_sum(c, d, &(pni_count_place){.mean = mean(c, d), .variance = variance(c, d), .decay = decay}, NULL);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_count_draw(c, rng, out, &pni_count_poisson, pni_gamma_draw_over(c, rng, a, b, out), NULL);
}

const pni_distribution pni_dist_gamma_poisson = {
    .name = "gamma_poisson",
    .doc = "Poisson whose rate is a gamma variable: log p(x) = lgamma(x + a) - lgamma(x + 1) - lgamma(a) + "
           "a log(b / (1 + b)) - x log(1 + b), a = concentration, b = rate",
    .source = "Johnson, Kemp & Kotz, Univariate Discrete Distributions, ch. 5.3",
    .moments = "mean a / b, variance a (1 + b) / b^2",
    .param = {{.name = "concentration", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "rate", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
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
