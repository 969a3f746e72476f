/*
** short_rows_run_real.h: from rows to groups, for one element type; included once by short_rows_f64.c and
** short_rows_f32.c, which define what lane_levels_real.h wants.
*/

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
