/* short_rows_f32.c: short rows of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "short_rows.h"
#include "lane_shuffle.h"
#include "../../math/vector/constant_f32_real.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/vector.h"

#define INTEGER int
#define F(name) name##f
#define BASE    4
#define AVX2    8
#define AVX512  16
#define VECTOR  pni_vector_f32
#define BODY    "short_rows_real.h"
#define GROUP   group_function
#define CHOOSE  choose
#include "short_rows_run_real.h"

void pni_short_rows_f32(const pni_short_rows *r, int64_t begin, int64_t end) { run(BEST, r, begin, end); }
void pni_short_rows_f32_at(int level, const pni_short_rows *r, int64_t begin, int64_t end) {
  run(level, r, begin, end);
}
