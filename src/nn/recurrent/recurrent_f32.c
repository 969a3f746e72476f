/* recurrent_f32.c: recurrences of float32. */
#include "../../base/subnormal.h"
#define REAL           float
#define GEMM           pni_sgemm
#define VECTOR(f, ...) pni_vector_f32(PNI_VECTOR_##f, __VA_ARGS__)
#define FLUSH()        pni_flush_subnormals()
#define KEEP(x)        pni_keep_subnormals(x)
#define TABLE          pni_recurrent_f32
#include "recurrent_real.h"
