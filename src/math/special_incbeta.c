/* Regularised incomplete beta function I_x(a, b) (DLMF 8.17) and its inverse in x.
 *
 * A point is carried as x and y = 1 - x together, so that neither end of (0, 1) loses digits, and both tails are
 * returned. Regions:
 *   uniform   a, b >= 20 around the mean: an expansion of Temme's kind, cost independent of a and b
 *   fraction  x below about the mean: continued fraction for I_x(a, b) (8.17.22)
 *   swapped   above: the same for I_y(b, a), or, for b < 1, its complement from the power series
 */
#include "special.h"

#include <float.h>
#include <math.h>

#define TWO_PI 6.28318530717958647693

typedef struct tails {
  double lower, upper;
} tails;

typedef struct point {
  double x, y;
} point;

/* b x - a y with x + y = 1 exactly: products by fma, and the larger of x, y freed of its rounding. */
static double offset(double a, double b, point t) {
  double bx = b * t.x, ay = a * t.y;
  double low = fma(b, t.x, -bx) - fma(a, t.y, -ay);
  low += t.x < t.y ? -a * ((1 - t.y) - t.x) : b * ((1 - t.x) - t.y);
  return (bx - ay) + low;
}

/* phi(r) = r - 1 - log r from r and from r - 1, each of which is exact where it is used. */
static double profile(double r, double r_minus_1) {
  return r_minus_1 > -0.6 ? pni_log1p_gap(r_minus_1) : r_minus_1 - log(r);
}

/* a phi(x/p) + b phi(y/q), p = a/(a+b), q = 1 - p: the logarithm of the kernel below its peak, since the
 * linear parts cancel. */
static double exponent(double a, double b, point t) {
  double d = offset(a, b, t), n = a + b;
  return a * profile(t.x * (n / a), d / a) + b * profile(t.y * (n / b), -d / b);
}

/* v^l w^s / B(l, s) for s < 10 <= l, v + w = 1, as (l w)^s / Gamma(s) times e^(l log v + D), where Stirling's formula
 * leaves D = log Gamma(l+s) - log Gamma(l) - s log l = (l+s-1/2) log(1 + s/l) - s + small: nothing large cancels. */
static double lopsided(double l, double s, double v, double w) {
  double log_v = v < 0.5 ? log(v) : log1p(-w);
  double d = (l + s - 0.5) * log1p(s / l) - s + (pni_stirling_error(l + s) - pni_stirling_error(l));
  return pow(l * w, s) / tgamma(s) * exp(l * log_v + d);
}

/* x^a y^b / B(a, b). */
static double kernel(double a, double b, point t) {
  if (a >= 10 && b >= 10) {
    double e = pni_stirling_error(a) + (pni_stirling_error(b) - pni_stirling_error(a + b));
    return sqrt(a / TWO_PI * (b / (a + b))) * exp(-exponent(a, b, t) - e);
  }
  if (a < 10 && b < 10) {
    double norm = tgamma(a + b) / tgamma(a) / tgamma(b);
    if (norm > 0 && !isinf(norm)) return pow(t.x, a) * pow(t.y, b) * norm;
  }
  if (a >= 10 && b > 1e-300 && a * t.y < 1e20) return lopsided(a, b, t.x, t.y);
  if (b >= 10 && a > 1e-300 && b * t.x < 1e20) return lopsided(b, a, t.y, t.x);
  double log_x = t.x < 0.5 ? log(t.x) : log1p(-t.y);
  double log_y = t.y < 0.5 ? log(t.y) : log1p(-t.x);
  return exp(a * log_x + b * log_y - pni_lbeta(a, b));
}

/* x^a y^b / (B(a, b) I_x(a, b)) = b_0 + a_1/(b_1 + a_2/(b_2 + ...)), the even part of DLMF 8.17.22 in the form
 * of DiDonato & Morris (1992), by Lentz's method; with l = a y - b x, positive below the mean,
 *   a_n = (a+n-1) (a+b+n-1) n (b-n) x^2 / (a+2n-1)^2
 *   b_n = n + n (b-n) x / (a+2n-1) + (a+n) (l + 1 + n (1+y)) / (a+2n+1). */
