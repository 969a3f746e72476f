/* small_f32.c: interleaved small matrices of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "small.h"

#define REAL    float
#define INTEGER int
#define F(name) name##f

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
#define LOW1  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW4  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW8  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

#define NAME(name) name##_avx512
#define TARGET     __attribute__((target("avx512f,avx512dq")))
#include "small_real.h"

pni_small_group pni_small_f32(int level, int *lanes) {
  *lanes = PNI_SMALL_BYTES / (int)sizeof(REAL);
  if (level > 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return group_avx512;
  return level > 0 && __builtin_cpu_supports("avx2") ? group_avx2 : group_base;
}
#else
pni_small_group pni_small_f32(int level, int *lanes) {
  (void)level;
  *lanes = PNI_SMALL_BYTES / (int)sizeof(REAL);
  return group_base;
}
#endif
