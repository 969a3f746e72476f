/*
** continuous_bernoulli.c: ContinuousBernoulli(probs or logits l) on 0 <= x <= 1 (Loaiza-Ganem & Cunningham 2019),
**   log p(x) = x l - log((e^l - 1) / l)
**   mean 1 / (1 - e^-l) - 1 / l,  variance 1 / l^2 - 1 / (4 sinh(l/2)^2)
** Written in |l|, as x and 1 - x change places with the sign of l; near l = 0 by Taylor's series.
*/
#include "../formula.h"
#include "../kernel/log_share.h"

enum { PROBS, LOGITS };

static T *derive_probs(C *c, D *d) { return pn_sigmoid(c, d->param[LOGITS]); }
static T *derive_logits(C *c, D *d) {
  T *p = d->param[PROBS];
  return pn_sub(c, pn_log(c, p), pn_log1p(c, pn_neg(c, p)));
}
static T *logits(C *c, D *d) { return pni_dist_param(c, d, LOGITS); }

/* Is |l| so small that the series are used? They keep the error below 1e-16 relative up to 0.2. */
static T *near_zero(C *c, T *l) { return below(c, pn_abs(c, l), 0.2); }

/* k[0] + k[1] l^2 + k[2] l^4 + ... */
static T *series(C *c, T *l2, const double *k, int n) {
  T *s = times(c, l2, k[n - 1]);
  for (int i = n - 2; i > 0; i--) s = pn_mul(c, plus(c, s, k[i]), l2);
  return plus(c, s, k[0]);
}

/* log((e^l - 1) / l) - l / 2 = log(sinh(l/2) / (l/2)), even in l */
static T *log_norm(C *c, T *l) {
  static const double k[] = {
      0, 1.0 / 24, -1.0 / 2880, 1.0 / 181440, -1.0 / 9676800, 1.0 / 479001600, -691.0 / 15692092416000.0};
  T *near = near_zero(c, l), *small = only(c, near, l, 0), *size = pn_abs(c, but(c, near, 1, l));
  T *far = pn_add(c, times(c, size, 0.5), pn_sub(c, pn_log1mexp(c, pn_neg(c, size)), pn_log(c, size)));
  return pn_where(c, near, series(c, pn_square(c, small), k, 7), far);
}

static T *log_prob(C *c, D *d, T *x) {
  T *l = logits(c, d);
  return pn_sub(c, pn_mul(c, plus(c, x, -0.5), l), log_norm(c, l));
}

/* F at x, 1 - x = rest: (e^(l x) - 1) / (e^l - 1) = e^(-l rest) (1 - e^(-l x)) / (1 - e^-l), of which l > 0 takes the
 * second form and l < 0 the first. By symmetry 1 - F is F at rest of -l. */
static T *share(C *c, T *l, T *x, T *rest) {
  T *even = below(c, pn_abs(c, l), 1e-9), *size = pn_abs(c, but(c, even, 1, l));
  T *ratio = pn_div(c, pn_expm1(c, pn_neg(c, pn_mul(c, size, x))), pn_expm1(c, pn_neg(c, size)));
  T *shift = pn_mul(c, only(c, above(c, l, 0), size, 0), rest);
  T *flat = pn_mul(c, x, pn_sub(c, pni_like(c, x, 1), pn_mul(c, times(c, l, 0.5), rest)));
  return pn_where(c, even, flat, pn_mul(c, pn_exp(c, pn_neg(c, shift)), ratio));
}
static T *log_of_share(C *c, T *l, T *x, T *rest) {
  T *even = below(c, pn_abs(c, l), 1e-9), *size = pn_abs(c, but(c, even, 1, l));
  T *ratio = pn_sub(c, pn_log1mexp(c, pn_neg(c, pn_mul(c, size, x))), pn_log1mexp(c, pn_neg(c, size)));
  T *shift = pn_mul(c, only(c, above(c, l, 0), size, 0), rest);
  T *flat = pn_sub(c, pn_log(c, x), pn_mul(c, times(c, l, 0.5), rest));
  return pn_where(c, even, flat, pn_sub(c, ratio, shift));
}
/* The logarithm from the smaller of the two shares. */
static T *log_tail(C *c, T *l, T *x, T *rest) {
  T *other = share(c, pn_neg(c, l), rest, x), *large = below(c, other, 0.5);
  T *half = pni_like(c, x, 0.5), *near = pn_log1p(c, pn_neg(c, only(c, large, other, 0)));
  return pn_where(c, large, near, log_of_share(c, l, pn_where(c, large, half, x), pn_where(c, large, half, rest)));
}

static T *cdf(C *c, D *d, T *x) { return share(c, logits(c, d), x, from(c, 1, x)); }
static T *log_cdf(C *c, D *d, T *x) { return log_tail(c, logits(c, d), x, from(c, 1, x)); }
static T *log_survival(C *c, D *d, T *x) { return log_tail(c, pn_neg(c, logits(c, d)), from(c, 1, x), x); }

