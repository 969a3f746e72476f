/*
** level_real.h: everything of one instruction set, included once by each level_*.c with LEVEL (the table's name),
** TARGET (the function attribute) and FUSED (whether one instruction does x y + z).
*/
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "../quantile.h"
#include "../special.h"
#include "polynomial.h"
#include "vector.h"

#if defined(__GNUC__)
#define FN static inline __attribute__((always_inline)) TARGET
#else
#define FN static inline
#endif
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable) vectorize(enable)")
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED                                                                                                         \
  _Pragma("GCC unroll 1") /* a loop of a few turns that is to become vector code rather than straight code */
#else
#define UNROLL
#define ROLLED
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* fused where the text says so, nowhere else */
#endif

#if defined(__clang__)
#define IN_GROUP ROLLED
#else
#define IN_GROUP
#endif

/* Two vectors at a time, so that one's chain of operations fills the other's waits. */
#if defined(__GNUC__) && !defined(__clang__) && FUSED
#define PAIRED _Pragma("GCC unroll 2")
#else
#define PAIRED
#endif

#if FUSED
#define MADD(x, y, z) FMA(x, y, z)
#else
#define MADD(x, y, z) ((x) * (y) + (z))
#endif

#define NAME(f) f##_f32
#define FMA     fmaf
#include "constant_f32_real.h"
#include "elementary_real.h"
#include "single_real.h"
#include "constant_end_real.h"
#undef NAME
#undef FMA

#define NAME(f) f##_f64
#define FMA     fma
#include "constant_f64_real.h"
#include "elementary_real.h"
#include "special_real.h"

/* ---- loops ---- */

static double scalar_gap(double x) { return pni_bessel_gap(0, x); }

#define LOOP(T, suffix, name, expr)                                                                                    \
  TARGET static void loop_##name##_##suffix(const T *restrict a, T *restrict o, int64_t groups) {                      \
    for (int64_t i = 0; i < groups * PNI_VECTOR_GROUP; i++) {                                                          \
      T x = a[i];                                                                                                      \
      o[i] = expr;                                                                                                     \
    }                                                                                                                  \
  }

/* A body with two sides, a group at a time: both only where the group lies on both. */
#define TWO_SIDED(name, BORDER)                                                                                        \
  TARGET static void loop_##name##_inside_f64(const double *restrict a, double *restrict o, int64_t groups) {          \
    for (; groups-- > 0; a += PNI_VECTOR_GROUP, o += PNI_VECTOR_GROUP) {                                               \
      int64_t small = 0;                                                                                               \
      ROLLED for (int i = 0; i < PNI_VECTOR_GROUP; i++) small += a[i] < BORDER ? 1 : 0;                                \
      if (small == PNI_VECTOR_GROUP)                                                                                   \
        IN_GROUP for (int i = 0; i < PNI_VECTOR_GROUP; i++) o[i] = name##_by(a[i], SMALL);                             \
      else if (small == 0)                                                                                             \
        IN_GROUP for (int i = 0; i < PNI_VECTOR_GROUP; i++) o[i] = name##_by(a[i], LARGE);                             \
      else                                                                                                             \
        IN_GROUP for (int i = 0; i < PNI_VECTOR_GROUP; i++) o[i] = name##_by(a[i], SMALL | LARGE);                     \
    }                                                                                                                  \
  }
#define WHOLE(name) LOOP(double, f64, name##_inside, name##_f64(x))

/* Elements outside [low, high] are left to a scalar function; loop_NAME_inside_f64 does the others. */
#define GUARDED(name, low, high, scalar)                                                                               \
  TARGET static void loop_##name##_f64(const double *a, double *o, int64_t groups) {                                   \
    loop_##name##_inside_f64(a, o, groups);                                                                            \
    for (; groups-- > 0; a += PNI_VECTOR_GROUP, o += PNI_VECTOR_GROUP) {                                               \
      int64_t inside = 0;                                                                                              \
      ROLLED for (int i = 0; i < PNI_VECTOR_GROUP; i++) inside += ((a[i] >= low) & (a[i] <= high)) ? 1 : 0;            \
      if (inside == PNI_VECTOR_GROUP) continue;                                                                        \
      for (int i = 0; i < PNI_VECTOR_GROUP; i++)                                                                       \
        if (!(a[i] >= low && a[i] <= high)) o[i] = scalar(a[i]);                                                       \
    }                                                                                                                  \
  }                                                                                                                    \
  THROUGH(name)

/* float32 through the loop of float64, some groups at a time. */
TARGET static void through(void (*loop)(const double *, double *, int64_t), const float *a, float *o, int64_t groups) {
  enum { STAGE = 16, PLACES = STAGE * PNI_VECTOR_GROUP };
  double x[PLACES], y[PLACES];
  for (; groups > 0; groups -= STAGE, a += PLACES, o += PLACES) {
    int64_t some = groups < STAGE ? groups : STAGE;
    for (int64_t i = 0; i < some * PNI_VECTOR_GROUP; i++) x[i] = (double)a[i];
    loop(x, y, some);
    for (int64_t i = 0; i < some * PNI_VECTOR_GROUP; i++) o[i] = (float)y[i];
  }
}

#define THROUGH(name)                                                                                                  \
  TARGET static void loop_##name##_f32(const float *a, float *o, int64_t groups) {                                     \
    through(loop_##name##_f64, a, o, groups);                                                                          \
  }
#define BOTH(name)                                                                                                     \
  LOOP(double, f64, name, name##_f64(x))                                                                               \
  LOOP(float, f32, name, name##_f32(x))
#define WIDE(name)                                                                                                     \
  LOOP(double, f64, name, name##_f64(x))                                                                               \
  THROUGH(name)

BOTH(expm1)
BOTH(log)
BOTH(log1p)
BOTH(log1mexp)
BOTH(tanh)
BOTH(sigmoid)
BOTH(log_sigmoid)
BOTH(softplus)
#ifdef SINGLES
LOOP(double, f64, erf, erf_f64(x))
#else
BOTH(erf)
#endif
WIDE(erfc)
WIDE(erfcx)
WIDE(erfinv)
WIDE(ndtr)
WIDE(log_ndtr)
WIDE(ndtri)
WHOLE(sin)
GUARDED(sin, -TRIG_MAX, TRIG_MAX, sin)
WHOLE(cos)
GUARDED(cos, -TRIG_MAX, TRIG_MAX, cos)
TWO_SIDED(lgamma, LGAMMA_BORDER)
GUARDED(lgamma, GAMMA_MIN, GAMMA_MAX, pni_lgamma)
TWO_SIDED(digamma, DIGAMMA_BORDER)
GUARDED(digamma, GAMMA_MIN, GAMMA_MAX, pni_digamma)
WHOLE(log_i0)
GUARDED(log_i0, -BESSEL_MAX, BESSEL_MAX, pni_log_i0)
WHOLE(log_i0e)
GUARDED(log_i0e, 0, BESSEL_MAX, pni_log_i0e)
WHOLE(bessel_gap)
GUARDED(bessel_gap, 0, BESSEL_MAX, scalar_gap)

const pni_vector_level LEVEL = {
#define X(name) loop_##name##_f64,
    .f64 = {PNI_VECTOR_FUNCTIONS(X)},
#undef X
#define X(name) loop_##name##_f32,
    .f32 = {PNI_VECTOR_FUNCTIONS(X)},
#undef X
    .masses_f64 = loop_masses_f64,
    .masses_f32 = loop_masses_f32,
    .mass_slopes_f64 = loop_mass_slopes_f64,
    .mass_slopes_f32 = loop_mass_slopes_f32};
