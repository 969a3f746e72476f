/*
** cross_entropy.c: what kinds ask of another's expectations: -E_p[log q(x)] for each kind q that has it in a few of
** them, and the divergence of two different kinds out of it.
*/
#include "cross_entropy.h"
#include "../formula.h"
#include "expectation.h"
#include "support.h"

typedef const pni_expectation E;
typedef struct {
  const pni_distribution *kind;
  int needs;
  T *(*cross_entropy)(C *c, D *d, D *p, E *e);
} asker;

/* ---- -E_p[log q(x)], d = q ---- */

enum { FIRST, SECOND };
#define one d->param[FIRST]
#define two d->param[SECOND]

static T *normal_norm(C *c, T *scale) { return plus(c, pn_log(c, scale), LOG_ROOT_TWO_PI); }
/* E[(x - m)^2] / (2 s^2); infinite without a slope, which a mask around it would make NaN */
static T *half_square(C *c, D *p, E *e, T *m, T *s) {
  T *square = pni_expectation_square(c, e, p, m), *finite = pn_isfinite(c, square);
  return only(c, finite, times(c, pn_div(c, only(c, finite, square, 1), pn_square(c, s)), 0.5), INFINITY);
}

static T *of_normal(C *c, D *d, D *p, E *e) { return pn_add(c, normal_norm(c, two), half_square(c, p, e, one, two)); }

static T *of_half_normal(C *c, D *d, D *p, E *e) {
  T *half = half_square(c, p, e, constant(c, d, 0), one);
  return plus(c, pn_add(c, normal_norm(c, one), half), -LOG_2);
}

/* log q(x) = log q(mode) + ((mode - m)^2 - (x - m)^2) / (2 s^2) */
static T *of_truncated_normal(C *c, D *d, D *p, E *e) {
  T *mode = d->kind->mode(c, d), *peak = d->kind->log_prob(c, d, mode);
  T *there = times(c, pn_square(c, pn_div(c, pn_sub(c, mode, one), two)), 0.5);
  return pn_sub(c, half_square(c, p, e, one, two), pn_add(c, peak, there));
}

static T *of_laplace(C *c, D *d, D *p, E *e) {
  return plus(c, pn_add(c, pn_log(c, two), pn_div(c, pni_expectation_away(c, e, p, one), two)), LOG_2);
}

static T *of_exponential(C *c, D *d, D *p, E *e) {
  return (void)e, pn_sub(c, pn_mul(c, one, p->kind->mean(c, p)), pn_log(c, one));
}

/* lgamma(a) - a log b - (a - 1) E log x + b E x */
static T *gamma_form(C *c, D *p, E *e, T *a, T *b) {
  T *norm = pn_sub(c, pn_lgamma(c, a), pn_mul(c, a, pn_log(c, b)));
  T *t = pn_sub(c, pn_mul(c, b, p->kind->mean(c, p)), pn_mul(c, plus(c, a, -1), e->log(c, p)));
  return pn_add(c, norm, t);
}
static T *of_gamma(C *c, D *d, D *p, E *e) { return gamma_form(c, p, e, one, two); }
static T *of_chi2(C *c, D *d, D *p, E *e) { return gamma_form(c, p, e, times(c, one, 0.5), constant(c, d, 0.5)); }

/* lgamma(a) - a log b + (a + 1) E log x + b E 1/x */
static T *of_inverse_gamma(C *c, D *d, D *p, E *e) {
  T *norm = pn_sub(c, pn_lgamma(c, one), pn_mul(c, one, pn_log(c, two)));
  T *t = pn_add(c, pn_mul(c, two, e->reciprocal(c, p)), pn_mul(c, plus(c, one, 1), e->log(c, p)));
  return pn_add(c, norm, t);
}

static T *of_log_normal(C *c, D *d, D *p, E *e) {
  T *log_x = e->log(c, p), *away = pn_square(c, pn_sub(c, log_x, one));
  T *half = times(c, pn_div(c, pn_add(c, e->log_variance(c, p), away), pn_square(c, two)), 0.5);
  return pn_add(c, pn_add(c, normal_norm(c, two), log_x), half);
}

static T *of_uniform(C *c, D *d, D *p, E *e) { return (void)e, (void)p, pn_log(c, pn_sub(c, two, one)); }
static T *of_log_uniform(C *c, D *d, D *p, E *e) {
  return pn_add(c, e->log(c, p), pn_log(c, pn_sub(c, pn_log(c, two), pn_log(c, one))));
}

static T *of_beta(C *c, D *d, D *p, E *e) {
  T *t = pn_add(c, pn_mul(c, plus(c, one, -1), e->log(c, p)), pn_mul(c, plus(c, two, -1), e->log1m(c, p)));
  return pn_sub(c, log_beta(c, one, two), t);
}

/* log q is linear: its value at the mean */
static T *of_continuous_bernoulli(C *c, D *d, D *p, E *e) {
  return (void)e, pn_neg(c, d->kind->log_prob(c, d, p->kind->mean(c, p)));
}

/* With k = concentration and s = scale: k log s - log k - (k - 1) E log x + E x^k / s^k */
static T *of_weibull(C *c, D *d, D *p, E *e) {
  T *log_scale = pn_log(c, one),
    *hazard = pn_mul(c, e->power(c, p, two), pn_exp(c, pn_neg(c, pn_mul(c, two, log_scale))));
  T *t = pn_sub(c, pn_mul(c, two, log_scale), pn_log(c, two));
  return pn_add(c, pn_sub(c, t, pn_mul(c, plus(c, two, -1), e->log(c, p))), hazard);
}

