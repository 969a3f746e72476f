/*
** beta.c: Beta(a, b) on 0 < x < 1, a = concentration1, b = concentration0,
**   log p(x) = (a - 1) log x + (b - 1) log(1 - x) - log B(a, b),  mean a / (a + b)
** Draws are G_a / (G_a + G_b) from the logarithms of gamma draws, so that tiny concentrations do not give 0 / 0;
** their gradient is the gamma draws'.
*/
#include "../formula.h"
#include "../kernel/density.h"
#include "../kernel/log_share.h"
#include "../stirling.h"
#include "../count/count_mass.h"

#define a d->param[CONCENTRATION1]
#define b d->param[CONCENTRATION0]
enum { CONCENTRATION1, CONCENTRATION0 };

static T *log_prob(C *c, D *d, T *x) { return pni_beta_log_density(c, x, a, b); }

static T *cdf(C *c, D *d, T *x) { return pn_betainc(c, a, b, x); }
static T *log_cdf(C *c, D *d, T *x) { return pni_log_beta_share(c, a, b, x, from(c, 1, x), false); }
static T *log_survival(C *c, D *d, T *x) { return pni_log_beta_share(c, a, b, x, from(c, 1, x), true); }

static T *icdf(C *c, D *d, T *p) { return pn_betaincinv(c, a, b, p); }
static T *mean(C *c, D *d) { return pn_div(c, a, pn_add(c, a, b)); }
static T *variance(C *c, D *d) {
  T *n = pn_add(c, a, b), *m = pn_div(c, a, n);
  return pn_div(c, pn_mul(c, m, pn_div(c, b, n)), plus(c, n, 1));
}

/* (a - 1) / (a + b - 2) for a, b > 1; else the end with the higher pole or value, 1/2 where they are alike. */
static T *mode(C *c, D *d) {
  T *inside = pn_logical_and(c, above(c, a, 1), above(c, b, 1));
  T *p = only(c, inside, a, 2), *q = only(c, inside, b, 2);
  T *peak = pn_div(c, plus(c, p, -1), plus(c, pn_add(c, p, q), -2));
  T *end = but(c, pn_lt(c, a, b), 0, but(c, pn_gt(c, a, b), 1, times(c, pn_add(c, p, q), 0.125)));
  return pn_where(c, inside, peak, end);
}

/* log B(a, b) - (a - 1) digamma(a) - (b - 1) digamma(b) + (a + b - 2) digamma(a + b) */
static T *entropy(C *c, D *d) {
  T *one = constant(c, d, 1), *parts = pn_add(c, pni_gamma_surprise(c, a, one), pni_gamma_surprise(c, b, one));
  return pn_sub(c, parts, pni_gamma_surprise(c, pn_add(c, a, b), constant(c, d, 2)));
}

/* sigmoid of the difference of the logarithms, kept inside (0, 1).
 * The gradient is that of the gammas' implicit one (Figurnov, Mohamed & Mnih 2018), not of the share's own quantile
 * -(dI/da) / p: that has 1 to 1/2.3 of its variance (1/2 at a = b), but both slopes of I_x(a, b) cost ten times
 * the draw with its gradient (9 to 16, seen at a, b from 0.5 to 1000), so two draws of these say more in the time, and
 * where x rounds to 1, as float32 does soon, they have lost the digits of 1 - x that the gammas keep. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *up = log_gamma(c, rng, a, out);
  T *x = pn_sigmoid(c, pn_sub(c, up, log_gamma(c, rng, b, out)));
  return pn_clamp(c, x, tiny(out->dtype), below_one(out->dtype));
}

/* log B_q - log B_p + (a_p - a_q) digamma(a_p) + (b_p - b_q) digamma(b_p) + (n_q - n_p) digamma(n_p), n = a + b: with
 * the shares of p in place of its concentrations what is left of a deviance is the bend alone */
T *pni_kl_beta_beta(C *c, D *p, D *d) {
  T *ap = p->param[CONCENTRATION1], *bp = p->param[CONCENTRATION0], *n = pn_add(c, a, b), *np = pn_add(c, ap, bp);
  T *apart = pn_add(c, pni_deviance(c, a, pn_mul(c, n, pn_div(c, ap, np))),
                    pni_deviance(c, b, pn_mul(c, n, pn_div(c, bp, np))));
  T *bend = pn_add(c, pni_lgamma_bend(c, ap, a), pni_lgamma_bend(c, bp, b));
  return pn_add(c, apart, pn_sub(c, bend, pni_lgamma_bend(c, np, n)));
}

const pni_distribution pni_dist_beta = {
    .name = "beta",
    .doc =
        "a share between 0 and 1 with mean a / (a + b): log p(x) = (a - 1) log(x) + (b - 1) log(1 - x) - log(B(a, b)), "
        "a = concentration1, b = concentration0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 2, ch. 25",
    .moments = "mean a / (a + b), variance a b / ((a + b)^2 (a + b + 1)), mode (a - 1) / (a + b - 2) for a, b > 1, "
               "else an end",
    .param = {{.name = "concentration1", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "concentration0", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_open_unit_interval,
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
