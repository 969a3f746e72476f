/*
** distance_test.c: distances under one triangle and their gradients: against long double, the same bits for every
** instruction set, differences that are not finite.
*/
#include <stdlib.h>
#include "check.h"
#include "../../src/tensor/lane/distance.h"

enum { ROWS = PNI_DISTANCE_SHARD + 77, N = PNI_DISTANCE_LONGEST, SIZE = N * N + N };

static double l64[N * N], x64[ROWS * N], m64[ROWS * N], g64[ROWS], out64[2][ROWS * N], gm64[2][ROWS * N],
    sums64[2][2 * SIZE];
static float l32[N * N], x32[ROWS * N], m32[ROWS * N], g32[ROWS], out32[2][ROWS * N], gm32[2][ROWS * N],
    sums32[2][2 * SIZE];

static double uniform(void) { return 2.0 * rand() / RAND_MAX - 1; }

static void fill(int n) {
  for (int i = 0; i < n * n; i++) l64[i] = l32[i] = (float)(i / n == i % n ? 1.5 + uniform() / 2 : uniform() / 3);
  for (int i = 0; i < ROWS * n; i++) {
    x64[i] = x32[i] = (float)uniform();
    m64[i] = m32[i] = (float)uniform();
  }
  for (int i = 0; i < ROWS; i++) g64[i] = g32[i] = (float)uniform();
}

/* z = L^-1 (x - m), w = L^-T z; returns |z|^2. */
static long double reference(int n, int row, bool m_one, long double *z, long double *w) {
  long double square = 0;
  for (int i = 0; i < n; i++) {
    z[i] = (long double)x64[row * n + i] - (long double)m64[(m_one ? 0 : row) * n + i];
    for (int j = 0; j < i; j++) z[i] -= (long double)l64[i * n + j] * z[j];
    z[i] /= (long double)l64[i * n + i];
    square += z[i] * z[i];
  }
  for (int i = n - 1; i >= 0; i--) {
    w[i] = z[i];
    for (int j = i + 1; j < n; j++) w[i] -= (long double)l64[j * n + i] * w[j];
    w[i] /= (long double)l64[i * n + i];
  }
  return square;
}

static void run(int level, int n, bool m_one, bool adjoint, int k) {
  pni_distance d = {.n = n, .l = l64, .x = x64, .m = m64, .m_one = m_one, .out = out64[k]};
  pni_distance e = {.n = n, .l = l32, .x = x32, .m = m32, .m_one = m_one, .out = out32[k]};
  if (adjoint) {
    d.g = g64, d.gx = out64[k], d.gm = gm64[k], d.sums = sums64[k];
    e.g = g32, e.gx = out32[k], e.gm = gm32[k], e.sums = sums32[k];
  }
  for (int at = 0; at < ROWS; at += PNI_DISTANCE_SHARD) {
    int end = at + PNI_DISTANCE_SHARD < ROWS ? at + PNI_DISTANCE_SHARD : ROWS;
    pni_distance_f64(level, &d, at, end);
    pni_distance_f32(level, &e, at, end);
  }
}

static void check_values(int n, bool m_one) {
  long double z[N], w[N], gl[N * N] = {0};
  double worst = 0, worst32 = 0;
  run(2, n, m_one, false, 0);
  run(2, n, m_one, true, 1);
  for (int r = 0; r < ROWS; r++) {
    long double s = reference(n, r, m_one, z, w), g = 2 * (long double)g64[r];
    worst = fmax(worst, (double)fabsl(((long double)out64[0][r] - s) / s));
    worst32 = fmax(worst32, (double)fabsl(((long double)out32[0][r] - s) / s));
    for (int i = 0; i < n; i++) {
      worst = fmax(worst, (double)fabsl((long double)out64[1][r * n + i] - g * w[i]));
      if (!m_one) worst = fmax(worst, (double)fabsl((long double)gm64[1][r * n + i] + g * w[i]));
      for (int j = 0; j <= i; j++) gl[i * n + j] += g * w[i] * z[j];
    }
  }
  CHECK(worst < 1e-12);
  CHECK(worst32 < 1e-3);
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++)
      CHECK_NEAR(sums64[1][i * n + j] + sums64[1][n * n + n + i * n + j], (double)gl[i * n + j], 1e-9);
}

