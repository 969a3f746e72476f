/* Regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x) (DLMF 8.2).
 *
 * Four regions, each returning the tail that it computes without cancellation:
 *   uniform   a >= 12, 0.3 < x/a < 2.35: Temme's expansion (DLMF 8.12), cost independent of a
 *   small     a < 1, x <= 1.2: Q from its small-a form; P from the series
 *   series    x <= a: P = D sum_n x^n / ((a+1) ... (a+n)),  D = x^a e^-x / Gamma(a+1)  (8.7.1)
 *   fraction  x > a: Q = D a F,  F = 1/(x+1-a- 1(1-a)/(x+3-a- ...))                   (8.9.2)
 */
#include "special.h"

#include <float.h>
#include <math.h>

#define TWO_PI 6.28318530717958647693

typedef struct tails {
  double lower, upper;
} tails;

static tails from_lower(double p) { return (tails){p, 1 - p}; }

static tails from_upper(double q) { return (tails){1 - q, q}; }

/* a phi(x/a) with phi(r) = r - 1 - log r: the exponent of the peak's profile. */
static double exponent(double a, double x) {
  double mu = (x - a) / a;
  return mu > -0.6 ? a * pni_log1p_gap(mu) : x - a - a * log(x / a);
}

/* D = x^a e^-x / Gamma(a + 1). */
static double prefactor(double a, double x) {
  if (a >= 12) return exp(-exponent(a, x)) / (sqrt(TWO_PI * a) * exp(pni_stirling_error(a)));
  if (x > 2000) return 0;
  double e = exp(-x / 2);
  return e * pow(x, a) * e / tgamma(1 + a);
}

/* Taylor coefficients of eta / (r - 1) where eta^2 / 2 = r - 1 - log r, from the inversion of
 * v dv/deta = eta (1 + v), v = r - 1. They fall like (2 sqrt pi)^-n. */
#define TEMME_TERMS 29
static const double temme[TEMME_TERMS] = {1.0,
                                          -3.3333333333333333333e-1,
                                          8.3333333333333333333e-2,
                                          -1.4814814814814814815e-2,
                                          1.1574074074074074074e-3,
                                          3.5273368606701940035e-4,
                                          -1.787551440329218107e-4,
                                          3.9192631785224377817e-5,
                                          -2.1854485106799921615e-6,
                                          -1.8540622107151599607e-6,
                                          8.296711340953086005e-7,
                                          -1.7665952736826079304e-7,
                                          6.7078535434014985804e-9,
                                          1.0261809784240308043e-8,
                                          -4.3820360184533531866e-9,
                                          9.1476995822367902342e-10,
                                          -2.5514193994946249767e-11,
                                          -5.8307721325504250675e-11,
                                          2.4361948020667416244e-11,
                                          -5.0276692801141755891e-12,
                                          1.1004392031956134771e-13,
                                          3.3717632624009853788e-13,
                                          -1.3923887224181620659e-13,
                                          2.8534893807047443204e-14,
                                          -5.139111834242572619e-16,
                                          -1.9752288294349442835e-15,
                                          8.0995211567045613341e-16,
                                          -1.6522531216398161819e-16,
                                          2.5305430097478884233e-18};

/* The correction S(a, eta) of Q = erfc(eta sqrt(a/2))/2 + e^(-a eta^2/2) S / sqrt(2 pi a), with its partial
 * derivatives. Differentiating Q gives eta S - S'/a = f/Gamma* - 1, f = eta/(r - 1); with
 * S = sum_n b_n eta^n / (1 + b_1/a) this is the backward recursion b_(n-1) = f_n + (n+1) b_(n+1) / a. */
typedef struct correction {
  double value, by_a, by_eta;
} correction;

static correction temme_correction(double a, double eta) {
  double b[TEMME_TERMS + 1] = {0}, da[TEMME_TERMS + 1] = {0};
  double s = 0, s_a = 0, s_eta = 0;
  for (int n = TEMME_TERMS - 1; n >= 1; n--) {
    b[n - 1] = temme[n] + (n + 1) * b[n + 1] / a;
    da[n - 1] = (n + 1) * (da[n + 1] - b[n + 1] / a) / a;
    s_eta = s_eta * eta + s;
    s = s * eta + b[n - 1];
    s_a = s_a * eta + da[n - 1];
  }
  double norm = 1 + b[1] / a, norm_a = (da[1] - b[1] / a) / a;
  return (correction){s / norm, (s_a - s * norm_a / norm) / norm, s_eta / norm};
}

static int is_uniform(double a, double x) { return a >= 12 && x > 0.3 * a && x < 2.35 * a; }

