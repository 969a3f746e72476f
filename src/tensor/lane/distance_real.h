/*
** distance_real.h: distance.h for one element type and one instruction set, included as lane_matrix_real.h is. With
** z = L^-1 (x - m) and w = L^-T z:  distance |z|^2,  d/dx = 2 w,  d/dm = -2 w,  d/dL = -2 tril(w z^T).
*/

#include "lane_real.h"

#define OUTLINE static __attribute__((noinline)) TARGET
/* Groups take turns so that the same rows' gradients are added whatever the number of lanes. */
#define TURNS (AVX512 / WIDTH)

/* Row `row` of x and the `count` - 1 after it, or one for all; idle lanes repeat the first. */
OUTLINE void NAME(fetch)(VEC *dst, const void *x, bool one, int64_t row, int count, int n) {
  const void *at[LANES];
  for (int l = 0; l < LANES; l++) at[l] = (const REAL *)x + (one ? 0 : row + (l < count ? l : 0)) * n;
  NAME(read_row)(dst, at, 0, n);
}

OUTLINE void NAME(store)(void *out, const VEC *src, int64_t row, int count, int n) {
  void *at[LANES];
  for (int l = 0; l < LANES; l++) at[l] = (REAL *)out + (row + (l < count ? l : 0)) * n;
  NAME(write_row)(at, count, src, 0, n);
}

/* x - m; idle lanes, and those that are not finite, are 0. Returns inf or NaN for the latter, 0 for all others. */
OUTLINE VEC NAME(difference)(const pni_distance *p, int64_t row, int count, VEC *d) {
  VEC m[PNI_DISTANCE_LONGEST], zero = {0}, none = {0};
  MASK nan = {0};
  int n = p->n;
  NAME(fetch)(d, p->x, p->x_one, row, count, n);
  if (p->m) NAME(fetch)(m, p->m, p->m_one, row, count, n);
  for (int i = 0; i < n; i++) {
    if (p->m) d[i] -= m[i];
    zero += d[i] * 0;
    nan |= d[i] != d[i];
  }
  MASK keep = zero == 0;
  VEC lost = SELECT(keep, none, SELECT(nan, none + (REAL)NAN, none + (REAL)INFINITY));
  for (int l = count; l < LANES; l++) keep[l] = 0;
  for (int i = 0; i < n; i++) d[i] = SELECT(keep, d[i], none);
  return lost;
}

/* d becomes z. inverse: 1 / L[i, i] */
FN void NAME(forward)(const REAL *l, const REAL *inverse, VEC *d, int n) {
  for (int i = 0; i < n; i++) {
    VEC s = d[i];
    for (int j = 0; j < i; j++) s -= d[j] * l[i * n + j];
    d[i] = s * inverse[i];
  }
}

/* w from z */
FN void NAME(backward)(const REAL *l, const REAL *inverse, const VEC *z, VEC *w, int n) {
  for (int i = n - 1; i >= 0; i--) {
    VEC s = z[i];
    for (int j = i + 1; j < n; j++) s -= w[j] * l[j * n + i];
    w[i] = s * inverse[i];
  }
}

OUTLINE void NAME(distances)(const pni_distance *p, const REAL *inverse, int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end; at += LANES) {
    int count = end - at < LANES ? (int)(end - at) : LANES;
    VEC d[PNI_DISTANCE_LONGEST], s = NAME(difference)(p, at, count, d);
    NAME(forward)(p->l, inverse, d, p->n);
    for (int i = 0; i < p->n; i++) s += d[i] * d[i];
    memcpy((REAL *)p->out + at, &s, (size_t)count * sizeof(REAL));
  }
}

/* Adds 2 g w z^T and 2 g w of a group. u: 2 g w. */
FN void NAME(add_products)(VEC *sum, const VEC *u, const VEC *z, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) sum[i * n + j] += u[i] * z[j];
  for (int i = 0; i < n; i++) sum[n * n + i] += u[i];
}

/* The sums of all lanes of all turns, by halves. */
FN void NAME(finish)(const VEC *sum, REAL *out, int size) {
  for (int e = 0; e < size; e++) {
    REAL lane[AVX512];
    for (int t = 0; t < TURNS; t++) memcpy(lane + t * LANES, sum + t * size + e, sizeof *sum);
    for (int w = AVX512 / 2; w; w /= 2)
      for (int l = 0; l < w; l++) lane[l] += lane[l + w];
    out[e] = lane[0];
  }
}

