/*
** gamma.c: Gamma(concentration a, rate b) on x > 0,
**   log p(x) = a log b + (a - 1) log x - b x - lgamma(a),  mean a / b,  variance a / b^2
** Draws: Marsaglia & Tsang (2000); their gradient is implicit: dx/da = -(dP(a, x)/da) / p(x) (Figurnov, Mohamed & Mnih
** 2018).
*/
#include "../formula.h"
#include "../kernel/log_share.h"
#include "../kernel/density.h"
#include "../kernel/draw.h"
#include "../stirling.h"
#include "../count/count_mass.h"

#define K(v) pni_like(c, d->param[RATE], v)
#define a    d->param[CONCENTRATION]
#define b    d->param[RATE]
enum { CONCENTRATION, RATE };

static T *log_prob(C *c, D *d, T *x) { return pni_gamma_log_density(c, x, a, b, false); }

/* P(a, b x); below 0 the probability is 0 and so is its slope. */
static T *cdf(C *c, D *d, T *x) {
  T *below = pn_le(c, x, K(0));
  T *p = pn_gammainc(c, a, pn_mul(c, b, pn_where(c, below, K(1), x)));
  return pn_where(c, below, K(0), p);
}

static T *log_cdf(C *c, D *d, T *x) { return pni_log_gamma_share(c, a, pn_mul(c, b, x), false); }
static T *log_survival(C *c, D *d, T *x) { return pni_log_gamma_share(c, a, pn_mul(c, b, x), true); }

static T *icdf(C *c, D *d, T *p) { return pn_div(c, pn_gammaincinv(c, a, p), b); }
static T *mean(C *c, D *d) { return pn_div(c, a, b); }
static T *variance(C *c, D *d) { return pn_div(c, pn_div(c, a, b), b); }
static T *mode(C *c, D *d) { return pn_div(c, pn_relu(c, pn_sub(c, a, K(1))), b); }

/* a - log b + lgamma(a) + (1 - a) digamma(a) */
static T *entropy(C *c, D *d) { return pn_sub(c, pni_gamma_surprise(c, a, K(1)), pn_log(c, b)); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) { return pni_gamma_draw_over(c, rng, a, b, out); }

/* lgamma(a_q) - lgamma(a_p) - (a_q - a_p) digamma(a_p) + a_q log(b_p / b_q) + a_p (b_q / b_p - 1) */
T *pni_kl_gamma_gamma(C *c, D *p, D *d) {
  T *ap = p->param[CONCENTRATION], *at = pn_mul(c, ap, pn_div(c, b, p->param[RATE]));
  return pn_add(c, pni_deviance(c, a, at), pni_lgamma_bend(c, ap, a));
}

const pni_distribution pni_dist_gamma = {
    .name = "gamma",
    .doc = "gamma with mean concentration / rate: "
           "log p(x) = a log(b) + (a - 1) log(x) - b x - lgamma(a), a = concentration, b = rate, x > 0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 17",
    .moments = "mean a / b, variance a / b^2, mode (a - 1) / b or 0",
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
