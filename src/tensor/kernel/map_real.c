/*
** map_real.c: bodies of the elementwise kernels for floats. Special functions of float32 that have no vector loop are
** computed in double and rounded.
** NaN goes through every body; maximum and minimum return NaN if either operand is.
*/
#include <math.h>
#include "../../base/type_real.h"
#include "../../math/special.h"
#include "map.h"
#include "map_loop.h"
#include "../../math/vector/vector.h"

#define NAME(f) TYPED(pni_##f)

enum { MAP_BLOCK = 256 };

#define UNARY(name, expr)  PNI_LOOP1(NAME(name), REAL, REAL, expr)
#define BINARY(name, expr) PNI_LOOP2(NAME(name), REAL, REAL, expr)
#define WIDE1(name, expr)  PNI_WIDE_LOOP1(NAME(name), wide_##name, REAL, REAL, expr)
#define WIDE2(name, expr)  PNI_WIDE_LOOP2(NAME(name), wide_##name, REAL, REAL, expr)
#define COMPARE(name, expr)                                                                                            \
  PNI_EACH_LEVEL(wide_##name, (const REAL *restrict a, const REAL *restrict b, uint8_t *restrict o, int64_t n),        \
                 (a, b, o, n)) {                                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      REAL x = a[i], y = b[i];                                                                                         \
      (void)y;                                                                                                         \
      o[i] = (uint8_t)(expr);                                                                                          \
    }                                                                                                                  \
  }                                                                                                                    \
  void NAME(name)(void *data, int64_t n, char *const *p, const int64_t *s) {                                           \
    (void)data;                                                                                                        \
    in_blocks(wide_##name, n, p[0], p[1], s[1], p[2], s[2]);                                                           \
  }
#define TEST(name, expr)                                                                                               \
  PNI_EACH_LEVEL(wide_##name, (const REAL *restrict a, const REAL *restrict b, uint8_t *restrict o, int64_t n),        \
                 (a, b, o, n)) {                                                                                       \
    (void)b;                                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      REAL x = a[i];                                                                                                   \
      o[i] = (uint8_t)(expr);                                                                                          \
    }                                                                                                                  \
  }                                                                                                                    \
  void NAME(name)(void *data, int64_t n, char *const *p, const int64_t *s) {                                           \
    (void)data;                                                                                                        \
    in_blocks(wide_##name, n, p[0], p[1], s[1], p[1], s[1]);                                                           \
  }
/* Of vector.h: processors' own vectors. */
#define VECTOR(name)                                                                                                   \
  void NAME(name)(void *data, int64_t n, char *const *p, const int64_t *s) {                                           \
    (void)data;                                                                                                        \
    NAME(vector)(PNI_VECTOR_##name, (const REAL *)(const void *)p[1], s[1], (REAL *)(void *)p[0], n);                  \
  }

WIDE1(neg, -x)
WIDE1(abs, F(fabs)(x))
UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x)
WIDE1(square, x *x)
WIDE1(sqrt, F(sqrt)(x))
UNARY(rsqrt, 1 / F(sqrt)(x))
WIDE1(reciprocal, 1 / x)
VECTOR(exp)
VECTOR(expm1)
VECTOR(log)
VECTOR(log1p)
VECTOR(log1mexp)
VECTOR(sin)
VECTOR(cos)
/* sin x / cos x; the row may be its operand. */
void NAME(tan)(void *data, int64_t n, char *const *p, const int64_t *s) {
  (void)data;
  REAL sine[MAP_BLOCK], cosine[MAP_BLOCK], *out = (REAL *)(void *)p[0];
  const REAL *x = (const REAL *)(const void *)p[1];
  for (int64_t at = 0; at < n; at += MAP_BLOCK) {
    int64_t size = n - at < MAP_BLOCK ? n - at : MAP_BLOCK;
    NAME(vector)(PNI_VECTOR_sin, x + at * s[1], s[1], sine, size);
    NAME(vector)(PNI_VECTOR_cos, x + at * s[1], s[1], cosine, size);
    for (int64_t i = 0; i < size; i++) out[at + i] = sine[i] / cosine[i];
  }
}
UNARY(asin, F(asin)(x))
UNARY(acos, F(acos)(x))
UNARY(atan, F(atan)(x))
UNARY(sinh, F(sinh)(x))
UNARY(cosh, F(cosh)(x))
UNARY(asinh, F(asinh)(x))
UNARY(acosh, F(acosh)(x))
UNARY(atanh, F(atanh)(x))
VECTOR(tanh)
VECTOR(sigmoid)
VECTOR(log_sigmoid)
VECTOR(softplus)
WIDE1(relu, x > 0 || x != x ? x : 0)
VECTOR(erf)
VECTOR(erfc)
VECTOR(erfcx)
VECTOR(erfinv)
VECTOR(ndtr)
VECTOR(log_ndtr)
VECTOR(ndtri)
UNARY(log_ndtri, pni_log_ndtri((double)x))
UNARY(expintx, pni_expintx((double)x))
VECTOR(lgamma)
VECTOR(digamma)
UNARY(floor, F(floor)(x))
UNARY(ceil, F(ceil)(x))
UNARY(round, F(rint)(x))

WIDE2(add, x + y)
WIDE2(sub, x - y)
WIDE2(mul, x *y)
WIDE2(div, x / y)
WIDE2(maximum, x > y || x != x ? x : y)
WIDE2(minimum, x < y || x != x ? x : y)
WIDE2(relu_slope, y > 0 ? x : y != y ? y : 0)
BINARY(larger_share, x > y ? 1 : x < y ? 0 : x == y ? (REAL)0.5 : (REAL)NAN)
BINARY(floor_divide, F(floor)(x / y))
BINARY(atan2, F(atan2)(x, y))
BINARY(logaddexp, pni_logaddexp((double)x, (double)y))
void NAME(xlogy)(void *data, int64_t n, char *const *p, const int64_t *s) {
  (void)data;
  REAL log_y[MAP_BLOCK], *out = (REAL *)(void *)p[0];
  const REAL *x = (const REAL *)(const void *)p[1], *y = (const REAL *)(const void *)p[2];
  for (int64_t at = 0; at < n; at += MAP_BLOCK) {
    int64_t size = n - at < MAP_BLOCK ? n - at : MAP_BLOCK;
    NAME(vector)(PNI_VECTOR_log, y + at * s[2], s[2], log_y, size);
    for (int64_t i = 0; i < size; i++) {
      REAL xi = x[(at + i) * s[1]], t = xi * log_y[i], none = y[(at + i) * s[2]] == y[(at + i) * s[2]] ? 0 : t;
      out[at + i] = xi == 0 ? none : t;
    }
  }
}
/* Floored, as Lua's % and NumPy's: the exact fmod, moved to the sign of y. */
static REAL NAME(floored)(REAL x, REAL y) {
  REAL r = F(fmod)(x, y);
  if (r == 0) return F(copysign)(0, y);
  return (r < 0) != (y < 0) ? r + y : r;
}
BINARY(remainder, NAME(floored)(x, y))
BINARY(gammainc, pni_gammainc((double)x, (double)y))
BINARY(gammainc_grad_a, pni_gammainc_grad_a((double)x, (double)y))

/* Small whole exponents are products: exact, and far faster than pow. Each element by its own exponent. */
static REAL NAME(power)(REAL x, REAL y) {
  return y == 2           ? x * x
         : y == 3         ? x * x * x
         : y == 1         ? x
         : y == (REAL)0.5 ? F(sqrt)(x)
         : y == -1        ? 1 / x
                          : F(pow)(x, y);
}
static PNI_LOOP2(general_pow, REAL, REAL,
                 NAME(power)(x, y)) static PNI_LOOP1(cube, REAL, REAL, x *x *x) static PNI_LOOP1(same, REAL, REAL, x)

    void NAME(pow)(void *data, int64_t n, char *const *p, const int64_t *s) {
  REAL e = n && s[2] == 0 ? *(const REAL *)(const void *)p[2] : 0;
  if (e == 2)
    NAME(square)(data, n, p, s);
  else if (e == 3)
    cube(data, n, p, s);
  else if (e == 1)
    same(data, n, p, s);
  else if (e == (REAL)0.5)
    NAME(sqrt)(data, n, p, s);
  else if (e == -1)
    NAME(reciprocal)(data, n, p, s);
  else
    general_pow(data, n, p, s);
}

/* A block of an operand: where it lies if in one run, else gathered in `room`. What repeats is gathered for the first
 * block, at = 0, only. */
static const REAL *block_of(const REAL *x, int64_t stride, int64_t at, int64_t n, REAL *room) {
  if (stride == 1) return x + at;
  REAL first = x[0];
  if (stride == 0)
    for (int64_t i = at; i < n; i++) room[i] = first;
  else
    for (int64_t i = 0; i < n; i++) room[i] = x[(at + i) * stride];
  return room;
}

/* One loop for operands of any stride: compilers need many instructions for bytes out of numbers. */
static void in_blocks(void (*loop)(const REAL *, const REAL *, uint8_t *, int64_t), int64_t n, char *out, const char *x,
                      int64_t sx, const char *y, int64_t sy) {
  const REAL *a = (const REAL *)(const void *)x, *b = (const REAL *)(const void *)y;
  uint8_t *o = (uint8_t *)out;
  REAL ra[MAP_BLOCK], rb[MAP_BLOCK];
  if (sx == 1 && sy == 1) {
    loop(a, b, o, n);
    return;
  }
  for (int64_t at = 0; at < n; at += MAP_BLOCK) {
    int64_t size = n - at < MAP_BLOCK ? n - at : MAP_BLOCK;
    loop(block_of(a, sx, at, size, ra), block_of(b, sy, at, size, rb), o + at, size);
  }
}

COMPARE(eq, x == y)
COMPARE(ne, x != y)
COMPARE(lt, x < y)
COMPARE(le, x <= y)
COMPARE(gt, x > y)
COMPARE(ge, x >= y)
COMPARE(logical_and, x != 0 && y != 0)
COMPARE(logical_or, x != 0 || y != 0)
TEST(isnan, x != x)
TEST(isinf, isinf(x) != 0)
TEST(isfinite, isfinite(x) != 0)
TEST(logical_not, x == 0)

PNI_EACH_LEVEL(limit, (const REAL *restrict a, REAL *restrict o, int64_t n, REAL low, REAL high),
               (a, o, n, low, high)) {
  for (int64_t i = 0; i < n; i++) {
    REAL x = a[i];
    x = x < low ? low : x;
    o[i] = x > high ? high : x;
  }
}

void NAME(clamp)(void *data, int64_t n, char *const *p, const int64_t *s) {
  const double *end = data;
  REAL *o = (REAL *)(void *)p[0], low = (REAL)end[0], high = (REAL)end[1];
  const REAL *a = (const REAL *)(const void *)p[1];
  if (s[1] == 1) {
    limit(a, o, n, low, high);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    REAL x = a[i * s[1]];
    x = x < low ? low : x;
    o[i] = x > high ? high : x;
  }
}

/* (Both choices are values that are there: no branch.) */
PNI_EACH_LEVEL(limit_slope,
               (const REAL *restrict g, const REAL *restrict a, REAL *restrict o, int64_t n, REAL low, REAL high),
               (g, a, o, n, low, high)) {
  for (int64_t i = 0; i < n; i++) {
    REAL x = a[i], v = g[i], outside = x != x ? x : 0;
    o[i] = x >= low && x <= high ? v : outside;
  }
}

void NAME(clamp_slope)(void *data, int64_t n, char *const *p, const int64_t *s) {
  const double *end = data;
  REAL *o = (REAL *)(void *)p[0], low = (REAL)end[0], high = (REAL)end[1];
  const REAL *g = (const REAL *)(const void *)p[1], *a = (const REAL *)(const void *)p[2];
  if (s[1] == 1 && s[2] == 1) {
    limit_slope(g, a, o, n, low, high);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    REAL x = a[i * s[2]], v = g[i * s[1]], outside = x != x ? x : 0;
    o[i] = x >= low && x <= high ? v : outside;
  }
}

/* x above 0, else slope x. */
PNI_EACH_LEVEL(leak, (const REAL *restrict a, REAL *restrict o, int64_t n, REAL slope), (a, o, n, slope)) {
  for (int64_t i = 0; i < n; i++) {
    REAL x = a[i], below = slope * x;
    o[i] = x > 0 ? x : below;
  }
}

void NAME(leaky_relu)(void *data, int64_t n, char *const *p, const int64_t *s) {
  REAL *o = (REAL *)(void *)p[0], slope = (REAL) * (const double *)data;
  const REAL *a = (const REAL *)(const void *)p[1];
  if (s[1] == 1)
    leak(a, o, n, slope);
  else
    for (int64_t i = 0; i < n; i++) o[i] = a[i * s[1]] > 0 ? a[i * s[1]] : slope * a[i * s[1]];
}

/* g where y is above 0, NaN where y is, else slope g. */
PNI_EACH_LEVEL(leak_slope, (const REAL *restrict g, const REAL *restrict b, REAL *restrict o, int64_t n, REAL slope),
               (g, b, o, n, slope)) {
  for (int64_t i = 0; i < n; i++) {
    REAL v = g[i], y = b[i], below = y != y ? y : slope * v;
    o[i] = y > 0 ? v : below;
  }
}

void NAME(leaky_relu_slope)(void *data, int64_t n, char *const *p, const int64_t *s) {
  REAL *o = (REAL *)(void *)p[0], slope = (REAL) * (const double *)data;
  const REAL *g = (const REAL *)(const void *)p[1], *b = (const REAL *)(const void *)p[2];
  if (s[1] == 1 && s[2] == 1) {
    leak_slope(g, b, o, n, slope);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    REAL v = g[i * s[1]], y = b[i * s[2]], below = y != y ? y : slope * v;
    o[i] = y > 0 ? v : below;
  }
}

void NAME(polygamma)(void *data, int64_t n, char *const *p, const int64_t *s) {
  int order = (int)*(const int64_t *)data;
  REAL *o = (REAL *)(void *)p[0];
  const REAL *a = (const REAL *)(const void *)p[1];
  for (int64_t i = 0; i < n; i++) o[i] = (REAL)pni_polygamma(order, (double)a[i * s[1]]);
}
