/* pool_f32.c: pooling of float32. */
#define REAL  float
#define TABLE pni_pool_kernels_f32
#include "pool_real.h"
