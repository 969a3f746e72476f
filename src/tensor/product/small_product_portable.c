/* small_product_portable.c: small products for every processor. */
#include <string.h>
#include "../../base/processor.h"
#include "small_product.h"

#define TARGET
#define WIDEST  16
#define REAL    double
#define INTEGER int64_t
#define NAME(f) f##_f64
#include "small_product_real.h"
#define REAL    float
#define INTEGER int32_t
#define NAME(f) f##_f32
#include "small_product_real.h"

const pni_small_product_level pni_small_product_portable[2] = {{rows_f64, dots_f64}, {rows_f32, dots_f32}};
#undef TARGET
#undef WIDEST
