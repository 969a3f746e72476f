/*
** dirichlet_multinomial.c: DirichletMultinomial(total_count m, concentration a) on vectors x of n counts that sum to m:
** multinomial whose probabilities were drawn from Dirichlet(a), s = sum a,
**   log p(x) = log(m! Gamma(s) / Gamma(m + s)) + sum log(Gamma(x_i + a_i) / (x_i! Gamma(a_i)))
**   mean m a / s, variance m (a/s) (1 - a/s) (m + s) / (1 + s)
*/
#include "urn_mass.h"
#include "count_sum.h"
#include "multinomial_draw.h"

enum { TOTAL_COUNT, CONCENTRATION };
#define a d->param[CONCENTRATION]

/* a whole number: no gradient */
static T *trials(C *c, D *d) { return pn_detach(c, d->param[TOTAL_COUNT]); }
static T *over_classes(C *c, T *x) { return pn_unsqueeze(c, x, -1); }
static T *sum(C *c, T *x) { return pn_sum(c, x, LAST, 0); }

static T *in_support(C *c, D *d, T *x) {
  T *whole = pni_constraint_mask(c, &pni_constraint_count_vector, x);
  return pn_logical_and(c, whole, pn_eq(c, sum(c, x), d->param[TOTAL_COUNT]));
}

static T *log_prob(C *c, D *d, T *x) {
  T *m = trials(c, d), *s = sum(c, a);
  T *spread = polya_deviance(c, x, a, over_classes(c, m), over_classes(c, s));
  return pn_sub(c, sum(c, pn_sub(c, polya_weight(c, x, a), spread)), polya_weight(c, m, s));
}

static T *share(C *c, D *d) { return pn_div(c, a, over_classes(c, sum(c, a))); }
static T *mean(C *c, D *d) { return pn_mul(c, over_classes(c, trials(c, d)), share(c, d)); }
static T *variance(C *c, D *d) {
  T *s = sum(c, a), *more = pn_div(c, pn_add(c, trials(c, d), s), plus(c, s, 1));
  return pn_mul(c, pn_mul(c, mean(c, d), from(c, 1, share(c, d))), over_classes(c, more));
}

/* The sum of the concentrations of the other classes, without subtraction. */
static T *others(C *c, D *d) {
  T *back = pn_flip(c, a, -1);
  int64_t n = a->shape[a->ndim - 1];
  T *before = pn_pad(c, pn_slice(c, pn_cumsum(c, a, -1), -1, 0, n - 1, 1), -1, 1, 0, 0);
  T *after = pn_pad(c, pn_slice(c, pn_cumsum(c, back, -1), -1, 0, n - 1, 1), -1, 1, 0, 0);
  return pn_add(c, before, pn_flip(c, after, -1));
}

/* What one count x adds to -log p, up to the term of the total; d is its law. */
static T *count_surprise(C *c, D *d, T *x) {
  enum { ONE = 1, REST };
  T *own = d->param[ONE], *s = pn_add(c, own, d->param[REST]);
  return pn_sub(c, polya_deviance(c, x, own, d->param[TOTAL_COUNT], s), polya_weight(c, x, own));
}

/* w(m, s) + sum_i E[...], each x_i a beta-binomial number */
static T *entropy(C *c, D *d) {
  T *s = sum(c, a), *m = over_classes(c, trials(c, d));
  if (a->shape[a->ndim - 1] == 1) return pn_mul(c, times(c, s, 0), trials(c, d));
  static const char *const names[] = {"total_count", "concentration1", "concentration0"};
  pn_dist *part = pn_dist_new(c, "beta_binomial", 3, names, (T *[]){m, a, others(c, d)});
  if (!part) return NULL;
  pni_count_place where = {.mean = part->kind->mean(c, part), .variance = part->kind->variance(c, part), .top = m};
  where.decay = plus(c, m, 1);
  T *total = pn_sum(c, pni_count_sum(c, part, &where, count_surprise), LAST, 0);
  pn_dist_unref(part);
  return pn_add(c, polya_weight(c, trials(c, d), s), total);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *p = pn_softmax(c, log_gamma(c, rng, a, out), -1);
  return pni_multinomial_draw(c, d, d->param[TOTAL_COUNT], p, rng, out);
}

const pni_distribution pni_dist_dirichlet_multinomial = {
    .name = "dirichlet_multinomial",
    .doc = "counts of n classes in m = total_count trials whose probabilities are a Dirichlet variable: log p(x) = "
           "log(m! Gamma(s) / Gamma(m + s)) + sum log(Gamma(x + a) / (x! Gamma(a))), a = concentration, s = sum a",
    .source = "Johnson, Kotz & Balakrishnan, Discrete Multivariate Distributions, ch. 35.13",
    .moments = "mean m a / s, variance m a (s - a) (m + s) / (s^2 (1 + s))",
    .param = {{.name = "total_count", .constraint = &pni_constraint_nonnegative_integer, .axes = ""},
              {.name = "concentration", .constraint = &pni_constraint_positive_vector, .axes = "n"}},
    .support = &pni_constraint_count_vector,
    .event = "n",
    .flags = PNI_DIST_DISCRETE,
    .in_support = in_support,
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .entropy = entropy,
    .sample = sample};
