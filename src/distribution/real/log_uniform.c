/*
** log_uniform.c: LogUniform(low, high) on low <= x <= high, 0 < low: the scale-invariant prior of a positive scale,
**   log p(x) = -log x - log w,  w = log(high / low),  mean (high - low) / w,  E[x^2] = (high^2 - low^2) / (2 w)
** Kullback-Leibler: log(w_q / w_p) where q's interval holds p's, else inf.
*/
#include "../formula.h"
#include "../kernel/density.h"
#include "../kernel/draw.h"

#define low  d->param[LOW]
#define high d->param[HIGH]
enum { LOW, HIGH };

static pn_status check(C *c, D *d) { return pni_dist_require_order(c, d, LOW, HIGH); }
/* log(high / low), of close ends from their difference */
static T *width(C *c, D *d) {
  T *rise = pn_div(c, pn_sub(c, high, low), low), *close = below(c, rise, 1);
  return pn_where(c, close, pn_log1p(c, only(c, close, rise, 1)), pn_sub(c, pn_log(c, high), pn_log(c, low)));
}

static T *in_support(C *c, D *d, T *x) { return pn_logical_and(c, pn_ge(c, x, low), pn_le(c, x, high)); }
static T *log_prob(C *c, D *d, T *x) { return pni_log_uniform_density(c, x, low, high); }

static T *cdf(C *c, D *d, T *x) {
  T *left = pn_le(c, x, low), *right = pn_ge(c, x, high), *mid = pn_where(c, pn_logical_or(c, left, right), low, x);
  T *part = pn_div(c, pn_log(c, pn_div(c, mid, low)), width(c, d));
  return but(c, left, 0, but(c, right, 1, part));
}

/* log of a share log(ratio) of the width; outside without slope */
static T *log_width(C *c, D *d, T *above_line, T *below_line, T *none, T *all) {
  T *inner = pn_logical_not(c, pn_logical_or(c, none, all)), *w = width(c, d);
  T *part = pn_sub(c, pn_log(c, pn_where(c, inner, above_line, high)), pn_log(c, pn_where(c, inner, below_line, low)));
  return but(c, none, -INFINITY, but(c, all, 0, pn_log(c, pn_div(c, part, w))));
}
static T *log_cdf(C *c, D *d, T *x) { return log_width(c, d, x, low, pn_le(c, x, low), pn_ge(c, x, high)); }
static T *log_survival(C *c, D *d, T *x) { return log_width(c, d, high, x, pn_ge(c, x, high), pn_le(c, x, low)); }

static T *icdf(C *c, D *d, T *p) { return pn_mul(c, low, pn_exp(c, pn_mul(c, width(c, d), p))); }
static T *mean(C *c, D *d) { return pn_div(c, pn_sub(c, high, low), width(c, d)); }
/* low high (sinh s / s) (cosh s - sinh s / s), s = w / 2; for small s by Taylor's series, sum_(k >= 1) 2 k s^2k / (2 k
 * + 1)! of the second factor */
static T *variance(C *c, D *d) {
  T *square = pn_mul(c, mean(c, d), times(c, pn_add(c, high, low), 0.5)), *s = times(c, width(c, d), 0.5);
  T *near = below(c, s, 0.5), *t = pn_square(c, only(c, near, s, 0.5)), *sum = constant(c, d, 0);
  double k[8], factorial = 1;
  for (int i = 1; i < 8; i++) k[i] = 2 * i / (factorial *= 2 * i * (2 * i + 1));
  for (int i = 7; i > 0; i--) sum = pn_mul(c, plus(c, sum, k[i]), t);
  T *root = pn_mul(c, mean(c, d), pn_mul(c, pn_sqrt(c, low), pn_sqrt(c, high)));
  return pn_where(c, near, pn_mul(c, root, sum), pn_sub(c, square, pn_square(c, mean(c, d))));
}
static T *mode(C *c, D *d) { return (void)c, low; }
/* E[log x] + log w */
static T *entropy(C *c, D *d) {
  T *middle = times(c, pn_add(c, pn_log(c, low), pn_log(c, high)), 0.5);
  return pn_add(c, middle, pn_log(c, width(c, d)));
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_log_between(c, uniform_draw(c, rng, out), low, high);
}

T *pni_kl_log_uniform_log_uniform(C *c, D *p, D *d) {
  T *holds = pn_logical_and(c, pn_ge(c, p->param[LOW], low), pn_le(c, p->param[HIGH], high));
  return only(c, holds, pn_log(c, pn_div(c, width(c, d), width(c, p))), INFINITY);
}

const pni_distribution pni_dist_log_uniform = {
    .name = "log_uniform",
    .doc = "uniform in the logarithm, a prior for scales: log p(x) = -log(x) - log(log(high / low)), low <= x <= high",
    .source = "Jeffreys, Theory of Probability, 3.1; on a bounded range",
    .moments = "with w = log(high / low): mean (high - low) / w, variance (high^2 - low^2) / (2 w) - mean^2, mode low",
    .param = {{.name = "low", .constraint = &pni_constraint_positive, .axes = "", .example = 0.5},
              {.name = "high", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_interval,
    .event = "",
    .flags = PNI_DIST_TOTAL | PNI_DIST_IN_DOUBLE,
    .check = check,
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
