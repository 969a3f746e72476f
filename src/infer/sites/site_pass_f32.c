/* site_pass_f32.c: passes of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "../../base/processor.h"
#include "../../math/vector/vector.h"
#include "site_pass.h"
#if PNI_CPU_X86
#include <immintrin.h>
#endif

#define REAL                  float
#define VECTOR(f, x, y, n)    pni_vector_f32(PNI_VECTOR_##f, x, 1, y, n)
#define NORMAL(k, p, b, e, o) pni_fill_normal_f32(k, p, b, e, o)

#define NAME(f) f##_base
#define TARGET
#define WIDTH         4
#define MADD(x, y, z) ((x) * (y) + (z))
#include "site_pass_real.h"

#if PNI_CPU_X86
#define NAME(f)       f##_avx2
#define TARGET        PNI_TARGET_AVX2
#define WIDTH         8
#define MADD(x, y, z) _mm256_fmadd_ps(x, y, z)
#include "site_pass_real.h"

#define NAME(f)       f##_avx512
#define TARGET        PNI_TARGET_AVX512
#define WIDTH         16
#define MADD(x, y, z) _mm512_fmadd_ps(x, y, z)
#include "site_pass_real.h"

const pni_site_kernels *pni_site_kernels_f32(void) {
  static const pni_site_kernels *const level[] = {&kernels_base, &kernels_avx2, &kernels_avx512};
  return level[pni_cpu_level()];
}
#else
const pni_site_kernels *pni_site_kernels_f32(void) { return &kernels_base; }
#endif
#undef REAL
#undef VECTOR
#undef NORMAL
