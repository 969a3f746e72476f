/*
** uniform.c: Uniform(low, high) on low <= x <= high,
**   log p(x) = -log(high - low),  mean (low + high) / 2,  variance (high - low)^2 / 12
** Kullback-Leibler: log of the ratio of the widths where q's interval holds p's, else inf.
*/
#include "../formula.h"
#include "../kernel/density.h"
#include "../kernel/draw.h"

#define low  d->param[LOW]
#define high d->param[HIGH]
enum { LOW, HIGH };

static pn_status check(C *c, D *d) { return pni_dist_require_order(c, d, LOW, HIGH); }
static T *width(C *c, D *d) { return pn_sub(c, high, low); }

static T *in_support(C *c, D *d, T *x) { return pn_logical_and(c, pn_ge(c, x, low), pn_le(c, x, high)); }
static T *log_prob(C *c, D *d, T *x) { return pni_uniform_density(c, x, low, high); }

static T *cdf(C *c, D *d, T *x) {
  T *left = pn_le(c, x, low), *right = pn_ge(c, x, high), *mid = pn_where(c, pn_logical_or(c, left, right), low, x);
  return but(c, left, 0, but(c, right, 1, pn_div(c, pn_sub(c, mid, low), width(c, d))));
}

/* log of a share of the width; outside without slope */
static T *log_width(C *c, D *d, T *part, T *none, T *all) {
  T *inner = pn_logical_not(c, pn_logical_or(c, none, all)), *w = width(c, d);
  T *t = pn_log(c, pn_div(c, pn_where(c, inner, part, w), w));
  return but(c, none, -INFINITY, but(c, all, 0, t));
}
static T *log_cdf(C *c, D *d, T *x) { return log_width(c, d, pn_sub(c, x, low), pn_le(c, x, low), pn_ge(c, x, high)); }
static T *log_survival(C *c, D *d, T *x) {
  return log_width(c, d, pn_sub(c, high, x), pn_ge(c, x, high), pn_le(c, x, low));
}

static T *icdf(C *c, D *d, T *p) { return pn_add(c, low, pn_mul(c, width(c, d), p)); }
static T *mean(C *c, D *d) { return times(c, pn_add(c, low, high), 0.5); }
static T *variance(C *c, D *d) { return times(c, pn_square(c, width(c, d)), 1.0 / 12); }
static T *entropy(C *c, D *d) { return pn_log(c, width(c, d)); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_between(c, uniform_draw(c, rng, out), low, high);
}

T *pni_kl_uniform_uniform(C *c, D *p, D *d) {
  T *holds = pn_logical_and(c, pn_ge(c, p->param[LOW], low), pn_le(c, p->param[HIGH], high));
  return only(c, holds, pn_log(c, pn_div(c, width(c, d), width(c, p))), INFINITY);
}

const pni_distribution pni_dist_uniform = {
    .name = "uniform",
    .doc = "every number between low and high alike: log p(x) = -log(high - low), low <= x <= high",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 2, ch. 26",
    .moments = "mean (low + high) / 2, variance (high - low)^2 / 12",
    .param = {{.name = "low", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "high", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_interval,
    .event = "",
    .flags = PNI_DIST_TOTAL | PNI_DIST_IN_DOUBLE,
    .check = check,
    .in_support = in_support,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mean,
    .entropy = entropy,
    .rsample = rsample};
