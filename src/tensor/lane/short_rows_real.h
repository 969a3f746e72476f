/*
** short_rows_real.h: the kinds of short_rows.h for one element type and one instruction set, included as
** lane_matrix_real.h is, and with VECTOR, the vector functions of the type. In a block of rows element j of row l of a
** group of LANES rows is lane l of vector j of the group.
*/

#include "lane_real.h"

#define OUTLINE static __attribute__((noinline)) TARGET

/* First element of a row. */
FN int64_t NAME(place_of)(const pni_short_rows *r, int64_t row) {
  if (r->inner <= 1) return row * r->n;
  int64_t q = row % r->inner;
  return (row - q) * r->n + q;
}

/* `count` rows from row `row` of x on; idle lanes hold numbers of the first, or 0. */
OUTLINE void NAME(fetch)(const pni_short_rows *r, VEC *dst, const void *x, int64_t row, int count) {
  const void *at[LANES];
  int n = r->n;
  if (r->inner > 1 && row % r->inner + count <= r->inner) { /* side by side */
    const REAL *v = (const REAL *)x + NAME(place_of)(r, row);
    for (int j = 0; j < n; j++, v += r->inner) {
      dst[j] = (VEC){0};
      if (count == LANES)
        memcpy(&dst[j], v, sizeof *dst);
      else
        memcpy(&dst[j], v, (size_t)count * sizeof(REAL));
    }
    return;
  }
  for (int l = 0; l < LANES; l++) {
    int64_t i = row + (l < count ? l : 0);
    at[l] = (const REAL *)x + (r->x_row && x == r->x ? i * r->x_row : NAME(place_of)(r, i));
  }
  if (r->inner <= 1)
    NAME(read_row)(dst, at, 0, n);
  else
    for (int j = 0; j < n; j++)
      for (int l = 0; l < LANES; l++) ((LANE *)&dst[j])[l] = ((const REAL *)at[l])[j * r->inner];
}

OUTLINE void NAME(store)(const pni_short_rows *r, const VEC *src, int64_t row, int count) {
  void *at[LANES];
  int n = r->n;
  if (r->inner > 1 && row % r->inner + count <= r->inner) {
    REAL *v = (REAL *)r->out + NAME(place_of)(r, row);
    for (int j = 0; j < n; j++, v += r->inner) {
      if (count == LANES)
        memcpy(v, &src[j], sizeof *src);
      else
        memcpy(v, &src[j], (size_t)count * sizeof(REAL));
    }
    return;
  }
  for (int l = 0; l < LANES; l++) at[l] = (REAL *)r->out + NAME(place_of)(r, row + (l < count ? l : 0));
  if (r->inner <= 1)
    NAME(write_row)(at, count, src, 0, n);
  else
    for (int j = 0; j < n; j++)
      for (int l = 0; l < count; l++) ((REAL *)at[l])[j * r->inner] = ((const LANE *)&src[j])[l];
}

/* One number per row. */
OUTLINE VEC NAME(numbers)(const void *x, int64_t row, int count) {
  VEC v = {0};
  memcpy(&v, (const REAL *)x + row, (size_t)count * sizeof(REAL));
  return v;
}

OUTLINE VEC NAME(places)(const int64_t *index, int64_t row, int count) {
  VEC v = {0};
  for (int l = 0; l < count; l++) ((LANE *)&v)[l] = (REAL)index[row + l];
  return v;
}

/* Runs over a row in four parts: `first` and `next` of part k and element j; what is left by name, so that the parts
 * stay in registers. */
#define FOUR_PARTS(first, next)                                                                                        \
  int j = 0;                                                                                                           \
  PNI_UNROLL for (int k = 0; k < 4; k++) first(k);                                                                     \
  for (; j + 4 <= n; j += 4) PNI_UNROLL for (int k = 0; k < 4; k++) next(k, j + k);                                    \
  if (j < n) next(0, j);                                                                                               \
  if (j + 1 < n) next(1, j + 1);                                                                                       \
  if (j + 2 < n) next(2, j + 2);

OUTLINE VEC NAME(total)(const VEC *x, int n) {
  VEC s[4];
#define NOTHING(k) s[k] = (VEC){0}
#define ADD(k, at) s[k] += x[at]
  FOUR_PARTS(NOTHING, ADD)
  return (s[0] + s[2]) + (s[1] + s[3]);
}

