/*
** expectation.c: what kinds offer to divergences. psi is the digamma function, psi' the trigamma.
**   gamma(a, b)         E log x = psi(a) - log b, Var = psi'(a), E 1/x = b / (a - 1) (a > 1, else inf),
**                       E[x; x < t] = (a / b) P(a + 1, b t)
**   log_normal(m, s)    m, s^2, e^(s^2 / 2 - m), E[x; x < t] = E[x] Phi((log t - m) / s - s)
**   half_normal(s)      log s - (gamma + log 2) / 2, pi^2 / 8, inf
**   beta(a, b)          psi(a) - psi(a + b), psi'(a) - psi'(a + b), (a + b - 1) / (a - 1) (a > 1, else inf),
**                       E[x; x < t] = E[x] I_t(a + 1, b)
**   uniform(l, h)       u = (h - l) / h, L = log(1 - u): log h - 1 - (1 - u) L / u, 1 - (1 - u) L^2 / u^2
**   student_t(v)        E[z; z < t] = -(v + t^2) / (v - 1) f(t)
** (Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions; the others follow by integration.)
*/
#include "expectation.h"
#include "../formula.h"

static T *trigamma(C *c, T *x) { return pn_polygamma(c, 1, x); }
static T *infinite(C *c, D *d) { return constant(c, d, INFINITY); }
/* n / (a - 1) for a > 1, else inf */
static T *over_less_one(C *c, T *n, T *a) {
  T *exists = above(c, a, 1);
  return only(c, exists, pn_div(c, n, plus(c, only(c, exists, a, 2), -1)), INFINITY);
}

/* ---- gamma, chi2, exponential ---- */

enum { A, B };
#define a_ d->param[A]
#define b_ d->param[B]

static T *gamma_log(C *c, D *d) { return pn_sub(c, pn_digamma(c, a_), pn_log(c, b_)); }
static T *gamma_log_variance(C *c, D *d) { return trigamma(c, a_); }
static T *gamma_reciprocal(C *c, D *d) { return over_less_one(c, b_, a_); }
static T *gamma_partial(C *c, D *d, T *t) {
  return pn_mul(c, pn_div(c, a_, b_), pn_gammainc(c, plus(c, a_, 1), pn_mul(c, b_, t)));
}

static T *half_df(C *c, D *d) { return times(c, a_, 0.5); }
static T *chi2_log(C *c, D *d) { return plus(c, pn_digamma(c, half_df(c, d)), LOG_2); }
static T *chi2_log_variance(C *c, D *d) { return trigamma(c, half_df(c, d)); }
static T *chi2_reciprocal(C *c, D *d) { return over_less_one(c, constant(c, d, 0.5), half_df(c, d)); }
static T *chi2_partial(C *c, D *d, T *t) {
  return pn_mul(c, a_, pn_gammainc(c, plus(c, half_df(c, d), 1), times(c, t, 0.5)));
}

static T *exponential_log(C *c, D *d) { return from(c, -EULER, pn_log(c, a_)); }
static T *exponential_log_variance(C *c, D *d) { return constant(c, d, PI * PI / 6); }
/* (1 - e^-z (1 + z)) / rate, z = rate t */
static T *exponential_partial(C *c, D *d, T *t) {
  T *z = pn_mul(c, a_, t);
  return pn_neg(c, pn_div(c, pn_add(c, pn_expm1(c, pn_neg(c, z)), pn_mul(c, z, pn_exp(c, pn_neg(c, z)))), a_));
}

/* ---- inverse_gamma ---- */

static T *inverse_gamma_log(C *c, D *d) { return pn_neg(c, gamma_log(c, d)); }
static T *inverse_gamma_reciprocal(C *c, D *d) { return pn_div(c, a_, b_); }
static T *inverse_gamma_partial(C *c, D *d, T *t) {
  T *exists = above(c, a_, 1), *less = plus(c, only(c, exists, a_, 2), -1);
  return pn_mul(c, pn_div(c, b_, less), pn_gammaincc(c, less, pn_div(c, b_, t)));
}

/* ---- log_normal, half_normal ---- */

