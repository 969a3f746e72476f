/*
** lapack.h: factorisations of one matrix through LAPACKE and CBLAS, once per element type. Everything works
** on contiguous buffers that the caller provides, nothing allocates, and the BLAS library keeps to one
** thread: batches are sharded over the context's own threads (linalg.c).
** "Row-major" buffers hold the matrix as tensors do; "column-major" ones hold its transpose.
*/
#ifndef PN_TENSOR_LAPACK_LAPACK_H
#define PN_TENSOR_LAPACK_LAPACK_H

#include "../tensor.h"

enum { PNI_UPPER = 1, PNI_TRANSPOSE = 2 };

/* A matrix inside a tensor. */
typedef struct pni_matrix {
  const void *data;
  int64_t rows, cols, row_stride, col_stride; /* strides in elements */
} pni_matrix;

typedef struct pni_lapack {
  /* The matrix into row-major dst. */
  void (*load)(void *dst, pni_matrix x);
  /* (x + x^T) / 2 into dst; n x n. */
  void (*load_symmetric)(void *dst, pni_matrix x);
  /* Row-major src, rows x cols, into dst transposed. */
  void (*transpose)(void *dst, const void *src, int64_t rows, int64_t cols);
  void (*identity)(void *dst, int64_t n);
  /* Is every element finite (flags: 0 of all, PNI_UPPER of the upper, PNI_TRANSPOSE of the lower triangle)? */
  bool (*finite)(pni_matrix x, int triangle);
  /* a (row-major, symmetric) becomes L with zeros above; returns 0 or the order of the failing minor. */
  int (*cholesky)(void *a, int n);
  /* The number (from 1) of the first zero on the diagonal of a, whose rows are lda apart, or 0. */
  int (*zero_diagonal)(const void *a, int lda, int n);
  /* b [n, k] becomes op(a)^-1 b, a triangular, row-major with rows lda apart. */
  void (*triangular)(const void *a, int lda, int flags, void *b, int n, int k);
  /* The same for `count` right sides that are the rows of b [count, n]. */
  void (*triangular_rows)(const void *a, int lda, int flags, void *b, int n, int count);
  /* a (column-major) becomes its LU factors with rows exchanged; returns 0 or the number of the zero pivot. */
  int (*lu)(void *a, int *pivot, int n);
  /* b (row-major [n, k]) becomes A^-1 b. */
  void (*lu_solve)(const void *lu, const int *pivot, void *b, int n, int k);
  /* The same for `count` right sides that are the rows of b [count, n]. */
  void (*lu_solve_rows)(const void *lu, const int *pivot, void *b, int n, int count);
  /* out: log |det A|, det A, its sign; -inf, 0, 0 of a singular matrix. */
  void (*lu_det)(const void *lu, const int *pivot, int n, double out[3]);
  /* Has every number on a diagonal, `step` elements apart, a reciprocal or is 0? If not, the three functions below take
   * the place of lu, lu_solve and triangular, whose results are of no use. */
  bool (*divisible)(const void *a, int64_t step, int n);
  int (*lu_divide)(void *a, int *pivot, int n);
  void (*lu_solve_divide)(const void *lu, const int *pivot, void *b, int n, int k);
  void (*triangular_divide)(const void *a, int lda, int flags, void *b, int n, int k);
  /* Sizes of `work` in elements and `iwork` in ints for an m x n matrix. */
  void (*qr_work)(int m, int n, int64_t *work, int64_t *iwork);
  /* q [m, k], r [k, n] row-major, k = min(m, n). */
  int (*qr)(pni_matrix x, void *q, void *r, void *work, int *iwork, int64_t nwork);
  void (*eigh_work)(int m, int n, int64_t *work, int64_t *iwork);
  /* Ascending values [n] and row-major vectors [n, n], vector j in column j, of the symmetric part. Non-zero:
   * no convergence. */
  int (*eigh)(pni_matrix x, void *values, void *vectors, void *work, int *iwork, int64_t nwork, int64_t niwork);
  void (*svd_work)(int m, int n, int64_t *work, int64_t *iwork);
  /* u [m, k], s [k] descending, vt [k, n]. Non-zero: no convergence. */
  int (*svd)(pni_matrix x, void *u, void *s, void *vt, void *work, int *iwork, int64_t nwork);
} pni_lapack;

extern const pni_lapack pni_lapack_f64, pni_lapack_f32;

#endif
