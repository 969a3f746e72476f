/*
** chi2.c: Chi2(df) on x > 0: Gamma(df / 2, 1 / 2), the sum of the squares of df standard normals,
**   log p(x) = (h - 1) log x - x / 2 - h log 2 - lgamma(h),  h = df / 2
*/
#include "../formula.h"
#include "../kernel/log_share.h"
#include "../kernel/density.h"
#include "../kernel/draw.h"
#include "../stirling.h"
#include "../count/count_mass.h"

#define df d->param[0]

static T *half(C *c, D *d) { return times(c, df, 0.5); }

static T *log_prob(C *c, D *d, T *x) { return pni_gamma_log_density(c, x, half(c, d), constant(c, d, 0.5), false); }

static T *cdf(C *c, D *d, T *x) { return pn_gammainc(c, half(c, d), times(c, x, 0.5)); }
static T *log_cdf(C *c, D *d, T *x) { return pni_log_gamma_share(c, half(c, d), times(c, x, 0.5), false); }
static T *log_survival(C *c, D *d, T *x) { return pni_log_gamma_share(c, half(c, d), times(c, x, 0.5), true); }

static T *icdf(C *c, D *d, T *p) { return times(c, pn_gammaincinv(c, half(c, d), p), 2); }
static T *mean(C *c, D *d) { return (void)c, df; }
static T *variance(C *c, D *d) { return times(c, df, 2); }
static T *mode(C *c, D *d) { return pn_relu(c, plus(c, df, -2)); }

/* h + log 2 + lgamma(h) + (1 - h) digamma(h) */
static T *entropy(C *c, D *d) { return plus(c, pni_gamma_surprise(c, half(c, d), constant(c, d, 1)), LOG_2); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_gamma_draw_over(c, rng, half(c, d), constant(c, d, 0.5), out);
}

/* lgamma(h_q) - lgamma(h_p) - (h_q - h_p) digamma(h_p) */
T *pni_kl_chi2_chi2(C *c, D *p, D *d) {
  T *hp = half(c, p), *h = half(c, d);
  return pn_add(c, pni_deviance(c, h, hp), pni_lgamma_bend(c, hp, h));
}

const pni_distribution pni_dist_chi2 = {
    .name = "chi2",
    .doc = "sum of the squares of df standard normals: "
           "log p(x) = (h - 1) log(x) - x / 2 - h log(2) - lgamma(h), h = df / 2, x > 0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 18",
    .moments = "mean df, variance 2 df, mode df - 2 or 0",
    .param = {{.name = "df", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_positive,
    .event = "",
    .flags = PNI_DIST_TOTAL,
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
