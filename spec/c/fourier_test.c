/*
** fourier_test.c: transforms of src/math/fourier against NumPy's, against the sum itself in long double for all short
** lengths, primes and large ones, there and back; threads, cancellation, memory.
*/
#include <stdlib.h>
#include <time.h>
#include "../../src/math/fourier/fourier.h"
#include "alloc_sweep.h"
#include "check.h"
#include "../golden/math/fourier_golden.h"

enum { LONGEST = 5000 };

static double part(int64_t j, int64_t a, int64_t b, int64_t m) {
  return (double)((a * j * j + b * j) % m - m / 2) / 64;
}

static void put(void *x, int dtype, int64_t k, double v) {
  if (dtype == PN_FLOAT64)
    ((double *)x)[k] = v;
  else
    ((float *)x)[k] = (float)v;
}

static double get(const void *x, int dtype, int64_t k) {
  return dtype == PN_FLOAT64 ? ((const double *)x)[k] : (double)((const float *)x)[k];
}

static double epsilon(int dtype) { return dtype == PN_FLOAT64 ? 2.220446049250313e-16 : 1.1920928955078125e-07; }

/* ---- NumPy ---- */

static void test_golden(pn_context *c, int dtype) {
  const double(*z)[2] = golden_complex, (*r)[2] = golden_real;
  double re[128], im[128], x[128];
  for (size_t l = 0; l < sizeof golden_length / sizeof *golden_length; l++) {
    int64_t n = golden_length[l];
    pni_fourier *f = pni_fourier_new(c, dtype, n);
    pni_real_fourier *half = pni_real_fourier_new(c, dtype, n);
    for (int64_t j = 0; j < n; j++) put(re, dtype, j, part(j, 7, 3, 101)), put(im, dtype, j, part(j, 5, 11, 89));
    CHECK_STATUS(c, pni_fourier_forward(c, f, re, im), PN_OK);
    double allowed = 8 * sqrt((double)n) * epsilon(dtype);
    for (int64_t k = 0; k < n; k++, z++) {
      CHECK(fabs(get(re, dtype, k) - z[0][0]) <= allowed);
      CHECK(fabs(get(im, dtype, k) - z[0][1]) <= allowed);
    }
    for (int64_t j = 0; j < n; j++) put(x, dtype, j, part(j, 7, 3, 101));
    CHECK_STATUS(c, pni_real_fourier_forward(c, half, x, re, im), PN_OK);
    for (int64_t k = 0; k <= n / 2; k++, r++) {
      CHECK(fabs(get(re, dtype, k) - r[0][0]) <= allowed);
      CHECK(fabs(get(im, dtype, k) - r[0][1]) <= allowed);
    }
    pni_fourier_free(c, f);
    pni_real_fourier_free(c, half);
  }
}

/* ---- the sum itself ---- */

typedef struct {
  double x[2][LONGEST], y[2][LONGEST], real[LONGEST];
  long double root[2][LONGEST];
} work;

static uint64_t state = 9;
static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) / 9007199254740992.0 - 0.5;
}

/* |got - want| / |want|, of the first `count` numbers that x stands for. */
static double error(work *w, int dtype, int64_t n, int64_t count, bool real) {
  long double off = 0, all = 0, xr, xi;
  for (int64_t k = 0; k < n; k++) {
    w->root[0][k] = cosl(6.283185307179586476925286766559L * (long double)k / (long double)n);
    w->root[1][k] = -sinl(6.283185307179586476925286766559L * (long double)k / (long double)n);
  }
  for (int64_t k = 0; k < count; k++) {
    long double re = 0, im = 0;
    for (int64_t j = 0, at = 0; j < n; j++, at = at + k >= n ? at + k - n : at + k) {
      xr = (long double)get(real ? w->real : w->x[0], dtype, j), xi = real ? 0 : (long double)get(w->x[1], dtype, j);
      re += xr * w->root[0][at] - xi * w->root[1][at];
      im += xr * w->root[1][at] + xi * w->root[0][at];
    }
    long double dr = re - (long double)get(w->y[0], dtype, k), di = im - (long double)get(w->y[1], dtype, k);
    off += dr * dr + di * di;
    all += re * re + im * im;
  }
  return (double)sqrtl(off / all);
}

static double apart(const double *a, const double *b, int dtype, int64_t n) {
  double most = 0;
  for (int64_t k = 0; k < n; k++) most = fmax(most, fabs(get(a, dtype, k) - get(b, dtype, k)));
  return most;
}

static double worst[2];

