/* map_loop.h: the loops around elementwise bodies; contiguous and repeated operands get loops of their
** own, so that compilers vectorise them. */
#ifndef PN_TENSOR_KERNEL_MAP_LOOP_H
#define PN_TENSOR_KERNEL_MAP_LOOP_H

#include <limits.h>
#include <stdint.h>
#include "../../base/processor.h"

/* A function's whole order from an attribute: beyond int the largest there is, below 0 none. */
static inline int pni_whole_order(const void *data) {
  int64_t n = *(const int64_t *)data;
  return n < 0 ? -1 : n > INT_MAX ? INT_MAX : (int)n;
}

/* The same through the static function `loop`, compiled once per level: for short bodies that are called often. */
#define PNI_WIDE_LOOP1(fname, loop, OUT, IN, expr)                                                                     \
  PNI_EACH_LEVEL(loop, (void *data, int64_t n, char *const *p, const int64_t *s), (data, n, p, s))                     \
  PNI_BODY1(OUT, IN, expr)                                                                                             \
  void fname(void *data, int64_t n, char *const *p, const int64_t *s) { loop(data, n, p, s); }
#define PNI_WIDE_LOOP2(fname, loop, OUT, IN, expr)                                                                     \
  PNI_EACH_LEVEL(loop, (void *data, int64_t n, char *const *p, const int64_t *s), (data, n, p, s))                     \
  PNI_BODY2(OUT, IN, expr)                                                                                             \
  void fname(void *data, int64_t n, char *const *p, const int64_t *s) { loop(data, n, p, s); }

/* `x` is the element, `expr` its image. */
#define PNI_LOOP1(fname, OUT, IN, expr)                                                                                \
  void fname(void *data, int64_t n, char *const *p, const int64_t *s) PNI_BODY1(OUT, IN, expr)
#define PNI_BODY1(OUT, IN, expr)                                                                                       \
  {                                                                                                                    \
    (void)data;                                                                                                        \
    OUT *restrict o = (OUT *)(void *)p[0];                                                                             \
    const IN *restrict a = (const IN *)(const void *)p[1];                                                             \
    if (s[1] == 1) {                                                                                                   \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        IN x = a[i];                                                                                                   \
        o[i] = (OUT)(expr);                                                                                            \
      }                                                                                                                \
    } else {                                                                                                           \
      int64_t sa = s[1];                                                                                               \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        IN x = a[i * sa];                                                                                              \
        o[i] = (OUT)(expr);                                                                                            \
      }                                                                                                                \
    }                                                                                                                  \
  }

#define PNI_LOOP2(fname, OUT, IN, expr)                                                                                \
  void fname(void *data, int64_t n, char *const *p, const int64_t *s) PNI_BODY2(OUT, IN, expr)
#define PNI_BODY2(OUT, IN, expr)                                                                                       \
  {                                                                                                                    \
    (void)data;                                                                                                        \
    OUT *restrict o = (OUT *)(void *)p[0];                                                                             \
    const IN *restrict a = (const IN *)(const void *)p[1];                                                             \
    const IN *restrict b = (const IN *)(const void *)p[2];                                                             \
    int64_t sa = s[1], sb = s[2];                                                                                      \
    if (sa == 1 && sb == 1) {                                                                                          \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        IN x = a[i], y = b[i];                                                                                         \
        o[i] = (OUT)(expr);                                                                                            \
      }                                                                                                                \
    } else if (sa == 1 && sb == 0) {                                                                                   \
      IN y = n ? *b : 0;                                                                                               \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        IN x = a[i];                                                                                                   \
        o[i] = (OUT)(expr);                                                                                            \
      }                                                                                                                \
    } else if (sa == 0 && sb == 1) {                                                                                   \
      IN x = n ? *a : 0;                                                                                               \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        IN y = b[i];                                                                                                   \
        o[i] = (OUT)(expr);                                                                                            \
      }                                                                                                                \
    } else {                                                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        IN x = a[i * sa], y = b[i * sb];                                                                               \
        o[i] = (OUT)(expr);                                                                                            \
      }                                                                                                                \
    }                                                                                                                  \
  }

#endif
