/*
** blas.c: the calls of CBLAS and LAPACKE that the library makes, for a program without OpenBLAS: products of matrices
** by the library's own panels, all else by reference BLAS and LAPACK, which f2c has made C (fortran.lua). Routines
** whose Fortran is too young for f2c are here as well, from their definitions, and what f2c's code calls.
*/
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "../../src/base/processor.h"
#include "../../src/tensor/product/panel_product.h"

typedef int ftnlen; /* of a Fortran string, behind the other arguments */

/* ---- products: vectors of 16 bytes, which become four or two numbers where the processor has none ---- */

#define TARGET
#define BYTES         16
#define ROWS          6
#define REAL          double
#define NAME(f)       f##_f64
#define SPREAD(x)     ((panel_vec_f64){(x), (x)})
#define MADD(x, y, z) ((x) * (y) + (z))
#include "../../src/tensor/product/panel_product_real.h"
#undef FN
#undef LANES
#undef COLUMNS
#undef DEEPEST
#define REAL          float
#define NAME(f)       f##_f32
#define SPREAD(x)     ((panel_vec_f32){(x), (x), (x), (x)})
#define MADD(x, y, z) ((x) * (y) + (z))
#include "../../src/tensor/product/panel_product_real.h"
#undef TARGET
#undef BYTES
#undef ROWS

enum { COL_MAJOR = 102 };

#define REAL       double
#define FORTRAN(f) d##f##_
#define CBLAS(f)   cblas_d##f
#define LAPACKE(f) LAPACKE_d##f##_work
#define FN1(name)  name
#define LIMIT(f)   DBL_##f
#define PRODUCT    panel_product_f64
#define GEMM       reference_dgemm_
#include "blas_real.h"
#define REAL       float
#define FORTRAN(f) s##f##_
#define CBLAS(f)   cblas_s##f
#define LAPACKE(f) LAPACKE_s##f##_work
#define FN1(name)  name##f
#define LIMIT(f)   FLT_##f
#define PRODUCT    panel_product_f32
#define GEMM       reference_sgemm_
#include "blas_real.h"

/* ---- what f2c's code calls ---- */

/* Fortran's strings are filled up with blanks. */
int s_cmp(char *a, char *b, ftnlen la, ftnlen lb) {
  for (int i = 0; i < la || i < lb; i++) {
    int x = i < la ? (unsigned char)a[i] : ' ', y = i < lb ? (unsigned char)b[i] : ' ';
    if (x != y) return x - y;
  }
  return 0;
}

int s_copy(char *to, char *from, ftnlen room, ftnlen length) {
  for (int i = 0; i < room; i++) to[i] = ' ';
  memmove(to, from, (size_t)(length < room ? length : room));
  return 0;
}

int s_cat(char *to, char **part, int *length, int *count, ftnlen room) {
  for (int k = 0, i; k < *count; k++)
    for (i = 0; i < length[k] && room > 0; i++, room--) *to++ = part[k][i];
  while (room-- > 0) *to++ = ' ';
  return 0;
}

int i_len(char *text, ftnlen length) {
  (void)text;
  return length;
}

double d_sign(double *a, double *b) { return copysign(*a, *b); }
double r_sign(float *a, float *b) { return copysign(*a, *b); }
double pow_dd(double *x, double *y) { return pow(*x, *y); }
double pow_di(double *x, int *n) { return pow(*x, *n); }
double pow_ri(float *x, int *n) { return pow(*x, *n); }
int i_nint(float *x) { return (int)lroundf(*x); }
int i_dnnt(double *x) { return (int)lround(*x); }

int pow_ii(int *x, int *n) {
  int y = 1;
  for (int k = 0; k < *n; k++) y *= *x;
  return y;
}

/* An argument that a routine refuses: its caller sees it in info. */
int xerbla_(char *name, int *info, ftnlen length) {
  fprintf(stderr, "LAPACK: argument %d of %.*s\n", *info, (int)length, name);
  return 0;
}
