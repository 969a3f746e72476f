/*
** small_product_real.h: the loops of small products for one element type and one instruction set, included with REAL,
** INTEGER (of its size), NAME, TARGET and WIDEST, the bytes of the widest vector; above 16 these fuse x y + z,
** MADD_bytes(x, y, z), and come in halves, LOW_bytes(x) and HIGH_bytes(x).
** Rows narrower than a vector take the next narrower one.
*/

#define FN          static inline __attribute__((always_inline)) TARGET
#define EXPANDED(f) NAME(f)

typedef REAL NAME(vec_16) __attribute__((vector_size(16), aligned(sizeof(REAL)), may_alias));

/* The sum of the lanes. */
FN REAL NAME(total)(NAME(vec_16) s) {
  const int lanes = 16 / (int)sizeof(REAL);
  return lanes == 2 ? s[0] + s[1] : (s[0] + s[lanes - 2]) + (s[1] + s[lanes - 1]);
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PAIR(x, y, a, b, c, d) (__builtin_shufflevector(x, y, a, b) + __builtin_shufflevector(x, y, c, d))
#define FOUR(x, y, a, b, c, d, e, f, g, h)                                                                             \
  (__builtin_shufflevector(x, y, a, b, c, d) + __builtin_shufflevector(x, y, e, f, g, h))
#define TOTALS_f64(s, t) t[0] = PAIR(s[0], s[1], 0, 2, 1, 3), t[1] = PAIR(s[2], s[3], 0, 2, 1, 3)
#define TOTALS_f32(s, t)                                                                                               \
  t[0] = FOUR(s[0], s[1], 0, 4, 1, 5, 2, 6, 3, 7), t[1] = FOUR(s[2], s[3], 0, 4, 1, 5, 2, 6, 3, 7),                    \
  t[0] = FOUR(t[0], t[1], 0, 1, 4, 5, 2, 3, 6, 7)
#endif
#endif

/* The sums of four vectors' lanes, in the same order, `apart` in out. */
FN void NAME(four_totals)(const NAME(vec_16) * s, REAL *out, int64_t apart) {
#ifdef PAIR
  NAME(vec_16) t[2];
  NAME(TOTALS)(s, t);
  PNI_UNROLL for (int r = 0; r < 4; r++) out[r * apart] = ((const REAL *)t)[r];
#else
  for (int r = 0; r < 4; r++) out[r * apart] = NAME(total)(s[r]);
#endif
}

#define BYTES       16
#define AT_WIDTH(f) f##_16
#if WIDEST == 16
#define MADD(x, y, z) ((x) * (y) + (z))
#else
#define MADD(x, y, z) NAME(MADD_16)(x, y, z)
#endif
#include "small_product_width_real.h"
#if WIDEST >= 32
#define BYTES         32
#define AT_WIDTH(f)   f##_32
#define HALF(f)       f##_16
#define LOW_HALF(x)   NAME(LOW_32)(x)
#define HIGH_HALF(x)  NAME(HIGH_32)(x)
#define MADD(x, y, z) NAME(MADD_32)(x, y, z)
#include "small_product_width_real.h"
#endif
#if WIDEST >= 64
#define BYTES         64
#define AT_WIDTH(f)   f##_64
#define HALF(f)       f##_32
#define LOW_HALF(x)   NAME(LOW_64)(x)
#define HIGH_HALF(x)  NAME(HIGH_64)(x)
#define MADD(x, y, z) NAME(MADD_64)(x, y, z)
#include "small_product_width_real.h"
#endif

/* n < 16 / sizeof(REAL) columns, n known to the compiler: four sums side by side, so that no addition waits for
 * another. */
FN void NAME(narrow)(const pni_small_product *p, const int64_t n) {
  const int64_t m = p->m, k = p->k, x_row = p->x_row, x_col = p->x_col, y_row = p->y_row;
  const REAL *x = p->x, *y = p->y;
  REAL *out = p->out;
  for (int64_t i = 0; i < m; i++, x += x_row, out += n) {
    REAL s[4][3] = {{0}};
    int64_t e = 0;
    for (; e + 4 <= k; e += 4)
      PNI_UNROLL for (int64_t r = 0; r < 4; r++) PNI_UNROLL for (int64_t j = 0; j < n; j++) s[r][j] +=
          x[(e + r) * x_col] * y[(e + r) * y_row + j];
    for (; e < k; e++) PNI_UNROLL for (int64_t j = 0; j < n; j++) s[0][j] += x[e * x_col] * y[e * y_row + j];
    PNI_UNROLL for (int64_t j = 0; j < n; j++) out[j] = (s[0][j] + s[1][j]) + (s[2][j] + s[3][j]);
  }
}

TARGET static void NAME(rows)(const pni_small_product *p) {
  const int64_t bytes = p->n < 64 ? p->n * (int64_t)sizeof(REAL) : 64;
#if WIDEST >= 64
  if (bytes >= 64) {
    NAME(rows_64)(p);
    return;
  }
#endif
#if WIDEST >= 32
  if (bytes >= 32) {
    NAME(rows_32)(p);
    return;
  }
#endif
  if (bytes >= 16)
    NAME(rows_16)(p);
  else if (p->n == 1)
    NAME(narrow)(p, 1);
  else if (p->n == 2)
    NAME(narrow)(p, 2);
  else
    NAME(narrow)(p, 3);
}

/* Scalar products of k < 16 / sizeof(REAL) elements, k known to the compiler. */
FN void NAME(short_dots)(const pni_small_product *p, const int64_t k) {
  for (int64_t j = 0; j < p->n; j++) {
    const REAL *y = (const REAL *)p->y + j * p->y_col;
    for (int64_t i = 0; i < p->m; i++) {
      const REAL *x = (const REAL *)p->x + i * p->x_row;
      REAL s = 0;
      PNI_UNROLL for (int64_t e = 0; e < k; e++) s += x[e] * y[e];
      ((REAL *)p->out)[i * p->n + j] = s;
    }
  }
}

TARGET static void NAME(dots)(const pni_small_product *p) {
  const int64_t bytes = p->k < 64 ? p->k * (int64_t)sizeof(REAL) : 64;
#if WIDEST >= 64
  if (bytes >= 64) {
    NAME(dots_64)(p);
    return;
  }
#endif
#if WIDEST >= 32
  if (bytes >= 32) {
    NAME(dots_32)(p);
    return;
  }
#endif
  if (bytes >= 16)
    NAME(dots_16)(p);
  else if (p->k == 1)
    NAME(short_dots)(p, 1);
  else if (p->k == 2)
    NAME(short_dots)(p, 2);
  else
    NAME(short_dots)(p, 3);
}

#undef FN
#undef EXPANDED
#undef PAIR
#undef FOUR
#undef TOTALS_f64
#undef TOTALS_f32
#undef REAL
#undef INTEGER
#undef NAME
