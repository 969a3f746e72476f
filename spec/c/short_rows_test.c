/*
** short_rows_test.c: kernels over many short rows: against sums in long double, the same bits for every instruction
** set, any number of rows and any cut between them; infinities and NaN.
*/
#include <stdlib.h>
#include "check.h"
#include "soak.h"
#include "../../src/tensor/lane/short_rows.h"

enum { ROWS = 300, PLACES = ROWS * PNI_SHORT_ROWS_LONGEST };

static double x64[PLACES], y64[PLACES], g64[ROWS], out64[PLACES], other64[PLACES];
static float x32[PLACES], y32[PLACES], g32[ROWS], out32[PLACES], other32[PLACES];
static int64_t place[ROWS];

static bool per_row(int kind) { return kind < PNI_SHORT_ROWS_SOFTMAX; }

static double uniform(void) { return (double)rand() / RAND_MAX; }

static void fill(int n) {
  for (int i = 0; i < ROWS * n; i++) {
    x64[i] = 8 * uniform() - 4;
    y64[i] = uniform() < 0.2 ? 0 : 2 * uniform() - 1;
  }
  for (int i = 0; i < ROWS; i++) {
    g64[i] = 2 * uniform() - 1;
    place[i] = rand() % n;
  }
  for (int i = 0; i < ROWS * n; i++) {
    x32[i] = (float)x64[i];
    y32[i] = (float)y64[i];
    x64[i] = (double)x32[i];
    y64[i] = (double)y32[i];
  }
  for (int i = 0; i < ROWS; i++) {
    g32[i] = (float)g64[i];
    g64[i] = (double)g32[i];
  }
}

/* What element j of row r is, or the number of the row. */
static long double wanted(int kind, int n, int r, int j) {
  const double *x = x64 + r * n, *y = y64 + r * n;
  long double m = (long double)x[0], low = m, plain = 0, s = 0, sy = 0, xy = 0, dot = 0;
  for (int i = 0; i < n; i++) {
    long double v = (long double)x[i];
    m = v > m ? v : m;
    low = v < low ? v : low;
    plain += v;
    sy += (long double)y[i];
    xy += v * (long double)y[i];
  }
  for (int i = 0; i < n; i++) s += expl((long double)x[i] - m);
  for (int i = 0; i < n; i++) dot += (long double)y[i] * ((long double)x[i] - m - logl(s));
  long double p = expl((long double)x[j] - m) / s, g = (long double)g64[r];
  switch (kind) {
  case PNI_SHORT_ROWS_SUM: return plain;
  case PNI_SHORT_ROWS_MAX: return m;
  case PNI_SHORT_ROWS_MIN: return low;
  case PNI_SHORT_ROWS_LOGSUMEXP: return m + logl(s);
  case PNI_SHORT_ROWS_PICK: return (long double)x[place[r]] - m - logl(s);
  case PNI_SHORT_ROWS_DOT: return dot;
  case PNI_SHORT_ROWS_SOFTMAX: return p;
  case PNI_SHORT_ROWS_LOG_SOFTMAX: return (long double)x[j] - m - logl(s);
  case PNI_SHORT_ROWS_PICK_SLOPE: return g * ((j == place[r]) - p);
  case PNI_SHORT_ROWS_DOT_SLOPE: return g * ((long double)y[j] - p * sy);
  case PNI_SHORT_ROWS_SOFTMAX_SLOPE: return (long double)x[j] * ((long double)y[j] - xy);
  case PNI_SHORT_ROWS_LOGSUMEXP_SLOPE: return g * expl((long double)x[j] - (long double)y64[r]);
  default: return (long double)y[j] - expl((long double)x[j]) * sy;
  }
}

static void run64(int level, int kind, int n, int begin, int end, double *out) {
  pni_short_rows r = {kind, n, 1, x64, y64, place, g64, out, 0};
  pni_short_rows_at_f64(level, &r, begin, end);
}
static void run32(int level, int kind, int n, int begin, int end, float *out) {
  pni_short_rows r = {kind, n, 1, x32, y32, place, g32, out, 0};
  pni_short_rows_at_f32(level, &r, begin, end);
}

