/* level_avx512.c: vector functions for AVX-512. */
#include "../../base/processor.h"

#if PNI_CPU_X86
#include <immintrin.h>
#define SINGLES           __m512 /* of float32 */
#define W(f)              _mm512_##f
#define LOOK_UP(table, k) _mm512_permutexvar_ps(_mm512_castps_si512(k), _mm512_broadcast_f32x8(_mm256_loadu_ps(table)))
#define WHERE_0(k, x, y)  _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(k, _mm512_setzero_ps(), _CMP_EQ_OQ), x)
#define LEVEL             pni_vector_avx512
#define TARGET            PNI_TARGET_AVX512
#define FUSED             1
#include "level_real.h"
#undef SINGLES
#undef W
#undef LOOK_UP
#undef WHERE_0
#else
typedef int pni_no_avx512; /* a translation unit is not empty */
#endif
