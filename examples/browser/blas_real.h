/*
** blas_real.h: blas.c for one element type, included with REAL, FORTRAN(f), CBLAS(f), LAPACKE(f), the names of a
** routine in f2c's, CBLAS's and LAPACKE's spelling, FN1(f), that of C's function, LIMIT(f), that of C's limit of the
** type, PRODUCT, the panel product, and GEMM, f2c's of the reference.
*/

typedef const char *FORTRAN(text);

/* ---- products ---- */

int GEMM(FORTRAN(text) ta, FORTRAN(text) tb, const int *m, const int *n, const int *k, const REAL *alpha, const REAL *a,
         const int *lda, const REAL *b, const int *ldb, const REAL *beta, REAL *c, const int *ldc, ftnlen la,
         ftnlen lb);

/* A matrix by columns is its transposed one by rows: C^T = B^T A^T. */
int FORTRAN(gemm)(FORTRAN(text) ta, FORTRAN(text) tb, const int *m, const int *n, const int *k, const REAL *alpha,
                  const REAL *a, const int *lda, const REAL *b, const int *ldb, const REAL *beta, REAL *c,
                  const int *ldc, ftnlen la, ftnlen lb) {
  if (*m <= 0 || *n <= 0) return 0;
  if (*k <= 0 || (*alpha != 1 && *alpha != -1) || (*beta != 0 && *beta != 1))
    return GEMM(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, la, lb);
  bool x_turned = *tb != 'N' && *tb != 'n', y_turned = *ta != 'N' && *ta != 'n';
  pni_panel_product p = {.m = *n, .n = *m, .k = *k, .x = b, .y = a, .out = c, .out_row = *ldc};
  p.x_row = x_turned ? 1 : *ldb;
  p.x_col = x_turned ? *ldb : 1;
  p.y_row = y_turned ? 1 : *lda;
  p.y_col = y_turned ? *lda : 1;
  p.add = *beta == 1;
  p.negative = *alpha == -1;
  PRODUCT(&p);
  return 0;
}

void CBLAS(gemm)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, REAL alpha,
                 const REAL *a, int lda, const REAL *b, int ldb, REAL beta, REAL *c, int ldc) {
  FORTRAN(text) first = ta == CblasNoTrans ? "N" : "T", second = tb == CblasNoTrans ? "N" : "T";
  if (layout == CblasColMajor)
    FORTRAN(gemm)(first, second, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
  else
    FORTRAN(gemm)(second, first, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc, 1, 1);
}

/* ---- the other calls of BLAS; by rows they see the transposed matrix ---- */

int FORTRAN(trsm)(FORTRAN(text) side, FORTRAN(text) uplo, FORTRAN(text) trans, FORTRAN(text) diag, const int *m,
                  const int *n, const REAL *alpha, const REAL *a, const int *lda, REAL *b, const int *ldb, ftnlen,
                  ftnlen, ftnlen, ftnlen);
int FORTRAN(trsv)(FORTRAN(text) uplo, FORTRAN(text) trans, FORTRAN(text) diag, const int *n, const REAL *a,
                  const int *lda, REAL *x, const int *by, ftnlen, ftnlen, ftnlen);
int FORTRAN(gemv)(FORTRAN(text) trans, const int *m, const int *n, const REAL *alpha, const REAL *a, const int *lda,
                  const REAL *x, const int *by_x, const REAL *beta, REAL *y, const int *by_y, ftnlen);
int FORTRAN(symv)(FORTRAN(text) uplo, const int *n, const REAL *alpha, const REAL *a, const int *lda, const REAL *x,
                  const int *by_x, const REAL *beta, REAL *y, const int *by_y, ftnlen);
int FORTRAN(syr)(FORTRAN(text) uplo, const int *n, const REAL *alpha, const REAL *x, const int *by, REAL *a,
                 const int *lda, ftnlen);
int FORTRAN(swap)(const int *n, REAL *x, const int *by_x, REAL *y, const int *by_y);
REAL FORTRAN(dot)(const int *n, const REAL *x, const int *by_x, const REAL *y, const int *by_y);

/* Which triangle it is by columns. */
static FORTRAN(text) FORTRAN(triangle)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo) {
  return (uplo == CblasUpper) == (layout == CblasColMajor) ? "U" : "L";
}

/* Whether it is transposed by columns. */
static FORTRAN(text) FORTRAN(turn)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans) {
  return (trans == CblasNoTrans) == (layout == CblasColMajor) ? "N" : "T";
}

void CBLAS(trsm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, int m,
                 int n, REAL alpha, const REAL *a, int lda, REAL *b, int ldb) {
  bool rows = layout == CblasRowMajor;
  FORTRAN(trsm)
  ((side == CblasLeft) == rows ? "R" : "L", FORTRAN(triangle)(layout, uplo), trans == CblasNoTrans ? "N" : "T",
   diag == CblasUnit ? "U" : "N", rows ? &n : &m, rows ? &m : &n, &alpha, a, &lda, b, &ldb, 1, 1, 1, 1);
}

