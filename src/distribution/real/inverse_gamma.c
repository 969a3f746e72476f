/*
** inverse_gamma.c: InverseGamma(concentration a, rate b) on x > 0, 1 / x is Gamma(a, b),
**   log p(x) = a log b - (a + 1) log x - b / x - lgamma(a),  mean b / (a - 1) (a > 1, else inf),
**   variance b^2 / ((a - 1)^2 (a - 2)) (a > 2, else inf)
** Divergences are those of the reciprocals.
*/
#include "../formula.h"
#include "../kernel/log_share.h"
#include "../kernel/density.h"
#include "../kernel/draw.h"
#include "../stirling.h"

#define a d->param[CONCENTRATION]
#define b d->param[RATE]
enum { CONCENTRATION, RATE };

static T *log_prob(C *c, D *d, T *x) { return pni_gamma_log_density(c, x, a, b, true); }

static T *cdf(C *c, D *d, T *x) { return pn_gammaincc(c, a, pn_div(c, b, x)); }
static T *log_cdf(C *c, D *d, T *x) { return pni_log_gamma_share(c, a, pn_div(c, b, x), true); }
static T *log_survival(C *c, D *d, T *x) { return pni_log_gamma_share(c, a, pn_div(c, b, x), false); }

static T *icdf(C *c, D *d, T *p) { return pn_div(c, b, pn_gammainccinv(c, a, p)); }

static T *mean(C *c, D *d) {
  T *exists = above(c, a, 1);
  return only(c, exists, pn_div(c, b, plus(c, only(c, exists, a, 2), -1)), INFINITY);
}
static T *variance(C *c, D *d) {
  T *exists = above(c, a, 2), *safe = only(c, exists, a, 3);
  T *v = pn_div(c, pn_square(c, pn_div(c, b, plus(c, safe, -1))), plus(c, safe, -2));
  return only(c, exists, v, INFINITY);
}
static T *mode(C *c, D *d) { return pn_div(c, b, plus(c, a, 1)); }

/* a + log b + lgamma(a) - (1 + a) digamma(a) */
static T *entropy(C *c, D *d) { return pn_add(c, pni_gamma_surprise(c, a, pni_like(c, a, -1)), pn_log(c, b)); }

/* The reciprocals of a gamma's draws are normal numbers or, below the largest, close to it. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pn_reciprocal(c, pni_gamma_draw_over(c, rng, a, b, out));
}

T *pni_kl_inverse_gamma_inverse_gamma(C *c, D *p, D *d) { return pni_kl_gamma_gamma(c, p, d); }

const pni_distribution pni_dist_inverse_gamma = {
    .name = "inverse_gamma",
    .doc = "reciprocal of a gamma: log p(x) = a log(b) - (a + 1) log(x) - b / x - lgamma(a), "
           "a = concentration, b = rate, x > 0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 17",
    .moments = "mean b / (a - 1), inf for a <= 1; variance b^2 / ((a - 1)^2 (a - 2)), inf for a <= 2; mode b / (a + 1)",
    .param = {{.name = "concentration", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "rate", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
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
