/*
** beta_binomial.c: BetaBinomial(total_count n, concentration1 a, concentration0 b) on 0 .. n: binomial whose
** probability was drawn from Beta(a, b), s = a + b,
**   log p(x) = log(n! / (x! (n - x)!)) + log B(x + a, n - x + b) - log B(a, b)
**   mean n a / s, variance n a b (s + n) / (s^2 (s + 1))
** The mass rises from x to x + 1 where x (s - 2) <= n (a - 1) + 1 - b: for s > 2 there is one mode, else it is at the
** end of the larger concentration.
*/
#include "urn_mass.h"
#include "beta_binomial_cdf.h"
#include "count_draw.h"
#include "count_sum.h"
#include "count_tail.h"

enum { TOTAL_COUNT, CONCENTRATION1, CONCENTRATION0 };
#define a d->param[CONCENTRATION1]
#define b d->param[CONCENTRATION0]

/* a whole number: no gradient */
static T *trials(C *c, D *d) { return pn_detach(c, d->param[TOTAL_COUNT]); }
static T *sum(C *c, D *d) { return pn_add(c, a, b); }

static T *in_support(C *c, D *d, T *x) {
  T *whole = pni_constraint_mask(c, &pni_constraint_nonnegative_integer, x);
  return pn_logical_and(c, whole, pn_le(c, x, d->param[TOTAL_COUNT]));
}

static T *log_prob(C *c, D *d, T *x) {
  T *n = trials(c, d), *s = sum(c, d), *y = pn_sub(c, n, x);
  T *weight = pn_sub(c, pn_add(c, polya_weight(c, x, a), polya_weight(c, y, b)), polya_weight(c, n, s));
  return pn_sub(c, weight, pn_add(c, polya_deviance(c, x, a, n, s), polya_deviance(c, y, b, n, s)));
}

static T *mean(C *c, D *d) { return pn_mul(c, trials(c, d), pn_div(c, a, sum(c, d))); }
static T *variance(C *c, D *d) {
  T *s = sum(c, d), *n = trials(c, d), *spread = pn_div(c, pn_add(c, s, n), plus(c, s, 1));
  return pn_mul(c, pn_mul(c, mean(c, d), pn_div(c, b, s)), spread);
}

static T *mode(C *c, D *d) {
  T *n = trials(c, d), *s = plus(c, sum(c, d), -2), *one = above(c, s, 0);
  T *edge = pn_sub(c, plus(c, pn_mul(c, n, plus(c, a, -1)), 1), b);
  T *inner = plus(c, pn_floor(c, pn_div(c, edge, only(c, one, s, 1))), 1);
  inner = pn_minimum(c, pn_relu(c, inner), n);
  return pn_where(c, one, inner, only(c, pn_gt(c, a, b), n, 0));
}

static T *lower(C *c, D *d, T *k) { return pni_beta_binomial_cdf(c, k, trials(c, d), a, b); }
static T *upper(C *c, D *d, T *k) {
  T *n = trials(c, d);
  return pni_beta_binomial_cdf(c, plus(c, pn_sub(c, n, k), -1), n, b, a);
}
STEPS
LOG_TAILS

static T *icdf(C *c, D *d, T *p) {
  return pni_count_quantile(c, d, &pni_family_beta_binomial, p, 3, (T *[]){trials(c, d), a, b});
}

/* A bound on the tails that holds for all concentrations: the whole support. */
static T *entropy(C *c, D *d) {
  pni_count_place where = {.mean = mean(c, d), .variance = variance(c, d), .top = trials(c, d)};
  where.decay = plus(c, where.top, 1);
  return pni_count_sum(c, d, &where, NULL);
}

/* The log odds of a beta draw are the difference of the logarithms of two gamma draws. */
static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *odds = pn_sub(c, log_gamma(c, rng, a, out), log_gamma(c, rng, b, out));
  return pni_count_draw(c, rng, out, &pni_count_binomial, d->param[TOTAL_COUNT], pn_sigmoid(c, odds));
}

const pni_distribution pni_dist_beta_binomial = {
    .name = "beta_binomial",
    .doc =
        "successes in n = total_count trials whose probability is a beta variable: log p(x) = log(n! / (x! (n - x)!)) "
        "+ log(B(x + a, n - x + b) / B(a, b)), a = concentration1, b = concentration0, x = 0 .. n",
    .source = "Johnson, Kemp & Kotz, Univariate Discrete Distributions, ch. 6.2",
    .moments = "mean n a / (a + b), variance n a b (a + b + n) / ((a + b)^2 (a + b + 1))",
    .param = {{.name = "total_count", .constraint = &pni_constraint_nonnegative_integer, .axes = ""},
              {.name = "concentration1", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "concentration0", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_trials,
    .event = "",
    .flags = PNI_DIST_DISCRETE | PNI_DIST_IN_DOUBLE,
    .in_support = in_support,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .sample = sample};
