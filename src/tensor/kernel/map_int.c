/*
** map_int.c: elementwise kernels of int64 (wrapping, two's complement) and bool, and `where`, which
** only looks at element sizes.
*/
#include "map.h"
#include "map_loop.h"

#define WRAP(expr) ((int64_t)(expr))
#define U(v)       ((uint64_t)(v))

PNI_LOOP1(pni_neg_i64, int64_t, int64_t, WRAP(0 - U(x)))
PNI_LOOP1(pni_abs_i64, int64_t, int64_t, x < 0 ? WRAP(0 - U(x)) : x)
PNI_LOOP1(pni_sign_i64, int64_t, int64_t, (x > 0) - (x < 0))
PNI_LOOP1(pni_square_i64, int64_t, int64_t, WRAP(U(x) * U(x)))
PNI_LOOP2(pni_add_i64, int64_t, int64_t, WRAP(U(x) + U(y)))
PNI_LOOP2(pni_sub_i64, int64_t, int64_t, WRAP(U(x) - U(y)))
PNI_LOOP2(pni_mul_i64, int64_t, int64_t, WRAP(U(x) * U(y)))
PNI_LOOP2(pni_maximum_i64, int64_t, int64_t, x > y ? x : y)
PNI_LOOP2(pni_minimum_i64, int64_t, int64_t, x < y ? x : y)

/* Floored, as Lua's %; a zero divisor gives 0. */
static int64_t floored(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  int64_t r = x % y;
  return r != 0 && (r ^ y) < 0 ? r + y : r;
}
PNI_LOOP2(pni_remainder_i64, int64_t, int64_t, floored(x, y))
/* Its whole quotient; of the smallest number by -1 there is none, and it wraps. */
static int64_t quotient(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return WRAP(0 - U(x));
  return x / y - (x % y != 0 && (x ^ y) < 0);
}
PNI_LOOP2(pni_floor_divide_i64, int64_t, int64_t, quotient(x, y))

#define COMPARISONS(T, NAME)                                                                                           \
  PNI_LOOP2(NAME(eq), uint8_t, T, x == y)                                                                              \
  PNI_LOOP2(NAME(ne), uint8_t, T, x != y)                                                                              \
  PNI_LOOP2(NAME(lt), uint8_t, T, x < y)                                                                               \
  PNI_LOOP2(NAME(le), uint8_t, T, x <= y)                                                                              \
  PNI_LOOP2(NAME(gt), uint8_t, T, x > y)                                                                               \
  PNI_LOOP2(NAME(ge), uint8_t, T, x >= y)                                                                              \
  PNI_LOOP2(NAME(logical_and), uint8_t, T, x != 0 && y != 0)                                                           \
  PNI_LOOP2(NAME(logical_or), uint8_t, T, x != 0 || y != 0)                                                            \
  PNI_LOOP1(NAME(logical_not), uint8_t, T, x == 0)                                                                     \
  PNI_LOOP1(NAME(isnan), uint8_t, T, x != x)                                                                           \
  PNI_LOOP1(NAME(isinf), uint8_t, T, x != x)                                                                           \
  PNI_LOOP1(NAME(isfinite), uint8_t, T, x == x)
#define I64(f) pni_##f##_i64
#define B(f)   pni_##f##_b

COMPARISONS(int64_t, I64)
COMPARISONS(uint8_t, B)

enum { WHERE_BLOCK = 128 };

/* One loop for choices of any stride: they are gathered block by block; what repeats, for the first (at = 0). */
#define WHERE(fname, T)                                                                                                \
  PNI_EACH_LEVEL(fname##_loop,                                                                                         \
                 (T *restrict o, const uint8_t *restrict k, const T *restrict a, const T *restrict b, int64_t n),      \
                 (o, k, a, b, n)) {                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      T x = a[i], y = b[i];                                                                                            \
      o[i] = k[i] ? x : y;                                                                                             \
    }                                                                                                                  \
  }                                                                                                                    \
  static const T *fname##_block(const T *x, int64_t stride, int64_t at, int64_t n, T *room) {                          \
    if (stride == 1) return x + at;                                                                                    \
    T first = x[0];                                                                                                    \
    if (stride == 0)                                                                                                   \
      for (int64_t i = at; i < n; i++) room[i] = first;                                                                \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) room[i] = x[(at + i) * stride];                                                  \
    return room;                                                                                                       \
  }                                                                                                                    \
  void fname(void *data, int64_t n, char *const *p, const int64_t *s) {                                                \
    (void)data;                                                                                                        \
    T *o = (T *)(void *)p[0], ra[WHERE_BLOCK], rb[WHERE_BLOCK];                                                        \
    const uint8_t *k = (const uint8_t *)p[1];                                                                          \
    const T *a = (const T *)(const void *)p[2], *b = (const T *)(const void *)p[3];                                    \
    if (s[1] == 0) {                                                                                                   \
      const T *x = n && *k ? a : b;                                                                                    \
      int64_t stride = n && *k ? s[2] : s[3];                                                                          \
      for (int64_t i = 0; i < n; i++) o[i] = x[i * stride];                                                            \
      return;                                                                                                          \
    }                                                                                                                  \
    if (s[1] != 1) {                                                                                                   \
      for (int64_t i = 0; i < n; i++) o[i] = k[i * s[1]] ? a[i * s[2]] : b[i * s[3]];                                  \
      return;                                                                                                          \
    }                                                                                                                  \
    for (int64_t at = 0; at < n; at += WHERE_BLOCK) {                                                                  \
      int64_t size = n - at < WHERE_BLOCK ? n - at : WHERE_BLOCK;                                                      \
      fname##_loop(o + at, k + at, fname##_block(a, s[2], at, size, ra), fname##_block(b, s[3], at, size, rb), size);  \
    }                                                                                                                  \
  }
WHERE(pni_where_8, uint64_t)
WHERE(pni_where_4, uint32_t)
WHERE(pni_where_1, uint8_t)
