/*
** laplace.c: Laplace(loc, scale) on the reals,
**   log p(x) = -|x - loc| / scale - log(2 scale)
** Kullback-Leibler, t = |loc_p - loc_q|: log(s_q / s_p) + (s_p e^(-t / s_p) + t) / s_q - 1.
*/
#include "../formula.h"
#include "../kernel/density.h"

#define loc   d->param[LOC]
#define scale d->param[SCALE]
enum { LOC, SCALE };

static T *standardise(C *c, D *d, T *x) { return pn_div(c, pn_sub(c, x, loc), scale); }

static T *log_prob(C *c, D *d, T *x) { return pni_location_scale(c, PNI_LAW_LAPLACE, x, loc, scale); }

/* e^z / 2 below loc, 1 - e^-z / 2 above */
static T *cdf(C *c, D *d, T *x) {
  T *z = standardise(c, d, x), *tail = times(c, pn_exp(c, pn_neg(c, pn_abs(c, z))), 0.5);
  return pn_where(c, above(c, z, 0), from(c, 1, tail), tail);
}

/* log F of the standardised value: z - log 2 below 0, log(1 - e^-z / 2) above */
static T *log_tail(C *c, T *z) {
  T *right = above(c, z, 0), *low = plus(c, but(c, right, 0, z), -LOG_2);
  T *high = pn_log1p(c, times(c, pn_exp(c, pn_neg(c, only(c, right, z, 1))), -0.5));
  return pn_where(c, right, high, low);
}
static T *log_cdf(C *c, D *d, T *x) { return log_tail(c, standardise(c, d, x)); }
static T *log_survival(C *c, D *d, T *x) { return log_tail(c, pn_neg(c, standardise(c, d, x))); }

/* log 2p below 1/2, -log 2(1 - p) above; each branch sees p only where it is taken */
static T *icdf(C *c, D *d, T *p) {
  T *upper = above(c, p, 0.5);
  T *low = pn_log(c, times(c, but(c, upper, 0.5, p), 2)),
    *high = pn_log1p(c, plus(c, times(c, only(c, upper, p, 0.5), -2), 1));
  return pn_add(c, loc, pn_mul(c, scale, pn_sub(c, low, high)));
}

static T *mean(C *c, D *d) { return (void)c, loc; }
static T *variance(C *c, D *d) { return times(c, pn_square(c, scale), 2); }
static T *entropy(C *c, D *d) { return plus(c, pn_log(c, scale), 1 + LOG_2); }

/* An exponential with the sign of another uniform number. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *size = pn_neg(c, pn_log(c, uniform_draw(c, rng, out)));
  T *right = above(c, uniform_draw(c, rng, out), 0.5);
  return pn_add(c, loc, pn_mul(c, scale, pn_where(c, right, size, pn_neg(c, size))));
}

T *pni_kl_laplace_laplace(C *c, D *p, D *d) {
  T *sp = p->param[SCALE], *t = pn_abs(c, pn_sub(c, p->param[LOC], loc));
  T *spread = pn_add(c, pn_mul(c, sp, pn_exp(c, pn_neg(c, pn_div(c, t, sp)))), t);
  return plus(c, pn_sub(c, pn_div(c, spread, scale), pn_log(c, pn_div(c, sp, scale))), -1);
}

const pni_distribution pni_dist_laplace = {
    .name = "laplace",
    .doc = "double exponential around loc: log p(x) = -|x - loc| / scale - log(2 scale)",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 2, ch. 24",
    .moments = "mean loc, variance 2 scale^2",
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
