/*
** stirling_kernel.c: what Stirling's formula leaves of lgamma and of digamma, piece by piece, e and e' of stirling.c:
** from 3.5 and from 6 on by polynomials in 1 / a^2, without logarithms; below, of lgamma, digamma and log; what is no
** common number goes to the scalar function.
*/
#include <math.h>
#include <stdbool.h>
#include "stirling_kernel.h"
#include "../../base/processor.h"
#include "../../math/special.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/vector.h"

#define LOG_ROOT_TWO_PI 0.91893853320467274178
#define ERROR_BORDER    3.5
#define SLOPE_BORDER    6.0
#define COMMON          1e100 /* squares are numbers up to there, and down to its reciprocal */

#define STIRLING_FIRST(c) double sum = (c);
#define STIRLING_NEXT(c)  sum = sum * z + (c);

PNI_EACH_LEVEL(far_errors, (const double *restrict a, double *restrict e, int64_t n), (a, e, n)) {
  for (int64_t i = 0; i < n; i++) {
    double inverse = 1 / a[i], z = inverse * inverse;
    POLY_STIRLING(STIRLING_FIRST, STIRLING_NEXT)
    e[i] = sum * inverse;
  }
}
PNI_EACH_LEVEL(far_slopes, (const double *restrict a, double *restrict d, int64_t n), (a, d, n)) {
  for (int64_t i = 0; i < n; i++) {
    double inverse = 1 / a[i], z = inverse * inverse;
    POLY_DIGAMMA(STIRLING_FIRST, STIRLING_NEXT)
    d[i] = -(sum * z);
  }
}
PNI_EACH_LEVEL(near_errors,
               (const double *restrict a, const double *restrict log_a, const double *restrict gamma,
                double *restrict e, int64_t n),
               (a, log_a, gamma, e, n)) {
  for (int64_t i = 0; i < n; i++) {
    double near = gamma[i] - ((a[i] - 0.5) * log_a[i] - a[i] + LOG_ROOT_TWO_PI);
    e[i] = a[i] < ERROR_BORDER ? near : e[i];
  }
}
PNI_EACH_LEVEL(near_slopes,
               (const double *restrict a, const double *restrict log_a, const double *restrict digamma,
                double *restrict d, int64_t n),
               (a, log_a, digamma, d, n)) {
  for (int64_t i = 0; i < n; i++) {
    double near = digamma[i] - log_a[i] + 0.5 / a[i];
    d[i] = a[i] < SLOPE_BORDER ? near : d[i];
  }
}
PNI_EACH_LEVEL_OF(int64_t, count_below, (const double *restrict a, double border, int64_t n), (a, border, n)) {
  int64_t below = 0;
  for (int64_t i = 0; i < n; i++) below += a[i] < border ? 1 : 0;
  return below;
}
PNI_EACH_LEVEL_OF(int64_t, count_odd, (const double *restrict a, int64_t n), (a, n)) {
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) odd += a[i] > 1 / COMMON && a[i] < COMMON ? 0 : 1;
  return odd;
}

/* e of a, and (slope) e'. */
static void errors(const double *a, double *e, double *slope, int64_t n) {
  double log_a[PNI_KERNEL_PIECE], f[PNI_KERNEL_PIECE];
  bool near = count_below(a, ERROR_BORDER, n), near_slope = slope && count_below(a, SLOPE_BORDER, n);
  far_errors(a, e, n);
  if (slope) far_slopes(a, slope, n);
  if (near || near_slope) pni_vector_f64(PNI_VECTOR_log, a, 1, log_a, n);
  if (near) {
    pni_vector_f64(PNI_VECTOR_lgamma, a, 1, f, n);
    near_errors(a, log_a, f, e, n);
  }
  if (near_slope) {
    pni_vector_f64(PNI_VECTOR_digamma, a, 1, f, n);
    near_slopes(a, log_a, f, slope, n);
  }
  if (!count_odd(a, n)) return;
  for (int64_t i = 0; i < n; i++) {
    if (a[i] > 1 / COMMON && a[i] < COMMON) continue;
    e[i] = pni_stirling_slope(0, a[i]);
    if (slope) slope[i] = pni_stirling_slope(1, a[i]);
  }
}

PNI_EACH_LEVEL(ratios, (const double *restrict p, const double *restrict q, double *restrict u, int64_t n),
               (p, q, u, n)) {
  for (int64_t i = 0; i < n; i++) u[i] = (q[i] - p[i]) / p[i];
}
PNI_EACH_LEVEL(bends,
               (const double *restrict p, const double *restrict q, const double *restrict gap,
                const double *restrict ep, const double *restrict slope, double *restrict out, int64_t n),
               (p, q, gap, ep, slope, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = 0.5 * gap[i] + ((out[i] - ep[i]) - (q[i] - p[i]) * slope[i]);
}

void pni_bend_body(const pni_piece *piece, void *out) {
  const double *p = piece->in[0], *q = piece->in[1];
  double u[PNI_KERNEL_PIECE], gap[PNI_KERNEL_PIECE], e[PNI_KERNEL_PIECE], slope[PNI_KERNEL_PIECE];
  ratios(p, q, u, piece->n);
  pni_log1p_gaps(u, gap, piece->n);
  errors(p, e, slope, piece->n);
  errors(q, out, NULL, piece->n);
  bends(p, q, gap, e, slope, out, piece->n);
}
