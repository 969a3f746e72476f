/*
** count_kernel.c: special_count.c piece by piece, the logarithms by the vector kernels; what is out of the common range
** goes to the scalar functions.
*/
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "count_kernel.h"
#include "../../base/processor.h"
#include "../../math/special.h"

#define LOG_ROOT_TWO_PI 0.91893853320467274178

/* x - log(1 + x), |x| < 1/4, over s = x / (2 + x): x - 2 (s^2/3 + s^4/5 + ...) */
static inline double gap_over(double x, double s) {
  double z = s * s, p = 1.0 / 23;
  p = p * z + 1.0 / 21, p = p * z + 1.0 / 19, p = p * z + 1.0 / 17, p = p * z + 1.0 / 15, p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11, p = p * z + 1.0 / 9, p = p * z + 1.0 / 7, p = p * z + 1.0 / 5, p = p * z + 1.0 / 3;
  return x - 2 * z * p;
}

PNI_EACH_LEVEL(divide, (const double *restrict m, const double *restrict k, double *restrict ratio, int64_t n),
               (m, k, ratio, n)) {
  for (int64_t i = 0; i < n; i++) {
    double divisor = k[i] > 0 ? k[i] : 1;
    ratio[i] = m[i] / divisor;
  }
}

PNI_EACH_LEVEL(near_or_far,
               (const double *restrict k, const double *restrict m, const double *restrict log_ratio,
                double *restrict out, int64_t n),
               (k, m, log_ratio, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double divisor = k[i] > 0 ? k[i] : 1, x = (m[i] - k[i]) / divisor, s = x / (2 + x);
    double near = k[i] * (s * gap_over(x, s)), far = m[i] - k[i] - k[i] * log_ratio[i];
    double value = fabs(x) < 0.25 ? near : far;
    out[i] = k[i] == 0 ? m[i] : value;
  }
}
PNI_EACH_LEVEL_OF(int64_t, odd_ratios, (const double *restrict k, const double *restrict ratio, int64_t n),
                  (k, ratio, n)) {
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) odd += k[i] >= 0 && ratio[i] > 1e-300 && ratio[i] < 1e300 ? 0 : 1;
  return odd;
}

static void deviance(const double *k, const double *m, double *out, int64_t n) {
  double ratio[PNI_KERNEL_PIECE], log_ratio[PNI_KERNEL_PIECE];
  divide(m, k, ratio, n);
  pni_vector_f64(PNI_VECTOR_log, ratio, 1, log_ratio, n);
  near_or_far(k, m, log_ratio, out, n);
  int64_t odd = odd_ratios(k, ratio, n);
  for (int64_t i = 0; odd && i < n; i++)
    if (!(k[i] >= 0 && ratio[i] > 1e-300 && ratio[i] < 1e300)) out[i] = pni_count_deviance(k[i], m[i]);
}

static void deviance_log(const double *k, const double *l, double *out, int64_t n) {
  double m[PNI_KERNEL_PIECE];
  pni_vector_f64(PNI_VECTOR_exp, l, 1, m, n);
  deviance(k, m, out, n);
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) odd += !(m[i] > 1e-290 && m[i] < 1e290);
  for (int64_t i = 0; odd && i < n; i++)
    if (!(m[i] > 1e-290 && m[i] < 1e290)) out[i] = pni_count_deviance_log(k[i], l[i]);
}

/* lgamma(k + 1) - k log k + k where k lies between whole numbers */
static void broken_excess(const double *k, double *out, int64_t n) {
  double next[PNI_KERNEL_PIECE], own[PNI_KERNEL_PIECE], log_k[PNI_KERNEL_PIECE], log_factorial[PNI_KERNEL_PIECE];
  for (int64_t i = 0; i < n; i++) own[i] = k[i] >= 0.5 && k[i] < 16 ? k[i] : 1;
  for (int64_t i = 0; i < n; i++) next[i] = own[i] + 1;
  pni_vector_f64(PNI_VECTOR_log, own, 1, log_k, n);
  pni_vector_f64(PNI_VECTOR_lgamma, next, 1, log_factorial, n);
  for (int64_t i = 0; i < n; i++) {
    bool whole = k[i] >= 16 || (k[i] >= 0 && (double)(int)k[i] == k[i]);
    if (!whole) out[i] = own[i] == k[i] ? log_factorial[i] - (k[i] * log_k[i] - k[i]) : pni_count_excess(k[i]);
  }
}

static void small_excess(const double *k, double *out, int64_t n) {
  int64_t broken = 0;
  for (int64_t i = 0; i < n; i++) {
    int whole = k[i] >= 0 && k[i] < 16 ? (int)k[i] : 0;
    if (k[i] >= 16) continue;
    out[i] = pni_count_excess_whole[whole];
    broken += (double)whole != k[i];
  }
  if (broken) broken_excess(k, out, n);
}

PNI_EACH_LEVEL(at_least, (const double *restrict k, double least, double *restrict size, int64_t n),
               (k, least, size, n)) {
  for (int64_t i = 0; i < n; i++) size[i] = k[i] >= least ? k[i] : least;
}

