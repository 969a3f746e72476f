/*
** limits.c: what this machine gives at best on one thread: the rate of a large product in both types, and bytes read
** and written per second by a copy within the caches and beyond them. What other figures are held against.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/tensor/product/blas.h"

enum { SIZE = 768, ROUNDS = 12 };

/* Processor time in nanoseconds: other programs may be running. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double product(pn_context *c, pn_dtype dtype) {
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_randn(c, NULL, dtype, 2, (int64_t[]){SIZE, SIZE}),
            *z = pn_zeros(c, dtype, 2, (int64_t[]){SIZE, SIZE});
  double best = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now();
    pni_matmul(c, x, x, NULL, z);
    double spent = now() - start;
    if (spent < best) best = spent;
  }
  pn_scope_close(c, mark);
  return 2.0 * SIZE * SIZE * SIZE / best;
}

/* Gigabytes per second, read and written bytes both counted. */
static double copy(size_t bytes) {
  char *from = malloc(bytes), *to = malloc(bytes);
  double best = 1e30;
  size_t times = ((size_t)64 << 20) / bytes;
  if (from && to) {
    memset(from, 1, bytes);
    for (int round = 0; round < ROUNDS; round++) {
      double start = now();
      for (size_t k = 0; k < times; k++) {
        memcpy(to, from, bytes);
        from[k % bytes] = to[bytes - 1 - k % bytes]; /* no copy may be left out */
      }
      double spent = (now() - start) / (double)times;
      if (spent < best) best = spent;
    }
  }
  free(from);
  free(to);
  return 2.0 * (double)bytes / best;
}

int main(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  pni_blas_single_thread();
  printf("product of %dx%d, float32\t%.1f\tGFLOP/s\t\n", SIZE, SIZE, product(c, PN_FLOAT32));
  printf("product of %dx%d, float64\t%.1f\tGFLOP/s\t\n", SIZE, SIZE, product(c, PN_FLOAT64));
  printf("copy of 512 KiB\t%.1f\tGB/s\t\n", copy((size_t)512 << 10));
  printf("copy of 8 MiB\t%.1f\tGB/s\t\n", copy((size_t)8 << 20));
  printf("copy of 64 MiB\t%.1f\tGB/s\t\n", copy((size_t)64 << 20));
  pn_context_close(c);
  return 0;
}
