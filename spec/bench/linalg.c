/*
** linalg.c: batched small matrices, interleaved against one LAPACK call each: nanoseconds per matrix. With the
** argument `sizes` prints the time of both for each order and batch, which is where the choice in
** src/tensor/lapack/linalg.c comes from.
*/
#include <stdio.h>
#include <string.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/tensor/product/blas.h"
#include "../../src/tensor/lapack/linalg.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef pn_tensor T;
typedef pn_context C;

typedef struct {
  T *a, *p, *l, *b; /* general, positive definite, triangular, right sides */
  T *square, *columns, *numbers;
} problem;

static problem make(C *c, pn_dtype dtype, int64_t batch, int64_t n, int64_t k) {
  problem x;
  T *m = pn_randn(c, NULL, dtype, SHAPE(batch, n, n)), *shift = pn_eye(c, dtype, n, n);
  x.a = pn_add(c, m, shift);
  x.p = pn_add(c, pn_matmul(c, m, pn_transpose(c, m, 1, 2)), shift);
  x.l = pn_cholesky(c, x.p);
  x.b = pn_randn(c, NULL, dtype, SHAPE(batch, n, k));
  x.square = pn_zeros(c, dtype, SHAPE(batch, n, n));
  x.columns = pn_zeros(c, dtype, SHAPE(batch, n, k));
  x.numbers = pn_zeros(c, dtype, SHAPE(batch));
  return x;
}

/* "cholesky+solve" is kind -1. */
static void once(C *c, int path, int kind, const problem *x) {
  if (kind < 0) {
    pni_linalg(c, "bench", path, PNI_LANE_CHOLESKY, 0, x->p, NULL, x->square);
    pni_linalg(c, "bench", path, PNI_LANE_CHOLESKY_SOLVE, 0, x->square, x->b, x->columns);
  } else if (kind == PNI_LANE_CHOLESKY)
    pni_linalg(c, "bench", path, kind, 0, x->p, NULL, x->square);
  else if (kind == PNI_LANE_INVERSE)
    pni_linalg(c, "bench", path, kind, 0, x->a, NULL, x->square);
  else if (kind >= PNI_LANE_LOGDET)
    pni_linalg(c, "bench", path, kind, 0, x->a, NULL, x->numbers);
  else
    pni_linalg(c, "bench", path, kind, 0, kind == PNI_LANE_SOLVE ? x->a : x->l, x->b, x->columns);
}

/* Nanoseconds per matrix, the best of several rounds. */
static double measure(C *c, int path, int kind, const problem *x) {
  int64_t batch = x->a->shape[0], calls = 1, start, spent;
  double best = 1e30;
  for (;; calls *= 2) {
    start = pni_now();
    for (int64_t i = 0; i < calls; i++) once(c, path, kind, x);
    if ((spent = pni_now() - start) > 5000000) break;
  }
  for (int round = 0; round < 7; round++) {
    start = pni_now();
    for (int64_t i = 0; i < calls; i++) once(c, path, kind, x);
    spent = pni_now() - start;
    double ns = (double)spent / (double)(calls * batch);
    if (ns < best) best = ns;
  }
  return best;
}

static const char *const names[] = {"cholesky", "triangular", "cholesky_solve", "solve", "inverse", "logdet"};

static void sizes(C *c, pn_dtype dtype) {
  const int64_t orders[] = {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32};
  const int64_t batches[] = {1, 2, 4, 8, 16, 100, 1000};
  for (int kind = 0; kind <= PNI_LANE_LOGDET; kind++)
    for (int o = 0; o < 12; o++) {
      printf("%-14s %s n=%2lld:", names[kind], pn_dtype_name(dtype), (long long)orders[o]);
      for (int b = 0; b < 7; b++) {
        size_t mark = pn_scope_open(c);
        problem x = make(c, dtype, batches[b], orders[o], 1);
        printf("  %lld: %.0f|%.0f", (long long)batches[b], measure(c, PNI_PATH_SMALL, kind, &x),
               measure(c, PNI_PATH_LAPACK, kind, &x));
        pn_scope_close(c, mark);
      }
      printf("\n");
    }
}

static void report(C *c, const char *name, int kind, pn_dtype dtype, int64_t n) {
  size_t mark = pn_scope_open(c);
  problem x = make(c, dtype, 3200, n, 1);
  double small = measure(c, PNI_PATH_SMALL, kind, &x), lapack = measure(c, PNI_PATH_LAPACK, kind, &x);
  printf("%s, 3200 of %lldx%lld %s, interleaved\t%.1f\tns\t\n", name, (long long)n, (long long)n, pn_dtype_name(dtype),
         small);
  printf("%s, 3200 of %lldx%lld %s, LAPACK\t%.1f\tns\t\n", name, (long long)n, (long long)n, pn_dtype_name(dtype),
         lapack);
  pn_scope_close(c, mark);
}