static double fraction(double a, double b, point t) {
  double base = 1 - offset(a, b, t), c = a * base / (a + 1), d = 0, h = c;
  for (int n = 1; n < 20000; n++) {
    double s = a + (2 * n - 1), w = n * (b - n) * t.x / s;
    double an = (a + (n - 1)) / s * (a + b + (n - 1)) * t.x * w;
    double bn = n + w + (a + n) / (s + 2) * (base + n * (1 + t.y));
    d = 1 / (bn + an * d);
    c = bn + an / c;
    h *= c * d;
    if (fabs(c * d - 1) < DBL_EPSILON) break;
  }
  return h;
}

/* Coefficients of f = zeta / v where v dv/dzeta = zeta (1 + c v - m v^2), v = zeta + ...: the inversion of
 * -m zeta^2 / 2 = p log(x/p) + q log(y/q) in x = p + sqrt(p q m) v, with m = min(p, q) and
 * c = (q - p) sqrt(m / (p q)). At m = 0, c = 1 this is Temme's series of the incomplete gamma function. */
#define TERMS 28
static void inversion_series(double c, double m, double f[TERMS]) {
  double v[TERMS + 2] = {0, 1}, square[TERMS + 3] = {0, 0, 1};
  for (int k = 2; k <= TERMS; k++) {
    square[k + 1] = 2 * (c * v[k - 1] - m * square[k - 1]) / (k + 1);
    double cross = 0;
    for (int i = 2; i < k; i++) cross += v[i] * v[k + 1 - i];
    v[k] = 0.5 * (square[k + 1] - cross);
  }
  f[0] = 1;
  for (int n = 1; n < TERMS; n++) {
    f[n] = 0;
    for (int i = 1; i <= n; i++) f[n] -= v[i + 1] * f[n - i];
  }
}

/* S of I_x = erfc(-zeta sqrt(n/2))/2 - e^(-n zeta^2/2) S / sqrt(2 pi n), n = min(a, b): differentiating,
 * zeta S - S'/n = const f - 1, solved by b_(k-1) = f_k + (k+1) b_(k+1) / n, S = sum b_k zeta^k / (1 + b_1/n). */
static double correction(double a, double b, double zeta) {
  double f[TERMS], s[TERMS + 1] = {0}, sum = 0;
  double p = a / (a + b), q = b / (a + b), n = fmin(a, b), m = fmin(p, q);
  inversion_series((q - p) / sqrt(fmax(p, q)), m, f);
  for (int k = TERMS - 1; k >= 1; k--) {
    s[k - 1] = f[k] + (k + 1) * s[k + 1] / n;
    sum = sum * zeta + s[k - 1];
  }
  return sum / (1 + s[1] / n);
}

/* Whether |zeta| <= 1, and then both tails: the one away from the mean is
 * e^-E [erfcx(sqrt E)/2 +- S/sqrt(2 pi n)], E = n zeta^2 / 2. */
static int uniform(double a, double b, point t, tails *out) {
  double n = fmin(a, b);
  if (n < 20) return 0;
  double e = exponent(a, b, t);
  if (!(e < 0.5 * n)) return 0;
  double zeta = copysign(sqrt(2 * e / n), offset(a, b, t));
  double s = correction(a, b, zeta) / sqrt(TWO_PI * n), half = 0.5 * pni_erfcx(sqrt(e));
  double tail = exp(-e) * (zeta >= 0 ? half + s : half - s);
  *out = zeta >= 0 ? (tails){1 - tail, tail} : (tails){tail, 1 - tail};
  return 1;
}

/* log(a B(a, b)), relatively exact where it is small. As a -> 0 it is log Gamma(1+a) - [log Gamma(a+b) - log Gamma(b)],
 * the bracket by Taylor's series a digamma(b) + a^2/2 digamma'(b) + ...; with a and b both small,
 * Gamma(1+a) Gamma(1+b) / Gamma(1+a+b) (1 + a/b). */
