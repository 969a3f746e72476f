/* processor.c: the processor's level, from the compiler's run-time library (which asks cpuid and xgetbv at load time). */
#include "processor.h"

int pni_cpu_level(void) {
#if PNI_CPU_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
    return PNI_CPU_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return PNI_CPU_AVX2;
#endif
  return PNI_CPU_PORTABLE;
}

const char *pni_cpu_level_name(int level) {
  static const char *const names[] = {"portable", "AVX2", "AVX-512"};
  return names[level];
}
