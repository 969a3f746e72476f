/*
** size.h: sizes are multiplied and added here. A result is exact, or PNI_TOO_MANY, which stays what it is in further
** sums and products (but with 0) and which no allocation grants. A negative number makes it as well.
*/
#ifndef PN_BASE_SIZE_H
#define PN_BASE_SIZE_H

#include <stdint.h>

#define PNI_TOO_MANY INT64_MAX

static inline int64_t pni_times(int64_t a, int64_t b) {
  int64_t n;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &n) ? PNI_TOO_MANY : n;
}

static inline int64_t pni_plus(int64_t a, int64_t b) {
  int64_t n;
  return a < 0 || b < 0 || __builtin_add_overflow(a, b, &n) ? PNI_TOO_MANY : n;
}

#endif
