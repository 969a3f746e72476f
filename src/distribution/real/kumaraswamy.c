/*
** kumaraswamy.c: Kumaraswamy(a, b) on 0 < x < 1, a = concentration1, b = concentration0; like Beta(a, b), with an
** elementary distribution function 1 - (1 - x^a)^b,
**   log p(x) = log a + log b + (a - 1) log x + (b - 1) log(1 - x^a),  E[x^n] = b B(1 + n/a, b)
** 1 - x^a is always taken from a log x, so that x near 1 and large a lose nothing.
*/
#include "../divergence/expectation.h"
#include "../formula.h"

#define a d->param[CONCENTRATION1]
#define b d->param[CONCENTRATION0]
enum { CONCENTRATION1, CONCENTRATION0 };

/* log(1 - x^a) */
static T *log_rest(C *c, D *d, T *x) { return pn_log1mexp(c, pn_mul(c, a, pn_log(c, x))); }

static T *log_prob(C *c, D *d, T *x) {
  T *left = pn_mul(c, plus(c, a, -1), pn_log(c, x)), *right = pn_mul(c, plus(c, b, -1), log_rest(c, d, x));
  return pn_add(c, pn_add(c, pn_log(c, a), pn_log(c, b)), pn_add(c, left, right));
}

static T *log_survival(C *c, D *d, T *x) { return pn_mul(c, b, log_rest(c, d, x)); }
static T *cdf(C *c, D *d, T *x) { return pn_neg(c, pn_expm1(c, log_survival(c, d, x))); }

/* log(1 - (1 - x^a)^b); where (1 + b) x^a is below e^-40 log b + a log x */
static T *log_cdf(C *c, D *d, T *x) {
  T *power = pn_mul(c, a, pn_log(c, x)), *near = below(c, pn_add(c, power, pn_log(c, plus(c, b, 1))), -40);
  T *low = pn_where(c, near, power, pni_like(c, power, -40)), *safe = pn_where(c, near, pni_like(c, power, -1), power);
  T *far = pn_log1mexp(c, pn_mul(c, b, pn_log1mexp(c, safe)));
  return pn_where(c, near, pn_add(c, pn_log(c, b), low), far);
}

/* log of the value whose survival has the given logarithm: log(1 - s^(1/b)) / a */
static T *log_at(C *c, D *d, T *log_survival_) { return pn_div(c, pn_log1mexp(c, pn_div(c, log_survival_, b)), a); }
static T *icdf(C *c, D *d, T *p) { return pn_exp(c, log_at(c, d, pn_log1p(c, pn_neg(c, p)))); }

/* log E[x^n] = log b + log B(1 + n/a, b) */
static T *log_moment(C *c, D *d, double n) {
  return pn_add(c, pn_log(c, b), log_beta(c, plus(c, times(c, pn_reciprocal(c, a), n), 1), b));
}

static T *mean(C *c, D *d) { return pn_exp(c, log_moment(c, d, 1)); }

/* log(E[x^2] / E[x]^2), which for large a is a difference of large logarithms; there, with s = 1/a < 1/20, by Taylor's
 * series sum_(k >= 2) (2^k - 2) s^k / k! (psi_(k-1)(1) - psi_(k-1)(b + 1)), psi_(k-1)(1) = (-1)^k (k - 1)! zeta(k). */
static T *log_excess(C *c, D *d) {
  static const double zeta[] = {1.6449340668482264365, 1.2020569031595942854, 1.0823232337111381915,
                                1.0369277551433699263, 1.0173430619844491397, 1.0083492773819228268,
                                1.0040773561979443394, 1.0020083928260822144, 1.0009945751278180853,
                                1.0004941886041194646, 1.0002460865533080483};
  T *large = above(c, a, 20), *size = but(c, large, 1, a), *s = pn_reciprocal(c, only(c, large, a, 20));
  T *power = pn_square(c, s), *next = plus(c, b, 1), *sum = NULL;
  double factorial = 1; /* (k - 1)! */
  for (int k = 2; k < 13; k++) {
    T *gap = from(c, (k % 2 ? -1 : 1) * factorial * zeta[k - 2], pn_polygamma(c, k - 1, next));
    T *term = times(c, pn_mul(c, power, gap), (pow(2, k) - 2) / (factorial * k));
    sum = sum ? pn_add(c, sum, term) : term;
    power = pn_mul(c, power, s);
    factorial *= k;
  }
  T *r = pn_reciprocal(c, size), *one = plus(c, r, 1), *two = plus(c, times(c, r, 2), 1);
  T *far = pn_sub(c, log_beta(c, two, b), times(c, log_beta(c, one, b), 2));
  return pn_where(c, large, sum, pn_sub(c, far, pn_log(c, b)));
}

static T *variance(C *c, D *d) { return pn_mul(c, pn_square(c, mean(c, d)), pn_expm1(c, log_excess(c, d))); }

