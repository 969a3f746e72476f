/* conv_f32.c: convolution and pooling of float32. */
#define REAL float
#include "../product/sgemm.h"
#define BLAS(name) pni_s##name
#define TABLE      pni_conv_kernels_f32
#include "conv_real.h"
