/* kalman_f32.c: interleaved Kalman steps of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "kalman.h"
#include "small_shuffle.h"

#define REAL    float
#define INTEGER int
#define F(name) name##f

#define NAME(name) name##_base
#define TARGET
#define WIDTH 4
#include "kalman_real.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define NAME(name) name##_avx2
#define TARGET     __attribute__((target("avx2")))
#define WIDTH      8
#include "kalman_real.h"

#define NAME(name) name##_avx512
#define TARGET     __attribute__((target("avx512f,avx512dq")))
#define WIDTH      16
#include "kalman_real.h"

pni_kalman_group pni_kalman_f32(int level, int *lanes) {
  bool avx512 = level > 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  bool avx2 = level > 0 && __builtin_cpu_supports("avx2");
  *lanes = avx512 ? 16 : avx2 ? 8 : 4;
  return avx512 ? group_avx512 : avx2 ? group_avx2 : group_base;
}
#else
pni_kalman_group pni_kalman_f32(int level, int *lanes) {
  (void)level;
  *lanes = 4;
  return group_base;
}
#endif
