/* short_rows_f64.c: short rows of float64, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "short_rows.h"
#include "lane_shuffle.h"
#include "../../math/vector/constant_f64_real.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/vector.h"

#define INTEGER long long
#define F(name) name
#define BASE    2
#define AVX2    4
#define AVX512  8
#define VECTOR  pni_vector_f64
#define BODY    "short_rows_real.h"
#define GROUP   group_function
#define CHOOSE  choose
#include "short_rows_run_real.h"

void pni_short_rows_f64(const pni_short_rows *r, int64_t begin, int64_t end) { run(BEST, r, begin, end); }
void pni_short_rows_f64_at(int level, const pni_short_rows *r, int64_t begin, int64_t end) {
  run(level, r, begin, end);
}
