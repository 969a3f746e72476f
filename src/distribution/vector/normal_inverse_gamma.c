/*
** normal_inverse_gamma.c: NormalInverseGamma(loc m, count k, concentration a, rate b) on pairs (mu, v) of a mean and a
** variance: v ~ InverseGamma(a, b), mu | v ~ Normal(m, v / k), the conjugate prior of both,
**   log p(mu, v) = (log k - log 2 pi - log v) / 2 - k (mu - m)^2 / (2 v) + a log b - lgamma(a) - (a + 1) log v - b / v
**   mean (m, b / (a - 1)), variance (b / (k (a - 1)), b^2 / ((a - 1)^2 (a - 2)))
** In evidential regression the four are the network's outputs: gamma, nu, alpha, beta (Amini et al. 2020).
*/
#include "matrix.h"
#include "../stirling.h"
#include "../count/count_mass.h"

#define m d->param[LOC]
#define k d->param[COUNT]
#define a d->param[CONCENTRATION]
#define b d->param[RATE]
enum { LOC, COUNT, CONCENTRATION, RATE };

/* (mu, v) as one pair, of numbers that broadcast */
static T *couple(C *c, T *mu, T *v) {
  pni_spec s;
  if (!mu || !v || pni_broadcast(c, "normal_inverse_gamma", mu, v, &s)) return NULL;
  T *both[2] = {pni_dist_expand_to(c, mu, s.ndim, s.shape), pni_dist_expand_to(c, v, s.ndim, s.shape)};
  return pn_stack(c, 2, both, -1);
}

static T *log_prob(C *c, D *d, T *x) {
  T *mu = pn_select(c, x, -1, 0), *v = pn_select(c, x, -1, 1), *log_v = pn_log(c, v);
  T *distance = pn_mul(c, k, pn_square(c, pn_div(c, pn_sub(c, mu, m), pn_sqrt(c, v))));
  T *normal = times(c, pn_sub(c, pn_sub(c, pn_log(c, k), log_v), distance), 0.5);
  T *t = pn_sub(c, pn_mul(c, a, pn_log(c, b)), pn_lgamma(c, a));
  t = pn_sub(c, t, pn_add(c, pn_mul(c, plus(c, a, 1), log_v), pn_div(c, b, v)));
  return plus(c, pn_add(c, normal, t), -LOG_ROOT_TWO_PI);
}

/* value where a > least, there computed from a number above it; else other */
static T *beyond(C *c, D *d, double least, double other, T *(*value)(C *c, D *d, T *safe)) {
  T *exists = above(c, a, least);
  return only(c, exists, value(c, d, only(c, exists, a, least + 1)), other);
}

/* b / (a - 1) and what follows from it */
static T *expected(C *c, D *d, T *safe) { return pn_div(c, b, plus(c, safe, -1)); }
static T *spread_of_mean(C *c, D *d, T *safe) { return pn_div(c, expected(c, d, safe), k); }
static T *spread_of_variance(C *c, D *d, T *safe) {
  return pn_div(c, pn_square(c, expected(c, d, safe)), plus(c, safe, -2));
}

/* mu is Student's t with 2 a degrees of freedom. */
static T *mean(C *c, D *d) { return couple(c, only(c, above(c, a, 0.5), m, NAN), beyond(c, d, 1, INFINITY, expected)); }
static T *variance(C *c, D *d) {
  T *of_mean = only(c, above(c, a, 0.5), beyond(c, d, 1, INFINITY, spread_of_mean), NAN);
  T *of_variance = only(c, above(c, a, 1), beyond(c, d, 2, INFINITY, spread_of_variance), NAN);
  return couple(c, of_mean, of_variance);
}

static T *mode(C *c, D *d) { return couple(c, m, pn_div(c, b, plus(c, a, 1.5))); }

/* (1 + log 2 pi - log k) / 2 + 3/2 log b + a + lgamma(a) - (a + 3/2) digamma(a): that of v, and the mean over v of
 * that of mu */
static T *entropy(C *c, D *d) {
  T *t = pn_add(c, pni_gamma_surprise(c, a, pni_like(c, a, -1.5)), times(c, pn_log(c, b), 1.5));
  return plus(c, pn_sub(c, t, times(c, pn_log(c, k), 0.5)), 0.5 + LOG_ROOT_TWO_PI);
}

/* v = b / G with G ~ Gamma(a), from its logarithm and kept among the normal numbers */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  pni_spec one = *out;
  one.ndim--;
  double far = log(huge_number(out->dtype)) - 3;
  T *log_v = pn_sub(c, pn_log(c, b), log_gamma(c, rng, a, &one));
  T *v = pn_exp(c, pn_clamp(c, log_v, log(tiny(out->dtype)), far));
  T *mu = pn_add(c, m, pn_mul(c, pn_div(c, pn_sqrt(c, v), pn_sqrt(c, k)), normal_draw(c, rng, &one)));
  return couple(c, mu, v);
}

/* E_p of the KL of mu given v, (log(k_p / k_q) + k_q / k_p - 1 + k_q (m_p - m_q)^2 a_p / b_p) / 2, and the KL of v:
 * (a_p - a_q) digamma(a_p) - lgamma(a_p) + lgamma(a_q) + a_q log(b_p / b_q) + a_p (b_q - b_p) / b_p */
T *pni_kl_normal_inverse_gamma_normal_inverse_gamma(C *c, D *p, D *d) {
  T *mp = p->param[LOC], *kp = p->param[COUNT], *ap = p->param[CONCENTRATION], *bp = p->param[RATE];
  T *distance = pn_mul(c, k, pn_square(c, pn_sub(c, mp, m)));
  T *gap = pni_apply1(c, &pni_op_log1p_gap, pn_div(c, pn_sub(c, k, kp), kp), NULL);
  T *of_mean = times(c, pn_add(c, gap, pn_mul(c, distance, pn_div(c, ap, bp))), 0.5);
  T *of_variance = pn_add(c, pni_deviance(c, a, pn_mul(c, ap, pn_div(c, b, bp))), pni_lgamma_bend(c, ap, a));
  return pn_add(c, of_mean, of_variance);
}

const pni_distribution pni_dist_normal_inverse_gamma = {
    .name = "normal_inverse_gamma",
    .doc = "pairs (mu, v) of a mean and a variance: v ~ inverse_gamma(concentration, rate), mu | v ~ normal with mean "
           "loc and variance v / count; log p(mu, v) is the sum of the two. Evidential regression calls the four "
           "gamma, nu, alpha, beta",
    .source = "Bernardo & Smith, Bayesian Theory, app. A; Amini et al. 2020, arXiv:1910.02600",
    .moments = "mean of mu loc, of v rate / (concentration - 1); variance of mu rate / (count (concentration - 1))",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = ""},
              {.name = "count", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "concentration", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "rate", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_mean_and_variance,
    .event = "2",
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
