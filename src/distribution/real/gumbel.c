/*
** gumbel.c: Gumbel(loc, scale) on the reals, the law of largest values, z = (x - loc) / scale,
**   log p(x) = -z - e^-z - log scale,  mean loc + euler scale,  variance (pi scale)^2 / 6
** Kullback-Leibler with r = s_p / s_q and t = (m_p - m_q) / s_q:
**   -log r + t + euler r + e^-t Gamma(1 + r) - 1 - euler
*/
#include "../formula.h"
#include "../kernel/density.h"

#define loc   d->param[LOC]
#define scale d->param[SCALE]
enum { LOC, SCALE };

static T *standardise(C *c, D *d, T *x) { return pn_div(c, pn_sub(c, x, loc), scale); }
static T *rise(C *c, T *z) { return pn_exp(c, pn_neg(c, z)); }

static T *log_prob(C *c, D *d, T *x) { return pni_location_scale(c, PNI_LAW_GUMBEL, x, loc, scale); }

static T *log_cdf(C *c, D *d, T *x) { return pn_neg(c, rise(c, standardise(c, d, x))); }
/* below -7 it is 0 to all digits */
static T *cdf(C *c, D *d, T *x) {
  return pn_exp(c, pn_neg(c, rise(c, pn_clamp(c, standardise(c, d, x), -7, INFINITY))));
}

/* log(1 - e^-w), w = e^-z; far out -z - w / 2. Below -7 it is 0 to all digits. */
static T *log_survival(C *c, D *d, T *x) {
  T *z = pn_clamp(c, standardise(c, d, x), -7, INFINITY), *far = above(c, z, 30), *out = only(c, far, z, 30);
  T *near = pn_log1mexp(c, pn_neg(c, rise(c, but(c, far, 30, z))));
  return pn_where(c, far, pn_neg(c, pn_add(c, out, times(c, rise(c, out), 0.5))), near);
}

/* -log(-log p) */
static T *icdf(C *c, D *d, T *p) { return pn_sub(c, loc, pn_mul(c, scale, pn_log(c, pn_neg(c, pn_log(c, p))))); }

static T *mean(C *c, D *d) { return pn_add(c, loc, times(c, scale, EULER)); }
static T *variance(C *c, D *d) { return times(c, pn_square(c, scale), PI * PI / 6); }
static T *mode(C *c, D *d) { return (void)c, loc; }
static T *entropy(C *c, D *d) { return plus(c, pn_log(c, scale), 1 + EULER); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return icdf(c, d, pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype)));
}

T *pni_kl_gumbel_gumbel(C *c, D *p, D *d) {
  T *r = pn_div(c, p->param[SCALE], scale), *t = pn_div(c, pn_sub(c, p->param[LOC], loc), scale);
  T *tail = pn_exp(c, pn_sub(c, pn_lgamma(c, plus(c, r, 1)), t));
  T *sum = pn_add(c, pn_sub(c, t, pn_log(c, r)), times(c, r, EULER));
  return plus(c, pn_add(c, sum, tail), -1 - EULER);
}

const pni_distribution pni_dist_gumbel = {
    .name = "gumbel",
    .doc = "largest of many values (type I extreme value): log p(x) = -z - e^-z - log(scale), z = (x - loc) / scale",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 2, ch. 22",
    .moments = "mean loc + 0.5772 scale (Euler's constant), variance (pi scale)^2 / 6, mode loc",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_real,
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
