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
**   weibull(s, k)       log s - gamma / k, pi^2 / (6 k^2), s^-1 Gamma(1 - 1 / k) (k > 1, else inf),
**                       E[x; x < t] = E[x] P(1 + 1 / k, (t / s)^k)
**   pareto(s, a)        log s + 1 / a, 1 / a^2, a / (s (a + 1)), E[x; x < t] = E[x] (1 - (s / t)^(a - 1))
**   kumaraswamy(a, b)   x^a is beta(1, b)
**   gumbel, logistic    E|z - t| = 2 E_1(e^-t) + gamma - t and 2 log(1 + e^t) - t
**   half_cauchy(s)      log s, pi^2 / 4
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

/* 2 E_1(e^-t) + gamma - t, t = (m - loc) / s; t - gamma from 36 on, where e^-t is nothing */
static T *gumbel_away(C *c, D *d, T *m) {
  T *t = pn_div(c, pn_sub(c, m, a_), b_), *far = above(c, t, 36), *z = pn_exp(c, pn_neg(c, but(c, far, 0, t)));
  T *e1 = pn_mul(c, pn_exp(c, pn_neg(c, z)), pn_expintx(c, z));
  T *near = pn_sub(c, plus(c, times(c, e1, 2), EULER), t);
  return pn_mul(c, b_, pn_where(c, far, plus(c, t, -EULER), near));
}

static T *logistic_away(C *c, D *d, T *m) {
  T *t = pn_div(c, pn_sub(c, m, a_), b_);
  return pn_mul(c, b_, pn_sub(c, times(c, pn_softplus(c, t), 2), t));
}

/* ---- weibull, pareto, kumaraswamy, half_cauchy: a_ and b_ are their parameters in order ---- */

static T *weibull_log(C *c, D *d) { return pn_sub(c, pn_log(c, a_), times(c, pn_reciprocal(c, b_), EULER)); }
static T *weibull_log_variance(C *c, D *d) { return times(c, pn_reciprocal(c, pn_square(c, b_)), PI * PI / 6); }
static T *weibull_reciprocal(C *c, D *d) {
  T *exists = above(c, b_, 1), *k = only(c, exists, b_, 2);
  T *g = pn_exp(c, pn_lgamma(c, from(c, 1, pn_reciprocal(c, k))));
  return only(c, exists, pn_div(c, g, a_), INFINITY);
}
static T *weibull_partial(C *c, D *d, T *t) {
  T *h = pn_exp(c, pn_mul(c, b_, pn_sub(c, pn_log(c, t), pn_log(c, a_))));
  return pn_mul(c, d->kind->mean(c, d), pn_gammainc(c, plus(c, pn_reciprocal(c, b_), 1), h));
}

static T *pareto_log(C *c, D *d) { return pn_add(c, pn_log(c, a_), pn_reciprocal(c, b_)); }
static T *pareto_log_variance(C *c, D *d) { return pn_reciprocal(c, pn_square(c, b_)); }
static T *pareto_reciprocal(C *c, D *d) { return pn_div(c, b_, pn_mul(c, a_, plus(c, b_, 1))); }
/* With r = s / m below 1: m (1 - 2 r^a) - E x + 2 E x r^(a - 1) */
static T *pareto_away(C *c, D *d, T *m) {
  T *exists = above(c, b_, 1), *alpha = only(c, exists, b_, 2), *inside = pn_gt(c, m, a_);
  T *mean = pn_div(c, pn_mul(c, alpha, a_), plus(c, alpha, -1)), *at = pn_where(c, inside, m, a_);
  T *log_r = pn_sub(c, pn_log(c, a_), pn_log(c, at));
  T *tail = pn_exp(c, pn_mul(c, alpha, log_r)), *share = pn_exp(c, pn_mul(c, plus(c, alpha, -1), log_r));
  T *t = pn_sub(c, pn_mul(c, at, from(c, 1, times(c, tail, 2))), mean);
  t = pn_add(c, t, times(c, pn_mul(c, mean, share), 2));
  return only(c, exists, pn_where(c, inside, t, pn_sub(c, mean, m)), INFINITY);
}

