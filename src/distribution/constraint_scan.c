/*
** constraint_scan.c: sets of numbers tested array by array, as constraint.c does it one by one. (x - x is zero for
** finite x alone.)
*/
#include "../base/processor.h"
#include <math.h>
#include "constraint.h"

#define SCAN(id, T, suffix, test)                                                                                      \
  PNI_EACH_LEVEL_OF(int64_t, id##_##suffix, (const T *v, int64_t n, uint8_t *mask, T from, T to),                      \
                    (v, n, mask, from, to)) {                                                                          \
    int64_t bad = 0;                                                                                                   \
    for (int64_t at = 0; at < n; at += 1024) { /* counts of the element's width, for vectors */                        \
      int part = 0, size = n - at < 1024 ? (int)(n - at) : 1024;                                                       \
      for (int i = 0; i < size; i++) {                                                                                 \
        T x = v[at + i];                                                                                               \
        part += (test) ? 0 : 1;                                                                                        \
      }                                                                                                                \
      bad += part;                                                                                                     \
      for (int i = 0; mask && i < size; i++) {                                                                         \
        T x = v[at + i];                                                                                               \
        mask[at + i] = (test) ? 1 : 0;                                                                                 \
      }                                                                                                                \
    }                                                                                                                  \
    (void)from, (void)to;                                                                                              \
    return bad;                                                                                                        \
  }
#define SCANS(T, suffix)                                                                                               \
  SCAN(finite, T, suffix, x - x == 0)                                                                                  \
  SCAN(closed, T, suffix, (x >= from) & (x <= to))                                                                     \
  SCAN(above, T, suffix, (x > from) & (x <= to))                                                                       \
  SCAN(ends, T, suffix, (x == from) | (x == to))                                                                       \
  /* from 2^digits on all numbers are whole; below, adding and taking away that much rounds to one */                  \
  SCAN(whole, T, suffix,                                                                                               \
       (x >= from) & (x <= to) &                                                                                       \
           ((SIZE(x) >= DIGITS_##suffix) | ((SIZE(x) + DIGITS_##suffix) - DIGITS_##suffix == SIZE(x))))
#define SIZE(x)    (x < 0 ? -x : x)
#define DIGITS_f64 0x1p52
#define DIGITS_f32 0x1p23f
SCANS(double, f64)
SCANS(float, f32)

/* The float nearest to x that is not above it. */
static float below(double x) {
  float y = (float)x;
  return (double)y > x ? nextafterf(y, -INFINITY) : y;
}

int64_t pni_scan(const pni_numbers *set, pn_dtype dtype, const void *p, int64_t n, uint8_t *mask) {
  static int64_t (*const scan_f64[])(const double *, int64_t, uint8_t *, double,
                                     double) = {finite_f64, closed_f64, above_f64, ends_f64, whole_f64};
  static int64_t (*const scan_f32[])(const float *, int64_t, uint8_t *, float,
                                     float) = {finite_f32, closed_f32, above_f32, ends_f32, whole_f32};
  return dtype == PN_FLOAT64 ? scan_f64[set->shape](p, n, mask, set->from, set->to)
                             : scan_f32[set->shape](p, n, mask, -below(-set->from), below(set->to));
}

PNI_EACH_LEVEL_OF(int64_t, ordered, (const double *restrict x, const double *restrict y, int64_t n), (x, y, n)) {
  int64_t below = 0;
  for (int64_t i = 0; i < n; i++) below += x[i] < y[i] ? 1 : 0;
  return below;
}
int64_t pni_count_below(const double *x, const double *y, int64_t n) { return ordered(x, y, n); }
