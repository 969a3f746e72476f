/* level_avx2.c: vector functions for AVX2. */
#include "../../base/processor.h"

#if PNI_CPU_X86
#include <immintrin.h>
#define SINGLES           __m256 /* of float32 */
#define W(f)              _mm256_##f
#define LOOK_UP(table, k) _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), _mm256_castps_si256(k))
#define WHERE_0(k, x, y)  _mm256_blendv_ps(y, x, _mm256_cmp_ps(k, _mm256_setzero_ps(), _CMP_EQ_OQ))
#define LEVEL             pni_vector_avx2
#define TARGET            PNI_TARGET_AVX2
#define FUSED             1
#include "level_real.h"
#undef SINGLES
#undef W
#undef LOOK_UP
#undef WHERE_0
#else
typedef int pni_no_avx2; /* a translation unit is not empty */
#endif
