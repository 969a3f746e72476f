/* small_product_avx2.c: small products for AVX2. */
#include <string.h>
#include "../../base/processor.h"
#include "small_product.h"

#if PNI_CPU_X86
#include <immintrin.h>
#define TARGET         PNI_TARGET_AVX2
#define WIDEST         32
#define MADD_16_f64    _mm_fmadd_pd
#define MADD_16_f32    _mm_fmadd_ps
#define MADD_32_f64    _mm256_fmadd_pd
#define MADD_32_f32    _mm256_fmadd_ps
#define LOW_32_f64(x)  _mm256_castpd256_pd128(x)
#define HIGH_32_f64(x) _mm256_extractf128_pd(x, 1)
#define LOW_32_f32(x)  _mm256_castps256_ps128(x)
#define HIGH_32_f32(x) _mm256_extractf128_ps(x, 1)
#define REAL           double
#define INTEGER        int64_t
#define NAME(f)        f##_f64
#include "small_product_real.h"
#define REAL    float
#define INTEGER int32_t
#define NAME(f) f##_f32
#include "small_product_real.h"

const pni_small_product_level pni_small_product_avx2[2] = {{rows_f64, dots_f64}, {rows_f32, dots_f32}};
#undef TARGET
#undef WIDEST
#undef MADD_16_f64
#undef MADD_16_f32
#undef MADD_32_f64
#undef MADD_32_f32
#undef LOW_32_f64
#undef HIGH_32_f64
#undef LOW_32_f32
#undef HIGH_32_f32
#else
typedef int pni_no_small_product_avx2; /* a translation unit is not empty */
#endif
