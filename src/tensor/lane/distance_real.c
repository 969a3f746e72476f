/* distance_real.c: distances of short vectors, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "../../base/type_real.h"
#include "distance.h"
#include "lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#if PNI_REAL_BITS == 32
#include "../../math/vector/constant_f32_real.h"
#else
#include "../../math/vector/constant_f64_real.h"
#endif

#define BODY   "distance_real.h"
#define GROUP  group_function
#define CHOOSE choose
typedef void (*group_function)(const pni_distance *d, int64_t begin, int64_t end);
static group_function choose(int level, int *lanes);
#include "lane_levels_real.h"

void TYPED(pni_distance)(int level, const pni_distance *d, int64_t begin, int64_t end) {
  int lanes;
  choose(level, &lanes)(d, begin, end);
}
