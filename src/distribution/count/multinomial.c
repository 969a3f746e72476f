/*
** multinomial.c: Multinomial(total_count m, probs p or logits) on vectors x of n counts that sum to m,
**   log p(x) = log m! - sum log x_i! + sum x_i log p_i
**            = E(m) - sum E(x_i) - sum D(x_i, m p_i) + m (sum p - 1)  (count_mass.h; the last term is rounding)
**   mean m p, variance m p (1 - p)
** Draws are binomials in turn: x_i ~ Binomial(m - x_1 - ... - x_(i-1), p_i / (p_i + ... + p_n)).
** Kullback-Leibler, of equal m: m times that of one trial.
*/
#include "../label/categorical.h"
#include "../formula.h"
#include "count_mass.h"
#include "count_sum.h"
#include "count_divergence.h"
#include "multinomial_draw.h"

enum { TOTAL_COUNT, PROBS, LOGITS };

static T *derive_probs(C *c, D *d) { return pn_softmax(c, d->param[LOGITS], -1); }
static T *derive_logits(C *c, D *d) { return pn_log(c, d->param[PROBS]); }
static T *probs(C *c, D *d) { return pni_dist_param(c, d, PROBS); }
/* total_count is a whole number: no gradient. [batch, 1] */
static T *trials(C *c, D *d) { return pn_unsqueeze(c, pn_detach(c, d->param[TOTAL_COUNT]), -1); }

static T *in_support(C *c, D *d, T *x) {
  T *whole = pni_constraint_mask(c, &pni_constraint_count_vector, x);
  return pn_logical_and(c, whole, pn_eq(c, pn_sum(c, x, LAST, 0), d->param[TOTAL_COUNT]));
}

/* sum D(x_i, m p_i) - m (sum p - 1) */
static T *deviance(C *c, D *d, T *x) {
  T *m = trials(c, d), *p = d->param[PROBS];
  if (pni_dist_given(d, LOGITS)) {
    T *log_mean = pn_add(c, pn_log(c, m), pn_log_softmax(c, d->param[LOGITS], -1));
    return pn_sum(c, pni_deviance_log(c, x, log_mean), LAST, 0);
  }
  T *excess = pn_mul(c, pn_detach(c, d->param[TOTAL_COUNT]), plus(c, pn_sum(c, p, LAST, 0), -1));
  return pn_sub(c, pn_sum(c, pni_deviance(c, x, pn_mul(c, m, p)), LAST, 0), excess);
}

static T *log_prob(C *c, D *d, T *x) {
  T *all = pni_excess(c, pn_detach(c, d->param[TOTAL_COUNT]));
  return pn_sub(c, pn_sub(c, all, pn_sum(c, pni_excess(c, x), LAST, 0)), deviance(c, d, x));
}

static T *mean(C *c, D *d) { return pn_mul(c, trials(c, d), probs(c, d)); }
static T *variance(C *c, D *d) { return pn_mul(c, mean(c, d), from(c, 1, probs(c, d))); }

static T *mode(C *c, D *d) { return pni_multinomial_mode(c, trials(c, d), probs(c, d)); }

/* E(x) + D(x, m p), x one count, of which d is the law */
static T *count_surprise(C *c, D *d, T *x) {
  return pn_add(c, pni_excess(c, x), pni_deviance(c, x, pn_mul(c, d->param[TOTAL_COUNT], d->param[PROBS])));
}

/* sum_i E[E(x_i) + D(x_i, m p_i)] - E(m), each x_i a binomial number */
static T *entropy(C *c, D *d) {
  static const char *const names[] = {"total_count", "probs"};
  T *p = probs(c, d), *m = trials(c, d);
  p = but(c, above(c, p, 1), 1, p); /* by rounding */
  pn_dist *part = pn_dist_new(c, "binomial", 2, names, (T *[]){m, p});
  if (!part) return NULL;
  pni_count_place where = {.mean = part->kind->mean(c, part), .variance = part->kind->variance(c, part), .top = m};
  T *sum = pn_sum(c, pni_count_sum(c, part, &where, count_surprise), LAST, 0);
  pn_dist_unref(part);
  return pn_sub(c, sum, pni_excess(c, pn_detach(c, d->param[TOTAL_COUNT])));
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_multinomial_draw(c, d, d->param[TOTAL_COUNT], probs(c, d), rng, out);
}

/* log p, log q: cut off where p is 0 */
static T *log_probs(C *c, D *d) {
  if (pni_dist_given(d, LOGITS)) return pn_log_softmax(c, d->param[LOGITS], -1);
  return pn_log(c, d->param[PROBS]);
}

T *pni_kl_multinomial_multinomial(C *c, D *p, D *q) {
  T *w = probs(c, p), *used = pn_ne(c, w, pni_like(c, w, 0));
  T *own = pni_dist_given(p, LOGITS) ? log_probs(c, p) : pn_log(c, only(c, used, w, 1));
  T *of_one = pni_classes_expected(c, w, pn_sub(c, own, log_probs(c, q))), *n = pn_detach(c, p->param[TOTAL_COUNT]);
  return only(c, pn_eq(c, n, q->param[TOTAL_COUNT]), pn_mul(c, n, of_one), INFINITY);
}

const pni_distribution pni_dist_multinomial = {
    .name = "multinomial",
    .doc = "counts of n classes in m = total_count trials: log p(x) = log(m!) - sum log(x!) + sum x log(probs), "
           "sum x = m; or by logits up to a constant",
    .source = "Johnson, Kotz & Balakrishnan, Discrete Multivariate Distributions, ch. 35",
    .moments = "mean m p, variance m p (1 - p), p = probs",
    .param =
        {{.name = "total_count", .constraint = &pni_constraint_nonnegative_integer, .axes = ""},
         {.name = "probs", .constraint = &pni_constraint_simplex, .axes = "n", .choice = 1, .derive = derive_probs},
         {.name = "logits",
          .constraint = &pni_constraint_log_weights,
          .axes = "n",
          .choice = 1,
          .derive = derive_logits}},
    .support = &pni_constraint_count_vector,
    .event = "n",
    .flags = PNI_DIST_DISCRETE,
    .in_support = in_support,
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .sample = sample};
