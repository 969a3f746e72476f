/*
** zero_inflated_poisson.c: ZeroInflatedPoisson(gate g, rate r): 0 with probability g, else Poisson(r),
**   log p(0) = log(g + (1 - g) e^-r),  log p(x) = log(1 - g) + log Poisson(x | r)
**   mean (1 - g) r, variance (1 - g) r (1 + g r)
*/
#include "../formula.h"
#include "count_draw.h"
#include "count_mass.h"
#include "count_quantile.h"
#include "count_tail.h"
#include "../kernel/log_share.h"
#include "../../math/special.h"

enum { GATE, RATE };
#define gate d->param[GATE]
#define rate d->param[RATE]

/* Each branch sees the gate only where it is taken, so that a gate of 1 has finite gradients at 0. */
static T *log_prob(C *c, D *d, T *x) {
  T *none = equals(c, x, 0), *shut = only(c, none, gate, 1);
  T *at_zero = pni_log_residue(c, shut, from(c, 1, shut), only(c, none, rate, 1));
  T *poisson = pni_poisson(c, x, rate);
  return pn_where(c, none, at_zero, pn_add(c, pn_log1p(c, pn_neg(c, but(c, none, 0, gate))), poisson));
}

/* g + (1 - g) Q(k + 1, r), which leaves (1 - g) P(k + 1, r) */
static T *lower(C *c, D *d, T *k) {
  return pn_add(c, gate, pn_mul(c, from(c, 1, gate), pn_gammaincc(c, plus(c, k, 1), rate)));
}
/* log(1 - g) without slope at g = 1 */
static T *log_open(C *c, T *shut) {
  T *all = equals(c, shut, 1);
  return but(c, all, -INFINITY, pn_log1p(c, pn_neg(c, but(c, all, 0, shut))));
}
static T *log_part(C *c, D *d, T *k, bool upper) {
  T *part = pni_log_gamma_share(c, plus(c, k, 1), rate, !upper);
  return upper ? pn_add(c, log_open(c, gate), part) : pni_log_residue(c, gate, from(c, 1, gate), pn_neg(c, part));
}
STEPS
LOG_PARTS

static double cdf_at(double k, const double *v) { return v[0] + (1 - v[0]) * pni_gammaincc(k + 1, v[1]); }
static void place(const double *v, double *middle, double *deviation) {
  double g = v[0], r = v[1];
  *middle = (1 - g) * r;
  *deviation = sqrt((1 - g) * r * (1 + g * r));
}
static double top(const double *v) { return v[0] < 1 ? INFINITY : 0; }
static const pni_count_family family = {cdf_at, place, top};
static T *icdf(C *c, D *d, T *p) { return pni_count_quantile(c, d, &family, p, 2, (T *[]){gate, rate}); }

static T *mean(C *c, D *d) { return pn_mul(c, from(c, 1, gate), rate); }
static T *variance(C *c, D *d) { return pn_mul(c, mean(c, d), plus(c, pn_mul(c, gate, rate), 1)); }

/* 0 or the mode of the Poisson part */
static T *mode(C *c, D *d) {
  T *other = pn_floor(c, rate), *zero = pn_mul(c, other, pni_like(c, other, 0));
  return pn_where(c, pn_gt(c, log_prob(c, d, other), log_prob(c, d, zero)), other, zero);
}

/* With H and m_0 = e^-r of the Poisson part and p_0 = g + (1 - g) e^-r of the whole:
 * -p_0 log p_0 + (1 - g) (H - r m_0 - (1 - m_0) log(1 - g)) */
static T *entropy(C *c, D *d) {
  pn_dist *part = pn_dist_new(c, "poisson", 1, NULL, &rate);
  T *h = part ? part->kind->entropy(c, part) : NULL, *open = from(c, 1, gate), *never = equals(c, open, 0);
  pn_dist_unref(part);
  T *some = pn_neg(c, pn_expm1(c, pn_neg(c, rate))), *log_none = pni_log_residue(c, gate, open, rate);
  T *none = pn_mul(c, pn_exp(c, log_none), log_none), *m0 = pn_exp(c, pn_neg(c, rate));
  T *log_open = pn_log1p(c, pn_neg(c, but(c, never, 0, gate)));
  T *rest = pn_sub(c, pn_sub(c, h, pn_mul(c, rate, m0)), pn_mul(c, some, log_open));
  return pn_sub(c, pn_mul(c, open, rest), none);
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *closed = pn_le(c, uniform_draw(c, rng, out), gate);
  return but(c, closed, 0, pni_count_draw(c, rng, out, &pni_count_poisson, rate, NULL));
}

const pni_distribution pni_dist_zero_inflated_poisson = {
    .name = "zero_inflated_poisson",
    .doc = "0 with probability gate, else a Poisson number: log p(0) = log(gate + (1 - gate) e^-rate), log p(x) = "
           "log(1 - gate) + x log(rate) - rate - lgamma(x + 1)",
    .source = "Lambert, Zero-inflated Poisson regression, Technometrics 34 (1992)",
    .moments = "mean (1 - gate) rate, variance (1 - gate) rate (1 + gate rate)",
    .param = {{.name = "gate", .constraint = &pni_constraint_unit_interval, .axes = ""},
              {.name = "rate", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_nonnegative_integer,
    .event = "",
    .flags = PNI_DIST_DISCRETE | PNI_DIST_IN_DOUBLE,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .sample = sample};
