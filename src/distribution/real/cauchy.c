/*
** cauchy.c: Cauchy(loc, scale) on the reals, Student's t with one degree of freedom, z = (x - loc) / scale,
**   log p(x) = -log(pi) - log scale - log(1 + z^2)
** It has neither mean nor variance: both are NaN. Kullback-Leibler (Chyzak & Nielsen 2019):
**   log(((s_p + s_q)^2 + (m_p - m_q)^2) / (4 s_p s_q))
*/
#include "../kernel/log_one_plus_square.h"
#include "../kernel/density.h"

#define loc   d->param[LOC]
#define scale d->param[SCALE]
enum { LOC, SCALE };

static T *standardise(C *c, D *d, T *x) { return pn_div(c, pn_sub(c, x, loc), scale); }

static T *log_prob(C *c, D *d, T *x) { return pni_location_scale(c, PNI_LAW_CAUCHY, x, loc, scale); }

static T *cdf(C *c, D *d, T *x) { return cauchy_tail(c, pn_neg(c, standardise(c, d, x))); }
static T *icdf(C *c, D *d, T *p) { return pn_add(c, loc, pn_mul(c, scale, cauchy_quantile(c, p))); }

static T *log_cdf(C *c, D *d, T *x) {
  T *z = standardise(c, d, x);
  return log_share(c, cauchy_tail(c, pn_neg(c, z)), cauchy_tail(c, z));
}
static T *log_survival(C *c, D *d, T *x) {
  T *z = standardise(c, d, x);
  return log_share(c, cauchy_tail(c, z), cauchy_tail(c, pn_neg(c, z)));
}

static T *mean(C *c, D *d) { return constant(c, d, NAN); }
static T *mode(C *c, D *d) { return (void)c, loc; }
static T *entropy(C *c, D *d) { return plus(c, pn_log(c, scale), LOG_PI + 2 * LOG_2); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return icdf(c, d, pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype)));
}

/* 2 log of the mean of the scales over their geometric mean, and what the shift adds */
T *pni_kl_cauchy_cauchy(C *c, D *p, D *d) {
  T *sp = p->param[SCALE], *sum = pn_add(c, sp, scale);
  T *ratio = pn_div(c, pn_square(c, pn_sub(c, sp, scale)), times(c, pn_mul(c, sp, scale), 4));
  return pn_add(c, pn_log1p(c, ratio), pni_log_one_plus_square(c, pn_div(c, pn_sub(c, p->param[LOC], loc), sum), NULL));
}

const pni_distribution pni_dist_cauchy = {
    .name = "cauchy",
    .doc = "ratio of two centred normals, moved and stretched: "
           "log p(x) = -log(pi scale) - log(1 + ((x - loc) / scale)^2)",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 16",
    .moments = "mean and variance do not exist: NaN; mode loc",
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
    .variance = mean,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
