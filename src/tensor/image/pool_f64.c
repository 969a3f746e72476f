/* pool_f64.c: pooling of float64. */
#define REAL  double
#define TABLE pni_pool_kernels_f64
#include "pool_real.h"
