/*
** normal.c: Normal(loc, scale) on the reals,
**   log p(x) = -z^2 / 2 - log scale - log(2 pi) / 2,  z = (x - loc) / scale
** Kullback-Leibler: log(s_q / s_p) + (s_p^2 + (m_p - m_q)^2) / (2 s_q^2) - 1/2.
*/
#include "../distribution.h"
#include "../kernel/density.h"

typedef pn_tensor T;
typedef pn_context C;
typedef const pn_dist D;
#define K(v)  pni_like(c, d->param[SCALE], v)
#define loc   d->param[LOC]
#define scale d->param[SCALE]
enum { LOC, SCALE };

static const double log_root_two_pi = 0.91893853320467274178;

static T *standardise(C *c, D *d, T *x) { return pn_div(c, pn_sub(c, x, loc), scale); }

static T *log_prob(C *c, D *d, T *x) { return pni_location_scale(c, PNI_LAW_NORMAL, x, loc, scale); }

static T *cdf(C *c, D *d, T *x) { return pn_ndtr(c, standardise(c, d, x)); }
static T *log_cdf(C *c, D *d, T *x) { return pn_log_ndtr(c, standardise(c, d, x)); }
static T *log_survival(C *c, D *d, T *x) { return pn_log_ndtr(c, pn_neg(c, standardise(c, d, x))); }

static T *icdf(C *c, D *d, T *p) { return pn_add(c, loc, pn_mul(c, scale, pn_ndtri(c, p))); }
static T *mean(C *c, D *d) { return (void)c, loc; }
static T *variance(C *c, D *d) { return pn_square(c, scale); }
static T *entropy(C *c, D *d) { return pn_add(c, pn_log(c, scale), K(0.5 + log_root_two_pi)); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *z = pn_randn(c, rng, (pn_dtype)out->dtype, out->ndim, out->shape);
  return pn_add(c, loc, pn_mul(c, scale, z));
}

T *pni_kl_normal_normal(C *c, D *p, D *d) {
  T *ratio = pn_div(c, p->param[SCALE], scale);
  T *shift = pn_div(c, pn_sub(c, p->param[LOC], loc), scale);
  T *half = pn_mul(c, pn_add(c, pn_square(c, ratio), pn_square(c, shift)), K(0.5));
  return pn_sub(c, pn_sub(c, half, pn_log(c, ratio)), K(0.5));
}

const pni_distribution pni_dist_normal = {
    .name = "normal",
    .doc = "normal with mean loc and standard deviation scale: "
           "log p(x) = -((x - loc) / scale)^2 / 2 - log(scale) - log(2 pi) / 2",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 13",
    .moments = "mean loc, variance scale^2",
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