/* ((a - 1) / (a b - 1))^(1/a) for a, b >= 1, not both 1; else the end with the higher pole, 1/2 where they are
 * alike. */
static T *mode(C *c, D *d) {
  T *small = pn_logical_or(c, below(c, a, 1), below(c, b, 1));
  T *flat = pn_logical_and(c, equals(c, a, 1), equals(c, b, 1)), *edge = pn_logical_or(c, small, flat);
  T *p = pn_where(c, edge, pni_like(c, a, 2), a), *q = pn_where(c, edge, pni_like(c, b, 2), b);
  T *ratio = pn_div(c, plus(c, p, -1), plus(c, pn_mul(c, p, q), -1)), *bottom = equals(c, ratio, 0);
  T *peak = but(c, bottom, 0, pn_exp(c, pn_div(c, pn_log(c, but(c, bottom, 1, ratio)), p)));
  T *end = but(c, pn_lt(c, a, b), 0, but(c, pn_gt(c, a, b), 1, pni_like(c, a, 0.5)));
  return pn_where(c, edge, end, peak);
}

/* (1 - 1/b) + (1 - 1/a) (digamma(b + 1) + euler) - log(a b) */
static T *entropy(C *c, D *d) {
  T *t = pn_mul(c, from(c, 1, pn_reciprocal(c, a)), plus(c, pn_digamma(c, plus(c, b, 1)), EULER));
  return pn_sub(c, pn_add(c, t, from(c, 1, pn_reciprocal(c, b))), pn_add(c, pn_log(c, a), pn_log(c, b)));
}

/* kept inside (0, 1) */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *u = pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype));
  return pn_clamp(c, pn_exp(c, log_at(c, d, pn_log(c, u))), tiny(out->dtype), below_one(out->dtype));
}

/* ---- divergences ---- */

/* E_p[log(1 - x^r)] = E[log(1 - (1 - e^(-s/b))^(r/a))], s exponential with rate 1, by the trapezoidal rule after
 * s = e^(t - e^-t), in which the integrand falls off double exponentially at the left and like e^-s at the right
 * (Takahasi & Mori 1974). 1e-13 for b from 0.05 to 1000. */
enum { NODES = 160 };
static T *log_rest_mean(C *c, D *d, T *r) {
  double s[NODES], log_w[NODES], low = -4.2, high = 4.5, h = (high - low) / (NODES - 1);
  for (int i = 0; i < NODES; i++) {
    double t = low + h * i, log_s = t - exp(-t);
    s[i] = exp(log_s);
    log_w[i] = log_s + log(1 + exp(-t)) - s[i] + log(h);
  }
  int64_t shape[1] = {NODES};
  T *nodes = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, shape, s), (pn_dtype)d->dtype);
  T *weights = pn_exp(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, shape, log_w), (pn_dtype)d->dtype));
  T *power = pn_unsqueeze(c, pn_div(c, r, a), -1), *log_w_rest = pn_neg(c, pn_div(c, nodes, pn_unsqueeze(c, b, -1)));
  T *value = pn_log1mexp(c, pn_mul(c, power, pn_log1mexp(c, log_w_rest)));
  return pn_sum(c, pn_mul(c, weights, value), LAST, 0);
}

T *pni_kumaraswamy_log1m(C *c, D *d) { return log_rest_mean(c, d, pni_like(c, a, 1)); }

/* E[log x] = -(digamma(b + 1) + euler) / a */
static T *log_mean(C *c, D *d) { return pn_neg(c, pn_div(c, plus(c, pn_digamma(c, plus(c, b, 1)), EULER), a)); }

/* -entropy - log(a_q b_q) - (a_q - 1) E[log x] - (b_q - 1) E[log(1 - x^a_q)] */
T *pni_kl_kumaraswamy_kumaraswamy(C *c, D *d, D *q) {
  T *aq = q->param[CONCENTRATION1], *bq = q->param[CONCENTRATION0];
  T *t = pn_add(c, pn_mul(c, plus(c, aq, -1), log_mean(c, d)), pn_mul(c, plus(c, bq, -1), log_rest_mean(c, d, aq)));
  return pn_neg(c, pn_add(c, pn_add(c, entropy(c, d), pn_add(c, pn_log(c, aq), pn_log(c, bq))), t));
}

const pni_distribution pni_dist_kumaraswamy = {
    .name = "kumaraswamy",
    .doc = "a share between 0 and 1, like a beta with an elementary quantile: log p(x) = log(a b) + (a - 1) log(x) + "
           "(b - 1) log(1 - x^a), a = concentration1, b = concentration0",
    .source = "Kumaraswamy, Journal of Hydrology 46 (1980); Jones, Statistical Methodology 6 (2009)",
    .moments = "E[x^n] = b B(1 + n / a, b), mode ((a - 1) / (a b - 1))^(1 / a) for a, b >= 1, else an end",
    .param = {{.name = "concentration1", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "concentration0", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_open_unit_interval,
    .event = "",
    .flags = PNI_DIST_IN_DOUBLE,
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
