/*
** student_t.c: StudentT(df v, loc, scale) on the reals, z = (x - loc) / scale,
**   log p(x) = -(v + 1)/2 log(1 + z^2 / v) - log scale - log(v)/2 - log B(v/2, 1/2)
**   mean loc (v > 1, else NaN), variance scale^2 v / (v - 2) (v > 2; inf down to 1, NaN from there)
** Draws: the polar method of Bailey (1994), a smooth function of v, loc and scale.
*/
#include "../formula.h"
#include "../kernel/density.h"
#include "../kernel/draw.h"
#include "../kernel/log_share.h"

#define df    d->param[DF]
#define loc   d->param[LOC]
#define scale d->param[SCALE]
enum { DF, LOC, SCALE };

static T *standardise(C *c, D *d, T *x) { return pn_div(c, pn_sub(c, x, loc), scale); }

static T *log_prob(C *c, D *d, T *x) { return pni_student_log_density(c, x, df, loc, scale); }

#define FAR 1e100 /* beyond it z^2 may overflow */

/* The tail there: with w = v / z^2 it is w^h / (2 h B(h, 1/2)), h = v / 2. */
static T *log_far_tail(C *c, D *d, T *size) {
  T *h = times(c, df, 0.5), *log_w = pn_sub(c, pn_log(c, df), times(c, pn_log(c, size), 2));
  T *norm = plus(c, pn_add(c, pn_log(c, h), log_beta(c, h, pni_like(c, h, 0.5))), LOG_2);
  return pn_sub(c, pn_mul(c, h, log_w), norm);
}

/* The smaller tail is I_(v / (v + z^2))(v/2, 1/2) / 2 = (1 - I_(z^2 / (v + z^2))(1/2, v/2)) / 2: of the two arguments
 * the one below 1/2. */
static T *cdf(C *c, D *d, T *x) {
  T *z = standardise(c, d, x), *h = times(c, df, 0.5), *k = pni_like(c, h, 0.5);
  /* at 0 the slope is taken beside it */
  z = pn_add(c, z, but(c, pn_ne(c, z, pni_like(c, z, 0)), 0, pni_like(c, z, 1e-150)));
  T *beyond = above(c, pn_abs(c, z), FAR), *sign = above(c, z, 0), *size = only(c, beyond, pn_abs(c, z), FAR);
  z = but(c, beyond, 1, z);
  T *z2 = pn_square(c, z), *far = pn_gt(c, z2, df), *one = plus(c, times(c, z2, 0), 1);
  T *larger = pn_where(c, far, z2, pn_mul(c, one, df)), *near = pn_where(c, far, pn_mul(c, one, df), z2);
  T *outer = pn_betainc(c, h, k, pn_div(c, df, pn_add(c, df, larger)));
  T *inner = pn_betaincc(c, k, h, pn_div(c, near, pn_add(c, df, near)));
  T *tail = times(c, pn_where(c, far, outer, inner), 0.5);
  tail = pn_where(c, beyond, pn_exp(c, log_far_tail(c, d, size)), tail);
  return pn_where(c, sign, from(c, 1, tail), tail);
}

/* log of the mass below z, by that of the smaller tail, which does not underflow; towards +-inf by far_tail */
static T *log_below(C *c, D *d, T *z) {
  T *h = times(c, df, 0.5), *k = pni_like(c, h, 0.5), *upper = above(c, z, 0), *size = pn_abs(c, z);
  T *beyond = above(c, size, FAR), *infinite = equals(c, size, INFINITY);
  /* at 0 the slope is taken beside it */
  T *near = pn_maximum(c, but(c, beyond, 1, size), pni_like(c, z, 1e-150)), *z2 = pn_square(c, near);
  T *sum = pn_add(c, df, z2), *part = pni_log_beta_share(c, h, k, pn_div(c, df, sum), pn_div(c, z2, sum), false);
  T *far = log_far_tail(c, d, but(c, infinite, FAR, only(c, beyond, size, FAR)));
  T *tail = pn_where(c, beyond, far, plus(c, part, -LOG_2));
  tail = but(c, infinite, -INFINITY, tail);
  return pn_where(c, upper, pn_log1mexp(c, only(c, upper, tail, -1)), tail);
}
static T *log_cdf(C *c, D *d, T *x) { return log_below(c, d, standardise(c, d, x)); }
static T *log_survival(C *c, D *d, T *x) { return log_below(c, d, pn_neg(c, standardise(c, d, x))); }