static T *of_pareto(C *c, D *d, D *p, E *e) {
  T *t = pn_add(c, pn_log(c, two), pn_mul(c, two, pn_log(c, one)));
  return pn_sub(c, pn_mul(c, plus(c, two, 1), e->log(c, p)), t);
}

/* log s + (E x - m) / s + E e^(-(x - m) / s) */
static T *of_gumbel(C *c, D *d, D *p, E *e) {
  T *t = pn_add(c, pn_log(c, two), pn_div(c, pn_sub(c, p->kind->mean(c, p), one), two));
  return pn_add(c, t, e->decay(c, p, one, two));
}

/* log(pi s) + E log(1 + ((x - m) / s)^2); of |x| less log 2 */
static T *cauchy_form(C *c, D *p, E *e, T *m, T *s) {
  return plus(c, pn_add(c, e->log_distance(c, p, m, s), pn_log(c, s)), LOG_PI);
}
static T *of_cauchy(C *c, D *d, D *p, E *e) { return cauchy_form(c, p, e, one, two); }
static T *of_half_cauchy(C *c, D *d, D *p, E *e) {
  return plus(c, cauchy_form(c, p, e, constant(c, d, 0), one), -LOG_2);
}

/* (v + 1)/2 E log(1 + (x - m)^2 / (v s^2)) - log q(m) */
static T *of_student_t(C *c, D *d, D *p, E *e) {
  enum { DF, LOC, SCALE };
  T *v = d->param[DF], *m = d->param[LOC], *apart = e->log_distance(c, p, m, pn_mul(c, pn_sqrt(c, v), d->param[SCALE]));
  return pn_sub(c, times(c, pn_mul(c, plus(c, v, 1), apart), 0.5), d->kind->log_prob(c, d, m));
}

/* log s + (E x - m) / s + 2 E log(1 + e^(-(x - m) / s)) */
static T *of_logistic(C *c, D *d, D *p, E *e) {
  T *t = pn_add(c, pn_log(c, two), pn_div(c, pn_sub(c, p->kind->mean(c, p), one), two));
  return pn_add(c, t, times(c, e->softplus(c, p, one, two), 2));
}

static const asker rows[] = {
    {&pni_dist_normal, PNI_NEED_SQUARE, of_normal},
    {&pni_dist_half_normal, PNI_NEED_SQUARE, of_half_normal},
    {&pni_dist_truncated_normal, PNI_NEED_SQUARE, of_truncated_normal},
    {&pni_dist_laplace, PNI_NEED_AWAY, of_laplace},
    {&pni_dist_exponential, PNI_NEED_MEAN, of_exponential},
    {&pni_dist_gamma, PNI_NEED_MEAN | PNI_NEED_LOG, of_gamma},
    {&pni_dist_chi2, PNI_NEED_MEAN | PNI_NEED_LOG, of_chi2},
    {&pni_dist_inverse_gamma, PNI_NEED_LOG | PNI_NEED_RECIPROCAL, of_inverse_gamma},
    {&pni_dist_log_normal, PNI_NEED_LOG | PNI_NEED_LOG_VARIANCE, of_log_normal},
    {&pni_dist_uniform, 0, of_uniform},
    {&pni_dist_weibull, PNI_NEED_LOG | PNI_NEED_POWER, of_weibull},
    {&pni_dist_pareto, PNI_NEED_LOG, of_pareto},
    {&pni_dist_gumbel, PNI_NEED_MEAN | PNI_NEED_DECAY, of_gumbel},
    {&pni_dist_cauchy, PNI_NEED_LOG_DISTANCE, of_cauchy},
    {&pni_dist_half_cauchy, PNI_NEED_LOG_DISTANCE, of_half_cauchy},
    {&pni_dist_student_t, PNI_NEED_LOG_DISTANCE, of_student_t},
    {&pni_dist_logistic, PNI_NEED_MEAN | PNI_NEED_SOFTPLUS, of_logistic},
    {&pni_dist_log_uniform, PNI_NEED_LOG, of_log_uniform},
    {&pni_dist_beta, PNI_NEED_LOG | PNI_NEED_LOG1M, of_beta},
    {&pni_dist_continuous_bernoulli, PNI_NEED_MEAN, of_continuous_bernoulli},
};

static const asker *find(const pni_distribution *q) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].kind == q) return &rows[i];
  return NULL;
}

/* ---- the divergence ---- */

pni_kl_state pni_cross_known(const pni_distribution *p, const pni_distribution *q) {
  if (pni_support_never_inside(p, q)) return PNI_KL_INFINITE;
  if (p == q) return PNI_KL_MISSING;
  const asker *a = find(q);
  E *e = pni_expectation_find(p);
  if (!a || !e || !p->entropy) return PNI_KL_MISSING;
  if (a->needs & e->infinite) return PNI_KL_INFINITE;
  return (a->needs & ~pni_expectation_offers(e)) ? PNI_KL_MISSING : PNI_KL_FORMULA;
}

pn_tensor *pni_cross_kl(C *c, D *p, D *q) {
  pni_kl_state known = pni_cross_known(p->kind, q->kind);
  if (known != PNI_KL_FORMULA) return known == PNI_KL_INFINITE ? constant(c, p, INFINITY) : NULL;
  E *e = pni_expectation_find(p->kind);
  T *kl = pn_sub(c, find(q->kind)->cross_entropy(c, q, p, e), p->kind->entropy(c, p));
  return pni_support_moves(p->kind, q->kind) ? but(c, pni_support_outside(c, p, q), INFINITY, kl) : kl;
}
