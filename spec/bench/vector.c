/*
** vector.c: nanoseconds per element of the vector functions, beside the same function one number at a time (libm, or
** ours where libm has none) in the same run; of draws; and of products of vectors and tiny matrices beside CBLAS.
** With the argument `levels` prints every function at every level this processor has.
*/
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../../src/base/processor.h"
#include "../../src/math/special.h"
#include "../../src/tensor/product/blas.h"
#include "../../src/tensor/product/gemm.h"
#include "../../src/math/vector/vector.h"

enum { N = 4096, ROUNDS = 60, MANY = 1000000 };

typedef struct row {
  const char *name;
  pni_vector_function f;
  double (*f64)(double);
  float (*f32)(float);
  double low, high;
} row;

static const row rows[] = {
    {"exp", PNI_VECTOR_exp, exp, expf, -5, 5},
    {"log", PNI_VECTOR_log, log, logf, 0.1, 10},
    {"expm1", PNI_VECTOR_expm1, expm1, expm1f, -5, 5},
    {"log1p", PNI_VECTOR_log1p, log1p, log1pf, -0.9, 5},
    {"tanh", PNI_VECTOR_tanh, tanh, tanhf, -3, 3},
    {"sigmoid", PNI_VECTOR_sigmoid, pni_sigmoid, NULL, -5, 5},
    {"softplus", PNI_VECTOR_softplus, pni_log1pexp, NULL, -5, 5},
    {"sin", PNI_VECTOR_sin, sin, sinf, -10, 10},
    {"cos", PNI_VECTOR_cos, cos, cosf, -10, 10},
    {"erf", PNI_VECTOR_erf, erf, erff, -3, 3},
    {"ndtr", PNI_VECTOR_ndtr, pni_ndtr, NULL, -5, 5},
    {"log_ndtr", PNI_VECTOR_log_ndtr, pni_log_ndtr, NULL, -5, 5},
    {"ndtri", PNI_VECTOR_ndtri, pni_ndtri, NULL, 0.001, 0.999},
    {"lgamma", PNI_VECTOR_lgamma, pni_lgamma, NULL, 0.05, 20},
    {"digamma", PNI_VECTOR_digamma, pni_digamma, NULL, 0.05, 20},
};
enum { ROWS = sizeof rows / sizeof *rows };

static double x64[N], y64[N], out64[MANY];
static float x32[N], y32[N], out32[MANY];

/* The best of several rounds of `body`, in nanoseconds per `per`. */
#define MEASURE(best, per, body)                                                                                       \
  do {                                                                                                                 \
    best = 1e30;                                                                                                       \
    for (int round = 0; round < ROUNDS; round++) {                                                                     \
      int64_t start = pni_now();                                                                                       \
      body;                                                                                                            \
      double spent = (double)(pni_now() - start) / (double)(per);                                                      \
      best = spent < best ? spent : best;                                                                              \
    }                                                                                                                  \
  } while (0)

static void spread(const row *r) {
  for (int i = 0; i < N; i++) {
    x64[i] = r->low + (r->high - r->low) * (double)(i * 1237 % N) / N;
    x32[i] = (float)x64[i];
  }
}

static void print(const char *name, const char *type, const char *who, double value) {
  printf("%s, %s, %s\t%.3f\tns\t\n", name, type, who, value);
}

static void report(const row *r) {
  double best, single;
  const char *level = pni_cpu_level_name(pni_cpu_level());
  spread(r);
  MEASURE(best, N, pni_vector_f64(r->f, x64, 1, y64, N));
  print(r->name, "float64", level, best);
  MEASURE(single, N, for (int i = 0; i < N; i++) y64[i] = r->f64(x64[i]));
  printf("  to one by one\t%.3f\tx\t1\n", best / single);
  MEASURE(best, N, pni_vector_f32(r->f, x32, 1, y32, N));
  print(r->name, "float32", level, best);
  if (!r->f32) return;
  MEASURE(single, N, for (int i = 0; i < N; i++) y32[i] = r->f32(x32[i]));
  printf("  to one by one\t%.3f\tx\t1\n", best / single);
}

static void levels(const row *r) {
  double best;
  spread(r);
  for (int level = 0; level <= pni_cpu_level(); level++) {
    MEASURE(best, N, pni_vector_at(level)->f64[r->f](x64, y64, N / PNI_VECTOR_GROUP));
    print(r->name, "float64", pni_cpu_level_name(level), best);
    MEASURE(best, N, pni_vector_at(level)->f32[r->f](x32, y32, N / PNI_VECTOR_GROUP));
    print(r->name, "float32", pni_cpu_level_name(level), best);
  }
}

static void draws(void) {
  double best;
  MEASURE(best, MANY, pni_fill_normal_f32(1, 0, 0, MANY, out32));
  printf("10^6 normals float32, each\t%.3f\tns\t\n", best);
  MEASURE(best, MANY, pni_fill_normal_f64(1, 0, 0, MANY, out64));
  printf("10^6 normals float64, each\t%.3f\tns\t\n", best);
  MEASURE(best, MANY, pni_fill_uniform_f32(1, 0, 0, MANY, out32));
  printf("10^6 uniforms float32, each\t%.3f\tns\t\n", best);
}

static void product(pn_context *c, int m, int k, int n) {
  enum { CALLS = 200 };
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, (int64_t[]){m, k});
  pn_tensor *y = pn_randn(c, NULL, PN_FLOAT64, 2, (int64_t[]){k, n});
  pn_tensor *z = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){m, n});
  double best, blas;
  MEASURE(best, CALLS, for (int i = 0; i < CALLS; i++) pni_matmul(c, x, y, NULL, z));
  printf("%dx%d times %dx%d, float64\t%.0f\tns\t\n", m, k, k, n, best);
  MEASURE(blas, CALLS,
          for (int i = 0; i < CALLS; i++) cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1,
                                                      pni_data(x), k, pni_data(y), n, 0, pni_data(z), n));
  printf("  to CBLAS\t%.3f\tx\t1\n", best / blas);
  pn_scope_close(c, mark);
}

/* The rate of one large product: the limit of everything made of products. */
static void gemm(pn_context *c, pn_dtype dtype) {
  enum { SIZE = 512, TIMES = 2 };
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_randn(c, NULL, dtype, 2, (int64_t[]){SIZE, SIZE}),
            *z = pn_zeros(c, dtype, 2, (int64_t[]){SIZE, SIZE});
  double best;
  char blas[160];
  MEASURE(best, TIMES, for (int i = 0; i < TIMES; i++) pni_matmul(c, x, x, NULL, z));
  pni_blas_describe(blas, sizeof blas);
  printf("matmul of 512x512, %s, one thread, %s\t%.1f\tGFLOP/s\t\n", pn_dtype_name(dtype), blas,
         2.0 * SIZE * SIZE * SIZE / best);
  pn_scope_close(c, mark);
}

int main(int argc, char **argv) {
  bool all = argc > 1 && strcmp(argv[1], "levels") == 0;
  for (int i = 0; i < ROWS; i++) {
    if (all)
      levels(&rows[i]);
    else
      report(&rows[i]);
  }
  if (all) return 0;
  draws();
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  const int shapes[][3] = {{32, 1, 50}, {32, 50, 1}, {1, 32, 50}, {1, 784, 64}, {4, 4, 4}, {1, 1, 1}};
  for (int i = 0; i < 6; i++) product(c, shapes[i][0], shapes[i][1], shapes[i][2]);
  gemm(c, PN_FLOAT32);
  gemm(c, PN_FLOAT64);
  pn_context_close(c);
  return 0;
}