static void check_values(int kind, int n) {
  run64(2, kind, n, 0, ROWS, out64);
  run32(2, kind, n, 0, ROWS, out32);
  double worst64 = 0, worst32 = 0;
  for (int r = 0; r < ROWS; r++)
    for (int j = 0; j < (per_row(kind) ? 1 : n); j++) {
      int at = per_row(kind) ? r : r * n + j;
      long double w = wanted(kind, n, r, j), size = (fabsl(w) + 1) * (n + 60.0L);
      worst64 = fmax(worst64, (double)(fabsl((long double)out64[at] - w) / size));
      worst32 = fmax(worst32, (double)(fabsl((long double)out32[at] - w) / size));
    }
  CHECK(worst64 < 1e-15);
  CHECK(worst32 < 6e-7);
}

static size_t results(int kind, int n, int rows) { return (size_t)(per_row(kind) ? rows : rows * n); }

/* Every level, and pieces of every size. */
static void check_bits(int kind, int n) {
  run64(2, kind, n, 0, ROWS, out64);
  run32(2, kind, n, 0, ROWS, out32);
  for (int level = 0; level < 2; level++) {
    run64(level, kind, n, 0, ROWS, other64);
    run32(level, kind, n, 0, ROWS, other32);
    CHECK(memcmp(out64, other64, results(kind, n, ROWS) * sizeof *out64) == 0);
    CHECK(memcmp(out32, other32, results(kind, n, ROWS) * sizeof *out32) == 0);
  }
  memset(other64, 0, sizeof other64);
  memset(other32, 0, sizeof other32);
  for (int at = 0, piece = 1; at < ROWS; at += piece, piece = piece * 5 / 4 + 1) {
    int end = at + piece < ROWS ? at + piece : ROWS;
    run64(2, kind, n, at, end, other64);
    run32(2, kind, n, at, end, other32);
  }
  CHECK(memcmp(out64, other64, results(kind, n, ROWS) * sizeof *out64) == 0);
  CHECK(memcmp(out32, other32, results(kind, n, ROWS) * sizeof *out32) == 0);
}

/* Nothing is written beside the rows that were asked for. */
static void check_bounds(int kind, int n) {
  for (int i = 0; i < PLACES; i++) out64[i] = -77;
  run64(2, kind, n, 3, 16, out64);
  size_t first = results(kind, n, 3), end = results(kind, n, 16);
  CHECK(out64[first - 1] == -77 && out64[end] == -77 && out64[first] != -77 && out64[end - 1] != -77);
}

/* Elements `inner` apart give what adjacent ones do; y and g by row as before. */
static void check_apart(int kind, int n, int inner) {
  int rows = ROWS / inner * inner;
  bool slope = kind == PNI_SHORT_ROWS_LOGSUMEXP_SLOPE;
  run64(2, kind, n, 0, rows, out64);
  run32(2, kind, n, 0, rows, out32);
  static double x[PLACES], y[PLACES], got[PLACES];
  static float v[PLACES], w[PLACES], got32[PLACES];
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < n; j++) {
      int to = (r / inner * n + j) * inner + r % inner;
      x[to] = x64[r * n + j], v[to] = x32[r * n + j];
      y[to] = y64[r * n + j], w[to] = y32[r * n + j];
    }
  pni_short_rows a = {kind, n, inner, x, slope ? y64 : y, place, g64, got, 0},
                 b = {kind, n, inner, v, slope ? y32 : w, place, g32, got32, 0};
  pni_short_rows_at_f64(2, &a, 0, rows);
  pni_short_rows_at_f32(2, &b, 0, rows);
  int different = 0;
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < (per_row(kind) ? 1 : n); j++) {
      int here = per_row(kind) ? r : r * n + j, there = per_row(kind) ? r : (r / inner * n + j) * inner + r % inner;
      different += got[there] != out64[here] || got32[there] != out32[here];
    }
  CHECK_INT(different, 0);
}

