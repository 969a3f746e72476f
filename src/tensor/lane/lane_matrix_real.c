/* lane_matrix_real.c: interleaved small matrices, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "../../base/type_real.h"
#include "lane_matrix.h"
#include "lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#if PNI_REAL_BITS == 32
#include "../../math/vector/constant_f32_real.h"
#else
#include "../../math/vector/constant_f64_real.h"
#endif

#define BODY   "lane_matrix_real.h"
#define GROUP  pni_lane_group
#define CHOOSE TYPED(pni_lane)
#include "lane_levels_real.h"