static void excess(const double *k, double *out, int64_t n) {
  double size[PNI_KERNEL_PIECE], log_size[PNI_KERNEL_PIECE];
  at_least(k, 16, size, n);
  pni_vector_f64(PNI_VECTOR_log, size, 1, log_size, n);
  for (int64_t i = 0; i < n; i++) {
    double r = 1 / size[i], z = r * r;
    double series = r * (1.0 / 12 + z * (-1.0 / 360 + z * (1.0 / 1260 + z * (-1.0 / 1680 + z * (1.0 / 1188)))));
    out[i] = LOG_ROOT_TWO_PI + 0.5 * log_size[i] + series;
  }
  int64_t small = 0;
  for (int64_t i = 0; i < n; i++) small += !(k[i] >= 16);
  if (small) small_excess(k, out, n);
}

/* ---- masses by logarithms of gamma functions ----
** Up to GAMMAS_END they leave an absolute error of 4e-13 or less; beyond, they would cancel, and deviances and excesses
** take over. */

#define GAMMAS_END 200

PNI_EACH_LEVEL_OF(int64_t, count_far, (const double *restrict x, int64_t n), (x, n)) {
  int64_t far = 0;
  for (int64_t i = 0; i < n; i++) far += x[i] <= GAMMAS_END ? 0 : 1;
  return far;
}
PNI_EACH_LEVEL(sums,
               (const double *restrict x, const double *restrict r, double *restrict all, double *restrict next,
                int64_t n),
               (x, r, all, next, n)) {
  for (int64_t i = 0; i < n; i++) all[i] = x[i] + r[i], next[i] = x[i] + 1;
}
PNI_EACH_LEVEL(fold, (const double *restrict l, double *restrict minus, int64_t n), (l, minus, n)) {
  for (int64_t i = 0; i < n; i++) minus[i] = -fabs(l[i]);
}
/* Logarithms of e^l / (1 + e^l) and 1 / (1 + e^l), t = log(1 + e^-|l|) */
PNI_EACH_LEVEL(split,
               (const double *restrict l, const double *restrict t, double *restrict success, double *restrict failure,
                int64_t n),
               (l, t, success, failure, n)) {
  for (int64_t i = 0; i < n; i++) {
    double low = l[i] < 0 ? l[i] : 0, high = l[i] < 0 ? 0 : -l[i];
    success[i] = low - t[i];
    failure[i] = high - t[i];
  }
}
static void shares(const double *l, double *success, double *failure, int64_t n) {
  double minus[PNI_KERNEL_PIECE], t[PNI_KERNEL_PIECE];
  fold(l, minus, n);
  pni_vector_f64(PNI_VECTOR_softplus, minus, 1, t, n);
  split(l, t, success, failure, n);
}
/* lgamma(a) - lgamma(c) - lgamma(b) + x success + y failure */
PNI_EACH_LEVEL(join,
               (const double *restrict x, const double *restrict y, const double *restrict success,
                const double *restrict failure, double gamma[3][PNI_KERNEL_PIECE], double *restrict out, int64_t n),
               (x, y, success, failure, gamma, out, n)) {
  for (int64_t i = 0; i < n; i++)
    out[i] = ((gamma[0][i] - gamma[2][i]) - gamma[1][i]) + (y[i] * failure[i] + x[i] * success[i]);
}
static void by_gammas(const double *a, const double *b, const double *c, const double *x, const double *y,
                      const double *success, const double *failure, double *out, int64_t n) {
  double gamma[3][PNI_KERNEL_PIECE];
  pni_vector_f64(PNI_VECTOR_lgamma, a, 1, gamma[0], n);
  pni_vector_f64(PNI_VECTOR_lgamma, b, 1, gamma[1], n);
  pni_vector_f64(PNI_VECTOR_lgamma, c, 1, gamma[2], n);
  join(x, y, success, failure, gamma, out, n);
}

/* The binomial mass of x and y = n - x where n is large, logarithms of both shares given. */
static void by_deviances(const double *x, const double *y, const double *all, const double *success,
                         const double *failure, double *out, int64_t n) {
  double log_all[PNI_KERNEL_PIECE], log_mean[2][PNI_KERNEL_PIECE], e[3][PNI_KERNEL_PIECE], d[2][PNI_KERNEL_PIECE];
  pni_vector_f64(PNI_VECTOR_log, all, 1, log_all, n);
  for (int64_t i = 0; i < n; i++) {
    log_mean[0][i] = log_all[i] + success[i];
    log_mean[1][i] = log_all[i] + failure[i];
  }
  excess(all, e[0], n);
  excess(x, e[1], n);
  excess(y, e[2], n);
  deviance_log(x, log_mean[0], d[0], n);
  deviance_log(y, log_mean[1], d[1], n);
  for (int64_t i = 0; i < n; i++)
    if (!(all[i] <= GAMMAS_END)) out[i] = (e[0][i] - (e[1][i] + e[2][i])) - (d[1][i] + d[0][i]);
}

