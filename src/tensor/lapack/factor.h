/*
** factor.h: factorisations with several results, over batches: each matrix's factors are packed into one row
** of the contiguous `out` [..., size]; k = min(m, n). Failures as in linalg.h; PN_SINGULAR: no convergence.
*/
#ifndef PN_TENSOR_LAPACK_FACTOR_H
#define PN_TENSOR_LAPACK_FACTOR_H

#include "lapack.h"

typedef enum pni_factor_kind {
  PNI_FACTOR_QR,   /* q [m, k], r [k, n] */
  PNI_FACTOR_EIGH, /* values [n] ascending, vectors [n, n] as columns, of (x + x^T) / 2 */
  PNI_FACTOR_SVD   /* u [m, k], s [k] descending, vt [k, n] */
} pni_factor_kind;

/* Elements of the packed factors of an m x n matrix. */
int64_t pni_factor_size(int kind, int64_t m, int64_t n);
pn_status pni_factor(pn_context *c, const char *where, int kind, const pn_tensor *x, pn_tensor *out);

#endif
