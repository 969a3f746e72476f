/* lapack_f32.c: one-matrix linear algebra of float32. */
#define REAL         float
#define LAPACK(name) LAPACKE_s##name##_work
#define BLAS(name)   cblas_s##name
#define TABLE        pni_lapack_f32
#include "lapack_real.h"