static double log_a_beta(double a, double b) {
  if (a > 0.01 * fmin(b, 1)) {
    if (a > 0.5 || b > 0.5) return log(a) + pni_lbeta(a, b);
    return pni_lgamma1p(a) + pni_lgamma1p(b) - pni_lgamma1p(a + b) + log1p(a / b);
  }
  double rise = 0, factor = 1;
  for (int n = 0; n < 8; n++) {
    factor *= a / (n + 1);
    double term = factor * pni_polygamma(n, b);
    rise += term;
    if (fabs(term) < 1e-17 * fabs(rise)) break;
  }
  return pni_lgamma1p(a) - rise;
}

/* 1 - I_x(a, b) for a < 1 and small b x. With u = 1 - x^a / (a B),
 *   u - (1 - u) a sum_(n>=1) (1-b)_n x^n / (n! (a + n))  (from DLMF 8.17.7). */
static double upper_small(double a, double b, point t) {
  double log_x = t.x < 0.5 ? log(t.x) : log1p(-t.y);
  double u = -expm1(a * log_x - log_a_beta(a, b));
  double power = 1, sum = 0;
  for (int n = 1; n < 2000; n++) {
    power *= (n - b) * t.x / n;
    double term = power / (a + n);
    sum += term;
    if (fabs(term) <= 1e-17 * fabs(sum)) break; /* also where both underflow */
  }
  return u - (1 - u) * a * sum;
}

/* Both tails for t.x not above the mean by much. */
static tails left(double a, double b, point t) {
  double p = kernel(a, b, t) / fraction(a, b, t);
  return (tails){p, a < 1 ? upper_small(a, b, t) : 1 - p};
}

/* Both tails; a, b positive and finite, 0 < x < 1. */
static tails both(double a, double b, point t) {
  tails r;
  if (uniform(a, b, t, &r)) return r;
  if (t.x * (b + 1) <= t.y * (a + 1)) return left(a, b, t);
  r = left(b, a, (point){t.y, t.x});
  return (tails){r.upper, r.lower};
}

/* I_x(a, b). 0 at x = 0, 1 at x = 1; NaN unless a, b > 0 are finite and 0 <= x <= 1.
 * Max error 5e-15 of |I| (1 + |log I|). */
double pni_betainc(double a, double b, double x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || isinf(a) || isinf(b)) return NAN;
  if (x == 0 || x == 1) return x;
  return both(a, b, (point){x, 1 - x}).lower;
}

/* 1 - I_x(a, b), exact where it is small; 1 at x = 0, 0 at x = 1. */
double pni_betaincc(double a, double b, double x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || isinf(a) || isinf(b)) return NAN;
  if (x == 0 || x == 1) return 1 - x;
  return both(a, b, (point){x, 1 - x}).upper;
}

/* What the inverse solves: lower tail p at x in (0, 1/2], q = 1 - p. */
typedef struct problem {
  double a, b, p, q;
} problem;

/* Starting point: the quantile of a normal law with the same mean and variance, or p = x^a / (a B), which is a lower
 * bound for b >= 1. */
static double first_guess(const problem *t) {
  double a = t->a, b = t->b, mean = a / (a + b), power = exp((log(t->p) + log_a_beta(a, b)) / a);
  double z = t->p <= t->q ? pni_ndtri(t->p) : -pni_ndtri(t->q);
  return fmin(fmax(power, mean + z * sqrt(mean * (1 - mean) / (a + b + 1))), 0.5);
}

/* One Halley step in log x for the logarithm of the smaller tail. */
static double halley_step(const problem *t, double x, double *residual) {
  point at = {x, 1 - x};
  tails r = both(t->a, t->b, at);
  double flow = kernel(t->a, t->b, at) / at.y; /* x times the density */
  int low = t->p <= t->q;
  double tail = low ? r.lower : r.upper, target = low ? t->p : t->q;
  double f = tail > 0 ? log(tail / target) : -INFINITY;
  double g = low ? flow / tail : -flow / tail;
  *residual = low ? f : -f;
  double newton = f / g, bend = 1 - 0.5 * newton * (t->a - (t->b - 1) * x / at.y - g);
  return -newton / fmin(fmax(bend, 0.5), 2);
}