void CBLAS(trsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, int n, const REAL *a,
                 int lda, REAL *x, int by) {
  FORTRAN(trsv)
  (FORTRAN(triangle)(layout, uplo), FORTRAN(turn)(layout, trans), diag == CblasUnit ? "U" : "N", &n, a, &lda, x, &by, 1,
   1, 1);
}

void CBLAS(gemv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, int m, int n, REAL alpha, const REAL *a, int lda,
                 const REAL *x, int by_x, REAL beta, REAL *y, int by_y) {
  bool rows = layout == CblasRowMajor;
  FORTRAN(gemv)
  (FORTRAN(turn)(layout, trans), rows ? &n : &m, rows ? &m : &n, &alpha, a, &lda, x, &by_x, &beta, y, &by_y, 1);
}

void CBLAS(symv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, int n, REAL alpha, const REAL *a, int lda, const REAL *x,
                 int by_x, REAL beta, REAL *y, int by_y) {
  FORTRAN(symv)(FORTRAN(triangle)(layout, uplo), &n, &alpha, a, &lda, x, &by_x, &beta, y, &by_y, 1);
}

void CBLAS(syr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, int n, REAL alpha, const REAL *x, int by, REAL *a, int lda) {
  FORTRAN(syr)(FORTRAN(triangle)(layout, uplo), &n, &alpha, x, &by, a, &lda, 1);
}

void CBLAS(swap)(int n, REAL *x, int by_x, REAL *y, int by_y) { FORTRAN(swap)(&n, x, &by_x, y, &by_y); }

REAL CBLAS(dot)(int n, const REAL *x, int by_x, const REAL *y, int by_y) {
  return FORTRAN(dot)(&n, x, &by_x, y, &by_y);
}

/* ---- LAPACK: the library gives matrices by columns alone ---- */

int FORTRAN(getrf)(const int *m, const int *n, REAL *a, const int *lda, int *pivot, int *info);
int FORTRAN(getrs)(FORTRAN(text) trans, const int *n, const int *count, const REAL *a, const int *lda, const int *pivot,
                   REAL *b, const int *ldb, int *info, ftnlen);
int FORTRAN(geqrf)(const int *m, const int *n, REAL *a, const int *lda, REAL *tau, REAL *work, const int *size,
                   int *info);
int FORTRAN(orgqr)(const int *m, const int *n, const int *k, REAL *a, const int *lda, const REAL *tau, REAL *work,
                   const int *size, int *info);
int FORTRAN(potrf)(FORTRAN(text) uplo, const int *n, REAL *a, const int *lda, int *info, ftnlen);
int FORTRAN(syevd)(FORTRAN(text) job, FORTRAN(text) uplo, const int *n, REAL *a, const int *lda, REAL *values,
                   REAL *work, const int *size, int *iwork, const int *isize, int *info, ftnlen, ftnlen);
int FORTRAN(gesdd)(FORTRAN(text) job, const int *m, const int *n, REAL *a, const int *lda, REAL *s, REAL *u,
                   const int *ldu, REAL *vt, const int *ldvt, REAL *work, const int *size, int *iwork, int *info,
                   ftnlen);

#define BY_COLUMNS(layout)                                                                                             \
  if ((layout) != COL_MAJOR) return -1
#define SHIFTED(info) ((info) < 0 ? (info)-1 : (info)) /* the layout counts as an argument */

int LAPACKE(getrf)(int layout, int m, int n, REAL *a, int lda, int *pivot) {
  int info = 0;
  BY_COLUMNS(layout);
  FORTRAN(getrf)(&m, &n, a, &lda, pivot, &info);
  return SHIFTED(info);
}

int LAPACKE(getrs)(int layout, char trans, int n, int count, const REAL *a, int lda, const int *pivot, REAL *b,
                   int ldb) {
  int info = 0;
  BY_COLUMNS(layout);
  FORTRAN(getrs)(&trans, &n, &count, a, &lda, pivot, b, &ldb, &info, 1);
  return SHIFTED(info);
}

int LAPACKE(geqrf)(int layout, int m, int n, REAL *a, int lda, REAL *tau, REAL *work, int size) {
  int info = 0;
  BY_COLUMNS(layout);
  FORTRAN(geqrf)(&m, &n, a, &lda, tau, work, &size, &info);
  return SHIFTED(info);
}

int LAPACKE(orgqr)(int layout, int m, int n, int k, REAL *a, int lda, const REAL *tau, REAL *work, int size) {
  int info = 0;
  BY_COLUMNS(layout);
  FORTRAN(orgqr)(&m, &n, &k, a, &lda, tau, work, &size, &info);
  return SHIFTED(info);
}

