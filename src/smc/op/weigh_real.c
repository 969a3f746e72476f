/* weigh_real.c: the kernel of weigh.h. */
#include <math.h>
#include "../../base/type_real.h"
#include "../../math/vector/vector.h"
#include "weigh.h"

enum { CHUNK = 256, LANES = 8 };

static double top_of(const REAL *restrict v, int64_t n) {
  REAL top[LANES];
  int64_t i = 0;
  for (int j = 0; j < LANES; j++) top[j] = -(REAL)INFINITY;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) top[j] = v[i + j] > top[j] ? v[i + j] : top[j];
  for (; i < n; i++) top[0] = v[i] > top[0] ? v[i] : top[0];
  for (int j = 1; j < LANES; j++) top[0] = top[j] > top[0] ? top[j] : top[0];
  return (double)top[0];
}

static void sums_of(const REAL *restrict e, int64_t n, pni_weigh_part *part) {
  REAL sum[LANES] = {0}, square[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      sum[j] += e[i + j];
      square[j] += e[i + j] * e[i + j];
    }
  for (; i < n; i++) {
    sum[0] += e[i];
    square[0] += e[i] * e[i];
  }
  for (int j = 0; j < LANES; j++) {
    part->sum += (double)sum[j];
    part->square += (double)square[j];
  }
}

static void begin(const void *increment, const void *before, double constant, int64_t n, void *log_w, void *w,
                  pni_weigh_part *part) {
  const REAL *restrict g = increment, *restrict old = before;
  REAL *restrict v = log_w, *restrict e = w, flat = (REAL)constant, x[CHUNK];
  if (old)
    for (int64_t i = 0; i < n; i++) v[i] = old[i] + g[i];
  else
    for (int64_t i = 0; i < n; i++) v[i] = flat + g[i];
  double top = top_of(v, n);
  *part = (pni_weigh_part){.top = isfinite(top) ? top : 0};
  REAL off = (REAL)part->top;
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t m = n - i < CHUNK ? n - i : CHUNK;
    for (int64_t j = 0; j < m; j++) x[j] = v[i + j] - off;
    TYPED(pni_vector)(PNI_VECTOR_exp, x, 1, e + i, m);
    sums_of(e + i, m, part);
  }
}

static void end(double shift, double scale, int64_t n, void *log_w, void *w) {
  REAL *restrict v = log_w, *restrict e = w, by = (REAL)scale, off = (REAL)shift;
  for (int64_t i = 0; i < n; i++) v[i] -= off;
  for (int64_t i = 0; i < n; i++) e[i] *= by;
}

const pni_weigh_kernel TYPED(pni_weigh) = {begin, end};
