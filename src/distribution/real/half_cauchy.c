/*
** half_cauchy.c: HalfCauchy(scale) on x >= 0, |Cauchy(0, scale)|, z = x / scale,
**   log p(x) = log(2 / pi) - log scale - log(1 + z^2)
** The mean is inf, the variance NaN. Kullback-Leibler: that of the two Cauchy distributions.
*/
#include "../kernel/log_one_plus_square.h"
#include "../kernel/density.h"

#define scale d->param[0]

static T *standardise(C *c, D *d, T *x) { return pn_div(c, x, scale); }

static T *log_prob(C *c, D *d, T *x) { return pni_location_scale(c, PNI_LAW_HALF_CAUCHY, x, NULL, scale); }

static T *lower(C *c, D *d, T *x) { return times(c, pn_atan(c, standardise(c, d, x)), 2 / PI); }
static T *upper(C *c, D *d, T *x) { return times(c, cauchy_tail(c, standardise(c, d, x)), 2); }
static T *log_cdf(C *c, D *d, T *x) { return log_share(c, lower(c, d, x), upper(c, d, x)); }
static T *log_survival(C *c, D *d, T *x) { return log_share(c, upper(c, d, x), lower(c, d, x)); }

/* tan(pi p / 2), in the upper half 1 / tan(pi (1 - p) / 2) */
static T *icdf(C *c, D *d, T *p) {
  T *high = above(c, p, 0.5), *low = pn_tan(c, times(c, but(c, high, 0.5, p), 0.5 * PI));
  T *rest = from(c, 1, only(c, high, p, 0.5));
  return pn_mul(c, scale, pn_where(c, high, pn_reciprocal(c, pn_tan(c, times(c, rest, 0.5 * PI))), low));
}

static T *mean(C *c, D *d) { return constant(c, d, INFINITY); }
static T *variance(C *c, D *d) { return constant(c, d, NAN); }
static T *mode(C *c, D *d) { return constant(c, d, 0); }
static T *entropy(C *c, D *d) { return plus(c, pn_log(c, scale), LOG_PI + LOG_2); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return icdf(c, d, pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype)));
}

T *pni_kl_half_cauchy_half_cauchy(C *c, D *p, D *d) {
  T *sp = p->param[0];
  return pn_log1p(c, pn_div(c, pn_square(c, pn_sub(c, sp, scale)), times(c, pn_mul(c, sp, scale), 4)));
}

const pni_distribution pni_dist_half_cauchy = {
    .name = "half_cauchy",
    .doc = "size of a Cauchy around 0: log p(x) = log(2 / (pi scale)) - log(1 + (x / scale)^2), x >= 0",
    .source = "Gelman, Prior distributions for variance parameters in hierarchical models, Bayesian Analysis 1 (2006)",
    .moments = "mean inf, variance NaN, mode 0",
    .param = {{.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_nonnegative,
    .event = "",
    .log_prob = log_prob,
    .cdf = lower,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
