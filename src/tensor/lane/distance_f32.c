/* distance_f32.c: distances of short vectors of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "distance.h"
#include "lane_shuffle.h"
#include "../../math/vector/constant_f32_real.h"
#include "../../math/vector/polynomial.h"

#define INTEGER int
#define F(name) name##f
#define BASE    4
#define AVX2    8
#define AVX512  16
#define BODY    "distance_real.h"
#define GROUP   group_function
#define CHOOSE  choose
typedef void (*group_function)(const pni_distance *d, int64_t begin, int64_t end);
static group_function choose(int level, int *lanes);
#include "lane_levels_real.h"

void pni_distance_f32(int level, const pni_distance *d, int64_t begin, int64_t end) {
  int lanes;
  choose(level, &lanes)(d, begin, end);
}