/* The root of a sum of two covariances out of theirs, and the same with the products formed. */
static void trias(C *c, int64_t n) {
  size_t mark = pn_scope_open(c);
  T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(3200, n, 2 * n)), *xt = pn_transpose(c, x, 1, 2);
  double best[2] = {1e30, 1e30};
  for (int round = 0; round < 100; round++)
    for (int way = 0; way < 2; way++) {
      size_t inner = pn_scope_open(c);
      int64_t start = pni_now();
      if (way)
        pn_cholesky(c, pn_matmul(c, x, xt));
      else
        pn_tria(c, x);
      double ns = (double)(pni_now() - start) / 3200;
      if (ns < best[way]) best[way] = ns;
      pn_scope_close(c, inner);
    }
  for (int way = 0; way < 2; way++)
    printf("%s, 3200 of %lldx%lld float64\t%.1f\tns\t\n", way ? "product and its Cholesky factor" : "tria",
           (long long)n, (long long)(2 * n), best[way]);
  pn_scope_close(c, mark);
}

/* x y for batches of n x n: interleaved, and one BLAS call each (as a batch too small for a group). */
static void products(C *c, pn_dtype dtype, int64_t n, int64_t batch) {
  size_t mark = pn_scope_open(c);
  T *x = pn_randn(c, NULL, dtype, SHAPE(batch, n, n)), *y = pn_randn(c, NULL, dtype, SHAPE(batch, n, n));
  T *z = pn_zeros(c, dtype, SHAPE(batch, n, n)), one_x = *x, one_y = *y, one_z = *z;
  one_x.shape[0] = one_y.shape[0] = one_z.shape[0] = 2;
  one_x.numel = one_y.numel = one_z.numel = 2 * n * n;
  double best[2] = {1e30, 1e30};
  for (int round = 0; round < 200; round++)
    for (int way = 0; way < 2; way++) {
      int64_t start = pni_now();
      for (int64_t i = 0; way == 1 && i < batch; i += 2) {
        one_x.offset = one_y.offset = one_z.offset = i * n * n;
        pni_matmul(c, &one_x, &one_y, NULL, &one_z);
      }
      if (way == 0) pni_matmul(c, x, y, NULL, z);
      double ns = (double)(pni_now() - start) / (double)batch;
      if (ns < best[way]) best[way] = ns;
    }
  printf("matmul, %lld of %lldx%lld %s, interleaved\t%.1f\tns\t\n", (long long)batch, (long long)n, (long long)n,
         pn_dtype_name(dtype), best[0]);
  printf("matmul, %lld of %lldx%lld %s, BLAS\t%.1f\tns\t\n", (long long)batch, (long long)n, (long long)n,
         pn_dtype_name(dtype), best[1]);
  pn_scope_close(c, mark);
}

int main(int argc, char **argv) {
  C *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  if (argc > 1 && strcmp(argv[1], "sizes") == 0) {
    if (argc < 3) sizes(c, PN_FLOAT64);
    if (argc < 3) sizes(c, PN_FLOAT32);
    for (int64_t n = 1; n <= 16; n++)
      for (int64_t batch = 4; batch <= 1024; batch *= 16)
        products(c, PN_FLOAT64, n, batch), products(c, PN_FLOAT32, n, batch);
  } else {
    report(c, "cholesky + solve", -1, PN_FLOAT64, 4);
    report(c, "cholesky + solve", -1, PN_FLOAT64, 10);
    report(c, "cholesky + solve", -1, PN_FLOAT32, 4);
    report(c, "cholesky + solve", -1, PN_FLOAT32, 10);
    report(c, "cholesky + solve", -1, PN_FLOAT64, 32);
    report(c, "general solve", PNI_LANE_SOLVE, PN_FLOAT64, 4);
    report(c, "general solve", PNI_LANE_SOLVE, PN_FLOAT64, 10);
    report(c, "general solve", PNI_LANE_SOLVE, PN_FLOAT64, 32);
    trias(c, 4);
    trias(c, 10);
    products(c, PN_FLOAT64, 4, 3200);
    products(c, PN_FLOAT64, 10, 3200);
  }
  pn_context_close(c);
  return 0;
}
