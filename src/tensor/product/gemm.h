/*
** gemm.h: the product of two matrices, by rows, as CBLAS has it. OpenBLAS chooses its kernels when it is loaded, by a
** list of processors that ends where its release does; on a younger one it runs those of an older, at half the speed
** or a third, wherever the library is loaded. There products go to kernels of our own (panel_product.h); where OpenBLAS
** has its best, a table says which products do, by shape, element type and level. Nothing is measured when it runs.
*/
#ifndef PN_TENSOR_PRODUCT_GEMM_H
#define PN_TENSOR_PRODUCT_GEMM_H

#include <cblas.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "panel_product.h"

/* out [m, n] = alpha x y + beta out, x [m, k] and y [k, n] or their transposes, rows ldx, ldy and ld apart. */
void pni_sgemm(CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int m, int n, int k, float alpha, const float *x,
               int ldx, const float *y, int ldy, float beta, float *out, int ld);
void pni_dgemm(CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int m, int n, int k, double alpha, const double *x,
               int ldx, const double *y, int ldy, double beta, double *out, int ld);
/* Does that take our kernels? Then each number is the same sum however the product is cut into rows and columns. */
bool pni_gemm_is_ours(bool is_float, CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int64_t m, int64_t n, int64_t k);
/* Do ours take x y + b, a bias of adjacent numbers, all the same? BLAS wants it written out beforehand, ours add it as
 * they write: a gain where sums are short. */
bool pni_gemm_takes_bias(int64_t n, int64_t k);
/* What they are to do, strides of x and y apart, or a part of it. */
void pni_gemm_run(bool is_float, CBLAS_TRANSPOSE trans_x, int ldx, CBLAS_TRANSPOSE trans_y, int ldy,
                  pni_panel_product *p);

/* ---- products of few rows with a matrix that many of them share: our kernels at every level that has some, unless
 * PENUMBRA_PRODUCTS says blas, as BLAS would pack the matrix each time ---- */

/* Numbers that y [k, n] takes packed; 0: it cannot be. */
int64_t pni_gemm_pack_size(int64_t n, int64_t k);
/* y, contiguous, to a place at a multiple of 64 bytes. */
void pni_gemm_pack(bool is_float, int64_t n, int64_t k, const void *y, void *packed);
/* out [m, n] = x [m, k] y, or out + that. The same sums as those of our kernels without packing. */
void pni_gemm_packed(bool is_float, int64_t m, int64_t n, int64_t k, const void *x, const void *packed, bool add,
                     void *out);

/* Whether a product that OpenBLAS has its best kernels for takes ours: what the table says, for y [k, n], x [m, k] or
 * their transposes. */
bool pni_gemm_prefers_own(bool is_float, bool turned_x, bool turned_y, int64_t m, int64_t n, int64_t k);
/* Whether all products take our kernels: as PENUMBRA_PRODUCTS says (processor.h), else as OpenBLAS's choice demands. */
bool pni_gemm_is_own(void);
/* Writes the library's name, version and the processor type whose kernels run. */
void pni_blas_describe(char *out, size_t size);
/* The value of OPENBLAS_CORETYPE that this processor deserves, if OpenBLAS runs kernels of an older one; else NULL. */
const char *pni_blas_better_core(void);

#endif
