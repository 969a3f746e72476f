/* lane_matrix_f64.c: interleaved small matrices of float64, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "lane_matrix.h"
#include "lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/constant_f64_real.h"

#define INTEGER long long
#define F(name) name
#define BASE    2
#define AVX2    4
#define AVX512  8
#define BODY    "lane_matrix_real.h"
#define GROUP   pni_lane_group
#define CHOOSE  pni_lane_f64
#include "lane_levels_real.h"
