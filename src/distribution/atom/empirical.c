/*
** empirical.c: Empirical(values v, log_weights w): mass softmax(w)_i at v_i, values may repeat,
**   log p(x) = logsumexp of w where v = x, minus logsumexp(w)
*/
#include "../label/categorical.h"
#include "../formula.h"

enum { VALUES, LOG_WEIGHTS };
#define values d->param[VALUES]

static T *weights(C *c, D *d) { return pn_softmax(c, d->param[LOG_WEIGHTS], -1); }

static T *in_support(C *c, D *d, T *x) { return pn_any(c, pn_eq(c, pn_unsqueeze(c, x, -1), values), LAST, 0); }

/* The values take part with slope 0. */
static T *log_prob(C *c, D *d, T *x) {
  T *here = pn_eq(c, pn_unsqueeze(c, x, -1), values);
  T *weight = pn_add(c, pn_log_softmax(c, d->param[LOG_WEIGHTS], -1), times(c, values, 0));
  return pn_logsumexp(c, only(c, here, weight, -INFINITY), LAST, 0);
}

/* Kept below 1, which rounding of the sum may pass. */
static T *cdf(C *c, D *d, T *x) {
  T *up_to = pn_le(c, values, pn_unsqueeze(c, x, -1)), *all = pn_all(c, up_to, LAST, 0);
  T *sum = pn_sum(c, only(c, up_to, weights(c, d), 0), LAST, 0);
  return but(c, all, 1, pn_minimum(c, sum, pni_like(c, sum, 1)));
}

/* The least value whose share of the values up to it reaches p, but for the rounding of a sum of n terms. */
static T *icdf(C *c, D *d, T *p) {
  T *order = pn_argsort(c, pn_add(c, values, times(c, d->param[LOG_WEIGHTS], 0)), -1, 0), *w = weights(c, d);
  if (!order) return NULL;
  T *v = pn_gather(c, pni_dist_expand_to(c, values, order->ndim, order->shape), -1, order);
  w = pn_gather(c, pni_dist_expand_to(c, w, order->ndim, order->shape), -1, order);
  double ulp = d->dtype == PN_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
  double slack = 2 * ulp * (double)order->shape[order->ndim - 1];
  T *short_of = pn_lt(c, plus(c, pn_cumsum(c, pn_detach(c, w), -1), slack), pn_unsqueeze(c, p, -1));
  T *first = pn_min(c, but(c, short_of, INFINITY, v), LAST, 0);
  T *last = pn_max(c, values, LAST, 0);
  return pn_where(c, pn_isfinite(c, first), first, last);
}

/* log p at the values themselves: a matrix of n x n */
static T *own_log_prob(C *c, D *d) {
  T *here = pn_eq(c, pn_unsqueeze(c, values, -1), pn_unsqueeze(c, values, -2));
  T *weight = pn_unsqueeze(c, pn_log_softmax(c, d->param[LOG_WEIGHTS], -1), -2);
  return pn_logsumexp(c, only(c, here, weight, -INFINITY), LAST, 0);
}

/* The first of the most probable values. */
static T *mode(C *c, D *d) {
  T *best = pn_argmax(c, own_log_prob(c, d), -1, 1), *v = values;
  if (!best) return NULL;
  int64_t shape[PN_MAX_DIMS];
  for (int i = 0; i < best->ndim; i++) shape[i] = best->shape[i];
  shape[best->ndim - 1] = v->shape[v->ndim - 1];
  return pn_squeeze(c, pn_gather(c, pni_dist_expand_to(c, v, best->ndim, shape), -1, best), -1);
}

static T *entropy(C *c, D *d) {
  T *w = weights(c, d), *lp = own_log_prob(c, d), *none = equals(c, w, 0);
  return pn_neg(c, pn_sum(c, pn_mul(c, w, but(c, none, 0, lp)), LAST, 0));
}

static T *mean(C *c, D *d) { return pn_sum(c, pn_mul(c, weights(c, d), values), LAST, 0); }
static T *variance(C *c, D *d) {
  T *off = pn_sub(c, values, pn_unsqueeze(c, mean(c, d), -1));
  return pn_sum(c, pn_mul(c, weights(c, d), pn_square(c, off)), LAST, 0);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  if (out->ndim == PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "empirical: sample: at most %d axes are possible", PN_MAX_DIMS - 1);
    return NULL;
  }
  T *label = pni_draw_labels(c, d, weights(c, d), rng, out);
  if (!label) return NULL;
  pni_spec expanded = *out;
  expanded.shape[expanded.ndim++] = values->shape[values->ndim - 1];
  T *all = pni_dist_expand_to(c, values, expanded.ndim, expanded.shape);
  return pn_squeeze(c, pn_gather(c, all, -1, pn_unsqueeze(c, label, -1)), -1);
}

const pni_distribution pni_dist_empirical = {
    .name = "empirical",
    .doc = "mass at given values: p(x) = sum of softmax(log_weights) where values = x",
    .source = "the empirical distribution function; weighted draws as a distribution",
    .moments = "those of the weighted values",
    .param = {{.name = "values", .constraint = &pni_constraint_real_vector, .axes = "n"},
              {.name = "log_weights",
               .constraint = &pni_constraint_log_weights,
               .axes = "n",
               .optional = true,
               .absent = 0}},
    .support = &pni_constraint_atom,
    .event = "",
    .flags = PNI_DIST_DISCRETE,
    .in_support = in_support,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .sample = sample};
