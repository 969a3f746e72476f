/*
** dirichlet.c: Dirichlet(concentration a_1 .. a_n) on vectors of n shares that sum to 1, a_0 = sum a_i,
**   log p(x) = sum (a_i - 1) log x_i - log B(a),  log B(a) = sum lgamma(a_i) - lgamma(a_0)
**   mean m_i = a_i / a_0, variance m_i (1 - m_i) / (a_0 + 1)
** The density is one of x_1 .. x_{n-1}. Draws are the softmax of logarithms of gamma draws, so that tiny
** concentrations do not give 0 / 0; their gradient is the gamma draws' (implicit).
*/
#include "matrix.h"
#include "../stirling.h"
#include "../count/count_mass.h"
#include "../kernel/density.h"

#define a d->param[CONCENTRATION]
enum { CONCENTRATION };

static T *sum(C *c, T *v) { return pn_sum(c, v, LAST, 0); }
static T *total(C *c, D *d) { return pn_sum(c, a, LAST, 1); }
static T *log_norm(C *c, D *d) { return pn_sub(c, sum(c, pn_lgamma(c, a)), pn_lgamma(c, sum(c, a))); }

/* sum (a_i - 1) log x_i. A share of 0 stands for a logarithm of the largest size, so that it counts nothing where
 * a_i = 1; elsewhere the sum is then beyond any that positive shares have, and infinite. */
static T *log_power(C *c, D *d, T *x) {
  double size = huge_number(d->dtype), far = d->dtype == PN_FLOAT64 ? 1e290 : 1e30;
  T *log_x = pn_clamp(c, pn_log(c, x), -size, size), *power = plus(c, a, -1);
  T *t = a->ndim == 1 ? pn_matmul(c, log_x, power) : sum(c, pn_mul(c, power, log_x));
  return but(c, below(c, t, -far), -INFINITY, but(c, above(c, t, far), INFINITY, t));
}

static bool is_total(D *d) { return pni_dirichlet_fits(a); }

static T *log_prob(C *c, D *d, T *x) {
  return is_total(d) ? pni_dirichlet_log_density(c, x, a) : pn_sub(c, log_power(c, d, x), log_norm(c, d));
}

static T *mean(C *c, D *d) { return pn_div(c, a, total(c, d)); }
/* 1 - m_i; of a share near 1, of which there is one, by the other concentrations */
static T *other_shares(C *c, D *d) {
  T *n = total(c, d), *top = pn_eq(c, a, pn_max(c, a, LAST, 1));
  T *alone = equals(c, pn_sum(c, pn_cast(c, top, (pn_dtype)d->dtype), LAST, 1), 1);
  T *others = pn_sum(c, but(c, top, 0, a), LAST, 1);
  return pn_div(c, pn_where(c, pn_logical_and(c, top, alone), others, pn_sub(c, n, a)), n);
}
static T *variance(C *c, D *d) { return pn_div(c, pn_mul(c, mean(c, d), other_shares(c, d)), plus(c, total(c, d), 1)); }

/* (a - 1) / (a_0 - n) for a > 1; a share with a <= 1 is 0; if all are, the corner with the highest pole: that of the
 * largest a, the middle of several. */
static T *mode(C *c, D *d) {
  T *excess = pn_relu(c, plus(c, a, -1)), *some = pn_sum(c, excess, LAST, 1), *found = above(c, some, 0);
  T *top = pn_cast(c, pn_eq(c, a, pn_max(c, a, LAST, 1)), (pn_dtype)d->dtype);
  T *corner = pn_div(c, top, pn_sum(c, top, LAST, 1));
  return pn_where(c, found, pn_div(c, excess, only(c, found, some, 1)), corner);
}

/* log B(a) + (a_0 - n) digamma(a_0) - sum (a_i - 1) digamma(a_i) */
static T *entropy(C *c, D *d) {
  T *own = sum(c, pni_gamma_surprise(c, a, constant(c, d, 1)));
  return pn_sub(c, own, pni_gamma_surprise(c, sum(c, a), constant(c, d, (double)last_size(a))));
}

/* Kept inside (0, 1): shares of tiny concentrations round to the ends. Differentiated as gammas: beta.c says why. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *x = pn_softmax(c, log_gamma(c, rng, a, out), -1);
  return last_size(a) == 1 ? x : pn_clamp(c, x, tiny(out->dtype), below_one(out->dtype));
}

/* log B(a_q) - log B(a_p) + sum (a_p - a_q) (digamma(a_p) - digamma(a_p0)): as of beta */
T *pni_kl_dirichlet_dirichlet(C *c, D *p, D *d) {
  T *ap = p->param[CONCENTRATION], *np = total(c, p), *n = total(c, d);
  T *apart = pni_deviance(c, a, pn_mul(c, n, pn_div(c, ap, np)));
  T *t = sum(c, pn_add(c, apart, pni_lgamma_bend(c, ap, a)));
  return pn_sub(c, t, pni_lgamma_bend(c, sum(c, ap), sum(c, a)));
}

const pni_distribution pni_dist_dirichlet = {
    .name = "dirichlet",
    .doc = "shares that sum to 1 with mean a / sum(a): log p(x) = sum (a - 1) log(x) + lgamma(sum a) - sum lgamma(a), "
           "a = concentration [n], a density of the first n - 1 shares",
    .source = "Kotz, Balakrishnan & Johnson, Continuous Multivariate Distributions 1, ch. 49",
    .moments = "with s = sum a: mean a / s, variance a (s - a) / (s^2 (s + 1))",
    .param = {{.name = "concentration", .constraint = &pni_constraint_positive_vector, .axes = "n"}},
    .support = &pni_constraint_simplex,
    .event = "n",
    .total = is_total,
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
