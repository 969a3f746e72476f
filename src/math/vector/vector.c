/* vector.c: from arrays of any length and stride to groups, and the choice of the level. */
#include "vector.h"
#include <math.h>
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

/* The last places, fewer than a group, as a whole one whose idle places have no mass to give away: x = 1, l = inf. */
#define FILLED(T, x, l, n, group)                                                                                      \
  T rest[2][group];                                                                                                    \
  for (int64_t i = 0; i < (group); i++) {                                                                              \
    rest[0][i] = i < (n) ? (x)[i] : 1;                                                                                 \
    rest[1][i] = i < (n) ? (l)[i] : (T)INFINITY;                                                                       \
  }

/* A lane takes so few factors, each at most 2, that it is finite. */
#define MASSES(T, suffix)                                                                                              \
  double pni_log_masses_##suffix(const T *x, const T *l, int64_t n) {                                                  \
    enum { LANES = PNI_MASS_LANES, MOST = 64 * LANES };                                                                \
    const pni_vector_level *v = pni_vector_at(pni_cpu_level());                                                        \
    double sum = 0;                                                                                                    \
    for (int64_t take; n > 0; n -= take, x += take, l += take) {                                                       \
      T lane[2 * LANES] = {0}, log[LANES];                                                                             \
      take = n < MOST ? n : MOST;                                                                                      \
      int64_t whole = take / LANES * LANES;                                                                            \
      v->masses_##suffix(x, l, lane, take / LANES);                                                                    \
      if (whole < take) {                                                                                              \
        FILLED(T, x + whole, l + whole, take - whole, LANES)                                                           \
        v->masses_##suffix(rest[0], rest[1], lane, 1);                                                                 \
      }                                                                                                                \
      v->suffix[PNI_VECTOR_log1p](lane, log, LANES / GROUP);                                                           \
      for (int64_t k = 0; k < LANES; k++) sum += (double)lane[LANES + k] - (double)log[k];                             \
    }                                                                                                                  \
    return sum;                                                                                                        \
  }                                                                                                                    \
  void pni_mass_slopes_##suffix(const T *x, const T *l, T g, T *out, int64_t n) {                                      \
    const pni_vector_level *v = pni_vector_at(pni_cpu_level());                                                        \
    int64_t whole = n / GROUP * GROUP;                                                                                 \
    v->mass_slopes_##suffix(x, l, g, out, n / GROUP);                                                                  \
    if (whole == n) return;                                                                                            \
    T last[GROUP];                                                                                                     \
    FILLED(T, x + whole, l + whole, n - whole, GROUP)                                                                  \
    v->mass_slopes_##suffix(rest[0], rest[1], g, last, 1);                                                             \
    for (int64_t i = whole; i < n; i++) out[i] = last[i - whole];                                                      \
  }
MASSES(double, f64)
MASSES(float, f32)