FN VEC NAME(dot)(const VEC *x, const VEC *y, int n) {
  VEC s[4] = {{0}, {0}, {0}, {0}};
  for (int j = 0; j < n; j++) s[j & 3] += x[j] * y[j];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

/* NaN wins and stays. */
FN VEC NAME(larger)(VEC m, VEC x) {
  MASK take = (x > m) | (x != x);
  return SELECT(take, x, m);
}

OUTLINE VEC NAME(largest)(const VEC *x, int n) {
  VEC m[4];
#define BEGIN(k)      m[k] = x[0]
#define LARGER(k, at) m[k] = NAME(larger)(m[k], x[at])
  FOUR_PARTS(BEGIN, LARGER)
  return NAME(larger)(NAME(larger)(m[0], m[1]), NAME(larger)(m[2], m[3]));
}

FN VEC NAME(smallest)(const VEC *x, int n) {
  VEC m = x[0];
  for (int j = 1; j < n; j++) {
    MASK take = (x[j] < m) | (x[j] != x[j]);
    m = SELECT(take, x[j], m);
  }
  return m;
}
#undef FOUR_PARTS
#undef NOTHING
#undef ADD
#undef BEGIN
#undef LARGER

/* Places of the first largest, or smallest. */
FN void NAME(extreme_places)(const pni_short_rows *r, const VEC *x, int64_t row, int count) {
  VEC m = x[0], best = {0}, place = {0};
  for (int j = 1; j < r->n; j++) {
    MASK beyond = r->kind == PNI_SHORT_ROWS_ARGMAX ? x[j] > m : x[j] < m, take = beyond | ((x[j] != x[j]) & (m == m));
    place += 1;
    m = SELECT(take, x[j], m);
    best = SELECT(take, place, best);
  }
  for (int l = 0; l < count; l++) ((int64_t *)r->out)[row + l] = (int64_t)((const LANE *)&best)[l];
}

/* Kinds without exponentials: group by group. */
OUTLINE void NAME(plain)(const pni_short_rows *r, int64_t row, int count) {
  VEC x[PNI_SHORT_ROWS_LONGEST], y[PNI_SHORT_ROWS_LONGEST], s;
  int n = r->n;
  NAME(fetch)(r, x, r->x, row, count);
  if (r->kind == PNI_SHORT_ROWS_SOFTMAX_SLOPE) {
    NAME(fetch)(r, y, r->y, row, count);
    s = NAME(dot)(x, y, n);
    for (int j = 0; j < n; j++) y[j] = x[j] * (y[j] - s);
    NAME(store)(r, y, row, count);
    return;
  }
  if (r->kind >= PNI_SHORT_ROWS_ARGMAX) {
    NAME(extreme_places)(r, x, row, count);
    return;
  }
  s = r->kind == PNI_SHORT_ROWS_SUM   ? NAME(total)(x, n)
      : r->kind == PNI_SHORT_ROWS_MAX ? NAME(largest)(x, n)
                                      : NAME(smallest)(x, n);
  memcpy((REAL *)r->out + row, &s, (size_t)count * sizeof(REAL));
}

/* What a block has of a group: x - m (or x), its exponentials, their sum and its logarithm. */
typedef struct NAME(parts) {
  VEC *a, *e, m, s, z;
} NAME(parts);

/* sum y (a - z) over the terms with y != 0 */
FN VEC NAME(expected)(const VEC *y, const NAME(parts) * p, int n) {
  VEC sum = {0}, none = {0};
  for (int j = 0; j < n; j++) {
    VEC term = y[j] * (p->a[j] - p->z);
    sum += SELECT(y[j] != 0, term, none);
  }
  return sum;
}

FN VEC NAME(number)(const pni_short_rows *r, const NAME(parts) * p, int64_t row, int count) {
  VEC y[PNI_SHORT_ROWS_LONGEST], v = {0};
  if (r->kind == PNI_SHORT_ROWS_LOGSUMEXP) return SELECT(p->m - p->m == 0, p->m + p->z, p->m);
  if (r->kind == PNI_SHORT_ROWS_DOT) {
    NAME(fetch)(r, y, r->y, row, count);
    return NAME(expected)(y, p, r->n);
  }
  VEC at = NAME(places)(r->index, row, count), place = {0};
  for (int j = 0; j < r->n; j++, place += 1) v = SELECT(at == place, p->a[j], v);
  return v - p->z;
}

/* The row for a row into p->a. */
FN void NAME(row)(const pni_short_rows *r, const NAME(parts) * p, int64_t row, int count) {
  VEC y[PNI_SHORT_ROWS_LONGEST], *a = p->a, *e = p->e, inverse = 1 / p->s, none = {0}, g, at, place = {0};
  int n = r->n;
  switch ((int)r->kind) {
  case PNI_SHORT_ROWS_SOFTMAX:
    for (int j = 0; j < n; j++) a[j] = e[j] * inverse;
    return;
  case PNI_SHORT_ROWS_LOG_SOFTMAX:
    for (int j = 0; j < n; j++) a[j] -= p->z;
    return;
  case PNI_SHORT_ROWS_PICK_SLOPE:
    g = NAME(numbers)(r->g, row, count);
    at = NAME(places)(r->index, row, count);
    inverse *= g;
    for (int j = 0; j < n; j++, place += 1) a[j] = SELECT(at == place, g, none) - e[j] * inverse;
    return;
  case PNI_SHORT_ROWS_DOT_SLOPE:
    NAME(fetch)(r, y, r->y, row, count);
    g = NAME(numbers)(r->g, row, count);
    inverse *= NAME(total)(y, n);
    for (int j = 0; j < n; j++) a[j] = g * (y[j] - e[j] * inverse);
    return;
  case PNI_SHORT_ROWS_LOGSUMEXP_SLOPE:
    g = NAME(numbers)(r->g, row, count);
    for (int j = 0; j < n; j++) a[j] = e[j] * g;
    return;
  default: /* PNI_SHORT_ROWS_LOG_SOFTMAX_SLOPE */
    NAME(fetch)(r, y, r->y, row, count);
    g = NAME(total)(y, n);
    for (int j = 0; j < n; j++) a[j] = y[j] - e[j] * g;
  }
}

/* What is taken from the rows of a group before the exponentials. */
FN VEC NAME(shift)(const pni_short_rows *r, const VEC *x, int64_t row, int count) {
  VEC none = {0};
  if (r->kind == PNI_SHORT_ROWS_LOG_SOFTMAX_SLOPE) return none;
  if (r->kind != PNI_SHORT_ROWS_LOGSUMEXP_SLOPE) return NAME(largest)(x, r->n);
  VEC y = NAME(numbers)(r->y, row, count);
  return SELECT(y == -(REAL)INFINITY, none, y);
}

/* Kinds with exponentials. Only the last block of all has rows that are no whole groups of the vector functions. */
OUTLINE void NAME(block)(const pni_short_rows *r, int64_t row, int rows) {
  VEC a[ROWS_PLACES / LANES], e[ROWS_PLACES / LANES], m[ROWS_BLOCK / LANES], s[ROWS_BLOCK / LANES],
      z[ROWS_BLOCK / LANES];
  int n = r->n, groups = (rows + LANES - 1) / LANES;
  bool summed = r->kind < PNI_SHORT_ROWS_LOG_SOFTMAX_SLOPE;
  a[0] = (VEC){0};
  for (int k = 0; k < groups; k++) {
    VEC *x = a + k * n;
    int left = rows - k * LANES, count = left < LANES ? left : LANES;
    NAME(fetch)(r, x, r->x, row + k * LANES, count);
    s[k] = z[k] = (VEC){0};
    m[k] = NAME(shift)(r, x, row + k * LANES, count);
    for (int j = 0; j < n; j++) x[j] -= m[k];
  }
  VECTOR(PNI_VECTOR_exp, (const REAL *)a, 1, (REAL *)e, groups * n * LANES);
  for (int k = 0; summed && k < groups; k++) s[k] = NAME(total)(e + k * n, n);
  if (r->kind < PNI_SHORT_ROWS_SOFTMAX || r->kind == PNI_SHORT_ROWS_LOG_SOFTMAX)
    VECTOR(PNI_VECTOR_log, (const REAL *)s, 1, (REAL *)z, groups * LANES);
  for (int k = 0; k < groups; k++) {
    NAME(parts) p = {a + k * n, e + k * n, m[k], s[k], z[k]};
    int64_t at = row + k * LANES;
    int left = rows - k * LANES, count = left < LANES ? left : LANES;
    if (r->kind < PNI_SHORT_ROWS_SOFTMAX) {
      VEC v = NAME(number)(r, &p, at, count);
      memcpy((REAL *)r->out + at, &v, (size_t)count * sizeof(REAL));
    } else {
      NAME(row)(r, &p, at, count);
      NAME(store)(r, p.a, at, count);
    }
  }
}

OUTLINE void NAME(group)(const pni_short_rows *r, int64_t begin, int64_t end) {
  bool plain = r->kind <= PNI_SHORT_ROWS_ARGMIN || r->kind == PNI_SHORT_ROWS_SOFTMAX_SLOPE;
  int step = plain ? LANES : ROWS_PLACES / 2 / r->n / 16 * 16;
  if (!plain) step = step < 16 ? 16 : step > ROWS_BLOCK ? ROWS_BLOCK : step;
  for (int64_t at = begin; at < end; at += step) {
    int rows = end - at < step ? (int)(end - at) : step;
    if (plain)
      NAME(plain)(r, at, rows);
    else
      NAME(block)(r, at, rows);
  }
}

#undef OUTLINE
#include "lane_end.h"
