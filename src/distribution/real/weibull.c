/*
** weibull.c: Weibull(scale, concentration k) on x > 0, w = k log(x / scale),
**   log p(x) = log k - log x + w - e^w,  mean scale Gamma(1 + 1/k),  E[x^2] = scale^2 Gamma(1 + 2/k)
** (x / scale)^k is exponential with rate 1, which the draws and these expectations under p come from:
**   E[log x] = log scale - euler / k,  E[x^r] = scale^r Gamma(1 + r / k)
*/
#include "../formula.h"

#define scale d->param[SCALE]
#define k     d->param[CONCENTRATION]
enum { SCALE, CONCENTRATION };

/* k log(x / scale) */
static T *log_hazard(C *c, D *d, T *x) { return pn_mul(c, k, pn_sub(c, pn_log(c, x), pn_log(c, scale))); }

static T *log_prob(C *c, D *d, T *x) {
  T *w = log_hazard(c, d, x);
  return pn_add(c, pn_sub(c, pn_log(c, k), pn_log(c, x)), pn_sub(c, w, pn_exp(c, w)));
}

static T *log_survival(C *c, D *d, T *x) { return pn_neg(c, pn_exp(c, log_hazard(c, d, x))); }
/* from a hazard of e^7 on the distribution function is 1 to all digits */
static T *bounded_log_hazard(C *c, D *d, T *x) { return pn_clamp(c, log_hazard(c, d, x), -INFINITY, 7); }
static T *cdf(C *c, D *d, T *x) { return pn_neg(c, pn_expm1(c, pn_neg(c, pn_exp(c, bounded_log_hazard(c, d, x))))); }

/* log(1 - e^-h), h = e^w; near 0, where h may underflow, w - h / 2 */
static T *log_cdf(C *c, D *d, T *x) {
  T *w = bounded_log_hazard(c, d, x), *near = below(c, w, -40), *low = only(c, near, w, -40);
  T *far = pn_log1mexp(c, pn_neg(c, pn_exp(c, but(c, near, -40, w))));
  return pn_where(c, near, pn_sub(c, low, times(c, pn_exp(c, low), 0.5)), far);
}

/* scale h^(1/k) for a hazard h */
static T *at_log_hazard(C *c, D *d, T *log_h) { return pn_add(c, pn_log(c, scale), pn_div(c, log_h, k)); }
static T *icdf(C *c, D *d, T *p) {
  return pn_exp(c, at_log_hazard(c, d, pn_log(c, pn_neg(c, pn_log1p(c, pn_neg(c, p))))));
}

/* lgamma(1 + n / k) */
static T *log_moment(C *c, D *d, double n) { return pn_lgamma(c, plus(c, times(c, pn_reciprocal(c, k), n), 1)); }

static T *mean(C *c, D *d) { return pn_mul(c, scale, pn_exp(c, log_moment(c, d, 1))); }
/* log(E[x^2] / E[x]^2); for small r = 1/k by Taylor's series sum_(n >= 2) zeta(n) (-1)^n (2^n - 2) r^n / n */
static T *log_excess(C *c, D *d) {
  static const double zeta[] = {1.6449340668482264365, 1.2020569031595942854, 1.0823232337111381915,
                                1.0369277551433699263, 1.0173430619844491397, 1.0083492773819228268,
                                1.0040773561979443394, 1.0020083928260822144, 1.0009945751278180853,
                                1.0004941886041194646, 1.0002460865533080483};
  T *large = above(c, k, 30), *r = pn_reciprocal(c, only(c, large, k, 30)), *sum = constant(c, d, 0);
  for (int n = 12; n > 1; n--) sum = pn_mul(c, plus(c, sum, (n % 2 ? -1 : 1) * zeta[n - 2] * (pow(2, n) - 2) / n), r);
  T *size = but(c, large, 1, k), *first = pn_lgamma(c, plus(c, pn_reciprocal(c, size), 1));
  T *second = pn_lgamma(c, plus(c, times(c, pn_reciprocal(c, size), 2), 1));
  return pn_where(c, large, pn_mul(c, sum, r), pn_sub(c, second, times(c, first, 2)));
}
static T *variance(C *c, D *d) { return pn_mul(c, pn_square(c, mean(c, d)), pn_expm1(c, log_excess(c, d))); }

/* scale (1 - 1/k)^(1/k) for k > 1, else 0 */
static T *mode(C *c, D *d) {
  T *inside = above(c, k, 1), *r = pn_reciprocal(c, only(c, inside, k, 2));
  return only(c, inside, pn_mul(c, scale, pn_exp(c, pn_mul(c, r, pn_log1p(c, pn_neg(c, r))))), 0);
}

/* euler (1 - 1/k) + log(scale / k) + 1 */
static T *entropy(C *c, D *d) {
  T *t = times(c, from(c, 1, pn_reciprocal(c, k)), EULER);
  return plus(c, pn_add(c, t, pn_sub(c, pn_log(c, scale), pn_log(c, k))), 1);
}

/* Kept among the normal numbers so that draws lie in the support. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *u = pn_clamp(c, uniform_draw(c, rng, out), 0, below_one(out->dtype));
  T *log_x = at_log_hazard(c, d, pn_log(c, pn_neg(c, pn_log(c, u))));
  return pn_exp(c, pn_clamp(c, log_x, log(tiny(out->dtype)), log(huge_number(out->dtype)) * (1 - FLT_EPSILON)));
}

/* With r = k_q / k_p and t = k_q log(s_p / s_q): -log r - t + euler (r - 1) + e^t Gamma(1 + r) - 1 */
T *pni_kl_weibull_weibull(C *c, D *p, D *d) {
  T *r = pn_div(c, k, p->param[CONCENTRATION]), *t = log_hazard(c, d, p->param[SCALE]);
  T *tail = pn_exp(c, pn_add(c, t, pn_lgamma(c, plus(c, r, 1))));
  T *sum = pn_sub(c, times(c, plus(c, r, -1), EULER), pn_add(c, pn_log(c, r), t));
  return plus(c, pn_add(c, sum, tail), -1);
}

const pni_distribution pni_dist_weibull = {
    .name = "weibull",
    .doc = "time to failure whose rate is a power of age: log p(x) = log(k) - log(x) + w - e^w, w = k log(x / scale), "
           "k = concentration, x > 0",
    .source = "Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, ch. 21",
    .moments = "mean scale Gamma(1 + 1/k), variance scale^2 Gamma(1 + 2/k) - mean^2, mode scale (1 - 1/k)^(1/k) or 0",
    .param = {{.name = "scale", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "concentration", .constraint = &pni_constraint_positive, .axes = ""}},
    .support = &pni_constraint_positive,
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
