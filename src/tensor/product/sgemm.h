/*
** sgemm.h: cblas_sgemm, which takes subnormal numbers (below 2^-126) for zero and gives none. A processor spends a
** hundred cycles on each of them, and float32 meets them soon: squares of 1e-20, a normal density 13 deviations out.
*/
#ifndef PN_TENSOR_PRODUCT_SGEMM_H
#define PN_TENSOR_PRODUCT_SGEMM_H

#include <cblas.h>

void pni_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k, float alpha,
               const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

#endif
