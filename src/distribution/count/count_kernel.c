/*
** count_kernel.c: special_count.c block by block, the logarithms by the vector kernels; what is out of the common range
** goes to the scalar functions.
*/
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "count_kernel.h"
#include "../../base/processor.h"
#include "../../math/special.h"
#include "../../tensor/kernel/map.h"

#define LOG_ROOT_TWO_PI 0.91893853320467274178

enum { BLOCK = 128 };

static void vector(pni_map_kernel f, const double *x, double *out, int64_t n) {
  f(NULL, n, (char *const[]){(char *)out, (char *)(uintptr_t)x}, (const int64_t[]){1, 1});
}

/* x - log(1 + x), |x| < 1/4, over s = x / (2 + x): x - 2 (s^2/3 + s^4/5 + ...) */
static inline double gap_over(double x, double s) {
  double z = s * s, p = 1.0 / 23;
  p = p * z + 1.0 / 21, p = p * z + 1.0 / 19, p = p * z + 1.0 / 17, p = p * z + 1.0 / 15, p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11, p = p * z + 1.0 / 9, p = p * z + 1.0 / 7, p = p * z + 1.0 / 5, p = p * z + 1.0 / 3;
  return x - 2 * z * p;
}

static void deviance(const double *k, const double *m, double *out, int64_t n) {
  double ratio[BLOCK], log_ratio[BLOCK];
  for (int64_t i = 0; i < n; i++) ratio[i] = m[i] / (k[i] > 0 ? k[i] : 1);
  vector(pni_log_f64, ratio, log_ratio, n);
  for (int64_t i = 0; i < n; i++) {
    double divisor = k[i] > 0 ? k[i] : 1, x = (m[i] - k[i]) / divisor, s = x / (2 + x);
    double near = k[i] * (s * gap_over(x, s)), far = m[i] - k[i] - k[i] * log_ratio[i];
    double value = fabs(x) < 0.25 ? near : far;
    out[i] = k[i] == 0 ? m[i] : value;
  }
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) odd += !(k[i] >= 0 && ratio[i] > 1e-300 && ratio[i] < 1e300);
  for (int64_t i = 0; odd && i < n; i++)
    if (!(k[i] >= 0 && ratio[i] > 1e-300 && ratio[i] < 1e300)) out[i] = pni_count_deviance(k[i], m[i]);
}

static void deviance_log(const double *k, const double *l, double *out, int64_t n) {
  double m[BLOCK];
  vector(pni_exp_f64, l, m, n);
  deviance(k, m, out, n);
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) odd += !(m[i] > 1e-290 && m[i] < 1e290);
  for (int64_t i = 0; odd && i < n; i++)
    if (!(m[i] > 1e-290 && m[i] < 1e290)) out[i] = pni_count_deviance_log(k[i], l[i]);
}