/* Of x, r and log odds l; for large x + r the binomial mass of r among them, times r / (x + r). */
static void negative_binomial(const double *x, const double *r, const double *l, double *out, int64_t n) {
  double all[PNI_KERNEL_PIECE], next[PNI_KERNEL_PIECE], success[PNI_KERNEL_PIECE], failure[PNI_KERNEL_PIECE];
  sums(x, r, all, next, n);
  shares(l, success, failure, n);
  by_gammas(all, next, r, x, r, success, failure, out, n);
  if (count_far(all, n)) {
    double ratio[PNI_KERNEL_PIECE], gap[PNI_KERNEL_PIECE];
    by_deviances(x, r, all, success, failure, out, n);
    for (int64_t i = 0; i < n; i++) ratio[i] = x[i] / r[i];
    pni_vector_f64(PNI_VECTOR_log1p, ratio, 1, gap, n);
    for (int64_t i = 0; i < n; i++)
      if (!(all[i] <= GAMMAS_END)) out[i] -= gap[i];
  }
}

/* Of x, the number of trials and log odds. */
static void binomial(const double *x, const double *trials, const double *l, double *out, int64_t n) {
  double rest[PNI_KERNEL_PIECE], all[PNI_KERNEL_PIECE], next[PNI_KERNEL_PIECE], left[PNI_KERNEL_PIECE],
      success[PNI_KERNEL_PIECE], failure[PNI_KERNEL_PIECE];
  for (int64_t i = 0; i < n; i++) {
    rest[i] = trials[i] - x[i];
    all[i] = trials[i] + 1;
    next[i] = x[i] + 1;
    left[i] = rest[i] + 1;
  }
  shares(l, success, failure, n);
  by_gammas(all, next, left, x, rest, success, failure, out, n);
  if (count_far(trials, n)) by_deviances(x, rest, trials, success, failure, out, n);
}

PNI_EACH_LEVEL(add_poisson,
               (const double *restrict x, const double *restrict rate, const double *restrict log_rate,
                const double *restrict gamma, double *restrict out, int64_t n),
               (x, rate, log_rate, gamma, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double power = x[i] * log_rate[i];
    power = x[i] == 0 ? 0 : power;
    out[i] = (power - rate[i]) - gamma[i];
  }
}
/* Of x and the rate. */
static void poisson(const double *x, const double *rate, double *out, int64_t n) {
  double all[PNI_KERNEL_PIECE], next[PNI_KERNEL_PIECE], log_rate[PNI_KERNEL_PIECE], gamma[PNI_KERNEL_PIECE];
  sums(x, rate, all, next, n);
  pni_vector_f64(PNI_VECTOR_log, rate, 1, log_rate, n);
  pni_vector_f64(PNI_VECTOR_lgamma, next, 1, gamma, n);
  add_poisson(x, rate, log_rate, gamma, out, n);
  if (count_far(all, n)) {
    double d[PNI_KERNEL_PIECE], e[PNI_KERNEL_PIECE];
    deviance(x, rate, d, n);
    excess(x, e, n);
    for (int64_t i = 0; i < n; i++)
      if (!(all[i] <= GAMMAS_END)) out[i] = -(d[i] + e[i]);
  }
}

/* ---- bodies ---- */

void pni_deviance_body(const pni_piece *p, void *out) { deviance(p->in[0], p->in[1], out, p->n); }
void pni_deviance_log_body(const pni_piece *p, void *out) { deviance_log(p->in[0], p->in[1], out, p->n); }
void pni_excess_body(const pni_piece *p, void *out) { excess(p->in[0], out, p->n); }
void pni_negative_binomial_body(const pni_piece *p, void *out) {
  negative_binomial(p->in[0], p->in[1], p->in[2], out, p->n);
}
void pni_binomial_body(const pni_piece *p, void *out) { binomial(p->in[0], p->in[1], p->in[2], out, p->n); }
void pni_poisson_body(const pni_piece *p, void *out) { poisson(p->in[0], p->in[1], out, p->n); }

/* Element by element the arithmetic of the search: sums grow, so that one that has reached u stays there. */
void pni_count_search(int64_t n, const double *start, const double *slope, const double *drop, const double *u,
                      double *k) {
  double weight[PNI_KERNEL_PIECE], sum[PNI_KERNEL_PIECE], left = 1;
  for (int64_t i = 0; i < n; i++) weight[i] = sum[i] = start[i], k[i] = 0;
  for (int step = 0; step < 200 && left > 0; step++) {
    left = 0;
    double next = step + 1;
    for (int64_t i = 0; i < n; i++) {
      double over = u[i] > sum[i] ? 1 : 0;
      k[i] += over;
      left += over;
      weight[i] *= slope[i] / next - drop[i];
      sum[i] += weight[i];
    }
  }
  for (int64_t i = 0; i < n; i++)
    if (u[i] > sum[i]) k[i] = -1;
}
