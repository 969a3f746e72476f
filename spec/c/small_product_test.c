/*
** small_product_test.c: tiny products at every level this processor has against sums in long double, for all small
** shapes and every layout of the operands; nothing beside the result is written.
*/
#include <stdlib.h>
#include "../../src/base/processor.h"
#include "../../src/tensor/product/small_product.h"
#include "check.h"
#include "soak.h"

enum { MOST = 70 * 70 };

static const pni_small_product_level *at(int level, int dtype) {
#if PNI_CPU_X86
  if (level == PNI_CPU_AVX512) return &pni_small_product_avx512[dtype];
  if (level == PNI_CPU_AVX2) return &pni_small_product_avx2[dtype];
#endif
  (void)level;
  return &pni_small_product_portable[dtype];
}

static double number(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (double)(*state >> 8) * 0x1p-23 - 1;
}

#define CASES(T, dtype, rel)                                                                                           \
  static void compare_##T(const pni_small_product *p, const T *out) {                                                  \
    const T *x = p->x, *y = p->y;                                                                                      \
    double worst = 0;                                                                                                  \
    for (int64_t i = 0; i < p->m; i++)                                                                                 \
      for (int64_t j = 0; j < p->n; j++) {                                                                             \
        long double s = 0, size = 0;                                                                                   \
        for (int64_t e = 0; e < p->k; e++) {                                                                           \
          long double t = (long double)x[i * p->x_row + e * p->x_col] * (long double)y[e * p->y_row + j * p->y_col];   \
          s += t;                                                                                                      \
          size += fabsl(t);                                                                                            \
        }                                                                                                              \
        worst = fmax(worst, (double)(fabsl((long double)out[i * p->n + j] - s) / size));                               \
      }                                                                                                                \
    if (!check_record(worst <= (rel) * (double)(p->k + 1)))                                                            \
      printf("%s %dx%dx%d: error %g\n", #T, (int)p->m, (int)p->k, (int)p->n, worst);                                   \
    CHECK(out[p->m * p->n] == 12345);                                                                                  \
  }                                                                                                                    \
  static void shape_##T(int64_t m, int64_t k, int64_t n) {                                                             \
    static T x[MOST], y[MOST], out[MOST + 1];                                                                          \
    unsigned state = 5;                                                                                                \
    for (int i = 0; i < MOST; i++) x[i] = (T)number(&state), y[i] = (T)number(&state);                                 \
    for (int layout = 0; layout < 4; layout++) {                                                                       \
      pni_small_product p = {m, n, k,  layout & 1 ? 1 : k, layout & 1 ? m : 1, layout & 2 ? 1 : n, layout & 2 ? k : 1, \
                             x, y, out};                                                                               \
      out[m * n] = 12345;                                                                                              \
      if (pni_small_product_matmul(dtype, &p)) compare_##T(&p, out);                                                   \
      for (int level = 0; level <= pni_cpu_level(); level++) {                                                         \
        if (p.y_col == 1) at(level, dtype)->rows(&p), compare_##T(&p, out);                                            \
        if (p.x_col == 1 && p.y_row == 1) at(level, dtype)->dots(&p), compare_##T(&p, out);                            \
      }                                                                                                                \
    }                                                                                                                  \
  }
CASES(double, 0, 0x1p-52)
CASES(float, 1, 0x1p-23)

int main(void) {
  const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50, 64, 70};
  enum { N = sizeof sizes / sizeof *sizes };
  long cases = 0;
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++)
      for (int c = 0; c < N; c++) {
        if (!soak_takes(cases++)) continue;
        shape_double(sizes[a], sizes[b], sizes[c]);
        shape_float(sizes[a], sizes[b], sizes[c]);
      }
  CHECK_DONE();
}