/* lgamma(k + 1) - k log k + k where k lies between whole numbers */
static void broken_excess(const double *k, double *out, int64_t n) {
  double next[BLOCK], own[BLOCK], log_k[BLOCK], log_factorial[BLOCK];
  for (int64_t i = 0; i < n; i++) own[i] = k[i] >= 0.5 && k[i] < 16 ? k[i] : 1;
  for (int64_t i = 0; i < n; i++) next[i] = own[i] + 1;
  vector(pni_log_f64, own, log_k, n);
  vector(pni_lgamma_f64, next, log_factorial, n);
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

static void excess(const double *k, const double *unused, double *out, int64_t n) {
  (void)unused;
  double size[BLOCK], log_size[BLOCK];
  for (int64_t i = 0; i < n; i++) size[i] = k[i] >= 16 ? k[i] : 16;
  vector(pni_log_f64, size, log_size, n);
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
  double minus[BLOCK], t[BLOCK];
  fold(l, minus, n);
  vector(pni_softplus_f64, minus, t, n);
  split(l, t, success, failure, n);
}
/* lgamma(a) - lgamma(c) - lgamma(b) + x success + y failure */
PNI_EACH_LEVEL(join,
               (const double *restrict x, const double *restrict y, const double *restrict success,
                const double *restrict failure, double gamma[3][BLOCK], double *restrict out, int64_t n),
               (x, y, success, failure, gamma, out, n)) {
  for (int64_t i = 0; i < n; i++)
    out[i] = ((gamma[0][i] - gamma[2][i]) - gamma[1][i]) + (y[i] * failure[i] + x[i] * success[i]);
}
static void by_gammas(const double *a, const double *b, const double *c, const double *x, const double *y,
                      const double *success, const double *failure, double *out, int64_t n) {
  double gamma[3][BLOCK];
  vector(pni_lgamma_f64, a, gamma[0], n);
  vector(pni_lgamma_f64, b, gamma[1], n);
  vector(pni_lgamma_f64, c, gamma[2], n);
  join(x, y, success, failure, gamma, out, n);
}

/* The binomial mass of x and y = n - x where n is large, logarithms of both shares given. */
static void by_deviances(const double *x, const double *y, const double *all, const double *success,
                         const double *failure, double *out, int64_t n) {
  double log_all[BLOCK], log_mean[2][BLOCK], e[3][BLOCK], d[2][BLOCK];
  vector(pni_log_f64, all, log_all, n);
  for (int64_t i = 0; i < n; i++) {
    log_mean[0][i] = log_all[i] + success[i];
    log_mean[1][i] = log_all[i] + failure[i];
  }
  excess(all, NULL, e[0], n);
  excess(x, NULL, e[1], n);
  excess(y, NULL, e[2], n);
  deviance_log(x, log_mean[0], d[0], n);
  deviance_log(y, log_mean[1], d[1], n);
  for (int64_t i = 0; i < n; i++)
    if (!(all[i] <= GAMMAS_END)) out[i] = (e[0][i] - (e[1][i] + e[2][i])) - (d[1][i] + d[0][i]);
}

/* Of x, r and log odds l; for large x + r the binomial mass of r among them, times r / (x + r). */
static void negative_binomial(const double *x, const double *r, const double *l, double *out, int64_t n) {
  double all[BLOCK], next[BLOCK], success[BLOCK], failure[BLOCK], value[BLOCK];
  sums(x, r, all, next, n);
  shares(l, success, failure, n);
  by_gammas(all, next, r, x, r, success, failure, value, n);
  if (count_far(all, n)) {
    double ratio[BLOCK], gap[BLOCK];
    by_deviances(x, r, all, success, failure, value, n);
    for (int64_t i = 0; i < n; i++) ratio[i] = x[i] / r[i];
    vector(pni_log1p_f64, ratio, gap, n);
    for (int64_t i = 0; i < n; i++)
      if (!(all[i] <= GAMMAS_END)) value[i] -= gap[i];
  }
  memcpy(out, value, (size_t)n * sizeof *out);
}

/* Of x, the number of trials and log odds. */
static void binomial(const double *x, const double *trials, const double *l, double *out, int64_t n) {
  double rest[BLOCK], all[BLOCK], next[BLOCK], left[BLOCK], success[BLOCK], failure[BLOCK], value[BLOCK];
  for (int64_t i = 0; i < n; i++) {
    rest[i] = trials[i] - x[i];
    all[i] = trials[i] + 1;
    next[i] = x[i] + 1;
    left[i] = rest[i] + 1;
  }
  shares(l, success, failure, n);
  by_gammas(all, next, left, x, rest, success, failure, value, n);
  if (count_far(trials, n)) by_deviances(x, rest, trials, success, failure, value, n);
  memcpy(out, value, (size_t)n * sizeof *out);
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
  double all[BLOCK], next[BLOCK], log_rate[BLOCK], gamma[BLOCK], value[BLOCK];
  sums(x, rate, all, next, n);
  vector(pni_log_f64, rate, log_rate, n);
  vector(pni_lgamma_f64, next, gamma, n);
  add_poisson(x, rate, log_rate, gamma, value, n);
  if (count_far(all, n)) {
    double d[BLOCK], e[BLOCK];
    deviance(x, rate, d, n);
    excess(x, NULL, e, n);
    for (int64_t i = 0; i < n; i++)
      if (!(all[i] <= GAMMAS_END)) value[i] = -(d[i] + e[i]);
  }
  memcpy(out, value, (size_t)n * sizeof *out);
}

/* ---- rows ---- */

typedef void (*block)(const double *const *in, double *out, int64_t n);

static void deviance_block(const double *const *in, double *out, int64_t n) { deviance(in[0], in[1], out, n); }
static void deviance_log_block(const double *const *in, double *out, int64_t n) { deviance_log(in[0], in[1], out, n); }
static void excess_block(const double *const *in, double *out, int64_t n) { excess(in[0], NULL, out, n); }
static void negative_binomial_block(const double *const *in, double *out, int64_t n) {
  negative_binomial(in[0], in[1], in[2], out, n);
}
static void binomial_block(const double *const *in, double *out, int64_t n) { binomial(in[0], in[1], in[2], out, n); }
static void poisson_block(const double *const *in, double *out, int64_t n) { poisson(in[0], in[1], out, n); }

/* Elements of an operand as numbers in a row; its own memory if they are. */
static const double *gather(const char *p, int64_t stride, int64_t n, bool single, double *room) {
  if (!single && stride == 1) return (const double *)(const void *)p;
  for (int64_t i = 0; i < n; i++)
    room[i] =
        single ? (double)((const float *)(const void *)p)[i * stride] : ((const double *)(const void *)p)[i * stride];
  return room;
}

static void run(block f, bool single, int nin, int64_t n, char *const *p, const int64_t *s) {
  double room[3][BLOCK], out[BLOCK];
  int64_t size = single ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    const double *in[3];
    for (int k = 0; k < nin; k++) in[k] = gather(p[k + 1] + i * s[k + 1] * size, s[k + 1], m, single, room[k]);
    f(in, out, m);
    if (single)
      for (int64_t j = 0; j < m; j++) ((float *)(void *)p[0])[i + j] = (float)out[j];
    else
      memcpy(p[0] + i * size, out, (size_t)(m * size));
  }
}

#define KERNELS(id, nin)                                                                                               \
  void pni_##id##_f64(void *data, int64_t n, char *const *p, const int64_t *s) {                                       \
    (void)data;                                                                                                        \
    run(id##_block, false, nin, n, p, s);                                                                              \
  }                                                                                                                    \
  void pni_##id##_f32(void *data, int64_t n, char *const *p, const int64_t *s) {                                       \
    (void)data;                                                                                                        \
    run(id##_block, true, nin, n, p, s);                                                                               \
  }
KERNELS(deviance, 2)
KERNELS(deviance_log, 2)
KERNELS(excess, 1)
KERNELS(negative_binomial, 3)
KERNELS(binomial, 3)
KERNELS(poisson, 2)

/* Element by element the arithmetic of the search: sums grow, so that one that has reached u stays there. */
void pni_count_search(int64_t n, const double *start, const double *slope, const double *drop, const double *u,
                      double *k) {
  double weight[BLOCK], sum[BLOCK], left = 1;
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
