/* kalman_f32.c: interleaved Kalman steps of float32, for the instruction sets that a processor may have. */
#include "../../tensor/product/gemm.h"
#include <math.h>
#include <string.h>
#include "../../base/subnormal.h"
#include "kalman.h"
#include "../../tensor/lane/lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/constant_f32_real.h"

#define INTEGER int
#define F(name) name##f
#define BASE    4
#define AVX2    8
#define AVX512  16
#define BODY    "../../smc/kalman/kalman_real.h"
#define GROUP   pni_kalman_group
#define CHOOSE  pni_kalman_f32
#include "../../tensor/lane/lane_levels_real.h"

/* One filter at a time, products by BLAS: for orders above PNI_KALMAN_LANES. */
#define NAME(name) name##_alone
#define TARGET
#define WIDTH   1
#define GEMM    pni_sgemm
#define FLUSH() pni_flush_subnormals()
#define KEEP(x) pni_keep_subnormals(x)
#include "kalman_real.h"

const pni_kalman_group pni_kalman_alone_f32 = group_alone;