static void test_length(pn_context *c, work *w, int dtype, int64_t n) {
  double allowed = epsilon(dtype) * (1 + log2((double)n));
  pni_fourier *f = pni_fourier_new(c, dtype, n);
  pni_real_fourier *half = pni_real_fourier_new(c, dtype, n);
  CHECK(f && half);
  for (int64_t j = 0; j < n; j++)
    put(w->x[0], dtype, j, uniform()), put(w->x[1], dtype, j, uniform()), put(w->real, dtype, j, uniform());
  memcpy(w->y, w->x, sizeof w->x);
  CHECK_STATUS(c, pni_fourier_forward(c, f, w->y[0], w->y[1]), PN_OK);
  double e = error(w, dtype, n, n, false);
  if (!check_record(e <= allowed)) printf("complex transform of %lld: error %g\n", (long long)n, e);
  worst[dtype == PN_FLOAT32] = fmax(worst[dtype == PN_FLOAT32], e / allowed);
  CHECK_STATUS(c, pni_fourier_inverse(c, f, w->y[0], w->y[1]), PN_OK);
  CHECK(apart(w->x[0], w->y[0], dtype, n) <= 4 * allowed && apart(w->x[1], w->y[1], dtype, n) <= 4 * allowed);
  CHECK_STATUS(c, pni_real_fourier_forward(c, half, w->real, w->y[0], w->y[1]), PN_OK);
  e = error(w, dtype, n, n / 2 + 1, true);
  if (!check_record(e <= allowed)) printf("real transform of %lld: error %g\n", (long long)n, e);
  worst[dtype == PN_FLOAT32] = fmax(worst[dtype == PN_FLOAT32], e / allowed);
  put(w->y[1], dtype, 0, 7); /* has no say */
  if (n % 2 == 0) put(w->y[1], dtype, n / 2, 7);
  memcpy(w->root, w->y, sizeof w->y);
  CHECK_STATUS(c, pni_real_fourier_inverse(c, half, w->y[0], w->y[1], w->x[0]), PN_OK);
  CHECK(apart(w->x[0], w->real, dtype, n) <= 4 * allowed);
  memcpy(w->y, w->root, sizeof w->y);
  for (int64_t k = 0; k <= n / 2; k++) /* another one, of which the plan holds nothing */
    put(w->y[0], dtype, k, -3 * get(w->y[0], dtype, k)), put(w->y[1], dtype, k, -3 * get(w->y[1], dtype, k));
  for (int64_t k = 0; k < n; k++) put(w->real, dtype, k, -3 * get(w->real, dtype, k));
  CHECK_STATUS(c, pni_real_fourier_inverse(c, half, w->y[0], w->y[1], w->x[0]), PN_OK);
  CHECK(apart(w->x[0], w->real, dtype, n) <= 16 * allowed);
  pni_fourier_free(c, f);
  pni_real_fourier_free(c, half);
}

static void test_lengths(pn_context *c, int dtype) {
  static work w;
  static const int64_t more[] = {211, 256, 257, 499, 625, 729, 997, 1000, 1009, 1024, 2048, 2310};
  for (int64_t n = 1; n <= 200; n++) test_length(c, &w, dtype, n);
  for (size_t k = 0; k < sizeof more / sizeof *more; k++) test_length(c, &w, dtype, more[k]);
}

static void test_fast_lengths(void) {
  for (int64_t n = 1; n < 3000; n++) {
    int64_t m = pni_fourier_fast_length(n), least = n;
    for (;; least++) {
      int64_t left = least;
      while (left % 2 == 0) left /= 2;
      while (left % 3 == 0) left /= 3;
      while (left % 5 == 0) left /= 5;
      if (left == 1 && least % 2 == 0) break;
    }
    CHECK_INT(m, least);
  }
}

/* ---- long ones ---- */

