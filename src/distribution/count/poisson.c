/*
** poisson.c: Poisson(rate) on 0, 1, 2 ...,
**   log p(x) = x log rate - rate - lgamma(x + 1) = -E(x) - D(x, rate) (count_mass.h),  mean and variance rate
** Kullback-Leibler: r_p log(r_p / r_q) - r_p + r_q = D(r_p, r_q).
*/
#include "../formula.h"
#include "count_draw.h"
#include "count_mass.h"
#include "count_quantile.h"
#include "count_sum.h"
#include "count_tail.h"
#include "../kernel/log_share.h"

#define rate d->param[0]

static T *log_prob(C *c, D *d, T *x) { return pni_poisson(c, x, rate); }

/* Q(k + 1, rate), P(k + 1, rate) */
static T *lower(C *c, D *d, T *k) { return pn_gammaincc(c, plus(c, k, 1), rate); }
static T *log_part(C *c, D *d, T *k, bool upper) { return pni_log_gamma_share(c, plus(c, k, 1), rate, !upper); }
STEPS
LOG_PARTS

static T *icdf(C *c, D *d, T *p) { return pni_count_quantile(c, d, &pni_family_poisson, p, 1, &rate); }

static T *mean(C *c, D *d) { return (void)c, rate; }
static T *mode(C *c, D *d) { return pn_floor(c, rate); }

/* From 1e12 on (log(2 pi e m) - 1/(6 m)) / 2: what is left out is 1/(24 m^2) (Evans, Boersma, Blachman & Jagers
 * 1988). */
static T *entropy(C *c, D *d) {
  T *large = above(c, rate, 1e12), *m = only(c, large, rate, 1e12);
  pn_dist part = *d;
  part.param[0] = but(c, large, 1, rate);
  if (!part.param[0]) return NULL;
  T *sum = pni_count_sum(c, &part, &(pni_count_place){.mean = part.param[0], .variance = part.param[0]}, NULL);
  T *series = pn_sub(c, plus(c, pn_log(c, m), 1 + 2 * LOG_ROOT_TWO_PI), times(c, pn_reciprocal(c, m), 1.0 / 6));
  return pn_where(c, large, times(c, series, 0.5), sum);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_count_draw(c, rng, out, &pni_count_poisson, rate, NULL);
}

T *pni_kl_poisson_poisson(C *c, D *p, D *d) { return pni_deviance(c, p->param[0], rate); }

const pni_distribution pni_dist_poisson = {
    .name = "poisson",
    .doc =
        "number of events that come at a constant rate: log p(x) = x log(rate) - rate - lgamma(x + 1), x = 0, 1, ...",
    .source = "Johnson, Kemp & Kotz, Univariate Discrete Distributions, ch. 4",
    .moments = "mean rate, variance rate, mode floor(rate)",
    .param = {{.name = "rate", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_nonnegative_integer,
    .event = "",
    .flags = PNI_DIST_DISCRETE,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = mean,
    .mode = mode,
    .entropy = entropy,
    .sample = sample};
