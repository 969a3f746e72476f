/*
** processor.h: which instruction sets kernels use. Hot loops are compiled once per level from the same text; all are
** chosen by pni_cpu_level() where work begins.
*/
#ifndef PN_BASE_PROCESSOR_H
#define PN_BASE_PROCESSOR_H

enum { PNI_CPU_PORTABLE, PNI_CPU_AVX2, PNI_CPU_AVX512, PNI_CPU_LEVELS };

#if defined(__GNUC__) && defined(__x86_64__)
#define PNI_CPU_X86     1
#define PNI_TARGET_AVX2 __attribute__((target("avx2,fma")))
#if defined(__clang__)
#define PNI_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl,avx512bw")))
#else
#define PNI_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")))
#endif
#else
#define PNI_CPU_X86 0
#endif

/* A static function whose body, which follows, is compiled once per level: for plain loops, where elements are
 * independent or sums have a stated order, so that (with -ffp-contract=off) every level gives the same bits.
 *   PNI_EACH_LEVEL(add, (const double *x, double *y, int64_t n), (x, y, n)) { ... }
 * PNI_EACH_LEVEL_OF(result, ...) is the same with a result. */
#if PNI_CPU_X86
#define PNI_ANY_LEVEL static inline __attribute__((always_inline))
#define PNI_EACH_LEVEL(name, params, args)                                                                             \
  PNI_ANY_LEVEL void name##_any params;                                                                                \
  PNI_TARGET_AVX512 static void name##_avx512 params { name##_any args; }                                              \
  PNI_TARGET_AVX2 static void name##_avx2 params { name##_any args; }                                                  \
  static void name params {                                                                                            \
    switch (pni_cpu_level()) {                                                                                         \
    case PNI_CPU_AVX512: name##_avx512 args; return;                                                                   \
    case PNI_CPU_AVX2: name##_avx2 args; return;                                                                       \
    default: name##_any args; return;                                                                                  \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_ANY_LEVEL void name##_any params
#define PNI_EACH_LEVEL_OF(result, name, params, args)                                                                  \
  PNI_ANY_LEVEL result name##_any params;                                                                              \
  PNI_TARGET_AVX512 static result name##_avx512 params { return name##_any args; }                                     \
  PNI_TARGET_AVX2 static result name##_avx2 params { return name##_any args; }                                         \
  static result name params {                                                                                          \
    switch (pni_cpu_level()) {                                                                                         \
    case PNI_CPU_AVX512: return name##_avx512 args;                                                                    \
    case PNI_CPU_AVX2: return name##_avx2 args;                                                                        \
    default: return name##_any args;                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_ANY_LEVEL result name##_any params
#else
#define PNI_EACH_LEVEL(name, params, args)            static void name params
#define PNI_EACH_LEVEL_OF(result, name, params, args) static result name params
#endif

/* The loop that follows, of at most 16 turns, becomes straight code on registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define PNI_UNROLL _Pragma("GCC unroll 16")
#else
#define PNI_UNROLL _Pragma("clang loop unroll(full)")
#endif

/* The environment variable that asks for a level: portable, avx2 or avx512. One above the processor's best means the
 * best. */
#define PNI_CPU_VARIABLE "PENUMBRA_CPU"
/* The level in use: the best of this processor and operating system, or a lower one that PENUMBRA_CPU asked for when
 * the library was loaded. */
int pni_cpu_level(void);
/* What PENUMBRA_CPU says if that is no level; else NULL. */
const char *pni_cpu_refused(void);
/* The environment variable that says whose kernels products of matrices take: own or blas (gemm.h). */
#define PNI_PRODUCTS_VARIABLE "PENUMBRA_PRODUCTS"
/* 1 own, 0 blas, -1 if it says neither. */
int pni_products_wanted(void);
/* What it says if that is neither; else NULL. */
const char *pni_products_refused(void);
/* The name of a level. */
const char *pni_cpu_level_name(int level);

#endif