static T *log_normal_log(C *c, D *d) { return (void)c, a_; }
static T *log_normal_log_variance(C *c, D *d) { return pn_square(c, b_); }
static T *log_normal_reciprocal(C *c, D *d) { return pn_exp(c, pn_sub(c, times(c, pn_square(c, b_), 0.5), a_)); }
static T *log_normal_partial(C *c, D *d, T *t) {
  T *z = pn_sub(c, pn_div(c, pn_sub(c, pn_log(c, t), a_), b_), b_);
  return pn_mul(c, d->kind->mean(c, d), pn_ndtr(c, z));
}

static T *half_normal_log(C *c, D *d) { return plus(c, pn_log(c, a_), -0.5 * (EULER + LOG_2)); }
static T *half_normal_log_variance(C *c, D *d) { return constant(c, d, PI * PI / 8); }
static T *half_normal_partial(C *c, D *d, T *t) {
  T *tail = pn_expm1(c, times(c, pn_square(c, pn_div(c, t, a_)), -0.5));
  return times(c, pn_mul(c, a_, tail), -sqrt(2 / PI));
}

/* ---- beta ---- */

static T *beta_log(C *c, D *d) { return pn_sub(c, pn_digamma(c, a_), pn_digamma(c, pn_add(c, a_, b_))); }
static T *beta_log1m(C *c, D *d) { return pn_sub(c, pn_digamma(c, b_), pn_digamma(c, pn_add(c, a_, b_))); }
static T *beta_log_variance(C *c, D *d) { return pn_sub(c, trigamma(c, a_), trigamma(c, pn_add(c, a_, b_))); }
static T *beta_reciprocal(C *c, D *d) { return over_less_one(c, plus(c, pn_add(c, a_, b_), -1), a_); }
static T *beta_partial(C *c, D *d, T *t) {
  return pn_mul(c, d->kind->mean(c, d), pn_betainc(c, plus(c, a_, 1), b_, t));
}

/* ---- uniform, log_uniform: low and high ---- */

/* Ends that are replaced where the logarithm does not exist: the divergence is infinite there. */
typedef struct {
  T *l, *h;
} ends;

static ends positive_ends(C *c, ends e) {
  T *ok = pn_ge(c, e.l, pni_like(c, e.l, 0));
  return (ends){only(c, ok, e.l, 1), only(c, ok, e.h, 2)};
}

/* E log x for x uniform between l and h, 0 <= l */
static T *uniform_mean_log(C *c, ends e) {
  e = positive_ends(c, e);
  T *width = pn_sub(c, e.h, e.l), *u = pn_div(c, width, e.h), *closed = equals(c, e.l, 0);
  T *rest = pn_div(c, e.l, width); /* (1 - u) / u */
  T *t = pn_mul(c, rest, pn_log1p(c, pn_neg(c, but(c, closed, 0.5, u))));
  return pn_sub(c, plus(c, pn_log(c, e.h), -1), but(c, closed, 0, t));
}

static T *uniform_log(C *c, D *d) { return uniform_mean_log(c, (ends){a_, b_}); }
static T *uniform_log1m(C *c, D *d) { return uniform_mean_log(c, (ends){from(c, 1, b_), from(c, 1, a_)}); }

static T *uniform_log_variance(C *c, D *d) {
  ends e = positive_ends(c, (ends){a_, b_});
  T *width = pn_sub(c, e.h, e.l), *closed = equals(c, e.l, 0), *u = but(c, closed, 0.5, pn_div(c, width, e.h));
  T *l = pn_div(c, pn_log1p(c, pn_neg(c, u)), u);
  return but(c, closed, 1, from(c, 1, pn_mul(c, pn_div(c, e.l, e.h), pn_square(c, l))));
}

static T *uniform_reciprocal(C *c, D *d) {
  ends e = positive_ends(c, (ends){a_, b_});
  T *closed = equals(c, e.l, 0), *low = but(c, closed, 1, e.l), *high = but(c, closed, 2, e.h);
  return but(c, closed, INFINITY, pn_div(c, pn_log(c, pn_div(c, high, low)), pn_sub(c, high, low)));
}

