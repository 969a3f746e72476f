/*
** gemm.h: the product of two matrices, by rows, as CBLAS has it. OpenBLAS chooses its kernels when it is loaded, by a
** list of processors that ends where its release does; on a younger one it runs those of an older, at half the speed
** or a third, wherever the library is loaded. There products go to kernels of our own (panel_product.h); where OpenBLAS
** has its best, these are no faster, and BLAS stays. Which of both is a constant of the process.
*/
#ifndef PN_TENSOR_PRODUCT_GEMM_H
#define PN_TENSOR_PRODUCT_GEMM_H

#include <cblas.h>
#include <stdbool.h>
#include <stddef.h>

/* out [m, n] = alpha x y + beta out, x [m, k] and y [k, n] or their transposes, rows ldx, ldy and ld apart. */
void pni_sgemm(CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int m, int n, int k, float alpha, const float *x,
               int ldx, const float *y, int ldy, float beta, float *out, int ld);
void pni_dgemm(CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int m, int n, int k, double alpha, const double *x,
               int ldx, const double *y, int ldy, double beta, double *out, int ld);
/* Whether products take our kernels: as PENUMBRA_PRODUCTS says (processor.h), else as OpenBLAS's choice demands. */
bool pni_gemm_is_own(void);
/* Writes the library's name, version and the processor type whose kernels run. */
void pni_blas_describe(char *out, size_t size);
/* The value of OPENBLAS_CORETYPE that this processor deserves, if OpenBLAS runs kernels of an older one; else NULL. */
const char *pni_blas_better_core(void);

#endif
