/*
** bernoulli.c: Bernoulli(probs) or Bernoulli(logits) on {0, 1}; logits = log(p / (1 - p)),
**   log p(1) = log p = log_sigmoid(logits),  log p(0) = log(1 - p) = log_sigmoid(-logits)
*/
#include <math.h>
#include "../kernel/density.h"
#include "../kernel/distribution_op.h"

typedef pn_tensor T;
typedef pn_context C;
typedef const pn_dist D;
enum { PROBS, LOGITS };
#define K(v) pni_like(c, d->param[pni_dist_given(d, LOGITS) ? LOGITS : PROBS], v)

static T *probs(C *c, D *d) { return pni_dist_param(c, d, PROBS); }
static T *derive_probs(C *c, D *d) { return pn_sigmoid(c, d->param[LOGITS]); }
static T *derive_logits(C *c, D *d) {
  T *p = d->param[PROBS];
  return pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
}

/* log p(x = one) without cancellation: log p or log(1 - p). */
static T *log_mass(C *c, D *d, bool one) {
  T *l = d->param[LOGITS], *p = d->param[PROBS];
  if (pni_dist_given(d, LOGITS)) return pn_log_sigmoid(c, one ? l : pn_neg(c, l));
  return one ? pn_log(c, p) : pn_log1p(c, pn_neg(c, p));
}

/* With probs each branch sees p only where it is taken, so that p = 0 and p = 1 have finite gradients; other x have
 * -inf, NaN has NaN: what the row bernoulli_log_mass gives there whatever the logits, whose advice then names the cause
 * of a refused step. */
static T *log_prob(C *c, D *d, T *x) {
  if (pni_dist_given(d, LOGITS))
    return pni_apply2(c, &pni_distribution_op_bernoulli_log_mass, x, d->param[LOGITS], NULL);
  T *one = pn_eq(c, x, K(1)), *zero = pn_eq(c, x, K(0)), *p = d->param[PROBS];
  T *lp = pn_add(c, pn_log(c, pn_where(c, one, p, K(1))), pn_log1p(c, pn_neg(c, pn_where(c, zero, p, K(0)))));
  T *other = pni_apply2(c, &pni_distribution_op_bernoulli_log_mass, x, pn_mul(c, p, K(0)), NULL);
  return pn_where(c, pn_logical_or(c, one, zero), lp, other);
}

/* Rows that one number of x or of the logits fills have too little to share. */
static T *log_prob_rows(C *c, D *d, T *x) {
  T *l = d->param[LOGITS];
  bool rows = l && x->ndim > 0 && l->ndim > 0 && x->shape[x->ndim - 1] == l->shape[l->ndim - 1];
  return rows ? pni_bernoulli_row_masses(c, x, l) : NULL;
}

static T *failure(C *c, D *d) {
  return pni_dist_given(d, LOGITS) ? pn_sigmoid(c, pn_neg(c, d->param[LOGITS])) : pn_sub(c, K(1), d->param[PROBS]);
}

/* 1 above P(X = 0), and at 1 */
static T *icdf(C *c, D *d, T *p) {
  T *one = pn_logical_or(c, pn_gt(c, p, failure(c, d)), pn_eq(c, p, K(1)));
  return pn_cast(c, one, (pn_dtype)d->dtype);
}

/* A function of x that steps at 0 and at 1. */
static T *steps(C *c, D *d, T *x, double before, T *between, double after) {
  return pn_where(c, pn_lt(c, x, K(0)), K(before), pn_where(c, pn_ge(c, x, K(1)), K(after), between));
}
static T *cdf(C *c, D *d, T *x) { return steps(c, d, x, 0, failure(c, d), 1); }
static T *log_cdf(C *c, D *d, T *x) { return steps(c, d, x, -INFINITY, log_mass(c, d, false), 0); }
static T *log_survival(C *c, D *d, T *x) { return steps(c, d, x, 0, log_mass(c, d, true), -INFINITY); }

static T *mean(C *c, D *d) { return probs(c, d); }
static T *variance(C *c, D *d) { return pn_mul(c, probs(c, d), failure(c, d)); }
static T *mode(C *c, D *d) { return pn_cast(c, pn_gt(c, probs(c, d), K(0.5)), (pn_dtype)d->dtype); }

/* -p log p - (1 - p) log(1 - p), with 0 log 0 = 0; of logits a sum of positive terms. log1p keeps the digits of
 * a small p that 1 - p rounds away. */
static T *entropy(C *c, D *d) {
  if (pni_dist_given(d, LOGITS)) {
    T *l = d->param[LOGITS], *m = pn_neg(c, l);
    return pn_add(c, pn_mul(c, pn_sigmoid(c, l), pn_softplus(c, m)), pn_mul(c, pn_sigmoid(c, m), pn_softplus(c, l)));
  }
  T *p = d->param[PROBS], *below = pn_where(c, pn_eq(c, p, K(1)), K(0), p);
  T *rest = pn_mul(c, pn_sub(c, K(1), p), pn_log1p(c, pn_neg(c, below)));
  return pn_neg(c, pn_add(c, pn_xlogy(c, p, p), rest));
}

/* 1 where u <= p; u is uniform on (0, 1], so p = 0 never and p = 1 always happens. */
static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *u = pn_rand(c, rng, (pn_dtype)out->dtype, out->ndim, out->shape);
  return pn_cast(c, pn_le(c, u, probs(c, d)), (pn_dtype)out->dtype);
}

/* w (x - y), 0 where w = 0 even if x or y is infinite */
static T *weighted(C *c, T *w, T *x, T *y) {
  T *zero = pni_like(c, w, 0), *none = pn_eq(c, w, zero);
  return pn_mul(c, w, pn_sub(c, pn_where(c, none, zero, x), pn_where(c, none, zero, y)));
}

T *pni_kl_bernoulli_bernoulli(C *c, D *p, D *d) {
  T *one = probs(c, p), *rest = pn_sub(c, K(1), one);
  if (pni_dist_given(p, LOGITS)) rest = pn_sigmoid(c, pn_neg(c, p->param[LOGITS]));
  return pn_add(c, weighted(c, one, log_mass(c, p, true), log_mass(c, d, true)),
                weighted(c, rest, log_mass(c, p, false), log_mass(c, d, false)));
}

const pni_distribution pni_dist_bernoulli = {
    .name = "bernoulli",
    .doc = "1 with probability probs, else 0; or by logits = log(probs / (1 - probs)): "
           "log p(x) = x log(probs) + (1 - x) log(1 - probs)",
    .source = "Johnson, Kemp & Kotz, Univariate Discrete Distributions, ch. 3",
    .moments = "mean p, variance p (1 - p), p = probs",
    .param = {{.name = "probs",
               .constraint = &pni_constraint_unit_interval,
               .axes = "",
               .choice = 1,
               .derive = derive_probs},
              {.name = "logits", .constraint = &pni_constraint_real, .axes = "", .choice = 1, .derive = derive_logits}},
    .support = &pni_constraint_boolean,
    .event = "",
    .flags = PNI_DIST_DISCRETE | PNI_DIST_TOTAL,
    .log_prob = log_prob,
    .log_prob_rows = log_prob_rows,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .sample = sample};
