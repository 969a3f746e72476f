/*
** log_share.c: where a share of the mass is a number, its logarithm is taken; where it underflows, x lies so many
** standard deviations from the mean that a few terms of the continued fractions below are exact (8 terms leave 1e-25,
** seen at a from 0.01 to 1e5). They are built of differentiable operations in float64, and only where an element asks
** for them.
**   Q(a, x) = x^a e^-x / Gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)))
**   P(a, x) = x^a e^-x / Gamma(a) / (a - x + 1 x / (a + 1 - x + 2 x / (a + 2 - x + ...)))
**   I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) / (1 + d_1 / (1 + d_2 / (1 + ...))),
**     d_2m = m (b - m) x / ((a + 2 m - 1) (a + 2 m)),  d_2m+1 = -(a + m) (a + b + m) x / ((a + 2 m) (a + 2 m + 1))
** (Legendre 1798 and Gautschi, SIAM Review 9, 1967, for gamma; DLMF 8.17.22.)
*/
#include "log_share.h"
#include "../formula.h"

enum { TERMS = 10 };

/* Below this a share is taken to have underflowed. */
static double least(const T *t) { return t->dtype == PN_FLOAT64 ? 1e-280 : 1e-30; }

/* v where far, elsewhere something harmless, in float64 */
static T *masked(C *c, T *far, T *v, double other) { return pn_cast(c, only(c, far, v, other), PN_FLOAT64); }

/* The logarithm of `mine`, where far that of a tail. */
static T *joined(C *c, T *far, T *mine, T *other, T *tail) {
  T *near = log_share(c, but(c, far, 0.5, mine), but(c, far, 0.5, other));
  return mine && tail ? pn_where(c, far, pn_cast(c, tail, (pn_dtype)mine->dtype), near) : NULL;
}

T *pni_log_gamma_share(C *c, T *a, T *x, bool upper) {
  T *p = pn_gammainc(c, a, x), *q = pn_gammaincc(c, a, x), *mine = upper ? q : p, *other = upper ? p : q;
  if (!p || !q) return NULL;
  T *inside = pn_logical_and(c, above(c, x, 0), below(c, x, INFINITY));
  T *far = pn_logical_and(c, below(c, mine, least(mine)), inside);
  if (!any_of(c, far)) return log_share(c, mine, other);
  T *k = masked(c, far, a, upper ? 1 : 1000), *z = masked(c, far, x, upper ? 1000 : 1);
  T *gap = upper ? pn_sub(c, z, k) : pn_sub(c, k, z), *t = plus(c, gap, upper ? 2 * TERMS + 1 : TERMS);
  for (int n = TERMS; n > 0; n--) {
    T *above_line = upper ? times(c, from(c, n, k), -n) : times(c, z, n);
    t = pn_add(c, plus(c, gap, upper ? 2 * n - 1 : n - 1), pn_div(c, above_line, t));
  }
  T *tail = pn_sub(c, pn_sub(c, pn_mul(c, k, pn_log(c, z)), z), pn_add(c, pn_lgamma(c, k), pn_log(c, t)));
  return joined(c, far, mine, other, tail);
}

/* Where a tenth is left of 1 = kept + rest, log1p of what is lost; else the logarithms of two positive terms are added,
 * as the sum may underflow and 1 - rest (1 - e^-r) has no digits left. At kept = 0 log rest - r + log1p(kept e^r /
 * rest), as log 0 has no slope. */
T *pni_log_residue(C *c, T *kept, T *rest, T *r) {
  T *lost = pn_neg(c, pn_mul(c, rest, pn_expm1(c, pn_neg(c, r)))), *most = below(c, lost, 0.9);
  T *near = pn_log1p(c, pn_neg(c, only(c, most, lost, 0))), *little = pn_logical_not(c, most);
  if (!near || !any_of(c, little)) return near;
  T *none = equals(c, kept, 0), *fall = only(c, little, r, 1), *other = only(c, little, rest, 0.5);
  T *both = pn_sub(c, pn_log(c, other), fall), *some = pn_logical_and(c, little, pn_logical_not(c, none));
  T *share = pn_div(c, only(c, none, kept, 0), other), *rise = pn_clamp(c, fall, 0, log(huge_number(r->dtype)));
  T *bare = pn_add(c, both, pn_log1p(c, pn_mul(c, share, pn_exp(c, rise))));
  T *far = pn_logaddexp(c, pn_log(c, only(c, some, kept, 0.5)), both);
  return pn_where(c, most, near, pn_where(c, none, bare, far));
}

/* log x out of x and 1 - x, from the smaller */
static T *log_of(C *c, T *x, T *rest) {
  T *small = below(c, x, 0.5);
  return pn_where(c, small, pn_log(c, only(c, small, x, 0.5)), pn_log1p(c, pn_neg(c, but(c, small, 0.5, rest))));
}

T *pni_log_beta_share(C *c, T *a, T *b, T *x, T *rest, bool upper) {
  /* by the end that x is near to */
  T *left = below(c, x, 0.5), *k = pn_where(c, left, a, b), *l = pn_where(c, left, b, a);
  T *z = pn_where(c, left, x, rest), *p = pn_betainc(c, k, l, z), *q = pn_betaincc(c, k, l, z);
  T *lower = pn_where(c, left, p, q), *higher = pn_where(c, left, q, p);
  T *mine = upper ? higher : lower, *other = upper ? lower : higher;
  if (!lower || !higher) return NULL;
  T *inside = pn_logical_and(c, above(c, x, 0), above(c, rest, 0));
  T *far = pn_logical_and(c, below(c, mine, least(mine)), inside);
  if (!any_of(c, far)) return log_share(c, mine, other);
  T *s = masked(c, far, upper ? b : a, 1000), *t = masked(c, far, upper ? a : b, 1000);
  T *u = masked(c, far, upper ? rest : x, 0.125), *v = masked(c, far, upper ? x : rest, 0.875), *sum = pn_add(c, s, t);
  T *f = pni_like(c, s, 1);
  for (int m = TERMS; m >= 0; m--) {
    T *even = plus(c, s, 2 * m);
    T *odd = pn_mul(c, pn_div(c, plus(c, s, m), even), pn_div(c, plus(c, sum, m), plus(c, even, 1)));
    f = from(c, 1, pn_div(c, pn_mul(c, odd, u), f));
    if (m == 0) break;
    T *whole = pn_div(c, pn_div(c, times(c, plus(c, t, -m), m), plus(c, even, -1)), even);
    f = plus(c, pn_div(c, pn_mul(c, whole, u), f), 1);
  }
  T *power = pn_add(c, pn_mul(c, s, log_of(c, u, v)), pn_mul(c, t, log_of(c, v, u)));
  T *norm = pn_add(c, pn_add(c, pn_log(c, s), log_beta(c, s, t)), pn_log(c, f));
  return joined(c, far, mine, other, pn_sub(c, power, norm));
}
