/* vector.c: from arrays of any length and stride to groups, and the choice of the level. */
#include "vector.h"
#include "../../base/processor.h"

const pni_vector_level *pni_vector_at(int level) {
#if PNI_CPU_X86
  if (level == PNI_CPU_AVX512) return &pni_vector_avx512;
  if (level == PNI_CPU_AVX2) return &pni_vector_avx2;
#endif
  (void)level;
  return &pni_vector_portable;
}

enum { GROUP = PNI_VECTOR_GROUP, BUFFER = 16 * GROUP };

/* Whole groups in place; what is left, and strided elements, through a buffer whose idle places hold 1. */
#define DRIVER(T, suffix)                                                                                              \
  void pni_vector_##suffix(pni_vector_function f, const T *x, int64_t stride, T *y, int64_t n) {                       \
    void (*loop)(const T *, T *, int64_t) = pni_vector_at(pni_cpu_level())->suffix[f];                                 \
    int64_t done = 0;                                                                                                  \
    if (stride == 1 && n >= GROUP && x != y) {                                                                         \
      loop(x, y, n / GROUP);                                                                                           \
      done = n / GROUP * GROUP;                                                                                        \
    }                                                                                                                  \
    while (done < n) {                                                                                                 \
      T in[BUFFER], out[BUFFER];                                                                                       \
      int64_t take = n - done < BUFFER ? n - done : BUFFER, groups = (take + GROUP - 1) / GROUP;                       \
      for (int64_t i = 0; i < take; i++) in[i] = x[(done + i) * stride];                                               \
      for (int64_t i = take; i < groups * GROUP; i++) in[i] = 1;                                                       \
      loop(in, out, groups);                                                                                           \
      for (int64_t i = 0; i < take; i++) y[done + i] = out[i];                                                         \
      done += take;                                                                                                    \
    }                                                                                                                  \
  }
DRIVER(double, f64)
DRIVER(float, f32)
