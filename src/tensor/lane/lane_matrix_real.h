/*
** lane_matrix_real.h: the interleaved algorithms for one element type and one instruction set, included with REAL,
** INTEGER (of the same size), F(name), NAME(name), TARGET and WIDTH, the lanes of its widest vector.
*/

#include "lane_real.h"

#define ORDER PNI_LANE_PRODUCT

/* Exchanges rows j and at[l] of lane l, from column `from`. */
FN void NAME(exchange)(VEC *a, int width, int from, int j, const VEC *at) {
  const LANE *row = (const LANE *)at;
  for (int l = 0; l < LANES; l++) {
    int p = (int)row[l];
    if (p == j) continue;
    LANE *x = (LANE *)(a + j * width + from) + l, *y = (LANE *)(a + p * width + from) + l;
    for (int c = 0; c < (width - from) * LANES; c += LANES) {
      REAL t = x[c];
      x[c] = y[c];
      y[c] = t;
    }
  }
}

/* Lanes of pivots, not 0, whose reciprocal overflows or is not normal. */
FN MASK NAME(no_reciprocal)(VEC pivot) { return (pivot < NORMAL_MIN) & (pivot > -NORMAL_MIN); }

/* Gaussian elimination of the n x width rows [A | B] with the largest pivot of each column; the diagonal keeps
 * the pivots, inverse their reciprocals. sign is multiplied by that of the exchanges; alone: lanes with a pivot that
 * has no reciprocal. */
FN void NAME(eliminate)(VEC *a, int n, int width, VEC *inverse, VEC *sign, MASK *info, MASK *alone) {
  for (int j = 0; j < n; j++) {
    VEC best = a[j * width + j], none = {0}, at = none + (REAL)j;
    best = SELECT(best < 0, -best, best);
    for (int i = j + 1; i < n; i++) {
      VEC v = a[i * width + j];
      v = SELECT(v < 0, -v, v);
      MASK larger = v > best;
      best = SELECT(larger, v, best);
      at = SELECT(larger, none + (REAL)i, at);
    }
    *sign = SELECT(at != (REAL)j, -*sign, *sign);
    NAME(exchange)(a, width, j, j, &at);
    VEC pivot = a[j * width + j];
    NAME(check_pivot)(&pivot, 0, j, info);
    *alone |= NAME(no_reciprocal)(pivot);
    VEC r = 1 / pivot;
    inverse[j] = r;
    const VEC *top = a + j * width;
    for (int i = j + 1; i < n; i++) {
      VEC *row = a + i * width, m = row[j] * r;
      for (int c = j + 1; c < width; c++) row[c] -= m * top[c];
    }
  }
}

/* ---- the problems ---- */

/* b [n, k] becomes op(a)^-1 b with the reciprocals of the diagonal given. Element [i, j] of the triangle is
 * a[i * si + j * sj]; lower: forwards, else backwards. */
static __attribute__((noinline)) TARGET void NAME(substitute)(const VEC *a, int si, int sj, int lower,
                                                              const VEC *inverse, VEC *b, int n, int k) {
  for (int step = 0; step < n; step++) {
    int i = lower ? step : n - 1 - step, from = lower ? 0 : i + 1, to = lower ? i : n;
    const VEC *row = a + i * si;
    VEC *x = b + i * k;
    for (int c = 0; c < k; c++) {
      VEC s = x[c];
      for (int j = from; j < to; j++) s -= row[j * sj] * b[j * k + c];
      x[c] = s * inverse[i];
    }
  }
}

FN void NAME(run_cholesky)(const pni_lane_matrix *s, VEC *m, int count, const void *const *a, void *const *out,
                           MASK *info) {
  int n = s->n;
  VEC *inverse = m + n * n, zero = {0}, nothing = {0};
  NAME(interleave)(m, a, n, n, s->a_row, s->a_col);
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) {
      m[i * n + j] = m[i * n + j] * (REAL)0.5 + m[j * n + i] * (REAL)0.5;
      zero += m[i * n + j] * 0;
    }
  NAME(check_sum)(&zero, info);
  NAME(cholesky)(m, n, inverse, info);
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) m[i * n + j] = nothing;
  NAME(deinterleave)(out, count, m, n * n);
}

