/*
** divide_real.h: elimination and substitution that divide by pivots, a part of lapack_real.c. LAPACK, BLAS and the
** interleaved kernels multiply by reciprocals, and a subnormal number has none: then these do it, without blocks.
** Zeros are passed over, so that an element that overflows leaves alone what does not depend on it.
*/

/* Has every number on the diagonal, `step` elements apart, a reciprocal or is 0? Not so NaN. */
static bool divisible(const void *a_, int64_t step, int n) {
  const REAL *a = a_;
  for (int i = 0; i < n; i++, a += step)
    if (!(fabs((double)*a) >= NORMAL_MIN || *a == 0)) return false;
  return true;
}

static void exchange_rows(REAL *a, int64_t i, int64_t j, int64_t n, int64_t row, int64_t col) {
  for (int64_t c = 0; c < n; c++) {
    REAL t = a[i * row + c * col];
    a[i * row + c * col] = a[j * row + c * col];
    a[j * row + c * col] = t;
  }
}

/* a (column-major) becomes its LU factors, as from getrf. */
static int lu_divide(void *a_, int *pivot, int n_) {
  REAL *a = a_;
  int64_t n = n_;
  int info = 0;
  for (int64_t j = 0; j < n; j++) {
    int64_t p = j;
    for (int64_t i = j + 1; i < n; i++)
      if (fabs((double)a[i + j * n]) > fabs((double)a[p + j * n])) p = i;
    pivot[j] = (int)p + 1;
    if (a[p + j * n] == 0) {
      if (!info) info = (int)j + 1;
      continue;
    }
    if (p != j) exchange_rows(a, j, p, n, 1, n);
    for (int64_t i = j + 1; i < n; i++) {
      REAL m = a[i + j * n] /= a[j + j * n];
      for (int64_t c = j + 1; m != 0 && c < n; c++) a[i + c * n] -= m * a[j + c * n];
    }
  }
  return info;
}

/* b (row-major [n, k]) becomes T^-1 b for the triangle T[i, j] = a[i row + j col], whose diagonal is 1 if `unit`. */
static void substitute(const REAL *a, int64_t row, int64_t col, bool lower, bool unit, REAL *b, int64_t n, int64_t k) {
  for (int64_t step = 0; step < n; step++) {
    int64_t i = lower ? step : n - 1 - step;
    for (int64_t j = lower ? 0 : i + 1; j < (lower ? i : n); j++) {
      REAL t = a[i * row + j * col];
      for (int64_t c = 0; t != 0 && c < k; c++) b[i * k + c] -= t * b[j * k + c];
    }
    for (int64_t c = 0; !unit && c < k; c++) b[i * k + c] /= a[i * row + i * col];
  }
}

static void lu_solve_divide(const void *lu, const int *pivot, void *b, int n, int k) {
  for (int i = 0; i < n; i++)
    if (pivot[i] - 1 != i) exchange_rows(b, i, pivot[i] - 1, k, k, 1);
  substitute(lu, 1, n, true, true, b, n, k);
  substitute(lu, 1, n, false, false, b, n, k);
}

static void triangular_divide(const void *a, int lda, int flags, void *b, int n, int k) {
  bool swap = (flags & PNI_TRANSPOSE) != 0, lower = ((flags & PNI_UPPER) != 0) == swap;
  substitute(a, swap ? 1 : lda, swap ? lda : 1, lower, false, b, n, k);
}
