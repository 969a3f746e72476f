/*
** limits.c: what this machine gives at best on one thread at the processor level that runs: the rate of a large product
** in both types, of multiplications and additions in registers, and bytes read and written per second by a copy within
** the caches and beyond them. What other figures are held against.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/base/processor.h"
#include "../../src/tensor/product/blas.h"
#if PNI_CPU_X86
#include <immintrin.h>
#endif

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

/* Operations per turn of CHAINS independent chains a = a b + c, enough to hide what one waits for. */
enum { CHAINS = 12, TURNS = 200000 };
static volatile float sink32; /* no chain may be left out */
static volatile double sink64;

#define CHAIN(NAME, TARGET, REAL, VECTOR, SET, STEP, FIRST, SINK)                                                      \
  TARGET static double NAME(void) {                                                                                    \
    VECTOR a[CHAINS], b = SET((REAL)0.999), d = SET((REAL)0.001);                                                      \
    for (int k = 0; k < CHAINS; k++) a[k] = SET((REAL)k);                                                              \
    double start = now();                                                                                              \
    for (int64_t turn = 0; turn < TURNS; turn++) PNI_UNROLL for (int k = 0; k < CHAINS; k++) a[k] = STEP(a[k], b, d);  \
    double spent = now() - start;                                                                                      \
    for (int k = 0; k < CHAINS; k++) SINK = SINK + FIRST(a[k]);                                                        \
    return 2.0 * TURNS * CHAINS * (double)(sizeof(VECTOR) / sizeof(REAL)) / spent;                                     \
  }
#define SAME(x)        (x)
#define PLAIN(x, y, z) ((x) * (y) + (z))
#if PNI_CPU_X86
#define SSE32(x, y, z) _mm_add_ps(_mm_mul_ps(x, y), z)
#define SSE64(x, y, z) _mm_add_pd(_mm_mul_pd(x, y), z)
CHAIN(chain_portable32, , float, __m128, _mm_set1_ps, SSE32, _mm_cvtss_f32, sink32)
CHAIN(chain_portable64, , double, __m128d, _mm_set1_pd, SSE64, _mm_cvtsd_f64, sink64)
CHAIN(chain_avx2_32, PNI_TARGET_AVX2, float, __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32, sink32)
CHAIN(chain_avx2_64, PNI_TARGET_AVX2, double, __m256d, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_cvtsd_f64, sink64)
CHAIN(chain_avx512_32, PNI_TARGET_AVX512, float, __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32, sink32)
CHAIN(chain_avx512_64, PNI_TARGET_AVX512, double, __m512d, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_cvtsd_f64, sink64)
static double (*const chain[PNI_CPU_LEVELS][2])(void) = {
    {chain_portable32, chain_portable64}, {chain_avx2_32, chain_avx2_64}, {chain_avx512_32, chain_avx512_64}};
#else
CHAIN(chain_portable32, , float, float, SAME, PLAIN, SAME, sink32)
CHAIN(chain_portable64, , double, double, SAME, PLAIN, SAME, sink64)
static double (*const chain[PNI_CPU_LEVELS][2])(void) = {
    {chain_portable32, chain_portable64}, {chain_portable32, chain_portable64}, {chain_portable32, chain_portable64}};
#endif

static double multiply_add(int dtype) {
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    double rate = chain[pni_cpu_level()][dtype == PN_FLOAT64]();
    if (rate > best) best = rate;
  }
  return best;
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
  printf("multiply-add, float32\t%.1f\tGFLOP/s\t\n", multiply_add(PN_FLOAT32));
  printf("multiply-add, float64\t%.1f\tGFLOP/s\t\n", multiply_add(PN_FLOAT64));
  printf("copy of 512 KiB\t%.1f\tGB/s\t\n", copy((size_t)512 << 10));
  printf("copy of 8 MiB\t%.1f\tGB/s\t\n", copy((size_t)8 << 20));
  printf("copy of 64 MiB\t%.1f\tGB/s\t\n", copy((size_t)64 << 20));
  pn_context_close(c);
  return 0;
}
