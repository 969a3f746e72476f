/*
** relaxed_one_hot_categorical.c: RelaxedOneHotCategorical(temperature t, probs or logits l) on the open simplex of n
** shares (Concrete of Maddison, Mnih & Teh 2017; Gumbel-softmax of Jang, Gu & Poole 2017): x = softmax((l + G) / t)
** with independent Gumbel G. A density of the first n - 1 shares, in logarithms throughout:
**   log p(x) = lgamma(n) + (n - 1) log t + sum s - n logsumexp(s) - sum log x,  s_k = l_k - t log x_k
** What is added to all l cancels, so that they need no normalising.
*/
#include "../formula.h"

enum { TEMPERATURE, PROBS, LOGITS };
#define t d->param[TEMPERATURE]

static T *derive_probs(C *c, D *d) { return pn_softmax(c, d->param[LOGITS], -1); }
static T *derive_logits(C *c, D *d) { return pn_log(c, d->param[PROBS]); }
static T *logits(C *c, D *d) { return pni_dist_param(c, d, LOGITS); }
/* [batch] as [batch, 1] */
static T *over_classes(C *c, T *x) { return pn_unsqueeze(c, x, -1); }

static T *in_support(C *c, D *d, T *x) {
  (void)d;
  return pn_logical_and(c, pni_constraint_mask(c, &pni_constraint_simplex, x), pn_all(c, above(c, x, 0), LAST, 0));
}

static T *log_prob(C *c, D *d, T *x) {
  T *log_x = pn_log(c, x), *s = pn_sub(c, logits(c, d), pn_mul(c, over_classes(c, t), log_x));
  if (!s) return NULL;
  double n = (double)s->shape[s->ndim - 1];
  /* sum (s - logsumexp s) - logsumexp s: nothing large cancels */
  T *shares = pn_sum(c, pn_sub(c, pn_log_softmax(c, s, -1), log_x), LAST, 0);
  return pn_add(c, shares, plus(c, times(c, pn_log(c, t), n - 1), lgamma(n)));
}

/* Draws stay above 0, so that their logarithms are finite. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *u = pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype));
  T *gumbel = pn_neg(c, pn_log(c, pn_neg(c, pn_log(c, u))));
  T *x = pn_softmax(c, pn_div(c, pn_add(c, logits(c, d), gumbel), over_classes(c, t)), -1);
  return pn_clamp(c, x, tiny(out->dtype), 1);
}

const pni_distribution pni_dist_relaxed_one_hot_categorical = {
    .name = "relaxed_one_hot_categorical",
    .doc = "a one-hot label softened by a temperature (Gumbel-softmax): log p(x) = lgamma(n) + (n - 1) log(t) + "
           "sum (s - log(x)) - n logsumexp(s), s = logits - t log(x), t = temperature, a density of the first n - 1 "
           "shares x > 0",
    .source = "Maddison, Mnih & Teh, The Concrete distribution, ICLR 2017; Jang, Gu & Poole, Gumbel-softmax, ICLR 2017",
    .moments = "no closed form",
    .param = {{.name = "temperature", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "probs",
               .constraint = &pni_constraint_open_simplex,
               .axes = "n",
               .choice = 1,
               .derive = derive_probs},
              {.name = "logits",
               .constraint = &pni_constraint_real_vector,
               .axes = "n",
               .choice = 1,
               .derive = derive_logits}},
    .support = &pni_constraint_simplex,
    .event = "n",
    .in_support = in_support,
    .log_prob = log_prob,
    .rsample = rsample};