/* A transform of a wave of one frequency, and of it alone, by any number of threads: the same bits. */
static void test_threads(int64_t n, int64_t frequency) {
  double *z[2] = {NULL, NULL};
  for (int t = 0; t < 2; t++) {
    pn_context_config config = {.threads = 1 + 2 * t};
    pn_context *c = pn_context_new(&config);
    pni_fourier *f = pni_fourier_new(c, PN_FLOAT64, n);
    z[t] = malloc(2 * (size_t)n * sizeof(double));
    for (int64_t j = 0; j < n; j++) {
      double angle = 6.283185307179586 * (double)(j * frequency % n) / (double)n;
      z[t][j] = cos(angle), z[t][n + j] = sin(angle);
    }
    size_t before = pn_context_memory(c, NULL), peak;
    CHECK_STATUS(c, pni_fourier_forward(c, f, z[t], z[t] + n), PN_OK);
    pn_context_memory(c, &peak);
    CHECK(t > 0 || peak == before); /* threads have memory of their own */
    CHECK_NEAR(z[t][frequency], (double)n, 1e-14);
    double most = 0;
    for (int64_t k = 0; k < n; k++)
      if (k != frequency) most = fmax(most, fabs(z[t][k]) + fabs(z[t][n + k]));
    CHECK(most < 1e-13 * (double)n);
    pni_fourier_free(c, f);
    pn_context_close(c);
  }
  CHECK(memcmp(z[0], z[1], 2 * (size_t)n * sizeof(double)) == 0);
  free(z[0]);
  free(z[1]);
}

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A plan and a transform that a deadline has passed for. */
static void test_deadline(pn_context *c) {
  double start = cpu();
  pn_context_set_deadline(c, 1e-3);
  CHECK(!pni_fourier_new(c, PN_FLOAT64, 9999991));
  CHECK_FAIL(c, PN_TIME, "time limit");
  pn_context_set_deadline(c, 0);
  const int64_t n = 1 << 20;
  pni_real_fourier *f = pni_real_fourier_new(c, PN_FLOAT64, n);
  double *x = calloc(2 * (size_t)n + 2, sizeof *x);
  pn_context_cancel(c);
  CHECK(pni_real_fourier_forward(c, f, x, x + n, x + n + n / 2 + 1) == PN_CANCELLED);
  pn_context_uncancel(c);
  CHECK_FAIL(c, PN_CANCELLED, "interrupted");
  CHECK_STATUS(c, pni_real_fourier_forward(c, f, x, x + n, x + n + n / 2 + 1), PN_OK);
  pni_real_fourier_free(c, f);
  free(x);
  CHECK(cpu() - start < 1);
}

static void test_refused(pn_context *c) {
  CHECK(!pni_fourier_new(c, PN_FLOAT64, 0));
  CHECK_FAIL(c, PN_SHAPE, "fourier: length must be from 1 to 2147483648, got 0");
  CHECK(!pni_real_fourier_new(c, PN_FLOAT64, -3));
  CHECK_FAIL(c, PN_SHAPE, "got -3");
  CHECK(!pni_real_fourier_new(c, PN_FLOAT32, ((int64_t)1 << 33)));
  CHECK_FAIL(c, PN_SHAPE, "got 8589934592");
  const int64_t most = (int64_t)1 << 31;
  pn_context *little = pn_context_new(&(pn_context_config){.memory_limit = (size_t)1 << 20});
  CHECK(!pni_fourier_new(little, PN_FLOAT64, most));
  CHECK_FAIL(little, PN_NOMEM, "");
  CHECK(!pni_fourier_new(little, PN_FLOAT64, most + 1));
  CHECK_FAIL(little, PN_SHAPE, "fourier: length must be from 1 to 2147483648, got 2147483649");
  CHECK_INT((int64_t)pn_context_memory(little, NULL), 0);
  pn_context_close(little);
}

/* ---- allocations that fail ---- */

static bool there_and_back(pn_context *c, const void *data) {
  int64_t n = *(const int64_t *)data;
  double x[64] = {1, 2, 3}, re[64], im[64];
  pni_real_fourier *f = pni_real_fourier_new(c, PN_FLOAT64, n);
  bool done = f && pni_real_fourier_forward(c, f, x, re, im) == PN_OK &&
              pni_real_fourier_inverse(c, f, re, im, x) == PN_OK && fabs(x[1] - 2) < 1e-12;
  pni_real_fourier_free(c, f);
  return done;
}

/* Draws whose correlations last, so that the spectrum is asked for. */
static bool summary(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *x = pn_linspace(c, PN_FLOAT64, 0, 1, 1000);
  return pn_draws_summary(c, pn_reshape(c, x, 3, (const int64_t[]){1, 1000, 1})) != NULL;
}

static void test_allocations(void) {
  sweep("transform of 60", there_and_back, &(int64_t){60});
  sweep("transform of 45", there_and_back, &(int64_t){45});
  sweep("transform of 62", there_and_back, &(int64_t){62});
  sweep("summary", summary, NULL);
}

int main(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  size_t before = pn_context_memory(c, NULL);
  for (int k = 0; k < 2; k++) {
    test_golden(c, k ? PN_FLOAT32 : PN_FLOAT64);
    test_lengths(c, k ? PN_FLOAT32 : PN_FLOAT64);
  }
  if (getenv("PN_SHOW")) printf("largest error: %.2g and %.2g of what is allowed\n", worst[0], worst[1]);
  test_fast_lengths();
  test_threads(1 << 17, 12345);
  test_threads(100003, 777); /* a prime */
  test_deadline(c);
  test_refused(c);
  test_allocations();
  CHECK(pn_context_memory(c, NULL) == before);
  pn_context_close(c);
  CHECK_DONE();
}
