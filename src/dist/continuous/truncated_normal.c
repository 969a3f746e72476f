/*
** truncated_normal.c: TruncatedNormal(loc, scale, low, high), Normal(loc, scale) held to low <= x <= high; the ends may
** be infinite. With a, b the standardised ends and Z = Phi(b) - Phi(a),
**   log p(x) = -z^2 / 2 - log scale - log(2 pi) / 2 - log Z,  z = (x - loc) / scale
**   mean loc + scale (phi(a) - phi(b)) / Z
**   variance scale^2 (1 + (a phi(a) - b phi(b)) / Z - ((phi(a) - phi(b)) / Z)^2)
** Both ends above loc are reflected, so that Z is a difference of lower tails and stays exact in logarithms (Robert,
** Statistics and Computing 5, 1995, gives the law). Draws invert the distribution function in logarithms.
*/
#include "../formula.h"

#define loc   d->param[LOC]
#define scale d->param[SCALE]
#define low   d->param[LOW]
#define high  d->param[HIGH]
enum { LOC, SCALE, LOW, HIGH };

static pn_status check(C *c, D *d) { return pni_dist_require_order(c, d, LOW, HIGH); }
static T *standardise(C *c, D *d, T *x) { return pn_div(c, pn_sub(c, x, loc), scale); }

/* One end, standardised. Where it is infinite nothing flows back to the parameters. */
typedef struct {
  T *finite; /* bool */
  T *z;      /* 0 where the end is infinite */
} end;

static end end_of(C *c, D *d, T *x) {
  T *finite = pn_isfinite(c, x);
  return (end){finite, standardise(c, d, pn_where(c, finite, x, loc))};
}

/* log Phi(sign z), or its limit at sign times an infinite end of the given side */
static T *log_tail(C *c, end e, double sign, double limit) {
  return only(c, e.finite, pn_log_ndtr(c, times(c, e.z, sign)), limit);
}

/* Logarithms of the lower and upper ends' tails after reflection, and whether there was one. */
typedef struct {
  T *flip, *small, *large; /* log Z = large + log(1 - e^(small - large)) */
} mass;

static mass masses(C *c, D *d) {
  end a = end_of(c, d, low), b = end_of(c, d, high);
  T *flip = pn_logical_and(c, a.finite, above(c, a.z, 0));
  T *small = pn_where(c, flip, log_tail(c, b, -1, -INFINITY), log_tail(c, a, 1, -INFINITY));
  T *large = pn_where(c, flip, log_tail(c, a, -1, 0), log_tail(c, b, 1, 0));
  return (mass){flip, small, large};
}

/* log(e^large - e^small), small < large; small may be -inf */
static T *log_minus(C *c, T *large, T *small) {
  T *bare = equals(c, small, -INFINITY), *drop = but(c, bare, -1, pn_sub(c, small, large));
  return pn_add(c, large, but(c, bare, 0, pn_log1mexp(c, drop)));
}
static T *log_phi(C *c, T *z) { return plus(c, times(c, pn_square(c, z), -0.5), -LOG_ROOT_TWO_PI); }

/* An interval that is narrow against scale, m its standardised middle and h half its width: there the formulas lose
 * digits to differences, and series in h do not, h (1 + |m|) < 0.02:
 *   Z = 2 h phi(m) (1 + (m^2 - 1) h^2 / 6 + (m^4 - 6 m^2 + 3) h^4 / 120)
 *   (mean - loc) / scale = m - m h^2 / 3 + (2 m + m^3) h^4 / 45,  variance / scale^2 = h^2 / 3 - (2 + 3 m^2) h^4 / 45 */
typedef struct {
  T *holds, *m, *h, *m2, *h2;
} narrow;

static narrow narrow_of(C *c, D *d) {
  end a = end_of(c, d, low), b = end_of(c, d, high);
  T *m = times(c, pn_add(c, a.z, b.z), 0.5), *h = times(c, pn_sub(c, b.z, a.z), 0.5);
  T *holds = below(c, pn_mul(c, h, plus(c, pn_abs(c, m), 1)), 0.02);
  holds = pn_logical_and(c, holds, pn_logical_and(c, a.finite, b.finite));
  m = only(c, holds, m, 0), h = only(c, holds, h, 0.01);
  return (narrow){holds, m, h, pn_square(c, m), pn_square(c, h)};
}

static T *log_mass(C *c, D *d) {
  mass m = masses(c, d);
  narrow n = narrow_of(c, d);
  T *fourth = times(c, plus(c, pn_mul(c, plus(c, n.m2, -6), n.m2), 3), 1.0 / 120);
  T *rise = pn_mul(c, n.h2, pn_add(c, times(c, plus(c, n.m2, -1), 1.0 / 6), pn_mul(c, fourth, n.h2)));
  T *near = pn_add(c, pn_add(c, log_phi(c, n.m), plus(c, pn_log(c, n.h), LOG_2)), pn_log1p(c, rise));
  return pn_where(c, n.holds, near,
                  log_minus(c, pn_where(c, n.holds, pni_like(c, m.large, -1), m.large),
                            pn_where(c, n.holds, pni_like(c, m.small, -2), m.small)));
}

