/*
** lapack_real.c: lapack.h.
** A row-major matrix is LAPACK's transposed one, which symmetric and triangular problems only see as the
** other triangle; so copies are made for LU (to exchange rows, not columns) and QR alone.
*/
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>
#include "../../base/type_real.h"
#include "lapack.h"

#if PNI_REAL_BITS == 32
#define LAPACK(name) LAPACKE_s##name##_work
#define BLAS(name)   cblas_s##name
#define NORMAL_MIN   0x1p-126
#else
#define LAPACK(name) LAPACKE_d##name##_work
#define BLAS(name)   cblas_d##name
#define NORMAL_MIN   0x1p-1022
#endif
#define SQRT F(sqrt)
#include "divide_real.h"

static void load(void *dst, pni_matrix x) {
  REAL *d = dst;
  const REAL *s = x.data;
  if (x.col_stride == 1 && x.cols > 0) {
    for (int64_t i = 0; i < x.rows; i++, s += x.row_stride, d += x.cols) memcpy(d, s, (size_t)x.cols * sizeof *d);
    return;
  }
  for (int64_t i = 0; i < x.rows; i++, d += x.cols)
    for (int64_t j = 0; j < x.cols; j++) d[j] = s[i * x.row_stride + j * x.col_stride];
}

static void load_symmetric(void *dst, pni_matrix x) {
  REAL *d = dst;
  const REAL *s = x.data;
  int64_t n = x.rows, rs = x.row_stride, cs = x.col_stride;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++)
      d[i * n + j] = d[j * n + i] = (REAL)0.5 * s[i * rs + j * cs] + (REAL)0.5 * s[j * rs + i * cs];
}

static void transpose(void *dst, const void *src, int64_t rows, int64_t cols) {
  load(dst, (pni_matrix){src, cols, rows, 1, cols});
}

static void identity(void *dst, int64_t n) {
  REAL *d = dst;
  memset(d, 0, (size_t)(n * n) * sizeof *d);
  for (int64_t i = 0; i < n; i++) d[i * (n + 1)] = 1;
}

/* 0 * x is 0 for finite x and NaN else; NaN stays in the sum. */
static bool finite_elements(pni_matrix x, int triangle) {
  const REAL *s = x.data;
  REAL sum = 0, other = 0;
  for (int64_t i = 0; i < x.rows; i++) {
    int64_t j = triangle & PNI_UPPER ? i : 0, to = triangle & PNI_TRANSPOSE ? i + 1 : x.cols;
    const REAL *row = s + i * x.row_stride;
    for (; j + 4 <= to; j += 4) { /* sums that do not wait for each other */
      REAL a = 0 * row[j * x.col_stride] + 0 * row[(j + 1) * x.col_stride];
      REAL b = 0 * row[(j + 2) * x.col_stride] + 0 * row[(j + 3) * x.col_stride];
      sum += a;
      other += b;
    }
    for (; j < to; j++) sum += 0 * row[j * x.col_stride];
  }
  return sum + other == 0;
}

/* Small ones by rows: what calls of LAPACK cost is more than they. */
enum { SMALL = 24 };
static int small_cholesky(REAL *a, int n) {
  for (int k = 0; k < n; k++) {
    REAL *row = a + k * n, pivot = row[k];
    if (!(pivot > 0)) return k + 1;
    row[k] = SQRT(pivot);
    REAL inverse = 1 / row[k];
    for (int j = k + 1; j < n; j++) row[j] *= inverse;
    for (int i = k + 1; i < n; i++)
      for (int j = i; j < n; j++) a[i * n + j] -= row[i] * row[j];
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) {
      a[i * n + j] = a[j * n + i];
      a[j * n + i] = 0;
    }
  return 0;
}

static int cholesky(void *a_, int n) {
  REAL *a = a_;
  if (n <= SMALL) return small_cholesky(a, n);
  int info = LAPACK(potrf)(LAPACK_COL_MAJOR, 'U', n, a, n);
  for (int i = 0; i < n; i++) memset(a + (size_t)i * (size_t)n + i + 1, 0, (size_t)(n - i - 1) * sizeof *a);
  return info;
}