static T *kumaraswamy_log(C *c, D *d) {
  return pn_div(c, pn_neg(c, plus(c, pn_digamma(c, plus(c, b_, 1)), EULER)), a_);
}
static T *kumaraswamy_log_variance(C *c, D *d) {
  return pn_div(c, from(c, PI * PI / 6, trigamma(c, plus(c, b_, 1))), pn_square(c, a_));
}
/* b B(1 + r / a, b) */
static T *kumaraswamy_power(C *c, D *d, T *r) {
  return pn_mul(c, b_, pn_exp(c, log_beta(c, plus(c, pn_div(c, r, a_), 1), b_)));
}
static T *kumaraswamy_reciprocal(C *c, D *d) {
  T *exists = above(c, a_, 1), *safe = only(c, exists, a_, 2);
  T *value = pn_mul(c, b_, pn_exp(c, log_beta(c, from(c, 1, pn_reciprocal(c, safe)), b_)));
  return only(c, exists, value, INFINITY);
}
static T *kumaraswamy_partial(C *c, D *d, T *t) {
  T *y = pn_exp(c, pn_mul(c, a_, pn_log(c, t)));
  return pn_mul(c, d->kind->mean(c, d), pn_betainc(c, plus(c, pn_reciprocal(c, a_), 1), b_, y));
}

static T *half_cauchy_log(C *c, D *d) { return pn_log(c, a_); }
static T *half_cauchy_log_variance(C *c, D *d) { return constant(c, d, PI * PI / 4); }
/* s^r / cos(pi r / 2) for r < 1, else inf */
static T *half_cauchy_power(C *c, D *d, T *r) {
  T *exists = below(c, r, 1), *safe = only(c, exists, r, 0.5);
  T *value = pn_div(c, pn_exp(c, pn_mul(c, safe, pn_log(c, a_))), pn_cos(c, times(c, safe, PI / 2)));
  return pn_add(c, only(c, exists, value, INFINITY), constant(c, d, 0));
}

/* ---- powers ---- */

/* Gamma(a + r) / Gamma(a) b^-r */
static T *gamma_moment(C *c, T *a, T *r, T *log_b) {
  T *t = pn_sub(c, pn_lgamma(c, pn_add(c, a, r)), pn_lgamma(c, a));
  return pn_exp(c, pn_sub(c, t, pn_mul(c, r, log_b)));
}
static T *gamma_power(C *c, D *d, T *r) { return gamma_moment(c, a_, r, pn_log(c, b_)); }
static T *chi2_power(C *c, D *d, T *r) { return gamma_moment(c, half_df(c, d), r, constant(c, d, -LOG_2)); }
static T *exponential_power(C *c, D *d, T *r) { return gamma_moment(c, constant(c, d, 1), r, pn_log(c, a_)); }
static T *inverse_gamma_power(C *c, D *d, T *r) {
  T *exists = pn_gt(c, a_, r), *safe = pn_where(c, exists, r, times(c, a_, 0.5));
  return only(c, exists, gamma_moment(c, a_, pn_neg(c, safe), pn_log(c, b_)), INFINITY);
}
static T *log_normal_power(C *c, D *d, T *r) {
  return pn_exp(c, pn_add(c, pn_mul(c, r, a_), times(c, pn_square(c, pn_mul(c, r, b_)), 0.5)));
}
/* x^2 / (2 s^2) is gamma(1/2, 1) */
static T *half_normal_power(C *c, D *d, T *r) {
  T *log_rate = from(c, -LOG_2, times(c, pn_log(c, a_), 2));
  return gamma_moment(c, constant(c, d, 0.5), times(c, r, 0.5), log_rate);
}
static T *beta_power(C *c, D *d, T *r) {
  return pn_exp(c, pn_sub(c, log_beta(c, pn_add(c, a_, r), b_), log_beta(c, a_, b_)));
}
/* (h^(r + 1) - l^(r + 1)) / ((r + 1)(h - l)), 0 <= l */
static T *uniform_power(C *c, D *d, T *r) {
  ends e = positive_ends(c, (ends){a_, b_});
  T *n = plus(c, r, 1), *closed = equals(c, e.l, 0), *low = but(c, closed, 1, e.l);
  T *from_low = but(c, closed, 0, pn_exp(c, pn_mul(c, n, pn_log(c, low))));
  T *rise = pn_sub(c, pn_exp(c, pn_mul(c, n, pn_log(c, e.h))), from_low);
  return pn_div(c, rise, pn_mul(c, n, pn_sub(c, e.h, e.l)));
}
/* (h^r - l^r) / (r w) */
static T *log_uniform_power(C *c, D *d, T *r) {
  T *w = log_width(c, d), *rise = pn_expm1(c, pn_mul(c, r, w));
  return pn_div(c, pn_mul(c, rise, pn_exp(c, pn_mul(c, r, pn_log(c, a_)))), pn_mul(c, r, w));
}
static T *pareto_power(C *c, D *d, T *r) {
  T *exists = pn_gt(c, b_, r), *safe = pn_where(c, exists, r, times(c, b_, 0.5));
  T *value = pn_div(c, pn_mul(c, b_, pn_exp(c, pn_mul(c, safe, pn_log(c, a_)))), pn_sub(c, b_, safe));
  return only(c, exists, value, INFINITY);
}

