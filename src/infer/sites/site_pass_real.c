/* site_pass_real.c: passes, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "../../base/processor.h"
#include "../../base/type_real.h"
#include "../../math/vector/vector.h"
#include "lane_totals.h"
#include "site_pass.h"
#if PNI_CPU_X86
#include <immintrin.h>
#endif

#define VECTOR(f, x, y, n)    TYPED(pni_vector)(PNI_VECTOR_##f, x, 1, y, n)
#define NORMAL(k, p, b, e, o) TYPED(pni_fill_normal)(k, p, b, e, o)
#if PNI_REAL_BITS == 32
#define FUSED(bits, x, y, z) _mm##bits##_fmadd_ps(x, y, z)
#define HALVES_BASE          PNI_HALVES_4
#define HALVES_AVX2          PNI_HALVES_8
#define HALVES_AVX512        PNI_HALVES_16
#else
#define FUSED(bits, x, y, z) _mm##bits##_fmadd_pd(x, y, z)
#define HALVES_BASE          PNI_HALVES_2
#define HALVES_AVX2          PNI_HALVES_4
#define HALVES_AVX512        PNI_HALVES_8
#endif

#define NAME(f) f##_base
#define TARGET
#define WIDTH         BASE
#define HALVES        HALVES_BASE
#define MADD(x, y, z) ((x) * (y) + (z))
#include "site_pass_real.h"

#if PNI_CPU_X86
#define NAME(f)       f##_avx2
#define TARGET        PNI_TARGET_AVX2
#define WIDTH         AVX2
#define HALVES        HALVES_AVX2
#define MADD(x, y, z) FUSED(256, x, y, z)
#include "site_pass_real.h"

#define NAME(f)       f##_avx512
#define TARGET        PNI_TARGET_AVX512
#define WIDTH         AVX512
#define HALVES        HALVES_AVX512
#define MADD(x, y, z) FUSED(512, x, y, z)
#include "site_pass_real.h"

const pni_site_kernels *TYPED(pni_site_kernels)(void) {
  static const pni_site_kernels *const level[] = {&kernels_base, &kernels_avx2, &kernels_avx512};
  return level[pni_cpu_level()];
}
#else
const pni_site_kernels *TYPED(pni_site_kernels)(void) { return &kernels_base; }
#endif