static int zero_diagonal(const void *a_, int lda, int n) {
  const REAL *a = a_;
  for (int i = 0; i < n; i++)
    if (a[(size_t)i * (size_t)lda + (size_t)i] == 0) return i + 1;
  return 0;
}

static void triangular(const void *a, int lda, int flags, void *b, int n, int k) {
  BLAS(trsm)
  (CblasRowMajor, CblasLeft, flags & PNI_UPPER ? CblasUpper : CblasLower,
   flags & PNI_TRANSPOSE ? CblasTrans : CblasNoTrans, CblasNonUnit, n, k, 1, a, lda, b, k);
}

/* A x = b for each row: X A^T = B. */
static void triangular_rows(const void *a, int lda, int flags, void *b, int n, int count) {
  BLAS(trsm)
  (CblasRowMajor, CblasRight, flags & PNI_UPPER ? CblasUpper : CblasLower,
   flags & PNI_TRANSPOSE ? CblasNoTrans : CblasTrans, CblasNonUnit, count, n, 1, a, lda, b, n);
}

static int lu(void *a, int *pivot, int n) { return LAPACK(getrf)(LAPACK_COL_MAJOR, n, n, a, n, pivot); }

/* A = P L U. A row-major b is B^T to BLAS: X^T U^T L^T = (P^T B)^T. */
static void lu_solve(const void *lu_, const int *pivot, void *b_, int n, int k) {
  REAL *b = b_;
  for (int i = 0; i < n; i++)
    if (pivot[i] - 1 != i) BLAS(swap)(k, b + (size_t)i * (size_t)k, 1, b + (size_t)(pivot[i] - 1) * (size_t)k, 1);
  BLAS(trsm)(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasUnit, k, n, 1, lu_, n, b, k);
  BLAS(trsm)(CblasColMajor, CblasRight, CblasUpper, CblasTrans, CblasNonUnit, k, n, 1, lu_, n, b, k);
}

static void lu_solve_rows(const void *lu_, const int *pivot, void *b, int n, int count) {
  LAPACK(getrs)(LAPACK_COL_MAJOR, 'N', n, count, lu_, n, pivot, b, n);
}

static void lu_det(const void *lu_, const int *pivot, int n, double out[3]) {
  const REAL *a = lu_;
  double sign = 1, log_abs = 0, part = 1; /* |det| = part 2^power: products of the first pivots alone may overflow */
  int64_t power = 0;
  for (int i = 0; i < n; i++) {
    double d = (double)a[(size_t)i * (size_t)(n + 1)];
    if (pivot[i] - 1 != i) sign = -sign;
    if (d < 0) sign = -sign;
    if (d == 0) sign = 0;
    log_abs += log(fabs(d));
    int e = 0, p = 0;
    part = frexp(part * frexp(fabs(d), &e), &p);
    power += e + p;
  }
  out[0] = sign == 0 ? -INFINITY : log_abs;
  out[1] = sign == 0 ? 0 : sign * ldexp(part, power > 5000 ? 5000 : power < -5000 ? -5000 : (int)power);
  out[2] = sign;
}

/* ---- QR: work holds the transposed matrix, the reflectors' scales and LAPACK's own work ---- */

static void qr_work(int m, int n, int64_t *work, int64_t *iwork) {
  REAL query[2] = {0}, dummy = 0;
  int k = m < n ? m : n;
  LAPACK(geqrf)(LAPACK_COL_MAJOR, m, n, &dummy, m, &dummy, &query[0], -1);
  LAPACK(orgqr)(LAPACK_COL_MAJOR, m, k, k, &dummy, m, &dummy, &query[1], -1);
  *work = (int64_t)m * n + k + (int64_t)(query[0] > query[1] ? query[0] : query[1]);
  *iwork = 0;
}

