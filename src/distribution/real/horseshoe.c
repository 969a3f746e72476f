/*
** horseshoe.c: Horseshoe(scale t) on the reals, x = t l n with l half-Cauchy and n normal. Its density is, with
** u = x^2 / (2 t^2) and E_1 the exponential integral,
**   p(x) = e^u E_1(u) / (t sqrt(2 pi^3))
** (Carvalho, Polson & Scott, Biometrika 97, 2010, give the bounds log(1 + 4/v) / 2 < e^(v/2) E_1(v/2) < log(1 + 2/v)
** of it). It is infinite at 0; the tails are those of a Cauchy: no variance.
*/
#include "../formula.h"

#define scale d->param[0]

#define LOG_NORM (0.5 * LOG_2 + 1.5 * LOG_PI) /* log sqrt(2 pi^3) */

/* Far out, where u would overflow, e^u E_1(u) = 1 / u to all digits. */
static T *log_prob(C *c, D *d, T *x) {
  T *z = pn_abs(c, pn_div(c, x, scale)), *far = above(c, z, 1e9), *u = times(c, pn_square(c, but(c, far, 1, z)), 0.5);
  T *tail = plus(c, times(c, pn_log(c, only(c, far, z, 1)), -2), LOG_2);
  return pn_sub(c, pn_where(c, far, tail, pn_log(c, pn_expintx(c, u))), plus(c, pn_log(c, scale), LOG_NORM));
}

static T *mode(C *c, D *d) { return times(c, scale, 0); }

/* t n tan(pi u / 2): u is at most 1, where the tangent is large but finite */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *n = normal_draw(c, rng, out), *l = pn_tan(c, times(c, uniform_draw(c, rng, out), 0.5 * PI));
  return pn_mul(c, scale, pn_mul(c, n, pn_abs(c, l)));
}

const pni_distribution pni_dist_horseshoe = {
    .name = "horseshoe",
    .doc = "normal whose standard deviation is half-Cauchy with the given scale: "
           "log p(x) = log(e^u E_1(u)) - log(scale) - log(2 pi^3) / 2, u = (x / scale)^2 / 2; infinite at 0",
    .source = "Carvalho, Polson & Scott, The horseshoe estimator for sparse signals, Biometrika 97 (2010)",
    .moments = "none; the density is infinite at its mode, 0",
    .param = {{.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_real,
    .event = "",
    .log_prob = log_prob,
    .mode = mode,
    .rsample = rsample};