/* ---- E[e^(-(x - m) / s)] ---- */

static T *normal_decay(C *c, D *d, T *m, T *s) {
  T *half = times(c, pn_square(c, pn_div(c, b_, s)), 0.5);
  return pn_exp(c, pn_add(c, pn_div(c, pn_sub(c, m, a_), s), half));
}
/* e^((m - loc) / s) / (1 - r^2), r = scale / s below 1, else inf */
static T *laplace_decay(C *c, D *d, T *m, T *s) {
  T *r = pn_div(c, b_, s), *exists = below(c, r, 1);
  T *gap = from(c, 1, pn_square(c, only(c, exists, r, 0)));
  return only(c, exists, pn_div(c, pn_exp(c, pn_div(c, pn_sub(c, m, a_), s)), gap), INFINITY);
}
/* e^((m - loc) / s) pi r / sin(pi r), r = scale / s below 1, else inf */
static T *logistic_decay(C *c, D *d, T *m, T *s) {
  T *r = pn_div(c, b_, s), *exists = below(c, r, 1), *angle = times(c, only(c, exists, r, 0.5), PI);
  T *value = pn_mul(c, pn_exp(c, pn_div(c, pn_sub(c, m, a_), s)), pn_div(c, angle, pn_sin(c, angle)));
  return only(c, exists, value, INFINITY);
}
/* e^(m / s) (1 + 1 / (b s))^-a */
static T *gamma_form_decay(C *c, T *a, T *b, T *m, T *s) {
  T *fall = pn_mul(c, a, pn_log1p(c, pn_reciprocal(c, pn_mul(c, b, s))));
  return pn_exp(c, pn_sub(c, pn_div(c, m, s), fall));
}
static T *gamma_decay(C *c, D *d, T *m, T *s) { return gamma_form_decay(c, a_, b_, m, s); }
static T *chi2_decay(C *c, D *d, T *m, T *s) { return gamma_form_decay(c, half_df(c, d), constant(c, d, 0.5), m, s); }
static T *exponential_decay(C *c, D *d, T *m, T *s) { return gamma_form_decay(c, constant(c, d, 1), a_, m, s); }
static T *half_normal_decay(C *c, D *d, T *m, T *s) {
  return pn_mul(c, pn_exp(c, pn_div(c, m, s)), pn_erfcx(c, times(c, pn_div(c, a_, s), sqrt(0.5))));
}
/* e^((m - l) / s) (1 - e^-w) / w, w = (h - l) / s */
static T *uniform_decay(C *c, D *d, T *m, T *s) {
  T *w = pn_div(c, pn_sub(c, b_, a_), s), *share = pn_div(c, pn_neg(c, pn_expm1(c, pn_neg(c, w))), w);
  return pn_mul(c, pn_exp(c, pn_div(c, pn_sub(c, m, a_), s)), share);
}

/* ---- rows ---- */

