/* rng_fill_avx512.c: draws for AVX-512. */
#include "../../base/processor.h"

#if PNI_CPU_X86
#include <immintrin.h>
#define LANES         8
#define lanes         __m512i
#define LOAD(p)       _mm512_loadu_si512(p)
#define EVERY(x)      _mm512_set1_epi64((long long)(x))
#define HIGH(x)       _mm512_srli_epi64(x, 32)
#define PRODUCT(x, y) _mm512_mul_epu32(x, y)
#define XOR(x, y)     _mm512_xor_si512(x, y)
#define STORE(p, x)   _mm256_storeu_si256((__m256i *)(void *)(p), _mm512_cvtepi64_epi32(x))
#define LEVEL         pni_rng_avx512
#define TARGET        PNI_TARGET_AVX512
#include "rng_fill_real.h"
#else
typedef int pni_no_rng_avx512; /* a translation unit is not empty */
#endif
