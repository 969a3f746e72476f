/*
** gemm.c: products of the sizes that models have, by the library's own kernels and by OpenBLAS, in turns in one run:
** GF/s of both, how many times as long OpenBLAS takes, whom the table of src/tensor/product/gemm.c chooses, and whether
** that is wrong. With OPENBLAS_CORETYPE=Prescott: what a host gains where OpenBLAS does not know the processor.
*/
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "../../src/base/processor.h"
#include "../../src/penumbra.h"
#include "../../src/tensor/product/gemm.h"
#include "../../src/tensor/product/panel_product.h"

enum { ROUNDS = 8 };

/* Processor time in seconds: other programs may be running. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if PNI_CPU_X86
static const struct {
  const char *what, *layout;
  int m, n, k;
} rows[] = {
    {"784-400-20 in", "NN", 100, 400, 784},
    {"gradient of x", "NT", 100, 784, 400},
    {"of its weights", "TN", 784, 400, 100},
    {"784-200 in", "NN", 100, 200, 784},
    {"gradient of x", "NT", 100, 784, 200},
    {"of its weights", "TN", 784, 200, 100},
    {"200-784 out", "NN", 100, 784, 200},
    {"gradient of x", "NT", 100, 200, 784},
    {"of its weights", "TN", 200, 784, 100},
    {"200-200", "NN", 100, 200, 200},
    {"gradient of x", "NT", 100, 200, 200},
    {"of its weights", "TN", 200, 200, 100},
    {"400-20", "NN", 100, 20, 400},
    {"gradient of x", "NT", 100, 400, 20},
    {"of its weights", "TN", 400, 20, 100},
    {"64-64", "NN", 32, 64, 64},
    {"gradient of x", "NT", 32, 64, 64},
    {"of its weights", "TN", 64, 64, 32},
    {"784-64", "NN", 64, 64, 784},
    {"gradient of x", "NT", 64, 784, 64},
    {"of its weights", "TN", 784, 64, 64},
    {"LSTM, 128 x 256", "NN", 128, 1024, 256},
    {"LeNet5, 20 of 5x5", "NN", 20, 14400, 25},
    {"LeNet5, 50 of 20x5x5", "NN", 50, 1600, 500},
    {"600-600", "NN", 600, 600, 600},
    {"of weights, 1500-500", "TN", 1500, 500, 100},
    {"500-500, whole pages", "TN", 512, 512, 256},
    {"large", "NN", 1024, 1024, 1024},
    {"large, transposed", "TN", 1024, 1024, 1024},
};

/* A line for people, and the row that `make bench` judges: an entry is wrong where the others are faster by
 * more than two runs differ. */
static void tell(const char *type, size_t r, double ours, double blas, bool is_own) {
  char shape[64];
  snprintf(shape, sizeof shape, "%s %4d x %5d x %4d", rows[r].layout, rows[r].m, rows[r].n, rows[r].k);
  printf("%-7s %-22s %s  %6.1f GF/s  OpenBLAS %6.1f  %5.2f  %s\n", type, rows[r].what, shape, ours, blas, ours / blas,
         is_own ? "ours" : "OpenBLAS");
  printf("%s, %s, %s: %s beside the others\t%.2f\ttimes\t>= 0.92\n", type, rows[r].what, shape,
         is_own ? "ours" : "OpenBLAS", is_own ? ours / blas : blas / ours);
}

#define MEASURE(REAL, own, gemm)                                                                                       \
  static void measure_##REAL(pni_panel_product_kernel *const *kernels) {                                               \
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {                                                          \
      int m = rows[r].m, n = rows[r].n, k = rows[r].k, tx = rows[r].layout[0] == 'T', ty = rows[r].layout[1] == 'T';   \
      REAL *x = calloc((size_t)m * (size_t)k, sizeof *x), *y = calloc((size_t)k * (size_t)n, sizeof *y);               \
      REAL *out = calloc((size_t)m * (size_t)n, sizeof *out);                                                          \
      for (int i = 0; i < m * k; i++) x[i] = (REAL)(i % 7 - 3);                                                        \
      for (int i = 0; i < k * n; i++) y[i] = (REAL)(i % 5 - 2);                                                        \
      double work = 2.0 * m * n * k, best[2] = {1e30, 1e30};                                                           \
      int times = (int)(1e8 / work) + 1;                                                                               \
      pni_panel_product p = {.m = m, .n = n, .k = k, .x_row = tx ? 1 : k, .x_col = tx ? m : 1, .out_row = n};          \
      p.y_row = ty ? 1 : n;                                                                                            \
      p.y_col = ty ? k : 1;                                                                                            \
      p.x = x;                                                                                                         \
      p.y = y;                                                                                                         \
      p.out = out;                                                                                                     \
      for (int round = 0; round < 2 * ROUNDS; round++) {                                                               \
        double start = now();                                                                                          \
        for (int i = 0; i < times; i++)                                                                                \
          if (round % 2)                                                                                               \
            gemm(CblasRowMajor, tx ? CblasTrans : CblasNoTrans, ty ? CblasTrans : CblasNoTrans, m, n, k, 1, x,         \
                 tx ? m : k, y, ty ? k : n, 0, out, n);                                                                \
          else                                                                                                         \
            kernels[own](&p);                                                                                          \
        double spent = (now() - start) / times;                                                                        \
        if (spent < best[round % 2]) best[round % 2] = spent;                                                          \
      }                                                                                                                \
      tell(#REAL, r, 1e-9 * work / best[0], 1e-9 * work / best[1], pni_gemm_prefers_own(own, tx, ty, m, n, k));        \
      free(x);                                                                                                         \
      free(y);                                                                                                         \
      free(out);                                                                                                       \
    }                                                                                                                  \
  }
MEASURE(float, 1, cblas_sgemm)
MEASURE(double, 0, cblas_dgemm)

int main(void) {
  char blas[160];
  pn_context *c = pn_context_new(NULL); /* keeps BLAS to one thread */
  pni_blas_describe(blas, sizeof blas);
  printf("%s, %s vectors\n", blas, pni_cpu_level_name(pni_cpu_level()));
  if (pni_cpu_level() == PNI_CPU_PORTABLE) return 0;
  pni_panel_product_kernel *const *own =
      pni_cpu_level() == PNI_CPU_AVX512 ? pni_panel_product_avx512 : pni_panel_product_avx2;
  measure_float(own);
  measure_double(own);
  pn_context_close(c);
  return 0;
}
#else
int main(void) {
  (void)now;
  puts("no kernels of our own on this processor");
  return 0;
}
#endif
