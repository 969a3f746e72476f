/* lapack_f64.c: one-matrix linear algebra of float64. */
#define REAL         double
#define LAPACK(name) LAPACKE_d##name##_work
#define BLAS(name)   cblas_d##name
#define TABLE        pni_lapack_f64
#define NORMAL_MIN   0x1p-1022
#define SQRT         sqrt
#include "lapack_real.h"
