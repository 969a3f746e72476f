/*
** pareto.c: Pareto(scale, alpha) on x >= scale, w = log(x / scale), which is exponential with rate alpha,
**   log p(x) = log alpha - alpha w - log x,  mean alpha scale / (alpha - 1) (alpha > 1, else inf),
**   variance scale^2 alpha / ((alpha - 1)^2 (alpha - 2)) (alpha > 2, else inf)
*/
#include "../formula.h"

#define scale d->param[SCALE]
#define alpha d->param[ALPHA]
enum { SCALE, ALPHA };

/* log(x / scale), exact near scale; where the ratio may overflow by logarithms */
static T *log_ratio(C *c, D *d, T *x) {
  T *far = equals(c, pn_div(c, pn_detach(c, x), pn_detach(c, scale)), INFINITY);
  if (!any_of(c, far)) return pn_log1p(c, pn_div(c, pn_sub(c, x, scale), scale));
  T *close = pn_where(c, far, times(c, scale, 2), x), *out = pn_where(c, far, x, scale);
  T *near = pn_log1p(c, pn_div(c, pn_sub(c, close, scale), scale));
  return pn_where(c, far, pn_sub(c, pn_log(c, out), pn_log(c, scale)), near);
}

static T *in_support(C *c, D *d, T *x) { return pn_logical_and(c, pn_isfinite(c, x), pn_ge(c, x, scale)); }

static T *log_prob(C *c, D *d, T *x) {
  T *tail = pn_add(c, pn_mul(c, alpha, log_ratio(c, d, x)), pn_log(c, x));
  return pn_sub(c, pn_log(c, alpha), tail);
}

/* alpha w; below scale and at inf, where functions of it are constant, of something else */
typedef struct {
  T *none, *all, *w;
} exponent;

static exponent exponent_of(C *c, D *d, T *x) {
  T *none = pn_le(c, x, scale), *all = equals(c, x, INFINITY);
  T *inner = pn_where(c, pn_logical_or(c, none, all), times(c, scale, 2), x);
  return (exponent){none, all, pn_mul(c, alpha, log_ratio(c, d, inner))};
}
static T *cdf(C *c, D *d, T *x) {
  exponent e = exponent_of(c, d, x);
  return but(c, e.none, 0, but(c, e.all, 1, pn_neg(c, pn_expm1(c, pn_neg(c, e.w)))));
}
static T *log_cdf(C *c, D *d, T *x) {
  exponent e = exponent_of(c, d, x);
  return but(c, e.none, -INFINITY, but(c, e.all, 0, pn_log1mexp(c, pn_neg(c, e.w))));
}
static T *log_survival(C *c, D *d, T *x) {
  exponent e = exponent_of(c, d, x);
  return but(c, e.none, 0, but(c, e.all, -INFINITY, pn_neg(c, e.w)));
}

/* scale (1 - p)^(-1 / alpha) */
static T *icdf(C *c, D *d, T *p) {
  return pn_mul(c, scale, pn_exp(c, pn_neg(c, pn_div(c, pn_log1p(c, pn_neg(c, p)), alpha))));
}

static T *mean(C *c, D *d) {
  T *exists = above(c, alpha, 1), *a = only(c, exists, alpha, 2);
  return only(c, exists, pn_div(c, pn_mul(c, a, scale), plus(c, a, -1)), INFINITY);
}
static T *variance(C *c, D *d) {
  T *exists = above(c, alpha, 2), *a = only(c, exists, alpha, 3);
  T *v = pn_mul(c, pn_square(c, pn_div(c, scale, plus(c, a, -1))), pn_div(c, a, plus(c, a, -2)));
  return only(c, exists, v, INFINITY);
}
static T *mode(C *c, D *d) { return (void)c, scale; }

/* log(scale / alpha) + 1 + 1 / alpha */
static T *entropy(C *c, D *d) {
  T *t = pn_sub(c, pn_log(c, scale), pn_log(c, alpha));
  return plus(c, pn_add(c, t, pn_reciprocal(c, alpha)), 1);
}

/* Kept finite where alpha is so small that a draw would overflow. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *w = pn_neg(c, pn_div(c, pn_log(c, uniform_draw(c, rng, out)), alpha));
  T *log_x = pn_clamp(c, pn_add(c, w, pn_log(c, scale)), -INFINITY, log(huge_number(out->dtype)) * (1 - FLT_EPSILON));
  return pn_maximum(c, pn_mul(c, scale, pn_exp(c, pn_sub(c, log_x, pn_log(c, scale)))), scale);
}

/* With r = alpha_q / alpha_p: alpha_q log(s_p / s_q) - log r + r - 1; inf where q begins above p */
T *pni_kl_pareto_pareto(C *c, D *p, D *d) {
  T *sp = p->param[SCALE], *holds = pn_ge(c, sp, scale), *r = pn_div(c, alpha, p->param[ALPHA]);
  T *shift = pn_mul(c, alpha, pn_sub(c, pn_log(c, sp), pn_log(c, scale)));
  return only(c, holds, pn_add(c, shift, plus(c, pn_sub(c, r, pn_log(c, r)), -1)), INFINITY);
}

const pni_distribution pni_dist_pareto = {
    .name = "pareto",
    .doc = "sizes above a threshold with a power tail: log p(x) = log(alpha) + alpha log(scale) - (alpha + 1) log(x), "
           "x >= scale",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 20",
    .moments = "mean alpha scale / (alpha - 1), inf for alpha <= 1; variance scale^2 alpha / ((alpha - 1)^2 (alpha - "
               "2)), inf for alpha <= 2; mode scale",
    .param = {{.name = "scale", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "alpha", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_half_line,
    .event = "",
    .in_support = in_support,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
