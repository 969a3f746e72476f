/*
** product_test.c: products large enough to be cut into shards, in all layouts of the operands, with and without a bias,
** against plain sums, and batches of small ones; the same bits for any number of threads.
*/
#include <math.h>
#include <string.h>
#include "../../src/base/processor.h"
#include "../../src/tensor/product/blas.h"
#include "check.h"
#include "soak.h"
#include "untouched.h"

/* [rows, cols] of numbers that depend on the seed; laid out transposed if asked for. Scoped. */
static pn_tensor *matrix(pn_context *c, pn_dtype dtype, int64_t rows, int64_t cols, bool turned) {
  int64_t shape[2] = {turned ? cols : rows, turned ? rows : cols};
  pn_tensor *t = pn_randn(c, NULL, dtype, 2, shape);
  return turned ? pn_transpose(c, t, 0, 1) : t;
}

static double sum_at(const pn_tensor *x, const pn_tensor *y, const pn_tensor *b, int64_t i, int64_t j) {
  int64_t k = x->shape[1], n = y->shape[1];
  double s = b ? pni_element(b, j) : 0;
  for (int64_t e = 0; e < k; e++) s += pni_element(x, i * k + e) * pni_element(y, e * n + j);
  return s;
}

/* Corners, edges of shards and a walk between them. */
static void compare(const pn_tensor *x, const pn_tensor *y, const pn_tensor *b, const pn_tensor *out) {
  int64_t m = out->shape[0], n = out->shape[1];
  double tolerance = out->dtype == PN_FLOAT64 ? 1e-11 : 2e-3;
  for (int64_t at = 0; at < m * n; at += at % 31 == 0 ? 97 : m * n / 53 + 1) {
    double want = sum_at(x, y, b, at / n, at % n);
    CHECK(fabs(pni_element(out, at) - want) <= tolerance);
  }
  CHECK(fabs(pni_element(out, m * n - 1) - sum_at(x, y, b, m - 1, n - 1)) <= tolerance);
}

static void check_product(pn_context *c, pn_dtype dtype, int64_t m, int64_t n, int64_t k, int layout) {
  size_t mark = pn_scope_open(c);
  pn_tensor *x = matrix(c, dtype, m, k, layout & 1), *y = matrix(c, dtype, k, n, layout & 2);
  pn_tensor *b = layout & 4 ? pn_randn(c, NULL, dtype, 1, (int64_t[]){2 * n}) : NULL;
  if (b) b = pn_slice(c, b, 0, 0, n, 1 + (layout & 1)); /* every element or every second */
  pn_tensor *first = NULL;
  for (int threads = 1; threads <= 3; threads++) {
    pn_context_threads(c, threads);
    pn_tensor *out = b ? pn_linear(c, x, y, b) : pn_matmul(c, x, y);
    CHECK(out != NULL);
    if (!out) break;
    if (!first) compare(x, y, b, first = out);
    CHECK(memcmp(pni_data(first), pni_data(out), (size_t)out->numel * pni_itemsize(out)) == 0);
  }
  pn_scope_close(c, mark);
}

/* [lead..., rows, cols], laid out transposed if asked for. Scoped. */
static pn_tensor *batch(pn_context *c, pn_dtype dtype, int nlead, const int64_t *lead, int64_t rows, int64_t cols,
                        bool turned) {
  int64_t shape[4];
  memcpy(shape, lead, (size_t)nlead * sizeof *lead);
  shape[nlead] = turned ? cols : rows;
  shape[nlead + 1] = turned ? rows : cols;
  pn_tensor *t = pn_randn(c, NULL, dtype, nlead + 2, shape);
  return turned ? pn_transpose(c, t, -2, -1) : t;
}

/* Batches of small products, x [4, 3, m, k] and y [3, k, n]: each the plain sums, for any number of threads. */
static void check_batch(pn_context *c, pn_dtype dtype, int64_t m, int64_t n, int64_t k, int layout) {
  size_t mark = pn_scope_open(c);
  const int64_t lead[2] = {4, 3};
  pn_tensor *x = batch(c, dtype, 2, lead, m, k, layout & 1), *y = batch(c, dtype, 1, lead + 1, k, n, layout & 2);
  pn_tensor *first = NULL;
  for (int threads = 1; threads <= 2; threads++) {
    pn_context_threads(c, threads);
    pn_tensor *out = pn_matmul(c, x, y);
    CHECK(out != NULL);
    if (!out) break;
    for (int64_t i = 0; !first && i < 12; i++)
      compare(pn_select(c, pn_select(c, x, 0, i / 3), 0, i % 3), pn_select(c, y, 0, i % 3), NULL,
              pn_select(c, pn_select(c, out, 0, i / 3), 0, i % 3));
    if (!first) first = out;
    CHECK(memcmp(pni_data(first), pni_data(out), (size_t)out->numel * pni_itemsize(out)) == 0);
  }
  pn_scope_close(c, mark);
}

/* How products are cut: parts of the longer side, of about 8e6 multiplications and at least 96 rows or columns, two
 * where there is less of either, at most 8 but where a part would take a tenth of a second. */
