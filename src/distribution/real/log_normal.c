/*
** log_normal.c: LogNormal(loc, scale) on x > 0, log x is Normal(loc, scale),
**   log p(x) = -z^2 / 2 - log(x scale) - log(2 pi) / 2,  z = (log x - loc) / scale
** Divergences are those of the logarithms.
*/
#include "../formula.h"
#include "../kernel/density.h"

#define loc   d->param[LOC]
#define scale d->param[SCALE]
enum { LOC, SCALE };

static T *standardise(C *c, D *d, T *log_x) { return pn_div(c, pn_sub(c, log_x, loc), scale); }

static T *log_prob(C *c, D *d, T *x) {
  T *log_x = pn_log(c, x);
  return pn_sub(c, pni_location_scale(c, PNI_LAW_NORMAL, log_x, loc, scale), log_x);
}

static T *cdf(C *c, D *d, T *x) { return pn_ndtr(c, standardise(c, d, pn_log(c, x))); }
static T *log_cdf(C *c, D *d, T *x) { return pn_log_ndtr(c, standardise(c, d, pn_log(c, x))); }
static T *log_survival(C *c, D *d, T *x) { return pn_log_ndtr(c, pn_neg(c, standardise(c, d, pn_log(c, x)))); }

static T *icdf(C *c, D *d, T *p) { return pn_exp(c, pn_add(c, loc, pn_mul(c, scale, pn_ndtri(c, p)))); }
static T *mean(C *c, D *d) { return pn_exp(c, pn_add(c, loc, times(c, pn_square(c, scale), 0.5))); }
static T *variance(C *c, D *d) { return pn_mul(c, pn_expm1(c, pn_square(c, scale)), pn_square(c, mean(c, d))); }
static T *mode(C *c, D *d) { return pn_exp(c, pn_sub(c, loc, pn_square(c, scale))); }
static T *entropy(C *c, D *d) { return plus(c, pn_add(c, loc, pn_log(c, scale)), 0.5 + LOG_ROOT_TWO_PI); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *log_x = pn_add(c, loc, pn_mul(c, scale, normal_draw(c, rng, out)));
  return pn_exp(c, pn_clamp(c, log_x, log(tiny(out->dtype)), log(huge_number(out->dtype)) * (1 - FLT_EPSILON)));
}

T *pni_kl_log_normal_log_normal(C *c, D *p, D *d) { return pni_kl_normal_normal(c, p, d); }

const pni_distribution pni_dist_log_normal = {
    .name = "log_normal",
    .doc = "e to a normal with mean loc and standard deviation scale: "
           "log p(x) = -((log(x) - loc) / scale)^2 / 2 - log(x scale) - log(2 pi) / 2, x > 0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 14",
    .moments = "mean e^(loc + scale^2 / 2), variance (e^(scale^2) - 1) mean^2, mode e^(loc - scale^2)",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_positive,
    .event = "",
    .flags = PNI_DIST_IN_DOUBLE,
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