static T *in_support(C *c, D *d, T *x) {
  return pn_logical_and(c, pn_isfinite(c, x), pn_logical_and(c, pn_ge(c, x, low), pn_le(c, x, high)));
}

static T *log_prob(C *c, D *d, T *x) {
  return pn_sub(c, log_phi(c, standardise(c, d, x)), pn_add(c, pn_log(c, scale), log_mass(c, d)));
}

/* A value between the ends, well inside, for where the formulas must not see x. */
static T *middle_of(C *c, D *d) {
  end a = end_of(c, d, low), b = end_of(c, d, high);
  T *t = pn_where(c, a.finite, pn_add(c, low, times(c, scale, 1e-3)), loc);
  return pn_where(c, pn_logical_and(c, a.finite, b.finite), times(c, pn_add(c, low, high), 0.5),
                  pn_where(c, b.finite, pn_sub(c, high, scale), t));
}

/* log of the shares of mass below and above x, on the side of the smaller tails; which is which depends on the
 * reflection. Both are differences of lower tails, so exact. */
typedef struct {
  T *left, *right; /* bool: x at or beyond the ends */
  T *below, *above;
} shares;

static shares shares_of(C *c, D *d, T *x) {
  T *left = pn_le(c, x, low), *right = pn_ge(c, x, high);
  T *inner = pn_logical_not(c, pn_logical_or(c, left, right));
  mass m = masses(c, d);
  T *z = standardise(c, d, pn_where(c, inner, x, middle_of(c, d)));
  T *tail = pn_log_ndtr(c, pn_where(c, m.flip, pn_neg(c, z), z)), *whole = log_minus(c, m.large, m.small);
  T *outer = pn_sub(c, log_minus(c, tail, m.small), whole), *rest = pn_sub(c, log_minus(c, m.large, tail), whole);
  return (shares){left, right, pn_where(c, m.flip, rest, outer), pn_where(c, m.flip, outer, rest)};
}

static T *cdf(C *c, D *d, T *x) {
  shares s = shares_of(c, d, x);
  T *small = pn_lt(c, s.below, s.above);
  T *part = pn_where(c, small, pn_exp(c, s.below), pn_neg(c, pn_expm1(c, s.above)));
  return but(c, s.left, 0, but(c, s.right, 1, part));
}

/* From the smaller of the two shares. */
static T *log_part(C *c, T *part, T *rest, T *none, T *all) {
  T *large = pn_gt(c, part, rest);
  T *t = pn_where(c, large, pn_log1mexp(c, only(c, large, rest, -1)), part);
  return but(c, none, -INFINITY, but(c, all, 0, t));
}

static T *log_cdf(C *c, D *d, T *x) {
  shares s = shares_of(c, d, x);
  return log_part(c, s.below, s.above, s.left, s.right);
}

static T *log_survival(C *c, D *d, T *x) {
  shares s = shares_of(c, d, x);
  return log_part(c, s.above, s.below, s.right, s.left);
}

/* log Phi(z) = log(p e^large + (1 - p) e^small) in the reflected sense */
static T *icdf(C *c, D *d, T *p) {
  mass m = masses(c, d);
  T *up = pn_where(c, m.flip, from(c, 1, p), p), *none = equals(c, up, 0), *all = equals(c, up, 1);
  T *inside = pn_logical_not(c, pn_logical_or(c, none, all)), *share = only(c, inside, up, 0.5);
  T *bare = equals(c, m.small, -INFINITY); /* an infinite end */
  T *rest = pn_add(c, but(c, bare, 0, m.small), pn_log1p(c, pn_neg(c, share)));
  T *first = pn_add(c, m.large, pn_log(c, share));
  T *z = pn_log_ndtri(c, pn_where(c, bare, first, pn_logaddexp(c, first, pn_minimum(c, rest, pni_like(c, rest, 0)))));
  T *x = pn_add(c, loc, pn_mul(c, scale, pn_where(c, m.flip, pn_neg(c, z), z)));
  x = pn_maximum(c, pn_minimum(c, x, high), low);
  return pn_where(c, equals(c, p, 0), low, pn_where(c, equals(c, p, 1), high, x));
}

/* phi / Phi; at 37 and beyond it is 0 to all digits */
static T *mills(C *c, T *z) {
  T *tail = pn_erfcx(c, times(c, pn_clamp(c, z, -INFINITY, 37), -sqrt(0.5)));
  return times(c, pn_reciprocal(c, tail), sqrt(2 / PI));
}