static void cuts(pn_context *c) {
  static const int64_t sides[] = {1, 4, 50, 95, 96, 97, 191, 192, 200, 500, 768, 3000, 20000},
                       sums[] = {33, 75, 400, 2000, 100000};
  const double part = 8e6, longest = 1.5e9;
  for (int i = 0; i < 13 * 13 * 5; i++) {
    size_t mark = pn_scope_open(c);
    int64_t m = sides[i % 13], n = sides[i / 13 % 13], k = sums[i / 169], whole = n > m ? n : m;
    pn_tensor *x = untouched(c, PN_FLOAT64, m, k), *y = untouched(c, PN_FLOAT64, k, n),
              *out = untouched(c, PN_FLOAT64, m, n);
    pni_product p;
    CHECK(pni_product_prepare(x, y, NULL, out, &p));
    double work = (double)m * (double)n * (double)k, blocks = (double)p.blocks, unit = work / blocks;
    if (!p.kernel) {
      CHECK(p.columns == (n > m) && p.units == p.blocks);
      CHECK(p.blocks * p.part >= whole && (p.blocks - 1) * p.part < whole);
      CHECK(p.blocks == 1 ? p.part == whole : p.part % (n > m ? 8 : 4) == 0);
      CHECK(p.blocks <= 8 || work > 8 * longest);
      CHECK(p.blocks == 1 || work > 8 * longest || (work >= 750000 && whole >= 96));
      CHECK(p.blocks >= 2 || work < 750000 || whole < 96);
      CHECK(p.blocks <= 2 || p.part >= 96 || work > 8 * longest);
      CHECK(unit <= 1.25 * longest || p.part <= 8 || work <= 8 * longest); /* (sums are cut as well) */
      if (whole >= 768 && p.blocks > 1)
        CHECK(p.blocks == 2 ? work < 2.51 * part : p.blocks < 8 ? unit > 0.8 * part && unit < 1.25 * part : true);
      if (whole >= 768 && p.blocks == 8) CHECK(work > 7.4 * part);
      CHECK(p.blocks > 1 || unit > 1e6 ? p.grain == 1
                                       : (double)p.grain * (unit + 1) > 1e6 && (double)(p.grain - 1) * unit <= 1e6);
      CHECK(p.together == 1 || (double)p.together * unit <= longest / 2);
      CHECK((double)(p.together + 1) * (unit + 1) > longest / 2);
    }
    pn_scope_close(c, mark);
  }
  /* sides that CBLAS counts in 32 bits */
  for (int k = 0; k < 6; k++) {
    int64_t most = INT32_MAX + (int64_t)(k % 2), size[3] = {1000, 1000, 1000};
    size[k / 2] = most;
    pni_product p;
    CHECK(pni_product_prepare(untouched(c, PN_FLOAT64, size[0], size[1]), untouched(c, PN_FLOAT64, size[1], size[2]),
                              NULL, untouched(c, PN_FLOAT64, size[0], size[2]), &p) == (k % 2 == 0));
  }
}

/* Which products the kernels for few multiplications take: up to a number of these, by the processor's level and the
 * operands' layout. */
static void few(void) {
  static const int64_t by_rows[] = {2048, 4096, 128}, by_dots[] = {128, 128, 64};
  int level = pni_cpu_level();
  pni_small_product turned;
#define TAKEN(m, n, k, xr, xc, yr, yc)                                                                                 \
  (pni_small_product_choose(0, &(pni_small_product){m, n, k, xr, xc, yr, yc, NULL, NULL, NULL}, &turned) != NULL)
  for (int64_t more = 0; more < 2; more++) {
    int64_t rows = by_rows[level] / 8 / 4 + more, dots = by_dots[level] / 4 / 4 + more;
    CHECK(TAKEN(rows, 8, 4, 4, 1, 8, 1) == !more); /* rows of y in memory, longer than the sums */
    CHECK(TAKEN(4, dots, 4, 4, 1, 1, 4) == !more); /* columns of y in memory: scalar products */
    CHECK(TAKEN(1 << 17, 1, 1, 1, 1, 1, 1) && TAKEN(1, 1, 1 << 17, 1, 1, 1, 1) && TAKEN(1, 1 << 17, 1, 1, 1, 1, 1));
    CHECK(!TAKEN((1 << 17) + 1, 1, 1, 1, 1, 1, 1) && !TAKEN(1, 1, (1 << 17) + 1, 1, 1, 1, 1));
    CHECK(!TAKEN(1, (1 << 17) + 1, 1, 1, 1, 1, 1) && TAKEN(1, 1 << 10, 1 << 7, 1 << 7, 1, 1 << 10, 1));
    CHECK(!TAKEN(1, (1 << 10) + 1, 1 << 7, 1 << 7, 1, 1 << 10, 1));
    CHECK(!TAKEN(3, 3, 3, 3, 1, 5, 2)); /* y in neither */
  }
#undef TAKEN
}

int main(void) {
  static const int64_t small[][3] = {{16, 16, 16}, {10, 16, 16}, {5, 32, 9}, {2, 8, 32},  {32, 17, 1},
                                     {7, 3, 5},    {16, 1, 16},  {10, 1, 6}, {21, 1, 31}, {3, 1, 7}};
  static const int64_t size[][3] = {{300, 700, 500}, {900, 130, 400}, {1, 40, 30}, {64, 64, 784}, {5, 3, 1},
                                    {2000, 65, 257}, {33, 3000, 700}, {3, 4, 0},   {150, 21, 9}};
  pn_context *c = pn_context_new(NULL);
  long cases = 0;
  for (size_t i = 0; i < sizeof size / sizeof *size; i++)
    for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++)
      for (int layout = 0; layout < 8; layout++)
        if (soak_takes(cases++)) check_product(c, (pn_dtype)dtype, size[i][0], size[i][1], size[i][2], layout);
  for (size_t i = 0; i < sizeof small / sizeof *small; i++)
    for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++)
      for (int layout = 0; layout < 4; layout++)
        if (soak_takes(cases++)) check_batch(c, (pn_dtype)dtype, small[i][0], small[i][1], small[i][2], layout);
  cuts(c);
  few();
  CHECK(pn_context_status(c) == PN_OK);
  pn_context_close(c);
  CHECK_DONE();
}
