/*
** vector.h: transcendental functions of whole arrays, chosen at run time by processor. Own branch-free bodies,
** compiled once per instruction set (level_*.c), rather than SLEEF or libmvec: neither has digamma, the normal
** distribution or its quantile, libmvec allows 4 ULP, and the bodies below are as fast (spec/bench/vector.c).
** An element's result depends on its value, type and the processor's level alone, never on its place: full groups,
** tails and strided rows run through the same code.
*/
#ifndef PN_MATH_VECTOR_VECTOR_H
#define PN_MATH_VECTOR_VECTOR_H

#include <stdint.h>

/* clang-format off */
#define PNI_VECTOR_FUNCTIONS(X) \
  X(exp) X(expm1) X(log) X(log1p) X(log1mexp) X(tanh) X(sigmoid) X(log_sigmoid) X(softplus) X(sin) X(cos) \
  X(erf) X(erfc) X(erfcx) X(erfinv) X(ndtr) X(log_ndtr) X(ndtri) X(lgamma) X(digamma) \
  X(log_i0) X(log_i0e) X(bessel_gap)
/* clang-format on */

typedef enum pni_vector_function {
#define X(name) PNI_VECTOR_##name,
  PNI_VECTOR_FUNCTIONS(X)
#undef X
      PNI_VECTORS
} pni_vector_function;

/* Loops run over whole groups. */
enum { PNI_VECTOR_GROUP = 16, PNI_MASS_LANES = 32 };

/* y[i] = f(x[i]) for i < groups * PNI_VECTOR_GROUP; x and y are different arrays. */
typedef struct pni_vector_level {
  void (*f64[PNI_VECTORS])(const double *x, double *y, int64_t groups);
  void (*f32[PNI_VECTORS])(const float *x, float *y, int64_t groups);
  /* Log masses of Bernoulli variables x with log odds l, and g times their slopes in l; groups of the former are of
   * PNI_MASS_LANES numbers, and `lane` has twice as many (elementary_real.h). */
  void (*masses_f64)(const double *x, const double *l, double *lane, int64_t groups);
  void (*masses_f32)(const float *x, const float *l, float *lane, int64_t groups);
  void (*mass_slopes_f64)(const double *x, const double *l, double g, double *out, int64_t groups);
  void (*mass_slopes_f32)(const float *x, const float *l, float g, float *out, int64_t groups);
} pni_vector_level;

extern const pni_vector_level pni_vector_portable, pni_vector_avx2, pni_vector_avx512;
/* The loops of a level of base/processor.h that this build has; PNI_CPU_PORTABLE always exists. */
const pni_vector_level *pni_vector_at(int level);

/* y[i] = f(x[i * stride]) for any n >= 0, at the processor's level. x and y may be the same array if stride is 1. */
void pni_vector_f64(pni_vector_function f, const double *x, int64_t stride, double *y, int64_t n);
void pni_vector_f32(pni_vector_function f, const float *x, int64_t stride, float *y, int64_t n);

/* Of Bernoulli variables x with log odds l of 1: the sum of n log masses, and g times their slopes in l.
 * An x that is neither 0 nor 1 has -inf and slope 0, NaN has NaN and 0. */
double pni_log_masses_f64(const double *x, const double *l, int64_t n);
double pni_log_masses_f32(const float *x, const float *l, int64_t n);
void pni_mass_slopes_f64(const double *x, const double *l, double g, double *out, int64_t n);
void pni_mass_slopes_f32(const float *x, const float *l, float g, float *out, int64_t n);

/* pni_log1p_gap (math/special.h) of n numbers, which are not those of the result. The same bits at every level. */
void pni_log1p_gaps(const double *x, double *out, int64_t n);

#endif
