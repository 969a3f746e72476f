/* short_rows_real.c: short rows, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "../../base/type_real.h"
#include "short_rows.h"
#include "lane_shuffle.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/vector.h"
#if PNI_REAL_BITS == 32
#include "../../math/vector/constant_f32_real.h"
#else
#include "../../math/vector/constant_f64_real.h"
#endif

#define BODY   "short_rows_real.h"
#define VECTOR TYPED(pni_vector)
#define GROUP  group_function
#define CHOOSE choose

/* Elements and rows of a block on the stack, at most; the best level of lane_matrix.h. */
enum { ROWS_PLACES = 16 * PNI_SHORT_ROWS_LONGEST, ROWS_BLOCK = 128, BEST = PNI_LANE_BEST };

typedef void (*group_function)(const pni_short_rows *r, int64_t begin, int64_t end);
static group_function choose(int level, int *lanes);
#include "lane_levels_real.h"

/* Whole groups, then what is left by shorter vectors unless it fills more than half of one. */
static void run(int level, const pni_short_rows *r, int64_t begin, int64_t end) {
  while (begin < end) {
    int lanes;
    group_function group = choose(level, &lanes);
    int64_t left = (end - begin) % lanes, to = 2 * left > lanes || level == 0 ? end : end - left;
    if (begin < to) group(r, begin, to);
    begin = to;
    level--;
  }
}

void TYPED(pni_short_rows)(const pni_short_rows *r, int64_t begin, int64_t end) { run(BEST, r, begin, end); }
void TYPED(pni_short_rows_at)(int level, const pni_short_rows *r, int64_t begin, int64_t end) {
  run(level, r, begin, end);
}
