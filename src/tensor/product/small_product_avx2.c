/* small_product_avx2.c: tiny products for AVX2. */
#include <string.h>
#include "../../base/processor.h"
#include "small_product.h"

#if PNI_CPU_X86
#define TARGET  PNI_TARGET_AVX2
#define REAL    double
#define NAME(f) f##_f64
#include "small_product_real.h"
#define REAL    float
#define NAME(f) f##_f32
#include "small_product_real.h"

const pni_small_product_level pni_small_product_avx2[2] = {{rows_f64, dots_f64}, {rows_f32, dots_f32}};
#else
typedef int pni_no_tiny_avx2; /* a translation unit is not empty */
#endif
