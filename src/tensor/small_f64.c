/* small_f64.c: interleaved small matrices of float64, for the instruction sets that a processor may have. */
#include <math.h>
#include "small.h"

#define REAL    double
#define INTEGER long long
#define F(name) name

#define NAME(name) name##_base
#define TARGET
#include "small_real.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define NAME(name) name##_avx2
#define TARGET     __attribute__((target("avx2")))
#include "small_real.h"

#define NAME(name) name##_avx512
#define TARGET     __attribute__((target("avx512f,avx512dq")))
#include "small_real.h"

pni_small_group pni_small_f64(int *lanes) {
  *lanes = PNI_SMALL_BYTES / (int)sizeof(REAL);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return group_avx512;
  return __builtin_cpu_supports("avx2") ? group_avx2 : group_base;
}
#else
pni_small_group pni_small_f64(int *lanes) {
  *lanes = PNI_SMALL_BYTES / (int)sizeof(REAL);
  return group_base;
}
#endif