/* The tail away from the mode, e^-E [erfcx(sqrt E)/2 +- S/sqrt(2 pi a)], E = a eta^2 / 2. */
static tails uniform(double a, double x) {
  double e = exponent(a, x), eta = copysign(sqrt(2 * e / a), x - a);
  double s = temme_correction(a, eta).value / sqrt(TWO_PI * a);
  double half = 0.5 * pni_erfcx(sqrt(e));
  return eta >= 0 ? from_upper(exp(-e) * (half + s)) : from_lower(exp(-e) * (half - s));
}

/* sum_n x^n / ((a+1) ... (a+n)) */
static double power_series(double a, double x) {
  double term = 1, sum = 1;
  for (int n = 1; n < 10000 && term > 1e-17 * sum; n++) {
    term *= x / (a + n);
    sum += term;
  }
  return sum;
}

/* F and dF/da by Lentz's method with derivatives carried along:
 * 1/F = b_0 + a_1/(b_1 + a_2/(b_2 + ...)), a_n = -n (n - a), b_n = x + 2n + 1 - a. */
static double fraction(double a, double x, double *by_a) {
  double b = x + 1 - a, h = b, dh = -1;
  double c = b, dc = -1, d = 0, dd = 0;
  for (int n = 1; n < 10000; n++) {
    double an = -n * (n - a);
    b += 2;
    double t = b + an * d, dt = -1 + n * d + an * dd;
    d = 1 / t;
    dd = -dt * d * d;
    dc = -1 + n / c - an * dc / (c * c);
    c = b + an / c;
    double delta = c * d, ddelta = dc * d + c * dd;
    dh = dh * delta + h * ddelta;
    h *= delta;
    if (fabs(delta - 1) < 0.5 * DBL_EPSILON && (!by_a || fabs(h * ddelta) < 1e-16 * fabs(dh))) break;
  }
  if (by_a) *by_a = -dh / (h * h);
  return 1 / h;
}

/* Q for a < 1, x <= 1.2, and P from it where P is not small. With u = 1 - x^a / Gamma(1+a),
 * Q = u - (1 - u) a sum_(n>=1) (-x)^n / (n! (a + n))  (from DLMF 8.7.1). */
static double upper_small(double a, double x) {
  double u = -expm1(a * log(x) - pni_lgamma1p(a));
  double power = 1, sum = 0;
  for (int n = 1; n < 60; n++) {
    power *= -x / n;
    double term = power / (a + n);
    sum += term;
    if (fabs(term) <= 1e-17 * fabs(sum)) break;
  }
  return u - (1 - u) * a * sum;
}

/* Both tails; a and x positive and finite. */
static tails both(double a, double x) {
  if (is_uniform(a, x)) return uniform(a, x);
  if (a < 1 && x <= 1.2) return (tails){prefactor(a, x) * power_series(a, x), upper_small(a, x)};
  if (x <= a) return from_lower(prefactor(a, x) * power_series(a, x));
  return from_upper(prefactor(a, x) * a * fraction(a, x, 0));
}

/* Edges: P = 1 at x = inf or a = 0, P = 0 at x = 0 or a = inf; NaN for both 0 or both inf, or negative. */
static tails checked(double a, double x) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return (tails){NAN, NAN};
  if (a == 0 || isinf(x)) return (tails){1, 0};
  if (x == 0 || isinf(a)) return (tails){0, 1};
  return both(a, x);
}

/* P(a, x). Max error 1.5e-15 of |P| (1 + |log P|): a tail e^-E carries the rounding of E. */
double pni_gammainc(double a, double x) { return checked(a, x).lower; }

/* Q(a, x). Max error 1.5e-15 of |Q| (1 + |log Q|). */
double pni_gammaincc(double a, double x) { return checked(a, x).upper; }

/* dP/da = sum_n t_n (log x - digamma(a+n+1)), t_n = D x^n / ((a+1) ... (a+n)), x <= a + 1. */
static double grad_series(double a, double x) {
  double term = prefactor(a, x), log_x = log(x), psi = pni_digamma(a + 1);
  double sum = term * (log_x - psi);
  for (int n = 1; n < 10000; n++) {
    psi += 1 / (a + n);
    term *= x / (a + n);
    double add = term * (log_x - psi);
    sum += add;
    if (fabs(add) < 1e-17 * fabs(sum) && psi > log_x) break;
  }
  return sum;
}

/* dP/da from Q = D a F:  -dQ/da = -D [F + a F (log x - digamma(a+1)) + a dF/da]. */
static double grad_fraction(double a, double x) {
  double f_a, f = fraction(a, x, &f_a);
  return -prefactor(a, x) * (f + a * f * (log(x) - pni_digamma(a + 1)) + a * f_a);
}

