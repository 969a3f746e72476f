/*
** constraint_scan.c: sets of numbers tested array by array, as constraint.c does it one by one. (x - x is zero for finite
** x alone.)
*/
#include "constraint.h"
#include "../base/cpu.h"

#define SCAN(id, T, suffix, test)                                                                                      \
  static PNI_CLONES int64_t id##_##suffix(const void *p, int64_t n, uint8_t *mask) {                                   \
    const T *v = p;                                                                                                    \
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
    return bad;                                                                                                        \
  }
#define SCANS(id, test)                                                                                                \
  SCAN(id, double, f64, test)                                                                                          \
  SCAN(id, float, f32, test)                                                                                           \
  const pni_scan pni_scan_##id[2] = {id##_f64, id##_f32};

SCANS(angle, (x >= -PNI_ANGLE_HOLDS) & (x <= PNI_ANGLE_HOLDS))
SCANS(real, x - x == 0)
SCANS(extended_real, x == x)
SCANS(positive, (x > 0) & (x - x == 0))
SCANS(nonnegative, (x >= 0) & (x - x == 0))
SCANS(unit_interval, (x >= 0) & (x <= 1))
SCANS(open_unit_interval, (x > 0) & (x < 1))
SCANS(boolean, (x == 0) | (x == 1))
