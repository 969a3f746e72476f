/* rng_fill_avx2.c: draws for AVX2. */
#include "../../base/processor.h"

#if PNI_CPU_X86
#include <immintrin.h>
#define LANES         4
#define lanes         __m256i
#define LOAD(p)       _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define EVERY(x)      _mm256_set1_epi64x((long long)(x))
#define HIGH(x)       _mm256_srli_epi64(x, 32)
#define PRODUCT(x, y) _mm256_mul_epu32(x, y)
#define XOR(x, y)     _mm256_xor_si256(x, y)
#define STORE(p, x)   _mm_storeu_si128((__m128i *)(void *)(p), low_words(x))
#define LEVEL         pni_rng_avx2
#define TARGET        PNI_TARGET_AVX2
#include "rng_fill_real.h"
#else
typedef int pni_no_rng_avx2; /* a translation unit is not empty */
#endif
