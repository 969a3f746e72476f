/* small_product_avx512.c: tiny products for AVX-512. */
#include <string.h>
#include "../../base/processor.h"
#include "small_product.h"

#if PNI_CPU_X86
#define TARGET  PNI_TARGET_AVX512
#define REAL    double
#define NAME(f) f##_f64
#include "small_product_real.h"
#define REAL    float
#define NAME(f) f##_f32
#include "small_product_real.h"

const pni_small_product_level pni_small_product_avx512[2] = {{rows_f64, dots_f64}, {rows_f32, dots_f32}};
#else
typedef int pni_no_tiny_avx512; /* a translation unit is not empty */
#endif