int LAPACKE(potrf)(int layout, char uplo, int n, REAL *a, int lda) {
  int info = 0;
  BY_COLUMNS(layout);
  FORTRAN(potrf)(&uplo, &n, a, &lda, &info, 1);
  return SHIFTED(info);
}

int LAPACKE(syevd)(int layout, char job, char uplo, int n, REAL *a, int lda, REAL *values, REAL *work, int size,
                   int *iwork, int isize) {
  int info = 0;
  BY_COLUMNS(layout);
  FORTRAN(syevd)(&job, &uplo, &n, a, &lda, values, work, &size, iwork, &isize, &info, 1, 1);
  return SHIFTED(info);
}

int LAPACKE(gesdd)(int layout, char job, int m, int n, REAL *a, int lda, REAL *s, REAL *u, int ldu, REAL *vt, int ldvt,
                   REAL *work, int size, int *iwork) {
  int info = 0;
  BY_COLUMNS(layout);
  FORTRAN(gesdd)(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &size, iwork, &info, 1);
  return SHIFTED(info);
}

/* ---- what f2c cannot read ---- */

/* scale^2 sum becomes itself and the squares of x, without overflow between. */
int FORTRAN(lassq)(const int *n, const REAL *x, const int *by, REAL *scale, REAL *sum) {
  const REAL *at = *by < 0 ? x - (int64_t)(*n - 1) * *by : x;
  for (int i = 0; i < *n; i++, at += *by) {
    REAL a = FN1(fabs)(*at);
    if (a == 0) continue;
    if (!(a <= *scale)) {
      *sum = 1 + *sum * (*scale / a) * (*scale / a);
      *scale = a;
    } else
      *sum += (a / *scale) * (a / *scale);
  }
  return 0;
}

REAL FORTRAN(nrm2)(const int *n, const REAL *x, const int *by) {
  const REAL *at = *by < 0 ? x - (int64_t)(*n - 1) * *by : x;
  REAL sum = 0, scale = 0, scaled = 1;
  for (int i = 0; i < *n; i++) sum += at[i * *by] * at[i * *by];
  if (sum > LIMIT(MIN) / LIMIT(EPSILON) && sum <= LIMIT(MAX)) return FN1(sqrt)(sum);
  FORTRAN(lassq)(n, x, by, &scale, &scaled);
  return scale * FN1(sqrt)(scaled);
}

/* [c s; -s c] (f, g) = (r, 0), where r has the sign of f (Anderson 2017). */
int FORTRAN(lartg)(const REAL *f, const REAL *g, REAL *c, REAL *s, REAL *r) {
  REAL a = FN1(fabs)(*f), b = FN1(fabs)(*g);
  REAL large = FN1(fmax)(a, b), least = FN1(sqrt)(LIMIT(MIN)), most = FN1(sqrt)(LIMIT(MAX) / 4);
  if (*g == 0) {
    *c = 1, *s = 0, *r = *f;
  } else if (*f == 0) {
    *c = 0, *s = FN1(copysign)(1, *g), *r = b;
  } else {
    REAL unit =
        a > least && a < most && b > least && b < most ? 1 : FN1(fmin)(1 / LIMIT(MIN), FN1(fmax)(LIMIT(MIN), large));
    REAL x = *f / unit, y = *g / unit, d = FN1(sqrt)(x * x + y * y), turned = FN1(copysign)(d, *f);
    *c = FN1(fabs)(x) / d;
    *s = y / turned;
    *r = turned * unit;
  }
  return 0;
}

/* Properties of the numbers, by the letter of their name. */
REAL FORTRAN(lamch)(FORTRAN(text) what, ftnlen length) {
  (void)length;
  switch (*what & ~32) {
  case 'E': return LIMIT(EPSILON) / 2;
  case 'S':
  case 'U': return LIMIT(MIN);
  case 'B': return FLT_RADIX;
  case 'P': return LIMIT(EPSILON);
  case 'N': return LIMIT(MANT_DIG);
  case 'R': return 1;
  case 'M': return LIMIT(MIN_EXP);
  case 'L': return LIMIT(MAX_EXP);
  case 'O': return LIMIT(MAX);
  default: return 0;
  }
}

/* A size as a number that is not below it. */
REAL FORTRAN(roundup_lwork_)(const int *size) {
  REAL x = (REAL)*size;
  return (double)x < *size ? x * (1 + LIMIT(EPSILON)) : x;
}

/* The sum as memory keeps it. */
REAL FORTRAN(lamc3)(const REAL *x, const REAL *y) {
  volatile REAL sum = *x + *y;
  return sum;
}

#undef BY_COLUMNS
#undef SHIFTED
#undef REAL
#undef FORTRAN
#undef CBLAS
#undef LAPACKE
#undef FN1
#undef LIMIT
#undef PRODUCT
#undef GEMM
