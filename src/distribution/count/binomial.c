/*
** binomial.c: Binomial(total_count n, probs p or logits l) on 0 .. n, draws are floats,
**   log p(x) = lgamma(n + 1) - lgamma(x + 1) - lgamma(n - x + 1) + x log p + (n - x) log(1 - p)
**            = ... + x l - n softplus(l),  mean n p,  variance n p (1 - p)
** Kullback-Leibler, of equal n: n times that of one trial.
*/
#include "../formula.h"
#include "count_draw.h"
#include "count_mass.h"
#include "count_quantile.h"
#include "count_sum.h"
#include "count_tail.h"
#include "../kernel/log_share.h"
#include "count_divergence.h"

enum { TOTAL_COUNT, PROBS, LOGITS };
#define n d->param[TOTAL_COUNT]

static T *probs(C *c, D *d) { return pni_dist_param(c, d, PROBS); }
static T *derive_probs(C *c, D *d) { return pn_sigmoid(c, d->param[LOGITS]); }
static T *derive_logits(C *c, D *d) {
  T *p = d->param[PROBS];
  return pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
}
static T *rest(C *c, D *d) {
  return pni_dist_given(d, LOGITS) ? pn_sigmoid(c, pn_neg(c, d->param[LOGITS])) : from(c, 1, d->param[PROBS]);
}

static T *in_support(C *c, D *d, T *x) {
  return pn_logical_and(c, pni_constraint_mask(c, &pni_constraint_nonnegative_integer, x), pn_le(c, x, n));
}

/* w log p, w log(1 - p), 0 where w = 0; p is seen only where it counts */
static T *weighed(C *c, D *d, T *w, bool success) {
  T *none = equals(c, w, 0), *l = d->param[LOGITS], *p = d->param[PROBS];
  if (pni_dist_given(d, LOGITS)) return pn_mul(c, w, pn_log_sigmoid(c, success ? l : pn_neg(c, l)));
  return pn_mul(c, w, success ? pn_log(c, but(c, none, 1, p)) : pn_log1p(c, pn_neg(c, but(c, none, 0, p))));
}

/* D(k, n p), or D(k, n (1 - p)) */
static T *deviance(C *c, D *d, T *k, bool success) {
  T *p = d->param[PROBS], *count = pn_detach(c, n);
  return pni_deviance(c, k, pn_mul(c, count, success ? p : from(c, 1, p)));
}

/* total_count is a whole number: no gradient */
static T *log_prob(C *c, D *d, T *x) {
  T *count = pn_detach(c, n);
  if (pni_dist_given(d, LOGITS)) return pni_binomial(c, x, count, d->param[LOGITS]);
  T *failures = pn_sub(c, count, x);
  T *ways = pn_sub(c, pni_excess(c, count), pn_add(c, pni_excess(c, x), pni_excess(c, failures)));
  return pn_sub(c, ways, pn_add(c, deviance(c, d, x, true), deviance(c, d, failures, false)));
}

/* 1 - I_p(k + 1, n - k), 1 from k = n on */
static T *lower(C *c, D *d, T *k) {
  T *all = pn_ge(c, k, n), *a = plus(c, but(c, all, 0, k), 1), *b = but(c, all, 1, pn_sub(c, n, k));
  return but(c, all, 1, pn_betaincc(c, a, b, probs(c, d)));
}
static T *log_part(C *c, D *d, T *k, bool upper) {
  T *all = pn_ge(c, k, n), *a = plus(c, but(c, all, 0, k), 1), *b = but(c, all, 1, pn_sub(c, n, k));
  return but(c, all, upper ? -INFINITY : 0, pni_log_beta_share(c, a, b, probs(c, d), rest(c, d), !upper));
}
STEPS
LOG_PARTS

static T *icdf(C *c, D *d, T *p) {
  return pni_count_quantile(c, d, &pni_family_binomial, p, 2, (T *[]){n, probs(c, d)});
}

static T *mean(C *c, D *d) { return pn_mul(c, n, probs(c, d)); }
static T *variance(C *c, D *d) { return pn_mul(c, mean(c, d), rest(c, d)); }
static T *mode(C *c, D *d) { return pn_minimum(c, pn_floor(c, pn_mul(c, plus(c, n, 1), probs(c, d))), n); }

static T *entropy(C *c, D *d) {
  return pni_count_sum(c, d, &(pni_count_place){.mean = mean(c, d), .variance = variance(c, d), .top = n}, NULL);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_count_draw(c, rng, out, &pni_count_binomial, n, probs(c, d));
}

/* Of more trials than the other's support holds: inf. */
T *pni_kl_binomial_binomial(C *c, D *p, D *d) {
  T *np = p->param[TOTAL_COUNT];
  if (pni_require_totals(c, "binomial", "binomial", np, n, true)) return NULL;
  T *one = pn_mul(c, np, probs(c, p)), *none = pn_mul(c, np, rest(c, p));
  T *own = pn_add(c, weighed(c, p, one, true), weighed(c, p, none, false));
  T *value = pn_sub(c, own, pn_add(c, weighed(c, d, one, true), weighed(c, d, none, false)));
  return only(c, pn_eq(c, np, n), value, INFINITY);
}

const pni_distribution pni_dist_binomial = {
    .name = "binomial",
    .doc = "successes in n = total_count trials: log p(x) = log(n! / (x! (n - x)!)) + x log(probs) + "
           "(n - x) log(1 - probs), x = 0 .. n; or by logits = log(probs / (1 - probs))",
    .source = "Johnson, Kemp & Kotz, Univariate Discrete Distributions, ch. 3",
    .moments = "mean n p, variance n p (1 - p), n = total_count",
    .param = {{.name = "total_count", .constraint = &pni_constraint_nonnegative_integer, .axes = ""},
              {.name = "probs",
               .constraint = &pni_constraint_unit_interval,
               .axes = "",
               .choice = 1,
               .derive = derive_probs},
              {.name = "logits", .constraint = &pni_constraint_real, .axes = "", .choice = 1, .derive = derive_logits}},
    .support = &pni_constraint_trials,
    .event = "",
    .flags = PNI_DIST_DISCRETE,
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