static void check_bits(int n, bool m_one, bool adjoint) {
  run(2, n, m_one, adjoint, 0);
  size_t results = adjoint ? (size_t)(ROWS * n) : ROWS;
  for (int level = 0; level < 2; level++) {
    run(level, n, m_one, adjoint, 1);
    CHECK(memcmp(out64[0], out64[1], results * sizeof **out64) == 0);
    CHECK(memcmp(out32[0], out32[1], results * sizeof **out32) == 0);
    CHECK(!adjoint || m_one || memcmp(gm64[0], gm64[1], results * sizeof **out64) == 0);
    CHECK(!adjoint || memcmp(sums64[0], sums64[1], sizeof *sums64) == 0);
    CHECK(!adjoint || memcmp(sums32[0], sums32[1], sizeof *sums32) == 0);
  }
}

static void check_edges(void) {
  fill(3);
  x64[3] = INFINITY;
  x64[7] = NAN;
  x64[9] = -INFINITY, x64[10] = INFINITY;
  run(2, 3, false, false, 0);
  run(2, 3, false, true, 1);
  CHECK(isfinite(out64[0][0]));
  CHECK_NEAR(out64[0][1], INFINITY, 0);
  CHECK_NEAR(out64[0][2], NAN, 0);
  CHECK_NEAR(out64[0][3], INFINITY, 0);
  for (int i = 3; i < 12; i++) CHECK(out64[1][i] == 0 && gm64[1][i] == 0);
  for (int i = 0; i < 9; i++) CHECK(isfinite(sums64[1][i]));
}

/* Sums of gradients over one shard of rows and over several, in both types: of the triangle, and of what is one for all
 * rows, m or x. */
static void check_sums(pn_context *c, int n, int rows, bool m_one) {
  long double z[N], w[N], gl[N * N] = {0}, gm[N] = {0};
  static double l[N * N], one[N], apart[ROWS * N];
  static float l_32[N * N], one_32[N], apart_32[ROWS * N];
  pni_distance d = {.n = n, .l = l64, .g = g64, .gl = l}, e = {.n = n, .l = l32, .g = g32, .gl = l_32};
  d.x = x64, d.m = m64, e.x = x32, e.m = m32;
  d.m_one = e.m_one = true, d.gm = one, d.gx = apart, e.gm = one_32, e.gx = apart_32;
  if (!m_one) { /* the same distances with the two exchanged, whose gradients are too */
    d.x = m64, d.m = x64, e.x = m32, e.m = x32;
    d.m_one = e.m_one = false, d.x_one = e.x_one = true;
    d.gx = one, d.gm = apart, e.gx = one_32, e.gm = apart_32;
  }
  CHECK_STATUS(c, pni_distance_adjoint(c, PN_FLOAT64, &d, rows), PN_OK);
  CHECK_STATUS(c, pni_distance_adjoint(c, PN_FLOAT32, &e, rows), PN_OK);
  for (int r = 0; r < rows; r++) {
    reference(n, r, true, z, w);
    for (int i = 0; i < n; i++) {
      gm[i] -= 2 * (long double)g64[r] * w[i];
      for (int j = 0; j <= i; j++) gl[i * n + j] -= 2 * (long double)g64[r] * w[i] * z[j];
    }
  }
  for (int i = 0; i < n * n; i++) {
    CHECK_NEAR(l[i], (double)gl[i], 1e-9);
    CHECK_NEAR((double)l_32[i], (double)gl[i], 2e-2);
  }
  for (int i = 0; i < n; i++) {
    CHECK_NEAR(one[i], (double)gm[i], 1e-9);
    CHECK_NEAR((double)one_32[i], (double)gm[i], 2e-2);
  }
}

int main(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 2});
  for (int n = 1; n <= N; n = n < 5 ? n + 1 : n * 2 - 1 < N ? n * 2 - 1 : n < N ? N : N + 1) {
    fill(n);
    for (int k = 0; k < 2; k++) {
      check_values(n, k);
      check_bits(n, k, false);
      check_bits(n, k, true);
      check_sums(c, n, 50, k);
      check_sums(c, n, ROWS, k);
    }
  }
  check_edges();
  pn_context_close(c);
  CHECK_DONE();
}