/* ((m - l)^2 + (h - m)^2) / (2 (h - l)) inside, |E x - m| outside */
static T *uniform_away(C *c, D *d, T *m) {
  T *inside = pn_logical_and(c, pn_gt(c, m, a_), pn_lt(c, m, b_));
  T *both = pn_add(c, pn_square(c, pn_sub(c, m, a_)), pn_square(c, pn_sub(c, b_, m)));
  T *far = pn_abs(c, pn_sub(c, d->kind->mean(c, d), m));
  return pn_where(c, inside, pn_div(c, both, times(c, pn_sub(c, b_, a_), 2)), far);
}

static T *log_width(C *c, D *d) { return pn_sub(c, pn_log(c, b_), pn_log(c, a_)); }
static T *log_uniform_log(C *c, D *d) { return times(c, pn_add(c, pn_log(c, b_), pn_log(c, a_)), 0.5); }
static T *log_uniform_log_variance(C *c, D *d) { return times(c, pn_square(c, log_width(c, d)), 1.0 / 12); }
static T *log_uniform_reciprocal(C *c, D *d) {
  return pn_div(c, pn_sub(c, pn_reciprocal(c, a_), pn_reciprocal(c, b_)), log_width(c, d));
}
/* E|x - m| = m (2 F(m) - 1) + E x - 2 (m - l) / w with m held between the ends, and |E x - m| beyond them */
static T *log_uniform_away(C *c, D *d, T *m) {
  T *inside = pn_logical_and(c, pn_gt(c, m, a_), pn_lt(c, m, b_)), *at = pn_where(c, inside, m, a_);
  T *w = log_width(c, d), *mean = d->kind->mean(c, d);
  T *share = pn_div(c, pn_log(c, pn_div(c, at, a_)), w);
  T *t = pn_add(c, pn_mul(c, at, plus(c, times(c, share, 2), -1)), mean);
  t = pn_sub(c, t, times(c, pn_div(c, pn_sub(c, at, a_), w), 2));
  return pn_where(c, inside, t, pn_abs(c, pn_sub(c, mean, m)));
}

/* ---- normal, laplace, student_t, truncated_normal ---- */

/* s sqrt(2 / pi) e^(-t^2 / 2) + (loc - m) erf(t / sqrt 2), t = (loc - m) / s */
static T *normal_away(C *c, D *d, T *m) {
  T *shift = pn_sub(c, a_, m), *t = pn_div(c, shift, b_);
  T *peak = times(c, pn_mul(c, b_, pn_exp(c, times(c, pn_square(c, t), -0.5))), sqrt(2 / PI));
  return pn_add(c, peak, pn_mul(c, shift, pn_erf(c, times(c, t, sqrt(0.5)))));
}

/* t + s e^(-t / s), t = |loc - m| */
static T *laplace_away(C *c, D *d, T *m) {
  T *t = pn_abs(c, pn_sub(c, a_, m));
  return pn_add(c, t, pn_mul(c, b_, pn_exp(c, pn_neg(c, pn_div(c, t, b_)))));
}

enum { DF, LOC, SCALE };

/* (m - loc) (2 F(m) - 1) + 2 s^2 (v + t^2) / (v - 1) f(m), t = (m - loc) / s; inf for v <= 1 */
static T *student_t_away(C *c, D *d, T *m) {
  T *v = d->param[DF], *s = d->param[SCALE], *exists = above(c, v, 1), *safe = only(c, exists, v, 2);
  T *shift = pn_sub(c, m, d->param[LOC]), *t = pn_div(c, shift, s);
  T *density = pn_exp(c, d->kind->log_prob(c, d, m));
  T *lead = pn_div(c, pn_add(c, v, pn_square(c, t)), plus(c, safe, -1));
  T *both = pn_mul(c, times(c, pn_square(c, s), 2), pn_mul(c, lead, density));
  T *sides = pn_mul(c, shift, plus(c, times(c, d->kind->cdf(c, d, m), 2), -1));
  return only(c, exists, pn_add(c, sides, both), INFINITY);
}