/* phi(a) / Z and phi(b) / Z, 0 at an infinite end. With r = e^(small - large) the end of the larger tail has
 * (phi/Phi) / (1 - r), the other (phi/Phi) r / (1 - r): no difference of large logarithms. */
typedef struct {
  end a, b;
  T *low_end, *high_end;
} edges;

static edges edges_of(C *c, D *d) {
  end a = end_of(c, d, low), b = end_of(c, d, high);
  mass m = masses(c, d);
  T *zl = pn_where(c, m.flip, pn_neg(c, a.z), b.z), *fl = pn_where(c, m.flip, a.finite, b.finite);
  T *zs = pn_where(c, m.flip, pn_neg(c, b.z), a.z), *fs = pn_where(c, m.flip, b.finite, a.finite);
  T *bare = equals(c, m.small, -INFINITY), *drop = but(c, bare, -1, pn_sub(c, m.small, m.large));
  T *gap = but(c, bare, 1, pn_neg(c, pn_expm1(c, drop)));
  T *l = only(c, fl, pn_div(c, mills(c, zl), gap), 0);
  T *s = only(c, fs, pn_div(c, pn_mul(c, mills(c, zs), pn_exp(c, drop)), gap), 0);
  return (edges){a, b, pn_where(c, m.flip, l, s), pn_where(c, m.flip, s, l)};
}

/* (mean - loc) / scale */
static T *shift(C *c, D *d) {
  edges e = edges_of(c, d);
  narrow n = narrow_of(c, d);
  T *fourth = pn_mul(c, times(c, plus(c, n.m2, 2), 1.0 / 45), n.h2);
  T *near = pn_mul(c, n.m, plus(c, pn_mul(c, n.h2, plus(c, fourth, -1.0 / 3)), 1));
  return pn_where(c, n.holds, near, pn_sub(c, e.low_end, e.high_end));
}
/* (a phi(a) - b phi(b)) / Z */
static T *lever(C *c, D *d) {
  edges e = edges_of(c, d);
  return pn_sub(c, pn_mul(c, e.a.z, e.low_end), pn_mul(c, e.b.z, e.high_end));
}

static T *mean(C *c, D *d) { return pn_add(c, loc, pn_mul(c, scale, shift(c, d))); }
static T *variance(C *c, D *d) {
  narrow n = narrow_of(c, d);
  T *fourth = pn_mul(c, plus(c, times(c, n.m2, 3), 2), times(c, n.h2, 1.0 / 45));
  T *v = pn_sub(c, plus(c, lever(c, d), 1), pn_square(c, shift(c, d)));
  v = pn_where(c, n.holds, pn_mul(c, n.h2, from(c, 1.0 / 3, fourth)), v);
  return pn_mul(c, pn_square(c, scale), v);
}
static T *mode(C *c, D *d) { return pn_maximum(c, pn_minimum(c, loc, high), low); }
static T *entropy(C *c, D *d) {
  T *t = pn_add(c, pn_add(c, pn_log(c, scale), log_mass(c, d)), times(c, lever(c, d), 0.5));
  return plus(c, t, 0.5 + LOG_ROOT_TWO_PI);
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) { return icdf(c, d, uniform_draw(c, rng, out)); }

/* The same ends, or wider ones of q: E_p[z_q^2] / 2 and the normalisers. Else inf. */
T *pni_kl_truncated_normal_truncated_normal(C *c, D *p, D *d) {
  T *holds = pn_logical_and(c, pn_ge(c, p->param[LOW], low), pn_le(c, p->param[HIGH], high));
  T *away = pn_square(c, pn_div(c, pn_sub(c, mean(c, p), loc), scale));
  T *second = pn_add(c, away, pn_div(c, variance(c, p), pn_square(c, scale)));
  T *cross = plus(c, pn_add(c, pn_add(c, times(c, second, 0.5), pn_log(c, scale)), log_mass(c, d)), LOG_ROOT_TWO_PI);
  return only(c, holds, pn_sub(c, cross, entropy(c, p)), INFINITY);
}

const pni_distribution pni_dist_truncated_normal = {
    .name = "truncated_normal",
    .doc =
        "normal held between low and high, which may be infinite: log p(x) = -z^2 / 2 - log(scale) - log(2 pi) / 2 - "
        "log(Phi((high - loc) / scale) - Phi((low - loc) / scale)), z = (x - loc) / scale",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 13.10",
    .moments = "with the standardised ends s, t and Z their mass: mean loc + scale (phi(s) - phi(t)) / Z, mode loc or "
               "the nearer end",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1},
              {.name = "low",
               .constraint = &pni_constraint_extended_real,
               .axes = "",
               .optional = true,
               .absent = -INFINITY},
              {.name = "high",
               .constraint = &pni_constraint_extended_real,
               .axes = "",
               .optional = true,
               .absent = INFINITY}},
    .support = &pni_constraint_interval,
    .event = "",
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
