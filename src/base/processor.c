/* processor.c: the processor's level, from the compiler's run-time library (which asks cpuid and xgetbv), and the lower
 * one that the environment may ask for. */
#include "processor.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const variable_values[PNI_CPU_LEVELS] = {"portable", "avx2", "avx512"};

static int best_level(void) {
#if PNI_CPU_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
    return PNI_CPU_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return PNI_CPU_AVX2;
#endif
  return PNI_CPU_PORTABLE;
}

/* The level that a value of PENUMBRA_CPU names, -1 for none. */
static int level_named(const char *value) {
  for (int k = 0; k < PNI_CPU_LEVELS; k++)
    if (strcmp(value, variable_values[k]) == 0) return k;
  return -1;
}

#if PNI_CPU_X86
/* A constant of the process: the loader writes it before any function of the library can be called, nobody after;
 * before the one of gemm.c, which asks for it. */
static int settled;

__attribute__((constructor(1000))) static void settle(void) {
  const char *value = getenv(PNI_CPU_VARIABLE);
  int best = best_level(), wanted = value ? level_named(value) : -1;
  settled = wanted >= 0 && wanted < best ? wanted : best;
}

int pni_cpu_level(void) { return settled; }
#else
int pni_cpu_level(void) { return best_level(); }
#endif

const char *pni_cpu_refused(void) {
  const char *value = getenv(PNI_CPU_VARIABLE);
  return value && level_named(value) < 0 ? value : NULL;
}

const char *pni_cpu_level_name(int level) {
#if defined(__aarch64__)
  static const char *const names[] = {"NEON", "AVX2", "AVX-512"};
#else
  static const char *const names[] = {"portable", "AVX2", "AVX-512"};
#endif
  return names[level];
}

static int products_named(const char *value) {
  return !value ? -1 : strcmp(value, "blas") == 0 ? 0 : strcmp(value, "own") == 0 ? 1 : -1;
}

int pni_products_wanted(void) { return products_named(getenv(PNI_PRODUCTS_VARIABLE)); }

const char *pni_products_refused(void) {
  const char *value = getenv(PNI_PRODUCTS_VARIABLE);
  return value && products_named(value) < 0 ? value : NULL;
}
