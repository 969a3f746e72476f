/*
** gamma_half_difference.c: differences of log-gamma and digamma half a unit apart. Of large arguments, where the two
** terms cancel, they are asymptotic series (DLMF 5.11.13), exact to the last digits for h above 60:
**   lgamma(h + 1/2) - lgamma(h) - log(h)/2 ~ -1/(8 h) + 1/(192 h^3) - 1/(640 h^5) + 17/(14336 h^7)
**   digamma(h + 1/2) - digamma(h) ~ 1/(2 h) + 1/(8 h^2) - 1/(64 h^4) + 1/(128 h^6) - 17/(2048 h^8)
*/
#include "matrix.h"

/* The series of 1/h for large h, else the definition; each sees harmless numbers where it is not used. */
static T *by_size(C *c, T *h, T *(*exact)(C *c, T *h), T *(*series)(C *c, T *r)) {
  T *large = above(c, h, 60), *r = pn_reciprocal(c, only(c, large, h, 60));
  return pn_where(c, large, series(c, r), exact(c, but(c, large, 1, h)));
}

/* x (c0 + c1 r^2 + c2 r^4 + c3 r^6) */
static T *odd_series(C *c, T *x, T *r, double c0, double c1, double c2, double c3) {
  T *r2 = pn_square(c, r), *s = plus(c, times(c, r2, c3), c2);
  s = plus(c, pn_mul(c, s, r2), c1);
  return pn_mul(c, x, plus(c, pn_mul(c, s, r2), c0));
}

static T *exact_step(C *c, T *h) {
  T *t = pn_sub(c, pn_lgamma(c, plus(c, h, 0.5)), pn_lgamma(c, h));
  return pn_sub(c, t, times(c, pn_log(c, h), 0.5));
}
static T *far_step(C *c, T *r) { return odd_series(c, r, r, -1.0 / 8, 1.0 / 192, -1.0 / 640, 17.0 / 14336); }

static T *exact_slope(C *c, T *h) { return pn_sub(c, pn_digamma(c, plus(c, h, 0.5)), pn_digamma(c, h)); }
static T *far_slope(C *c, T *r) {
  T *t = odd_series(c, pn_square(c, r), r, 1.0 / 8, -1.0 / 64, 1.0 / 128, -17.0 / 2048);
  return pn_add(c, t, times(c, r, 0.5));
}

T *pni_lgamma_half_step(C *c, T *h) { return by_size(c, h, exact_step, far_step); }
T *pni_digamma_half_step(C *c, T *h) { return by_size(c, h, exact_slope, far_slope); }