static T *student_t_square(C *c, D *d, T *m) {
  T *v = d->param[DF], *exists = above(c, v, 2), *safe = only(c, exists, v, 3);
  T *spread = pn_mul(c, pn_square(c, d->param[SCALE]), pn_div(c, safe, plus(c, safe, -2)));
  return only(c, exists, pn_add(c, spread, pn_square(c, pn_sub(c, d->param[LOC], m))), INFINITY);
}

/* ---- rows ---- */

static const pni_expectation rows[] = {
    {.kind = &pni_dist_normal, .away = normal_away},
    {.kind = &pni_dist_laplace, .away = laplace_away},
    {.kind = &pni_dist_student_t, .away = student_t_away, .square_about = student_t_square},
    {.kind = &pni_dist_truncated_normal},
    {.kind = &pni_dist_continuous_bernoulli},
    {&pni_dist_gamma, gamma_log, gamma_log_variance, gamma_reciprocal, .partial_mean = gamma_partial},
    {&pni_dist_chi2, chi2_log, chi2_log_variance, chi2_reciprocal, .partial_mean = chi2_partial},
    {&pni_dist_exponential, exponential_log, exponential_log_variance, infinite, .partial_mean = exponential_partial},
    {&pni_dist_inverse_gamma, inverse_gamma_log, gamma_log_variance, inverse_gamma_reciprocal,
     .partial_mean = inverse_gamma_partial},
    {&pni_dist_log_normal, log_normal_log, log_normal_log_variance, log_normal_reciprocal,
     .partial_mean = log_normal_partial},
    {&pni_dist_half_normal, half_normal_log, half_normal_log_variance, infinite, .partial_mean = half_normal_partial},
    {&pni_dist_beta, beta_log, beta_log_variance, beta_reciprocal, beta_log1m, .partial_mean = beta_partial},
    {&pni_dist_uniform, uniform_log, uniform_log_variance, uniform_reciprocal, uniform_log1m, .away = uniform_away},
    {&pni_dist_log_uniform, log_uniform_log, log_uniform_log_variance, log_uniform_reciprocal,
     .away = log_uniform_away},
};

const pni_expectation *pni_expectation_find(const pni_distribution *kind) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].kind == kind) return &rows[i];
  return NULL;
}

int pni_expectation_offers(const pni_expectation *e) {
  int offers = 0;
  if (e->kind->mean) offers |= PNI_NEED_MEAN;
  if (e->kind->mean && e->kind->variance) offers |= PNI_NEED_SQUARE;
  if (e->log) offers |= PNI_NEED_LOG;
  if (e->log_variance) offers |= PNI_NEED_LOG_VARIANCE;
  if (e->reciprocal) offers |= PNI_NEED_RECIPROCAL;
  if (e->log1m) offers |= PNI_NEED_LOG1M;
  if (e->away || (e->partial_mean && e->kind->cdf && e->kind->mean)) offers |= PNI_NEED_AWAY;
  return offers;
}

/* ---- asking ---- */

/* m (2 F(m) - 1) + E x - 2 E[x; x < m] for m inside the support, |E x - m| outside */
pn_tensor *pni_expectation_away(C *c, const pni_expectation *e, D *d, T *m) {
  if (e->away) return e->away(c, d, m);
  double low = d->kind->support->low, high = d->kind->support->high;
  T *inside = pn_logical_and(c, above(c, m, low), below(c, m, high));
  T *at = only(c, inside, m, isinf(high) ? low + 1 : (low + high) / 2), *mean = d->kind->mean(c, d);
  T *t = pn_mul(c, at, plus(c, times(c, d->kind->cdf(c, d, at), 2), -1));
  t = pn_add(c, t, pn_sub(c, mean, times(c, e->partial_mean(c, d, at), 2)));
  T *finite = pn_lt(c, mean, infinite(c, d));
  return pn_where(c, inside, only(c, finite, t, INFINITY), pn_abs(c, pn_sub(c, mean, m)));
}

pn_tensor *pni_expectation_square(C *c, const pni_expectation *e, D *d, T *m) {
  if (e->square_about) return e->square_about(c, d, m);
  return pn_add(c, d->kind->variance(c, d), pn_square(c, pn_sub(c, d->kind->mean(c, d), m)));
}
