/*
** constraint_rows.c: sets of vectors tested all at once, where nothing is out of the ordinary.
*/
#include <float.h>
#include <math.h>
#include "constraint.h"
#include "../base/processor.h"
#include "../tensor/kernel/reduce.h"

/* (x + R) - R is x rounded to a whole number for |x| < R / 3; `high` is below that where `whole` is asked for. */
#define SCAN(name, T, ROUNDER)                                                                                         \
  PNI_EACH_LEVEL_OF(bool, name, (const T *x, int64_t n, T low, T high, bool whole), (x, n, low, high, whole)) {        \
    int64_t bad = 0;                                                                                                   \
    for (int64_t at = 0; at < n; at += 1024) { /* counts of the element's width, for vectors */                        \
      int part = 0, size = n - at < 1024 ? (int)(n - at) : 1024;                                                       \
      for (int i = 0; i < size; i++) {                                                                                 \
        T v = x[at + i];                                                                                               \
        part += ((v >= low) & (v <= high)) ? 0 : 1;                                                                    \
      }                                                                                                                \
      for (int i = 0; whole && i < size; i++) {                                                                        \
        T v = x[at + i], near = (v + (ROUNDER)) - (ROUNDER);                                                           \
        part += v == near ? 0 : 1;                                                                                     \
      }                                                                                                                \
      bad += part;                                                                                                     \
    }                                                                                                                  \
    return bad == 0;                                                                                                   \
  }
SCAN(within_f64, double, 6755399441055744.0)
SCAN(within_f32, float, 12582912.0f)

/* Rows sum to 1. */
#define SUMS(name, T, reducers)                                                                                        \
  static bool name(const T *x, int64_t rows, int64_t n, T limit) {                                                     \
    T sum[128];                                                                                                        \
    for (int64_t at = 0; at < rows; at += 128) {                                                                       \
      int64_t size = rows - at < 128 ? rows - at : 128, off = 0;                                                       \
      reducers[PNI_SUM].rows(x + at * n, size, n, sum);                                                                \
      for (int64_t i = 0; i < size; i++) off += sum[i] - 1 <= limit && 1 - sum[i] <= limit ? 0 : 1;                    \
      if (off) return false;                                                                                           \
    }                                                                                                                  \
    return true;                                                                                                       \
  }
SUMS(sums_f64, double, pni_reducers_f64)
SUMS(sums_f32, float, pni_reducers_f32)

bool pni_all_plain(const pni_plain *t, int dtype, const void *x, int64_t rows, int64_t n) {
  if (dtype == PN_FLOAT64)
    return within_f64(x, rows * n, t->low, t->high, t->whole) && (t->sum < 0 || sums_f64(x, rows, n, t->sum));
  return within_f32(x, rows * n, (float)t->low, (float)t->high, t->whole) &&
         (t->sum < 0 || sums_f32(x, rows, n, (float)t->sum));
}

/* Half of what simplex allows, as sums of float32 are rounded. */
#define SUM 5e-6
enum { MOST_WHOLE = 1 << 22 };

const pni_plain pni_plain_real = {-(double)FLT_MAX, (double)FLT_MAX, false, -1};
const pni_plain pni_plain_positive = {(double)FLT_MIN, (double)FLT_MAX, false, -1};
const pni_plain pni_plain_simplex = {0, 2, false, SUM};
const pni_plain pni_plain_open_simplex = {(double)FLT_MIN, 2, false, SUM};
const pni_plain pni_plain_one_hot = {0, 1, true, 0};
const pni_plain pni_plain_counts = {0, MOST_WHOLE, true, -1};
