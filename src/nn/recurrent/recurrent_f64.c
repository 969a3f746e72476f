/* recurrent_f64.c: recurrences of float64. */
#define REAL           double
#define GEMM           pni_dgemm
#define VECTOR(f, ...) pni_vector_f64(PNI_VECTOR_##f, __VA_ARGS__)
#define FLUSH()        0
#define KEEP(x)        ((void)(x))
#define TABLE          pni_recurrent_f64
#include "recurrent_real.h"
