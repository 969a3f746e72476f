/*
** half_normal.c: HalfNormal(scale) on x >= 0, |Normal(0, scale)|,
**   log p(x) = log(2) - (x / scale)^2 / 2 - log scale - log(2 pi) / 2
** Kullback-Leibler: that of the two normals.
*/
#include "../formula.h"
#include "../kernel/density.h"

#define scale d->param[0]

static const double root_half = 0.70710678118654752440;

static T *log_prob(C *c, D *d, T *x) { return pni_location_scale(c, PNI_LAW_HALF_NORMAL, x, NULL, scale); }

static T *cdf(C *c, D *d, T *x) { return pn_erf(c, times(c, pn_div(c, x, scale), root_half)); }
/* log 2 Phi(-z), near 0 log(1 - erf(z / sqrt 2)) */
static T *log_survival(C *c, D *d, T *x) {
  T *z = pn_div(c, x, scale), *near = below(c, z, 0.5), *far = pn_log_ndtr(c, pn_neg(c, but(c, near, 1, z)));
  T *small = pn_erf(c, times(c, only(c, near, z, 0), root_half));
  return pn_where(c, near, pn_log1p(c, pn_neg(c, small)), plus(c, far, LOG_2));
}

/* log erf(z / sqrt 2), far out from the upper tail */
static T *log_cdf(C *c, D *d, T *x) {
  T *far = pn_gt(c, x, scale), *near = pn_where(c, far, pn_mul(c, scale, pni_like(c, x, 0.5)), x);
  T *tail = log_survival(c, d, pn_where(c, far, x, pn_mul(c, scale, pni_like(c, x, 2))));
  return pn_where(c, far, pn_log1mexp(c, tail), pn_log(c, cdf(c, d, near)));
}

static T *icdf(C *c, D *d, T *p) { return times(c, pn_mul(c, scale, pn_erfinv(c, p)), 2 * root_half); }
static T *mean(C *c, D *d) { return times(c, scale, sqrt(2 / PI)); }
static T *variance(C *c, D *d) { return times(c, pn_square(c, scale), 1 - 2 / PI); }
static T *mode(C *c, D *d) { return constant(c, d, 0); }
static T *entropy(C *c, D *d) { return plus(c, pn_log(c, scale), 0.5 + LOG_ROOT_TWO_PI - LOG_2); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pn_mul(c, scale, pn_abs(c, normal_draw(c, rng, out)));
}

/* (r^2 - 1) / 2 - log r, r = scale_p / scale_q */
T *pni_kl_half_normal_half_normal(C *c, D *p, D *d) {
  T *ratio = pn_div(c, p->param[0], scale);
  return pn_sub(c, times(c, plus(c, pn_square(c, ratio), -1), 0.5), pn_log(c, ratio));
}

const pni_distribution pni_dist_half_normal = {
    .name = "half_normal",
    .doc = "size of a normal around 0 with standard deviation scale: "
           "log p(x) = log(2) - (x / scale)^2 / 2 - log(scale) - log(2 pi) / 2, x >= 0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 13.10 (folded normal)",
    .moments = "mean scale sqrt(2 / pi), variance scale^2 (1 - 2 / pi), mode 0",
    .param = {{.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
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