/* log(1 + p (e^l - 1)) / l; of l < 0 log(1 - p + p e^l) / l, of l so large that e^l overflows 1 + log(p + (1 - p) e^-l)
 * / l */
static T *icdf(C *c, D *d, T *p) {
  T *l = logits(c, d), *even = below(c, pn_abs(c, l), 1e-9), *size = pn_abs(c, but(c, even, 1, l));
  T *negative = below(c, l, 0), *rest = from(c, 1, p);
  T *heavy = pn_neg(c, pn_div(c, pni_log_residue(c, rest, p, size), size));
  T *small = below(c, size, log(huge_number(d->dtype)) - 1), *growth = pn_expm1(c, only(c, small, size, 1));
  T *light = plus(c, pn_div(c, pni_log_residue(c, p, rest, size), size), 1);
  light = pn_where(c, small, pn_div(c, pn_log1p(c, pn_mul(c, p, growth)), size), light);
  return pn_where(c, even, p, pn_where(c, negative, heavy, light));
}

/* mean - 1/2, odd in l: 1/2 - 1/s + 1/(e^s - 1) for s = l > 0 */
static T *excess(C *c, D *d) {
  static const double k[] = {1.0 / 12,       -1.0 / 720,     1.0 / 30240,
                             -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0};
  T *l = logits(c, d), *near = near_zero(c, l), *small = only(c, near, l, 0), *safe = but(c, near, 1, l);
  T *size = pn_abs(c, safe), *low = pn_sub(c, pn_reciprocal(c, size), pn_reciprocal(c, pn_expm1(c, size)));
  T *far = pn_where(c, above(c, safe, 0), from(c, 0.5, low), plus(c, low, -0.5));
  return pn_where(c, near, pn_mul(c, small, series(c, pn_square(c, small), k, 6)), far);
}

/* of negative l 1/s - 1/(e^s - 1), s = -l: not from excess, where it would lose its digits */
static T *mean(C *c, D *d) {
  T *l = logits(c, d), *left = below(c, l, -0.2), *size = pn_neg(c, only(c, left, l, -1));
  T *low = pn_sub(c, pn_reciprocal(c, size), pn_reciprocal(c, pn_expm1(c, size)));
  return pn_where(c, left, low, plus(c, excess(c, d), 0.5));
}

static T *variance(C *c, D *d) {
  static const double k[] = {1.0 / 12, -1.0 / 240, 1.0 / 6048, -1.0 / 172800, 1.0 / 5322240, -691.0 / 118879488000.0};
  T *l = logits(c, d), *near = near_zero(c, l), *small = only(c, near, l, 0), *size = pn_abs(c, but(c, near, 1, l));
  /* 1/(4 sinh(s/2)^2) = e^-s / (1 - e^-s)^2 */
  T *tail = pn_div(c, pn_exp(c, pn_neg(c, size)), pn_square(c, pn_expm1(c, pn_neg(c, size))));
  T *far = pn_sub(c, pn_reciprocal(c, pn_square(c, size)), tail);
  return pn_where(c, near, series(c, pn_square(c, small), k, 6), far);
}

/* The end with the larger density. */
static T *mode(C *c, D *d) {
  T *l = logits(c, d);
  return but(c, above(c, l, 0), 1, but(c, below(c, l, 0), 0, plus(c, times(c, l, 0), 0.5)));
}

static T *entropy(C *c, D *d) {
  T *l = logits(c, d);
  return pn_sub(c, log_norm(c, l), pn_mul(c, excess(c, d), l));
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pn_clamp(c, icdf(c, d, uniform_draw(c, rng, out)), 0, 1);
}

/* (m_p - 1/2)(l_p - l_q) - norm_p + norm_q */
T *pni_kl_continuous_bernoulli_continuous_bernoulli(C *c, D *p, D *d) {
  T *lp = logits(c, p), *l = logits(c, d);
  T *t = pn_mul(c, excess(c, p), pn_sub(c, lp, l));
  return pn_add(c, t, pn_sub(c, log_norm(c, l), log_norm(c, lp)));
}

const pni_distribution pni_dist_continuous_bernoulli = {
    .name = "continuous_bernoulli",
    .doc = "shares between 0 and 1 as a Bernoulli's likelihood takes them: log p(x) = x l - log((e^l - 1) / l), "
           "l = logits = log(probs / (1 - probs))",
    .source = "Loaiza-Ganem & Cunningham, The continuous Bernoulli, NeurIPS 2019",
    .moments = "mean 1 / (1 - e^-l) - 1 / l, variance 1 / l^2 - 1 / (4 sinh(l / 2)^2), mode the end with more density",
    .param = {{.name = "probs",
               .constraint = &pni_constraint_open_unit_interval,
               .axes = "",
               .choice = 1,
               .derive = derive_probs},
              {.name = "logits", .constraint = &pni_constraint_real, .axes = "", .choice = 1, .derive = derive_logits}},
    .support = &pni_constraint_unit_interval,
    .event = "",
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