static const pni_expectation rows[] = {
    {.kind = &pni_dist_normal, .away = normal_away, .decay = normal_decay},
    {.kind = &pni_dist_laplace, .away = laplace_away, .decay = laplace_decay},
    {.kind = &pni_dist_logistic,
     .away = logistic_away,
     .decay = logistic_decay,
     .log_distance = pni_logistic_log_distance},
    {.kind = &pni_dist_gumbel, .away = gumbel_away},
    {.kind = &pni_dist_student_t, .infinite = PNI_NEED_DECAY, .away = student_t_away, .square_about = student_t_square},
    {.kind = &pni_dist_cauchy,
     .infinite = PNI_NEED_SQUARE | PNI_NEED_AWAY | PNI_NEED_DECAY | PNI_NEED_SOFTPLUS,
     .log_distance = pni_cauchy_log_distance},
    {.kind = &pni_dist_truncated_normal},
    {.kind = &pni_dist_continuous_bernoulli, .infinite = PNI_NEED_RECIPROCAL},
    {.kind = &pni_dist_gamma,
     .log = gamma_log,
     .log_variance = gamma_log_variance,
     .reciprocal = gamma_reciprocal,
     .partial_mean = gamma_partial,
     .power = gamma_power,
     .decay = gamma_decay},
    {.kind = &pni_dist_chi2,
     .log = chi2_log,
     .log_variance = chi2_log_variance,
     .reciprocal = chi2_reciprocal,
     .partial_mean = chi2_partial,
     .power = chi2_power,
     .decay = chi2_decay},
    {.kind = &pni_dist_exponential,
     .infinite = PNI_NEED_RECIPROCAL,
     .log = exponential_log,
     .log_variance = exponential_log_variance,
     .partial_mean = exponential_partial,
     .power = exponential_power,
     .decay = exponential_decay},
    {.kind = &pni_dist_inverse_gamma,
     .log = inverse_gamma_log,
     .log_variance = gamma_log_variance,
     .reciprocal = inverse_gamma_reciprocal,
     .partial_mean = inverse_gamma_partial,
     .power = inverse_gamma_power},
    {.kind = &pni_dist_log_normal,
     .log = log_normal_log,
     .log_variance = log_normal_log_variance,
     .reciprocal = log_normal_reciprocal,
     .partial_mean = log_normal_partial,
     .power = log_normal_power},
    {.kind = &pni_dist_half_normal,
     .infinite = PNI_NEED_RECIPROCAL,
     .log = half_normal_log,
     .log_variance = half_normal_log_variance,
     .partial_mean = half_normal_partial,
     .power = half_normal_power,
     .decay = half_normal_decay},
    {.kind = &pni_dist_weibull,
     .log = weibull_log,
     .log_variance = weibull_log_variance,
     .reciprocal = weibull_reciprocal,
     .partial_mean = weibull_partial},
    {.kind = &pni_dist_pareto,
     .log = pareto_log,
     .log_variance = pareto_log_variance,
     .reciprocal = pareto_reciprocal,
     .away = pareto_away,
     .power = pareto_power},
    {.kind = &pni_dist_half_cauchy,
     .infinite = PNI_NEED_MEAN | PNI_NEED_SQUARE | PNI_NEED_AWAY | PNI_NEED_RECIPROCAL,
     .log = half_cauchy_log,
     .log_variance = half_cauchy_log_variance,
     .power = half_cauchy_power},
    {.kind = &pni_dist_beta,
     .log = beta_log,
     .log_variance = beta_log_variance,
     .reciprocal = beta_reciprocal,
     .log1m = beta_log1m,
     .partial_mean = beta_partial,
     .power = beta_power},
    {.kind = &pni_dist_kumaraswamy,
     .log = kumaraswamy_log,
     .log_variance = kumaraswamy_log_variance,
     .reciprocal = kumaraswamy_reciprocal,
     .log1m = pni_kumaraswamy_log1m,
     .partial_mean = kumaraswamy_partial,
     .power = kumaraswamy_power},
    {.kind = &pni_dist_uniform,
     .log = uniform_log,
     .log_variance = uniform_log_variance,
     .reciprocal = uniform_reciprocal,
     .log1m = uniform_log1m,
     .away = uniform_away,
     .power = uniform_power,
     .decay = uniform_decay,
     .log_distance = pni_uniform_log_distance,
     .softplus = pni_uniform_softplus},
    {.kind = &pni_dist_log_uniform,
     .log = log_uniform_log,
     .log_variance = log_uniform_log_variance,
     .reciprocal = log_uniform_reciprocal,
     .away = log_uniform_away,
     .power = log_uniform_power},
};

const pni_expectation *pni_expectation_find(const pni_distribution *kind) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].kind == kind) return &rows[i];
  return NULL;
}

int pni_expectation_offers(const pni_expectation *e) {
  int offers = e->infinite;
  if (e->kind->mean) offers |= PNI_NEED_MEAN;
  if (e->square_about || (e->kind->mean && e->kind->variance)) offers |= PNI_NEED_SQUARE;
  if (e->log) offers |= PNI_NEED_LOG;
  if (e->log_variance) offers |= PNI_NEED_LOG_VARIANCE;
  if (e->reciprocal) offers |= PNI_NEED_RECIPROCAL;
  if (e->log1m) offers |= PNI_NEED_LOG1M;
  if (e->away || (e->partial_mean && e->kind->cdf && e->kind->mean)) offers |= PNI_NEED_AWAY;
  if (e->power) offers |= PNI_NEED_POWER;
  if (e->decay) offers |= PNI_NEED_DECAY;
  if (e->log_distance) offers |= PNI_NEED_LOG_DISTANCE;
  if (e->softplus) offers |= PNI_NEED_SOFTPLUS;
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
