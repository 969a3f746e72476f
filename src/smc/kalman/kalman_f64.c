/* kalman_f64.c: interleaved Kalman steps of float64, for the instruction sets that a processor may have. */
#include "../../tensor/product/gemm.h"
#include <math.h>
#include <string.h>
#include "kalman.h"
#include "../../tensor/lane/lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/constant_f64_real.h"

#define INTEGER long long
#define F(name) name
#define BASE    2
#define AVX2    4
#define AVX512  8
#define BODY    "../../smc/kalman/kalman_real.h"
#define GROUP   pni_kalman_group
#define CHOOSE  pni_kalman_f64
#include "../../tensor/lane/lane_levels_real.h"

/* One filter at a time, products by BLAS: for orders above PNI_KALMAN_LANES. */
#define NAME(name) name##_alone
#define TARGET
#define WIDTH   1
#define GEMM    pni_dgemm
#define FLUSH() 0
#define KEEP(x) ((void)(x))
#include "kalman_real.h"

const pni_kalman_group pni_kalman_alone_f64 = group_alone;