/* Places of extremes, with ties and NaN. */
static void check_places(int n, int inner) {
  static double x[PLACES];
  static float v[PLACES];
  static int64_t got[2][ROWS];
  int rows = ROWS / inner * inner;
  for (int i = 0; i < rows * n; i++) v[i] = (float)(x[i] = rand() % 50 == 0 ? (double)NAN : (double)(rand() % 4));
  for (int kind = PNI_SHORT_ROWS_ARGMAX; kind <= PNI_SHORT_ROWS_ARGMIN; kind++) {
    pni_short_rows a = {.kind = kind, .n = n, .inner = inner, .x = x, .out = got[0]}, b = a;
    b.x = v, b.out = got[1];
    pni_short_rows_at_f64(2, &a, 0, rows);
    pni_short_rows_at_f32(2, &b, 0, rows);
    int different = 0;
    for (int r = 0; r < rows; r++) {
      const double *row = x + r / inner * n * inner + r % inner;
      int best = 0;
      for (int j = 1; j < n && !isnan(row[best * inner]); j++) {
        double e = row[j * inner], m = row[best * inner];
        if (isnan(e) || (kind == PNI_SHORT_ROWS_ARGMAX ? e > m : e < m)) best = j;
      }
      different += got[0][r] != best || got[1][r] != best;
    }
    CHECK_INT(different, 0);
  }
}

static const double *row_of(int kind, int n, const double *x) {
  memcpy(x64, x, (size_t)n * sizeof *x);
  run64(2, kind, n, 0, 1, out64);
  return out64;
}

static void check_edges(void) {
  const double inf = INFINITY, none = NAN;
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOGSUMEXP, 3, (double[]){-inf, -inf, -inf})[0], -inf, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOGSUMEXP, 3, (double[]){-inf, 2, -inf})[0], 2, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOGSUMEXP, 3, (double[]){-inf, inf, 1})[0], inf, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOGSUMEXP, 3, (double[]){-inf, none, -inf})[0], none, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOGSUMEXP, 3, (double[]){inf, none, 1})[0], none, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOGSUMEXP, 2, (double[]){1e6, 1e6})[0], 1e6 + log(2), 1e-15);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_MAX, 3, (double[]){1, none, 3})[0], none, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_MIN, 3, (double[]){1, 2, none})[0], none, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_MAX, 3, (double[]){-inf, -inf, -3})[0], -3, 0);
  for (int at = 0; at < 7; at++) { /* wherever it stands */
    double x[7] = {1, 2, 3, 4, 5, 6, 7};
    x[at] = none;
    CHECK_NEAR(row_of(PNI_SHORT_ROWS_MAX, 7, x)[0], none, 0);
    x[at] = 8;
    CHECK_NEAR(row_of(PNI_SHORT_ROWS_MAX, 7, x)[0], 8, 0);
  }
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_SOFTMAX, 2, (double[]){-inf, 5})[1], 1, 0);
  CHECK_NEAR(out64[0], 0, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_SOFTMAX, 2, (double[]){-inf, -inf})[0], none, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOG_SOFTMAX, 2, (double[]){-inf, 5})[0], -inf, 0);
  CHECK_NEAR(out64[1], 0, 0);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOG_SOFTMAX, 2, (double[]){1e6, 1e6 - 10})[0], -log1p(exp(-10)), 1e-11);
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOG_SOFTMAX, 2, (double[]){none, 5})[1], none, 0);
  y64[0] = -inf, g64[0] = 3;
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_LOGSUMEXP_SLOPE, 2, (double[]){-inf, -inf})[1], 0, 0);
  y64[0] = 0, y64[1] = 1;
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_DOT, 2, (double[]){-inf, 5})[0], 0, 0);
  y64[0] = 1, y64[1] = 0;
  CHECK_NEAR(row_of(PNI_SHORT_ROWS_DOT, 2, (double[]){-inf, 5})[0], -inf, 0);
}

int main(void) {
  static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 10, 16, 17, 31, 33, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (!soak_takes((long)i)) continue;
    fill(sizes[i]);
    check_places(sizes[i], 1);
    check_places(sizes[i], 13);
    for (int kind = 0; kind < PNI_SHORT_ROWS_KINDS; kind++) {
      if (kind == PNI_SHORT_ROWS_ARGMAX || kind == PNI_SHORT_ROWS_ARGMIN) continue;
      check_apart(kind, sizes[i], 2);
      check_apart(kind, sizes[i], 25);
      check_apart(kind, sizes[i], 32);
      check_values(kind, sizes[i]);
      check_bits(kind, sizes[i]);
      check_bounds(kind, sizes[i]);
    }
  }
  check_edges();
  CHECK_DONE();
}
