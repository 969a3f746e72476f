/* lane_matrix_f32.c: interleaved small matrices of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "lane_matrix.h"
#include "lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/constant_f32_real.h"

#define INTEGER int
#define F(name) name##f
#define BASE    4
#define AVX2    8
#define AVX512  16
#define BODY    "lane_matrix_real.h"
#define GROUP   pni_lane_group
#define CHOOSE  pni_lane_f32
#include "lane_levels_real.h"
