/* recurrent_f32.c: recurrences of float32. */
#define REAL float
#include "../../tensor/product/sgemm.h"
#define GEMM           pni_sgemm
#define VECTOR(f, ...) pni_vector_f32(PNI_VECTOR_##f, __VA_ARGS__)
#define TABLE          pni_recurrent_f32
#include "recurrent_real.h"
