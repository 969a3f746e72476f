/*
** geometric_mean.c: A # B^-1 = B^-1/2 (B^1/2 A B^1/2)^1/2 B^-1/2 by Newton's iteration (Denman & Beavers 1976)
**   X <- (X + Y^-1) / 2,  Y <- (Y + X^-1) / 2,  from X = A, Y = B,
** X -> A # B^-1 and Y -> its inverse. In coordinates in which A and B are both diagonal it is the same iteration on
** each pair of numbers, so bad conditioning of A and B themselves slows nothing. All is done by pieces of columns.
*/
#include <cblas.h>
#include <math.h>
#include <string.h>
#include "geometric_mean.h"
#include "../../base/size.h"

enum { PIECE = 32, ROUNDS = 60 };

/* The rows from j on of columns j to j + m - 1 less what the columns before give; then their factor. */
static bool factor_piece(pni_watch *w, int64_t n, double *f, int64_t j, int64_t m) {
  for (int64_t i = j, rows; i < n; i += rows) {
    rows = i == j ? m : n - i < 8 * PIECE ? n - i : 8 * PIECE;
    if (pni_watch_leaves(w, rows * m * j / 4 + 8)) return false;
    if (j)
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)m, (int)j, -1, f + i * n, (int)n, f + j * n,
                  (int)n, 1, f + i * n + j, (int)n);
    for (int64_t k = j; i == j && k < j + m; k++) {
      double *row = f + k * n, d = row[k] - cblas_ddot((int)(k - j), row + j, 1, row + j, 1);
      if (!(d > 0) || isinf(d)) return false;
      row[k] = sqrt(d);
      for (int64_t l = k + 1; l < j + m; l++)
        f[l * n + k] = (f[l * n + k] - cblas_ddot((int)(k - j), f + l * n + j, 1, row + j, 1)) / row[k];
    }
    if (i > j)
      cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)rows, (int)m, 1, f + j * n + j,
                  (int)n, f + i * n + j, (int)n);
  }
  return true;
}

bool pni_factorise(pni_watch *w, int64_t n, double *f) {
  for (int64_t j = 0; j < n; j += PIECE)
    if (!factor_piece(w, n, f, j, n - j < PIECE ? n - j : PIECE)) return false;
  return true;
}

/* out = share out + (1 - share) (L L^T)^-1, for L the lower triangle of f; columns [n, PIECE] is scratch. */
static bool add_inverse(pni_watch *w, int64_t n, const double *f, double share, double *out, double *columns) {
  for (int64_t j = 0; j < n; j += PIECE) {
    int64_t m = n - j < PIECE ? n - j : PIECE;
    if (pni_watch_leaves(w, n * n * m / 4 + 8)) return false;
    memset(columns, 0, (size_t)(n * m) * sizeof *columns);
    for (int64_t k = 0; k < m; k++) columns[(j + k) * m + k] = 1;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)(n - j), (int)m, 1,
                f + j * n + j, (int)n, columns + j * m, (int)m);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, (int)n, (int)m, 1, f, (int)n, columns,
                (int)m);
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = 0; k < m; k++)
        out[i * n + j + k] = (share > 0 ? share * out[i * n + j + k] : 0) + (1 - share) * columns[i * m + k];
  }
  return true;
}

/* The largest |x - before| relative to the diagonal of x. */
static double change(int64_t n, const double *x, const double *before) {
  double most = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double d = fabs(x[i * n + j] - before[i * n + j]) / sqrt(x[i * n + i] * x[j * n + j]);
      if (d > most) most = d;
    }
  return most;
}

int64_t pni_geometric_mean_room(int64_t n) { return pni_plus(pni_times(2, pni_times(n, n)), pni_times(n, PIECE)); }

bool pni_geometric_mean(pni_watch *w, int64_t n, double *a, double *b, double *work) {
  double *f = work, *inverse = f + n * n, *columns = inverse + n * n, last = INFINITY;
  size_t bytes = (size_t)(n * n) * sizeof *a;
  for (int round = 0; round < ROUNDS; round++) {
    memcpy(f, a, bytes);
    if (!pni_factorise(w, n, f) || !add_inverse(w, n, f, 0, inverse, columns)) return false;
    memcpy(f, b, bytes);
    for (int64_t i = 0; i < n * n; i++) b[i] = (b[i] + inverse[i]) / 2;
    memcpy(inverse, a, bytes);
    if (!pni_factorise(w, n, f) || !add_inverse(w, n, f, 0.5, a, columns)) return false;
    double moved = change(n, a, inverse); /* the error that is left is of the order of its square */
    if (moved < 1e-9 || (moved < 1e-4 && moved >= last / 2)) break; /* the second: rounding is all that moves it */
    last = moved;
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) a[i * n + j] = a[j * n + i] = (a[i * n + j] + a[j * n + i]) / 2;
  double sum = 0;
  for (int64_t i = 0; i < n * n; i++) sum += 0 * a[i];
  return sum == 0;
}
