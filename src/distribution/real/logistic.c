/*
** logistic.c: Logistic(loc, scale) on the reals, z = (x - loc) / scale,
**   log p(x) = -z - 2 log(1 + e^-z) - log scale,  variance (pi scale)^2 / 3
** Its distribution function is sigmoid(z). The divergence of two of them has a closed form for
** equal scales only (divergence/shared_parameter.c).
*/
#include "../formula.h"
#include "../kernel/density.h"

#define loc   d->param[LOC]
#define scale d->param[SCALE]
enum { LOC, SCALE };

static T *standardise(C *c, D *d, T *x) { return pn_div(c, pn_sub(c, x, loc), scale); }

static T *log_prob(C *c, D *d, T *x) { return pni_location_scale(c, PNI_LAW_LOGISTIC, x, loc, scale); }

static T *cdf(C *c, D *d, T *x) { return pn_sigmoid(c, standardise(c, d, x)); }
static T *log_cdf(C *c, D *d, T *x) { return pn_log_sigmoid(c, standardise(c, d, x)); }
static T *log_survival(C *c, D *d, T *x) { return pn_log_sigmoid(c, pn_neg(c, standardise(c, d, x))); }

/* log(p / (1 - p)) */
static T *icdf(C *c, D *d, T *p) {
  T *odds = pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
  return pn_add(c, loc, pn_mul(c, scale, odds));
}

static T *mean(C *c, D *d) { return (void)c, loc; }
static T *variance(C *c, D *d) { return times(c, pn_square(c, scale), PI * PI / 3); }
static T *entropy(C *c, D *d) { return plus(c, pn_log(c, scale), 2); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return icdf(c, d, pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype)));
}

const pni_distribution pni_dist_logistic = {
    .name = "logistic",
    .doc = "the law whose distribution function is the sigmoid of z = (x - loc) / scale: "
           "log p(x) = -z - 2 log(1 + e^-z) - log(scale)",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 2, ch. 23",
    .moments = "mean loc, variance (pi scale)^2 / 3",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_real,
    .event = "",
    .flags = PNI_DIST_TOTAL,
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
