/* panel_product_avx512.c: panel products for AVX-512. */
#include <string.h>
#include "../../base/processor.h"
#include "../lane/lane_shuffle.h"
#include "panel_product.h"

#if PNI_CPU_X86
#include <immintrin.h>
#define TARGET                 PNI_TARGET_AVX512
#define BYTES                  64
#define ROWS                   14
#define REAL                   double
#define NAME(f)                f##_f64
#define SPREAD(x)              ((panel_vec_f64)_mm512_set1_pd(x))
#define MADD(x, y, z)          ((panel_vec_f64)_mm512_fmadd_pd((__m512d)(x), (__m512d)(y), (__m512d)(z)))
#define LOAD_SOME(p, mask)     _mm512_maskz_loadu_pd((__mmask8)(mask), p)
#define STORE_SOME(p, mask, x) _mm512_mask_storeu_pd(p, (__mmask8)(mask), (__m512d)(x))
#include "panel_product_real.h"
#define REAL                   float
#define NAME(f)                f##_f32
#define SPREAD(x)              ((panel_vec_f32)_mm512_set1_ps(x))
#define MADD(x, y, z)          ((panel_vec_f32)_mm512_fmadd_ps((__m512)(x), (__m512)(y), (__m512)(z)))
#define LOAD_SOME(p, mask)     _mm512_maskz_loadu_ps((__mmask16)(mask), p)
#define STORE_SOME(p, mask, x) _mm512_mask_storeu_ps(p, (__mmask16)(mask), (__m512)(x))
#include "panel_product_real.h"

pni_panel_product_kernel *const pni_panel_product_avx512[2] = {panel_product_f64, panel_product_f32};
pni_panel_pack_kernel *const pni_panel_pack_avx512[2] = {panel_pack_all_f64, panel_pack_all_f32};
#undef TARGET
#undef BYTES
#undef ROWS
#else
typedef int pni_no_panel_product_avx512; /* a translation unit is not empty */
#endif