/* With t the smaller of p and 1 - p: z^2 = v (1 - w) / w, w = I^-1(2 t) of (v/2, 1/2), or near the centre
 * z^2 = v w / (1 - w), w = I^-1(1 - 2 t) of (1/2, v/2). */
static T *icdf(C *c, D *d, T *p) {
  T *upper = above(c, p, 0.5), *t2 = times(c, pn_where(c, upper, from(c, 1, p), p), 2), *h = times(c, df, 0.5);
  T *far = below(c, t2, 0.5), *k = pni_like(c, h, 0.5);
  T *w = pn_betaincinv(c, h, k, only(c, far, t2, 0.5)), *u = pn_betaincinv(c, k, h, from(c, 1, but(c, far, 0.5, t2)));
  T *outer = pn_div(c, from(c, 1, w), w), *inner = pn_div(c, u, from(c, 1, u));
  T *z = pn_sqrt(c, pn_mul(c, df, pn_where(c, far, outer, inner)));
  return pn_add(c, loc, pn_mul(c, scale, pn_where(c, upper, z, pn_neg(c, z))));
}

static T *mean(C *c, D *d) { return only(c, above(c, df, 1), loc, NAN); }
static T *variance(C *c, D *d) {
  T *exists = above(c, df, 2), *v = only(c, exists, df, 3);
  T *value = pn_mul(c, pn_square(c, scale), pn_div(c, v, plus(c, v, -2)));
  return pn_where(c, exists, value, only(c, above(c, df, 1), pni_like(c, df, INFINITY), NAN));
}
static T *mode(C *c, D *d) { return (void)c, loc; }

/* (h + 1/2) (digamma(h + 1/2) - digamma(h)), h = v/2; for large h, where they cancel, with the difference
 * 1/(2h) + 1/(8 h^2) - 1/(64 h^4) + 1/(128 h^6) - 17/(2048 h^8). */
static T *spread(C *c, D *d) {
  T *h = times(c, df, 0.5), *large = above(c, h, 60), *small = but(c, large, 1, h);
  T *near = pn_sub(c, pn_digamma(c, plus(c, small, 0.5)), pn_digamma(c, small));
  T *r = pn_reciprocal(c, only(c, large, h, 60)), *r2 = pn_square(c, r);
  T *s = plus(c, times(c, r2, -17.0 / 2048), 1.0 / 128);
  s = plus(c, pn_mul(c, plus(c, pn_mul(c, s, r2), -1.0 / 64), r2), 1.0 / 8);
  s = pn_mul(c, plus(c, pn_mul(c, s, r), 0.5), r);
  return pn_mul(c, plus(c, h, 0.5), pn_where(c, large, s, near));
}

/* spread + log(v)/2 + log B(v/2, 1/2) + log scale */
static T *entropy(C *c, D *d) {
  return pn_add(c, spread(c, d), pn_add(c, pni_student_log_norm(c, df), pn_log(c, scale)));
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_student_draw(c, rng, df, loc, scale, out);
}

const pni_distribution pni_dist_student_t = {
    .name = "student_t",
    .doc = "Student's t around loc: log p(x) = -(df + 1) / 2 log(1 + z^2 / df) - log(scale) - log(df) / 2 - "
           "log(B(df / 2, 1 / 2)), z = (x - loc) / scale",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 2, ch. 28",
    .moments = "mean loc, NaN for df <= 1; variance scale^2 df / (df - 2), inf for df <= 2, NaN for df <= 1; mode loc",
    .param = {{.name = "df", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_real,
    .event = "",
    .flags = PNI_DIST_TOTAL | PNI_DIST_IN_DOUBLE,
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