OUTLINE void NAME(adjoint)(const pni_distance *p, const REAL *inverse, int64_t begin, int64_t end) {
  VEC sum[TURNS * PNI_DISTANCE_LONGEST * (PNI_DISTANCE_LONGEST + 1)];
  int n = p->n, size = n * n + n, turn = 0;
  if (p->sums) memset(sum, 0, sizeof *sum * (size_t)(TURNS * size));
  for (int64_t at = begin; at < end; at += LANES) {
    int count = end - at < LANES ? (int)(end - at) : LANES;
    VEC z[PNI_DISTANCE_LONGEST], w[PNI_DISTANCE_LONGEST], g = {0};
    memcpy(&g, (const REAL *)p->g + at, (size_t)count * sizeof(REAL));
    NAME(difference)(p, at, count, z);
    NAME(forward)(p->l, inverse, z, n);
    NAME(backward)(p->l, inverse, z, w, n);
    for (int i = 0; i < n; i++) w[i] *= g * 2;
    if (p->sums) NAME(add_products)(sum + turn * size, w, z, n);
    turn = turn + 1 < TURNS ? turn + 1 : 0;
    if (p->gx && !p->x_one) NAME(store)(p->gx, w, at, count, n);
    for (int i = 0; i < n; i++) w[i] = -w[i];
    if (p->gm && !p->m_one) NAME(store)(p->gm, w, at, count, n);
  }
  if (p->sums) NAME(finish)(sum, (REAL *)p->sums + begin / PNI_DISTANCE_SHARD * size, size);
}

/* One row alone, with the same operations in the same order as a lane of the above. */
OUTLINE void NAME(adjoint_one)(const pni_distance *p, const REAL *inverse, int64_t row) {
  const REAL *l = p->l, *x = (const REAL *)p->x + (p->x_one ? 0 : row * p->n);
  const REAL *m = p->m ? (const REAL *)p->m + (p->m_one ? 0 : row * p->n) : NULL;
  REAL z[PNI_DISTANCE_LONGEST], w[PNI_DISTANCE_LONGEST], zero = 0, g = ((const REAL *)p->g)[row];
  int n = p->n;
  for (int i = 0; i < n; i++) {
    z[i] = m ? x[i] - m[i] : x[i];
    zero += z[i] * 0;
  }
  for (int i = 0; i < n; i++) {
    REAL s = zero == 0 ? z[i] : 0;
    for (int j = 0; j < i; j++) s -= z[j] * l[i * n + j];
    z[i] = s * inverse[i];
  }
  for (int i = n - 1; i >= 0; i--) {
    REAL s = z[i];
    for (int j = i + 1; j < n; j++) s -= w[j] * l[j * n + i];
    w[i] = s * inverse[i];
  }
  for (int i = 0; i < n; i++) w[i] *= g * 2;
  REAL *sum = p->sums ? (REAL *)p->sums + row / PNI_DISTANCE_SHARD * (n * n + n) : NULL;
  for (int i = 0; sum && i < n; i++) {
    for (int j = 0; j < n; j++) sum[i * n + j] = j <= i ? 0 + w[i] * z[j] : 0;
    sum[n * n + i] = 0 + w[i];
  }
  for (int i = 0; p->gx && !p->x_one && i < n; i++) ((REAL *)p->gx)[row * n + i] = w[i];
  for (int i = 0; p->gm && !p->m_one && i < n; i++) ((REAL *)p->gm)[row * n + i] = -w[i];
}

OUTLINE void NAME(group)(const pni_distance *p, int64_t begin, int64_t end) {
  const REAL *l = p->l;
  REAL inverse[PNI_DISTANCE_LONGEST];
  for (int i = 0; i < p->n; i++) inverse[i] = 1 / l[i * p->n + i];
  if (p->g && end - begin == 1)
    NAME(adjoint_one)(p, inverse, begin);
  else if (p->g)
    NAME(adjoint)(p, inverse, begin, end);
  else
    NAME(distances)(p, inverse, begin, end);
}

#undef OUTLINE
#undef TURNS
#include "lane_end.h"