static int qr(pni_matrix x, void *q, void *r_, void *work, int *iwork, int64_t nwork) {
  (void)iwork;
  int m = (int)x.rows, n = (int)x.cols, k = m < n ? m : n;
  REAL *a = work, *tau = a + (size_t)m * (size_t)n, *rest = tau + k, *r = r_;
  int nrest = (int)(nwork - (rest - a));
  load(a, (pni_matrix){x.data, x.cols, x.rows, x.col_stride, x.row_stride});
  int info = LAPACK(geqrf)(LAPACK_COL_MAJOR, m, n, a, m, tau, rest, nrest);
  for (int i = 0; i < k; i++)
    for (int j = 0; j < n; j++) r[(size_t)i * (size_t)n + (size_t)j] = j < i ? 0 : a[(size_t)j * (size_t)m + (size_t)i];
  if (!info) info = LAPACK(orgqr)(LAPACK_COL_MAJOR, m, k, k, a, m, tau, rest, nrest);
  load(q, (pni_matrix){a, m, k, 1, m});
  return info;
}

/* ---- symmetric eigenproblem: work holds the vectors as rows, then LAPACK's work ---- */

static void eigh_work(int m, int n, int64_t *work, int64_t *iwork) {
  REAL query = 0, dummy = 0;
  lapack_int iquery = 0;
  (void)m;
  LAPACK(syevd)(LAPACK_COL_MAJOR, 'V', 'L', n, &dummy, n, &dummy, &query, -1, &iquery, -1);
  /* a float32 query may have rounded the size down */
  *work = (int64_t)n * n + (int64_t)query + (int64_t)query / 1000000 + 1;
  *iwork = iquery;
}

static int eigh(pni_matrix x, void *values, void *vectors, void *work, int *iwork, int64_t nwork, int64_t niwork) {
  int n = (int)x.rows;
  REAL *a = work;
  int64_t used = x.rows * x.rows;
  load_symmetric(a, x);
  int info =
      LAPACK(syevd)(LAPACK_COL_MAJOR, 'V', 'L', n, a, n, values, a + used, (int)(nwork - used), iwork, (int)niwork);
  transpose(vectors, a, n, n);
  return info;
}

/* ---- SVD: A^T = V S U^T to LAPACK, so its u is our vt and its vt our u ---- */

static void svd_work(int m, int n, int64_t *work, int64_t *iwork) {
  REAL query = 0, dummy = 0;
  lapack_int idummy = 0;
  int k = m < n ? m : n;
  LAPACK(gesdd)(LAPACK_COL_MAJOR, 'S', n, m, &dummy, n, &dummy, &dummy, n, &dummy, k, &query, -1, &idummy);
  *work = (int64_t)m * n + (int64_t)query + (int64_t)query / 1000000 + 1;
  *iwork = 8 * (int64_t)k;
}

static int svd(pni_matrix x, void *u, void *s, void *vt, void *work, int *iwork, int64_t nwork) {
  int m = (int)x.rows, n = (int)x.cols, k = m < n ? m : n;
  REAL *a = work;
  int64_t used = x.rows * x.cols;
  load(a, x);
  return LAPACK(gesdd)(LAPACK_COL_MAJOR, 'S', n, m, a, n, s, vt, n, u, k, a + used, (int)(nwork - used), iwork);
}

const pni_lapack TYPED(pni_lapack) = {
    .load = load,
    .load_symmetric = load_symmetric,
    .transpose = transpose,
    .identity = identity,
    .finite = finite_elements,
    .cholesky = cholesky,
    .zero_diagonal = zero_diagonal,
    .triangular = triangular,
    .triangular_rows = triangular_rows,
    .lu = lu,
    .lu_solve = lu_solve,
    .lu_solve_rows = lu_solve_rows,
    .lu_det = lu_det,
    .divisible = divisible,
    .lu_divide = lu_divide,
    .lu_solve_divide = lu_solve_divide,
    .triangular_divide = triangular_divide,
    .qr_work = qr_work,
    .qr = qr,
    .eigh_work = eigh_work,
    .eigh = eigh,
    .svd_work = svd_work,
    .svd = svd,
};