/* dP/da of the uniform expansion. With E = a eta^2 / 2 at fixed x: dE/da = -log r, deta/da = -(r-1)/(a eta):
 * dP/da = -e^-E / sqrt(2 pi a) [log r / eta + S log r - S/(2a) + dS/da - (r - 1)/(a eta) dS/deta]. */
static double grad_uniform(double a, double x) {
  double mu = (x - a) / a, log_r = log1p(mu);
  double e = exponent(a, x), eta = copysign(sqrt(2 * e / a), mu);
  double slope = eta != 0 ? log_r / eta : 1, shift = eta != 0 ? mu / eta : 1;
  correction s = temme_correction(a, eta);
  double sum = slope + s.value * (log_r - 0.5 / a) + s.by_a - s.by_eta * shift / a;
  return -exp(-e) / sqrt(TWO_PI * a) * sum;
}

/* dP(a, x)/da, negative. At a = 0 the one-sided limit -E_1(x); 0 at x = 0 and x = inf; NaN outside.
 * Max error 2.5e-15 of |G| (1 + |log |G||). */
double pni_gammainc_grad_a(double a, double x) {
  if (!(a >= 0 && x >= 0) || isinf(a) || (a == 0 && x == 0)) return NAN;
  if (x == 0 || isinf(x)) return 0;
  if (is_uniform(a, x)) return grad_uniform(a, x);
  return x <= 1.2 || x <= a ? grad_series(a, x) : grad_fraction(a, x);
}

/* What the inverses solve: P(a, x) = p and Q(a, x) = q = 1 - p. */
typedef struct problem {
  double a, p, q;
} problem;

/* Starting point: Wilson-Hilferty for a >= 1/2 unless it leaves the range, else p = x^a / Gamma(a+1). */
static double first_guess(const problem *t) {
  double a = t->a;
  if (a >= 0.5) {
    double z = t->p <= t->q ? pni_ndtri(t->p) : -pni_ndtri(t->q);
    double w = 1 / (9 * a), root = 1 - w + z * sqrt(w);
    if (root > 0.2) return a * root * root * root;
  }
  double x = exp((log(t->p) + pni_lgamma1p(a)) / a);
  return t->q < 0.5 && x > 1 ? 1 - log(t->q) : x;
}

/* One Halley step in u = log x for log P = log p (p <= q) or log Q = log q. */
static double halley_step(const problem *t, double x, double *residual) {
  tails r = both(t->a, x);
  double flow = prefactor(t->a, x) * t->a; /* x times the density */
  int low = t->p <= t->q;
  double tail = low ? r.lower : r.upper, target = low ? t->p : t->q;
  double f = tail > 0 ? log(tail / target) : -INFINITY;
  double g = low ? flow / tail : -flow / tail;
  *residual = low ? f : -f;
  double newton = f / g, bend = 1 - 0.5 * newton * ((t->a - x) - g);
  return -newton / fmin(fmax(bend, 0.5), 2);
}

/* Halley steps in log x, kept inside a shrinking bracket. */
static double solve(const problem *t) {
  double x = first_guess(t), low = 0, high = INFINITY;
  if (x < DBL_MIN) return x;
  for (int i = 0; i < 200; i++) {
    double residual, step = halley_step(t, x, &residual);
    if (residual == 0) break;
    if (residual > 0)
      high = x;
    else
      low = x;
    double next = x + x * expm1(step);
    if (!(next > low && next < high)) /* also when step is NaN */
      next = low == 0 ? x / 16 : isinf(high) ? x * 2 : sqrt(low) * sqrt(high);
    double moved = fabs(next - x);
    x = next;
    if (moved <= 2 * DBL_EPSILON * x || x < DBL_MIN || high <= low * (1 + DBL_EPSILON)) break;
  }
  return x;
}

/* x with P(a, x) = p. 0 at p = 0, inf at p = 1; NaN outside or for a <= 0 or a = inf. Underflows to 0 for small a.
 * Max error 3.5e-15 of x + min(p, 1 - p) / density(x), that is in x or in p, whichever is larger. */
double pni_gammaincinv(double a, double p) {
  if (!(a > 0 && p >= 0 && p <= 1) || isinf(a)) return NAN;
  if (p == 0 || p == 1) return p == 0 ? 0 : INFINITY;
  return solve(&(problem){a, p, 1 - p});
}

/* x with Q(a, x) = q, exact for small q. inf at q = 0, 0 at q = 1; otherwise as gammaincinv. */
double pni_gammainccinv(double a, double q) {
  if (!(a > 0 && q >= 0 && q <= 1) || isinf(a)) return NAN;
  if (q == 0 || q == 1) return q == 0 ? INFINITY : 0;
  return solve(&(problem){a, 1 - q, q});
}
