/* conv_f32.c: convolution of float32. */
#include "../../base/subnormal.h"
#define REAL    float
#define GEMM    pni_sgemm
#define FLUSH() pni_flush_subnormals()
#define KEEP(x) pni_keep_subnormals(x)
#define TABLE   pni_conv_kernels_f32
#include "conv_real.h"
