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

static mass masses_of(C *c, end a, end b) {
  T *flip = pn_logical_and(c, a.finite, above(c, a.z, 0));
  T *small = pn_where(c, flip, log_tail(c, b, -1, -INFINITY), log_tail(c, a, 1, -INFINITY));
  T *large = pn_where(c, flip, log_tail(c, a, -1, 0), log_tail(c, b, 1, 0));
  return (mass){flip, small, large};
}
static mass masses(C *c, D *d) { return masses_of(c, end_of(c, d, low), end_of(c, d, high)); }

/* log(e^large - e^small), small < large; small may be -inf */
static T *log_minus(C *c, T *large, T *small) {
  T *bare = equals(c, small, -INFINITY), *drop = but(c, bare, -1, pn_sub(c, small, large));
  return pn_add(c, large, but(c, bare, 0, pn_log1mexp(c, drop)));
}
static T *log_phi(C *c, T *z) { return plus(c, times(c, pn_square(c, z), -0.5), -LOG_ROOT_TWO_PI); }

/* An interval that is narrow against scale, m its standardised middle and h half its width: there the formula loses
 * digits to differences, and a series in h does not, h (1 + |m|) < 0.02:
 *   Z = 2 h phi(m) (1 + (m^2 - 1) h^2 / 6 + (m^4 - 6 m^2 + 3) h^4 / 120) */
typedef struct {
  T *holds, *m, *h, *m2, *h2;
} narrow;

static narrow narrow_of(C *c, D *d, T *from_x, T *to_x, end a, end b) {
  T *both = pn_logical_and(c, a.finite, b.finite), *m = times(c, pn_add(c, a.z, b.z), 0.5);
  T *width = pn_sub(c, pn_where(c, both, to_x, scale), pn_where(c, both, from_x, pni_like(c, scale, 0)));
  T *h = pn_div(c, times(c, width, 0.5), scale);
  T *holds = pn_logical_and(c, both, below(c, pn_mul(c, h, plus(c, pn_abs(c, m), 1)), 0.02));
  m = only(c, holds, m, 0), h = only(c, holds, h, 0.01);
  return (narrow){holds, m, h, pn_square(c, m), pn_square(c, h)};
}

/* log of the normal's mass between two values */
static T *log_mass_between(C *c, D *d, T *from_x, T *to_x) {
  end a = end_of(c, d, from_x), b = end_of(c, d, to_x);
  mass m = masses_of(c, a, b);
  narrow n = narrow_of(c, d, from_x, to_x, a, b);
  T *fourth = times(c, plus(c, pn_mul(c, plus(c, n.m2, -6), n.m2), 3), 1.0 / 120);
  T *rise = pn_mul(c, n.h2, pn_add(c, times(c, plus(c, n.m2, -1), 1.0 / 6), pn_mul(c, fourth, n.h2)));
  T *near = pn_add(c, pn_add(c, log_phi(c, n.m), plus(c, pn_log(c, n.h), LOG_2)), pn_log1p(c, rise));
  return pn_where(c, n.holds, near, log_minus(c, but(c, n.holds, -1, m.large), but(c, n.holds, -2, m.small)));
}
static T *log_mass(C *c, D *d) { return log_mass_between(c, d, low, high); }

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

/* log of the shares of mass below and above x */
typedef struct {
  T *left, *right; /* bool: x at or beyond the ends */
  T *below, *above;
} shares;

