/* kalman_real.c: interleaved Kalman steps, for the instruction sets that a processor may have. */
#include "../../tensor/product/gemm.h"
#include <math.h>
#include <string.h>
#include "../../base/subnormal.h"
#include "../../base/type_real.h"
#include "../../tensor/lane/lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#include "kalman.h"
#if PNI_REAL_BITS == 32
#include "../../math/vector/constant_f32_real.h"
#else
#include "../../math/vector/constant_f64_real.h"
#endif

#define BODY   "../../smc/kalman/kalman_real.h"
#define GROUP  pni_kalman_group
#define CHOOSE TYPED(pni_kalman)
#include "../../tensor/lane/lane_levels_real.h"

/* One filter at a time, products by BLAS: for orders above PNI_KALMAN_LANES. */
#define NAME(name) name##_alone
#define TARGET
#define WIDTH 1
#include "kalman_real.h"

const pni_kalman_group TYPED(pni_kalman_alone) = group_alone;