FN void NAME(run_triangular)(const pni_lane_matrix *s, VEC *m, int count, const void *const *a, const void *const *b,
                             void *const *out, MASK *info, MASK *alone) {
  int n = s->n, k = s->k, upper = (s->flags & PNI_UPPER) != 0, swap = (s->flags & PNI_TRANSPOSE) != 0;
  VEC *x = m + n * n, *inverse = x + n * k;
  /* read so that the triangle is a lower one, then solve with it or its transpose */
  NAME(interleave)(m, a, n, n, upper ? s->a_col : s->a_row, upper ? s->a_row : s->a_col);
  NAME(interleave)(x, b, n, k, s->b_row, s->b_col);
  NAME(check_finite)(m, n, 1, info);
  for (int i = 0; i < n; i++) {
    VEC d = m[i * n + i];
    NAME(check_pivot)(&d, 0, i, info);
    *alone |= NAME(no_reciprocal)(d);
    inverse[i] = 1 / d;
  }
  int lower = s->kind == PNI_LANE_CHOLESKY_SOLVE || upper == swap;
  NAME(substitute)(m, lower ? n : 1, lower ? 1 : n, lower, inverse, x, n, k);
  if (s->kind == PNI_LANE_CHOLESKY_SOLVE) NAME(substitute)(m, 1, n, 0, inverse, x, n, k);
  NAME(deinterleave)(out, count, x, n * k);
}

FN void NAME(run_solve)(const pni_lane_matrix *s, VEC *m, int count, const void *const *a, const void *const *b,
                        void *const *out, MASK *info, MASK *alone) {
  int n = s->n, k = s->k, width = n + k;
  VEC *x = m + n * width, *inverse = x + n * (n > k ? n : k), one = {0}, none = {0};
  one += 1;
  NAME(interleave)(x, a, n, n, s->a_row, s->a_col);
  NAME(check_finite)(x, n, 0, info);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) m[i * width + j] = x[i * n + j];
  if (s->kind == PNI_LANE_SOLVE) NAME(interleave)(x, b, n, k, s->b_row, s->b_col);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < k; j++) m[i * width + n + j] = s->kind == PNI_LANE_SOLVE ? x[i * k + j] : i == j ? one : none;
  NAME(eliminate)(m, n, width, inverse, &one, info, alone);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < k; j++) x[i * k + j] = m[i * width + n + j];
  NAME(substitute)(m, width, 1, 0, inverse, x, n, k);
  NAME(deinterleave)(out, count, x, n * k);
}

FN void NAME(run_det)(const pni_lane_matrix *s, VEC *m, int count, const void *const *a, void *const *out, MASK *info,
                      MASK *alone) {
  int n = s->n;
  VEC *inverse = m + n * n, sign = {0};
  MASK zero = {0};
  sign += 1;
  NAME(interleave)(m, a, n, n, s->a_row, s->a_col);
  NAME(check_finite)(m, n, 0, info);
  NAME(eliminate)(m, n, n, inverse, &sign, &zero, alone);
  for (int l = 0; l < count; l++) {
    const LANE *d = (const LANE *)m + l;
    REAL product = ((LANE *)&sign)[l], log_abs = 0;
    for (int i = 0; i < n; i++) {
      REAL v = d[i * (n + 1) * LANES];
      product *= s->kind == PNI_LANE_DET_SIGN ? (v > 0 ? 1 : v < 0 ? -1 : 0) : v;
      if (s->kind == PNI_LANE_LOGDET) log_abs += F(log)(F(fabs)(v));
    }
    if (zero[l]) product = 0, log_abs = -INFINITY;
    if (s->kind == PNI_LANE_DET && !zero[l] && !(F(fabs)(product) >= NORMAL_MIN && product - product == 0))
      (*alone)[l] = 1;
    *(REAL *)out[l] = s->kind == PNI_LANE_LOGDET ? log_abs : product;
  }
}

FN void NAME(run_tria)(const pni_lane_matrix *s, VEC *m, int count, const void *const *a, void *const *out,
                       MASK *info) {
  int n = s->n, k = s->inner;
  VEC zero = {0};
  NAME(interleave)(m, a, n, k, s->a_row, s->a_col);
  for (int i = 0; i < n * k; i++) zero += m[i] * 0;
  NAME(check_sum)(&zero, info);
  NAME(triangularise)(m, n, k, NULL);
  for (int i = 1; i < n; i++)
    for (int j = 0; j < n; j++) m[i * n + j] = m[i * k + j];
  NAME(deinterleave)(out, count, m, n * n);
}

