/* small_f64.c: interleaved small matrices of float64, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
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

/* GCC splits such permutations into single elements where the processor has no vectors of this length. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE
#endif
#endif
#define LOW1  0, 8, 2, 10, 4, 12, 6, 14
#define HIGH1 1, 9, 3, 11, 5, 13, 7, 15
#define LOW2  0, 1, 8, 9, 4, 5, 12, 13
#define HIGH2 2, 3, 10, 11, 6, 7, 14, 15
#define LOW4  0, 1, 2, 3, 8, 9, 10, 11
#define HIGH4 4, 5, 6, 7, 12, 13, 14, 15

#define NAME(name) name##_avx512
#define TARGET     __attribute__((target("avx512f,avx512dq")))
#include "small_real.h"

pni_small_group pni_small_f64(int level, int *lanes) {
  *lanes = PNI_SMALL_BYTES / (int)sizeof(REAL);
  if (level > 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return group_avx512;
  return level > 0 && __builtin_cpu_supports("avx2") ? group_avx2 : group_base;
}
#else
pni_small_group pni_small_f64(int level, int *lanes) {
  (void)level;
  *lanes = PNI_SMALL_BYTES / (int)sizeof(REAL);
  return group_base;
}
#endif
