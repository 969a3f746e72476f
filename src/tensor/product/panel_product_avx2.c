/* panel_product_avx2.c: panel products for AVX2. */
#include <string.h>
#include "../../base/processor.h"
#include "../lane/lane_shuffle.h"
#include "panel_product.h"

#if PNI_CPU_X86
#include <immintrin.h>
#define TARGET        PNI_TARGET_AVX2
#define BYTES         32
#define ROWS          6
#define REAL          double
#define NAME(f)       f##_f64
#define SPREAD(x)     ((panel_vec_f64)_mm256_set1_pd(x))
#define MADD(x, y, z) ((panel_vec_f64)_mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(z)))
#include "panel_product_real.h"
#define REAL          float
#define NAME(f)       f##_f32
#define SPREAD(x)     ((panel_vec_f32)_mm256_set1_ps(x))
#define MADD(x, y, z) ((panel_vec_f32)_mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(z)))
#include "panel_product_real.h"

pni_panel_product_kernel *const pni_panel_product_avx2[2] = {panel_product_f64, panel_product_f32};
pni_panel_pack_kernel *const pni_panel_pack_avx2[2] = {panel_pack_all_f64, panel_pack_all_f32};
#undef TARGET
#undef BYTES
#undef ROWS
#else
typedef int pni_no_panel_product_avx2; /* a translation unit is not empty */
#endif