static double solve(const problem *t) {
  double x = first_guess(t), low = 0, high = 0.5;
  for (int i = 0; i < 200 && x >= DBL_MIN; i++) {
    double residual, step = halley_step(t, x, &residual);
    if (residual == 0) break;
    if (residual > 0)
      high = x;
    else
      low = x;
    double next = x + x * expm1(step);
    if (!(next > low && next <= high)) /* also when step is NaN */
      next = low == 0 ? x / 16 : sqrt(low) * sqrt(high);
    double moved = fabs(next - x);
    x = next;
    if (moved <= 2 * DBL_EPSILON * x || high - low <= DBL_EPSILON * high) break;
  }
  return x;
}

/* x with I_x(a, b) = p, solved for x or for 1 - x, whichever is below 1/2. 0 at p = 0, 1 at p = 1; NaN
 * unless a, b > 0 are finite and 0 <= p <= 1. Underflows to 0 for small a.
 * Max error 5e-15 of |x| + min(p, 1 - p) / density(x), that is in x or in p, whichever is larger. */
double pni_betaincinv(double a, double b, double p) {
  if (!(a > 0 && b > 0 && p >= 0 && p <= 1) || isinf(a) || isinf(b)) return NAN;
  if (p == 0 || p == 1) return p;
  tails middle = both(a, b, (point){0.5, 0.5});
  if (p <= 0.5 ? p <= middle.lower : 1 - p >= middle.upper) return solve(&(problem){a, b, p, 1 - p});
  return 1 - solve(&(problem){b, a, 1 - p, p});
}

/* ---- derivatives in the parameters ---- */

/* log t and log(1 - t) for t = e^u / (1 + e^u). */
static void logistic_logs(double u, double out[2]) {
  double rest = log1p(exp(-fabs(u)));
  out[0] = u < 0 ? u - rest : -rest;
  out[1] = u < 0 ? -rest : -u - rest;
}

/* Integrals from -infinity to u0 (x not above the mean) of (log t - mean_a) and (log(1 - t) - mean_b) times
 * t^a (1-t)^b / B(a, b) du, u = log(t / (1 - t)), where the means are digamma(a) - digamma(a+b) and digamma(b) -
 * digamma(a+b). By the exp-exp rule u = u0 - l e^(v - e^-v), whose scale l is the decay at u0. */
static void slope_integrals(double a, double b, point at, double out[2]) {
  double u0 = log(at.x) - log(at.y), here[2], there[2], h = 1.0 / 16;
  double fall = fmax(a * at.y - b * at.x, 0), l = 1 / (fall + sqrt((a + b) * at.x * at.y));
  double whole = pni_digamma(a + b), mean_a = pni_digamma(a) - whole, mean_b = pni_digamma(b) - whole;
  double size = kernel(a, b, at) * h;
  out[0] = out[1] = 0;
  logistic_logs(u0, here);
  for (double v = -4; v < 60; v += h) {
    double e = exp(-v), s = l * exp(v - e);
    logistic_logs(u0 - s, there);
    double w = exp(a * (there[0] - here[0]) + b * (there[1] - here[1])) * s * (1 + e);
    out[0] += w * (there[0] - mean_a);
    out[1] += w * (there[1] - mean_b);
    if (v > 1 && w * (fabs(there[0]) + fabs(there[1])) < 1e-18 * (fabs(out[0]) + fabs(out[1]))) break;
  }
  out[0] *= size;
  out[1] *= size;
}

/* dI_x(a, b)/da and dI_x(a, b)/db, by quadrature of the score over the tail that does not hold the mean: the score
 * has mean 0. 0 at x = 0 and x = 1; NaN where betainc is. */
void pni_betainc_slopes(double a, double b, double x, double slope[2]) {
  slope[0] = slope[1] = NAN;
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || isinf(a) || isinf(b)) return;
  slope[0] = slope[1] = 0;
  if (x == 0 || x == 1) return;
  if (x * (a + b) <= a) {
    slope_integrals(a, b, (point){x, 1 - x}, slope);
    return;
  }
  double swapped[2];
  slope_integrals(b, a, (point){1 - x, x}, swapped);
  slope[0] = -swapped[1];
  slope[1] = -swapped[0];
}