/* The gradient of a from that of its factor L, b: L^-T S L^-1 / 2, S symmetric with the lower triangle of L^T b. */
FN void NAME(run_slope)(const pni_lane_matrix *s, VEC *m, int count, const void *const *a, const void *const *b,
                        void *const *out) {
  int n = s->n;
  VEC *x = m + n * n, *inverse = x + n * n;
  NAME(interleave)(m, a, n, n, s->a_row, s->a_col);
  NAME(interleave)(x, b, n, n, s->b_row, s->b_col);
  for (int i = 0; i < n; i++) {
    inverse[i] = 1 / m[i * n + i];
    for (int j = 0; j <= i; j++) {
      VEC sum = {0};
      for (int k = i; k < n; k++) sum += m[k * n + i] * x[k * n + j];
      x[i * n + j] = x[j * n + i] = sum;
    }
  }
  NAME(substitute)(m, 1, n, 0, inverse, x, n, n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) {
      VEC t = x[i * n + j];
      x[i * n + j] = x[j * n + i];
      x[j * n + i] = t;
    }
  NAME(substitute)(m, 1, n, 0, inverse, x, n, n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) x[i * n + j] = x[j * n + i] = x[i * n + j] * (REAL)0.5;
  NAME(deinterleave)(out, count, x, n * n);
}

/* A matrix whose columns run along memory is read by columns: dst[i * *row + j * *col] takes element [i, j]. */
FN void NAME(read_turned)(VEC *dst, const void *const *src, int rows, int cols, int64_t rs, int64_t cs, int *row,
                          int *col) {
  bool turned = rs == 1 && cs != 1;
  *row = turned ? 1 : cols;
  *col = turned ? rows : 1;
  NAME(interleave)(dst, src, turned ? cols : rows, turned ? rows : cols, turned ? cs : rs, turned ? rs : cs);
}

FN void NAME(run_matmul)(const pni_lane_matrix *s, int count, const void *const *a, const void *const *b,
                         void *const *out) {
  VEC x[ORDER * ORDER], y[ORDER * ORDER], z[ORDER * ORDER];
  int n = s->n, k = s->k, inner = s->inner, x_row, x_col, y_row, y_col;
  NAME(read_turned)(x, a, n, inner, s->a_row, s->a_col, &x_row, &x_col);
  NAME(read_turned)(y, b, inner, k, s->b_row, s->b_col, &y_row, &y_col);
  for (int i = 0; i < n; i++) {
    const VEC *row = x + i * x_row;
    int j = 0;
    for (; j + 4 <= k; j += 4) {
      VEC p = {0}, q = {0}, r = {0}, t = {0};
      for (int l = 0; l < inner; l++) {
        const VEC *w = y + l * y_row + j * y_col, v = row[l * x_col];
        p += v * w[0];
        q += v * w[y_col];
        r += v * w[2 * y_col];
        t += v * w[3 * y_col];
      }
      VEC *to = z + i * k + j;
      to[0] = p;
      to[1] = q;
      to[2] = r;
      to[3] = t;
    }
    for (; j < k; j++) {
      VEC p = {0};
      for (int l = 0; l < inner; l++) p += row[l * x_col] * y[l * y_row + j * y_col];
      z[i * k + j] = p;
    }
  }
  NAME(deinterleave)(out, count, z, n * k);
}

static TARGET void NAME(group)(const pni_lane_matrix *s, void *scratch, int count, const void *const *a,
                               const void *const *b, void *const *out, int *info) {
  const void *every_a[LANES], *every_b[LANES];
  MASK state = {0}, alone = {0};
  for (int l = 0; count < LANES && l < LANES; l++) { /* idle lanes repeat matrix 0 */
    every_a[l] = a[l < count ? l : 0];
    every_b[l] = b ? b[l < count ? l : 0] : NULL;
  }
  if (count < LANES) a = every_a, b = every_b;
  if (s->kind == PNI_LANE_CHOLESKY)
    NAME(run_cholesky)(s, scratch, count, a, out, &state);
  else if (s->kind == PNI_LANE_TRIANGULAR || s->kind == PNI_LANE_CHOLESKY_SOLVE)
    NAME(run_triangular)(s, scratch, count, a, b, out, &state, &alone);
  else if (s->kind == PNI_LANE_SOLVE || s->kind == PNI_LANE_INVERSE)
    NAME(run_solve)(s, scratch, count, a, b, out, &state, &alone);
  else if (s->kind == PNI_LANE_TRIA)
    NAME(run_tria)(s, scratch, count, a, out, &state);
  else if (s->kind == PNI_LANE_MATMUL)
    NAME(run_matmul)(s, count, a, b, out);
  else if (s->kind == PNI_LANE_SLOPE)
    NAME(run_slope)(s, scratch, count, a, b, out);
  else
    NAME(run_det)(s, scratch, count, a, out, &state, &alone);
  for (int l = 0; l < count; l++)
    info[l] = alone[l] && state[l] != PNI_LANE_NOT_FINITE ? PNI_LANE_ALONE : (int)state[l];
}

#undef ORDER
#include "lane_end.h"
