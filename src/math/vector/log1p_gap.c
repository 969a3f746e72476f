/*
** log1p_gap.c: pni_log1p_gap of many numbers. With s = x / (2 + x), x - log(1 + x) = s [x - 2 s^2 P(s^2)] where x is
** from -0.6 to 1, as there; beyond, the logarithm itself.
*/
#include <math.h>
#include "../../base/processor.h"
#include "polynomial.h"
#include "vector.h"

enum { GAP_PIECE = 256 };
static const double gap_least = -0.6, gap_most = 1;

#define GAP_FIRST(c) double p = (c);
#define GAP_NEXT(c)  p = p * z + (c);
PNI_EACH_LEVEL(near_gaps, (const double *restrict x, double *restrict out, int64_t n), (x, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double s = x[i] / (2 + x[i]), z = s * s;
    POLY_ATANH(GAP_FIRST, GAP_NEXT)
    out[i] = s * (x[i] - 2 * z * p);
  }
}

PNI_EACH_LEVEL(far_gaps, (const double *restrict x, const double *restrict log1p_x, double *restrict out, int64_t n),
               (x, log1p_x, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double far = x[i] < INFINITY ? x[i] - log1p_x[i] : x[i];
    out[i] = x[i] > gap_least && x[i] < gap_most ? out[i] : far;
  }
}

PNI_EACH_LEVEL_OF(int64_t, count_far_gaps, (const double *restrict x, int64_t n), (x, n)) {
  int64_t far = 0;
  for (int64_t i = 0; i < n; i++) far += x[i] > gap_least && x[i] < gap_most ? 0 : 1;
  return far;
}

static void gaps_of_piece(const double *x, double *out, int64_t n) {
  double log1p_x[GAP_PIECE];
  near_gaps(x, out, n);
  if (!count_far_gaps(x, n)) return;
  pni_vector_f64(PNI_VECTOR_log1p, x, 1, log1p_x, n);
  far_gaps(x, log1p_x, out, n);
}

void pni_log1p_gaps(const double *x, double *out, int64_t n) {
  for (int64_t i = 0; i < n; i += GAP_PIECE) gaps_of_piece(x + i, out + i, n - i < GAP_PIECE ? n - i : GAP_PIECE);
}
