/*
** von_mises.c: VonMises(loc m, concentration k) of angles -pi <= x <= pi,
**   log p(x) = k cos(x - m) - log(2 pi I_0(k)) = -2 k sin((x - m)/2)^2 - log(2 pi e^-k I_0(k))
** Mean and variance are circular: the direction of E[e^ix], which is m, and 1 - |E[e^ix]| = 1 - I_1(k) / I_0(k).
** Draws: Best & Fisher (1979), with an implicit gradient in k; they and m wrap around at +-pi, where a draw jumps while
** sin and cos of it do not. Kullback-Leibler with t = m_p - m_q and A = I_1(k_p) / I_0(k_p):
**   log(I_0(k_q) / I_0(k_p)) + A (k_p - k_q cos t)
*/
#include "../formula.h"
#include "../kernel/density.h"

#define loc   d->param[LOC]
#define kappa d->param[CONCENTRATION]
enum { LOC, CONCENTRATION };

/* whole turns in z, and z without them */
static T *turns(C *c, T *z) { return pn_round(c, times(c, z, 0.5 / PI)); }
static T *wrap(C *c, T *z) { return pn_sub(c, z, times(c, turns(c, z), 2 * PI)); }

/* 2 sin(z / 2)^2 = 1 - cos z */
static T *rise(C *c, T *z) { return times(c, pn_square(c, pn_sin(c, times(c, z, 0.5))), 2); }
static T *log_norm(C *c, D *d) { return plus(c, pn_log_i0e(c, kappa), LOG_2 + LOG_PI); }

static T *log_prob(C *c, D *d, T *x) { return pni_von_mises_density(c, x, loc, kappa); }

/* The centred angle at which x = -pi lies. */
static T *start(C *c, D *d) { return from(c, -PI, wrap(c, loc)); }

/* The arc from -pi to x, and that from x to pi, as seen from m. */
static T *arc(C *c, D *d, T *x, bool upper) {
  T *low = wrap(c, start(c, d)), *at = pn_add(c, low, plus(c, x, PI));
  if (!upper) return pni_apply(c, &pni_op_von_mises_log_mass, 3, (T *[]){kappa, low, at}, &(pni_attr){.ni = 1});
  T *from = wrap(c, at), *to = pn_add(c, from, pn_sub(c, pni_like(c, x, PI), x));
  return pni_apply(c, &pni_op_von_mises_log_mass, 3, (T *[]){kappa, from, to}, &(pni_attr){.ni = 1});
}
static T *log_cdf(C *c, D *d, T *x) { return arc(c, d, x, false); }
static T *log_survival(C *c, D *d, T *x) { return arc(c, d, x, true); }
static T *cdf(C *c, D *d, T *x) { return pn_exp(c, log_cdf(c, d, x)); }

static T *icdf(C *c, D *d, T *p) {
  T *a = start(c, d), *low = wrap(c, a), *end = equals(c, p, 0), *all = equals(c, p, 1);
  T *below_zero = pn_lt(c, low, pni_like(c, low, 0)), *tail = pn_von_mises_cdf(c, kappa, pn_neg(c, pn_abs(c, low)));
  T *q = pn_where(c, below_zero, pn_add(c, p, tail), pn_sub(c, p, tail)), *over = above(c, q, 1),
    *under = below(c, q, 0);
  q = pn_where(c, over, plus(c, q, -1), pn_where(c, under, plus(c, q, 1), q));
  T *x = wrap(c, pn_add(c, wrap(c, loc), pn_von_mises_icdf(c, kappa, q)));
  return but(c, end, -PI, but(c, all, PI, x));
}

static T *mean(C *c, D *d) { return wrap(c, loc); }
static T *variance(C *c, D *d) { return pn_bessel_gap(c, kappa); }
/* log(2 pi e^-k I_0(k)) + k (1 - A) */
static T *entropy(C *c, D *d) { return pn_add(c, log_norm(c, d), pn_mul(c, kappa, pn_bessel_gap(c, kappa))); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *z = pn_von_mises_draw(c, rng, pni_dist_expand_to(c, kappa, out->ndim, out->shape));
  return pn_clamp(c, wrap(c, pn_add(c, loc, z)), -PI, PI);
}

/* with everything scaled by e^-k: k_q A (1 - cos t) - (1 - A) (k_p - k_q) + log(e^-k I_0 of q / of p) */
T *pni_kl_von_mises_von_mises(C *c, D *p, D *d) {
  T *kp = p->param[CONCENTRATION], *gap = pn_bessel_gap(c, kp);
  T *apart = pn_mul(c, pn_mul(c, kappa, from(c, 1, gap)), rise(c, pn_sub(c, p->param[LOC], loc)));
  T *t = pn_sub(c, apart, pn_mul(c, gap, pn_sub(c, kp, kappa)));
  return pn_add(c, t, pn_sub(c, pn_log_i0e(c, kappa), pn_log_i0e(c, kp)));
}

const pni_distribution pni_dist_von_mises = {
    .name = "von_mises",
    .doc = "angles around loc, the normal of the circle: log p(x) = concentration cos(x - loc) - "
           "log(2 pi I_0(concentration)), -pi <= x <= pi",
    .source = "Mardia & Jupp, Directional Statistics, 3.5; Best & Fisher, Applied Statistics 28 (1979)",
    .moments =
        "circular: mean and mode loc (wrapped into -pi .. pi), variance 1 - I_1(concentration) / I_0(concentration)",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "concentration", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_angle,
    .event = "",
    .flags = PNI_DIST_IN_DOUBLE,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mean,
    .entropy = entropy,
    .rsample = rsample};
