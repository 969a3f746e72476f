/* lapack_f32.c: one-matrix linear algebra of float32. */
#define REAL         float
#define LAPACK(name) LAPACKE_s##name##_work
#define BLAS(name)   cblas_s##name
#define TABLE        pni_lapack_f32
#define NORMAL_MIN   0x1p-126
#define SQRT         sqrtf
#include "lapack_real.h"
