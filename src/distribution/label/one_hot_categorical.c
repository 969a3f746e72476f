/*
** one_hot_categorical.c: OneHotCategorical(probs or logits): a label of n classes as a vector x of one 1 and zeros,
**   log p(x) = sum x log probs,  mean probs, variance probs (1 - probs)
*/
#include "categorical.h"
#include "../formula.h"
#include "../kernel/density.h"

static T *probs(C *c, D *d) { return pni_dist_param(c, d, PNI_PROBS); }

/* With probs the logarithm is taken of what x picks, so that an unused probability 0 has gradient 0. */
static T *log_prob(C *c, D *d, T *x) {
  if (!pni_dist_given(d, PNI_LOGITS)) return pn_log(c, pn_sum(c, pn_mul(c, x, d->param[PNI_PROBS]), LAST, 0));
  T *at_once = pni_one_hot_log_mass(c, d->param[PNI_LOGITS], x);
  if (at_once || pni_failed(c)) return at_once;
  return pni_classes_expected(c, x, pn_log_softmax(c, d->param[PNI_LOGITS], -1));
}

static T *variance(C *c, D *d) { return pn_mul(c, probs(c, d), from(c, 1, probs(c, d))); }
static T *mode(C *c, D *d) {
  T *given = d->param[pni_dist_given(d, PNI_LOGITS) ? PNI_LOGITS : PNI_PROBS];
  return pni_one_hot(c, pn_argmax(c, given, -1, 0), pni_classes(d), d->dtype);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  pni_spec labels = *out;
  labels.ndim--;
  return pni_one_hot(c, pni_draw_labels(c, d, probs(c, d), rng, &labels), pni_classes(d), d->dtype);
}

T *pni_kl_one_hot_categorical_one_hot_categorical(C *c, D *p, D *q) {
  return pni_classes_kl(c, p, q, "one_hot_categorical");
}

const pni_distribution pni_dist_one_hot_categorical = {
    .name = "one_hot_categorical",
    .doc = "a label of n classes as a vector of one 1 and zeros: log p(x) = sum x log(probs); or by logits up to a "
           "constant",
    .source = "Johnson, Kotz & Balakrishnan, Discrete Multivariate Distributions, ch. 35 (one trial)",
    .moments = "mean p, variance p (1 - p), p = probs",
    .param = {{.name = "probs",
               .constraint = &pni_constraint_simplex,
               .axes = "n",
               .choice = 1,
               .derive = pni_classes_probs},
              {.name = "logits",
               .constraint = &pni_constraint_log_weights,
               .axes = "n",
               .choice = 1,
               .derive = pni_classes_logits}},
    .support = &pni_constraint_one_hot,
    .event = "n",
    .flags = PNI_DIST_DISCRETE,
    .log_prob = log_prob,
    .mean = probs,
    .variance = variance,
    .mode = mode,
    .entropy = pni_classes_entropy,
    .sample = sample};
