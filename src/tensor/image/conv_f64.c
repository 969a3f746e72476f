/* conv_f64.c: convolution of float64. */
#define REAL    double
#define GEMM    pni_dgemm
#define FLUSH() 0
#define KEEP(x) ((void)(x))
#define TABLE   pni_conv_kernels_f64
#include "conv_real.h"