static shares shares_of(C *c, D *d, T *x) {
  T *left = pn_le(c, x, low), *right = pn_ge(c, x, high);
  T *inner = pn_logical_not(c, pn_logical_or(c, left, right));
  T *y = pn_where(c, inner, x, middle_of(c, d)), *whole = log_mass(c, d);
  T *under = pn_sub(c, log_mass_between(c, d, low, y), whole),
    *over = pn_sub(c, log_mass_between(c, d, y, high), whole);
  return (shares){left, right, under, over};
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

/* Gauss-Legendre nodes and weights on (0, 1), roots of the Legendre polynomial by Newton's method. */
enum { NODES = 24 };
static void legendre(double u[NODES], double w[NODES]) {
  for (int i = 0; i < NODES; i++) {
    double x = cos(PI * (i + 0.75) / (NODES + 0.5)), slope = 1;
    for (int step = 0; step < 6; step++) {
      double p = 1, q = 0; /* P_n, P_(n-1) */
      for (int n = 1; n <= NODES; n++) {
        double next = ((2 * n - 1) * x * p - (n - 1) * q) / n;
        q = p, p = next;
      }
      slope = NODES * (x * p - q) / (x * x - 1);
      x -= p / slope;
    }
    u[i] = (1 + x) / 2, w[i] = 1 / ((1 - x * x) * slope * slope);
  }
}

/* Moments of z. Of an interval on one side of loc, or of one narrower than 2, with t = |z - s| from the end s nearer to
 * loc (or the lower end), by quadrature of e^(-s t - t^2 / 2): all terms are positive, where differences of the ends'
 * terms would lose their digits. The nodes lie where the integrand is above e^-40. Error 3e-14. */
typedef struct {
  T *mean, *variance;
} moments;

/* E[t] and Var[t] for 0 <= t <= width */
static moments quadrature(C *c, T *s, T *width) {
  double u[NODES], w[NODES];
  legendre(u, w);
  int64_t shape[1] = {NODES};
  pn_dtype dtype = s ? (pn_dtype)s->dtype : PN_FLOAT64;
  T *nodes = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, shape, u), dtype);
  T *weights = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, shape, w), dtype);
  T *t = pn_mul(c, pn_unsqueeze(c, width, -1), nodes);
  T *drop = pn_mul(c, pn_add(c, pn_unsqueeze(c, s, -1), times(c, t, 0.5)), t);
  T *mass_at = pn_mul(c, weights, pn_exp(c, pn_neg(c, drop)));
  T *share = pn_div(c, mass_at, pn_sum(c, mass_at, LAST, 1)), *mean_t = pn_sum(c, pn_mul(c, share, t), LAST, 1);
  T *spread = pn_mul(c, share, pn_square(c, pn_sub(c, t, mean_t)));
  return (moments){pn_squeeze(c, mean_t, -1), pn_sum(c, spread, LAST, 0)};
}

static moments moments_of(C *c, D *d) {
  edges e = edges_of(c, d);
  T *both = pn_logical_and(c, e.a.finite, e.b.finite), *width = pn_sub(c, e.b.z, e.a.z);
  T *right = pn_logical_and(c, e.a.finite, pn_ge(c, e.a.z, pni_like(c, width, 0)));
  T *left = pn_logical_and(c, e.b.finite, pn_le(c, e.b.z, pni_like(c, width, 0)));
  T *narrow_one = pn_logical_and(c, both, below(c, width, 2));
  T *held = pn_logical_or(c, pn_logical_or(c, right, left), narrow_one);
  T *s = only(c, held, pn_where(c, left, pn_neg(c, e.b.z), e.a.z), 0), *from_loc = pn_relu(c, s);
  T *reach = pn_div(c, pni_like(c, s, 80), pn_add(c, from_loc, pn_sqrt(c, plus(c, pn_square(c, from_loc), 80))));
  moments near = quadrature(c, s, pn_where(c, pn_logical_and(c, held, both), pn_minimum(c, width, reach), reach));
  T *at = pn_add(c, s, near.mean), *shift = pn_sub(c, e.low_end, e.high_end);
  T *lever = pn_sub(c, pn_mul(c, e.a.z, e.low_end), pn_mul(c, e.b.z, e.high_end));
  return (moments){pn_where(c, held, pn_where(c, left, pn_neg(c, at), at), shift),
                   pn_where(c, held, near.variance, pn_sub(c, plus(c, lever, 1), pn_square(c, shift)))};
}

static T *mean(C *c, D *d) { return pn_add(c, loc, pn_mul(c, scale, moments_of(c, d).mean)); }
static T *variance(C *c, D *d) { return pn_mul(c, pn_square(c, scale), moments_of(c, d).variance); }
static T *mode(C *c, D *d) { return pn_maximum(c, pn_minimum(c, loc, high), low); }
/* log scale + log Z + log(2 pi) / 2 + E[z^2] / 2 */
static T *entropy(C *c, D *d) {
  moments m = moments_of(c, d);
  T *second = pn_add(c, m.variance, pn_square(c, m.mean));
  return plus(c, pn_add(c, pn_add(c, pn_log(c, scale), log_mass(c, d)), times(c, second, 0.5)), LOG_ROOT_TWO_PI);
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
    .flags = PNI_DIST_IN_DOUBLE,
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
