/*
** blas.h: matrix products on CBLAS. Batches and row blocks are sharded over the context's own threads,
** so the BLAS library is kept to one (threads.c); results do not depend on the number of threads.
*/
#ifndef PN_TENSOR_BLAS_H
#define PN_TENSOR_BLAS_H

#include "tensor.h"

/* out[b] = x[b] y[b] over the last two axes, leading axes broadcast; x and y have at least two axes, all
 * float of one dtype. out is contiguous and starts with the broadcast leading axes; it may lack the row or
 * column axis where that has size 1. */
pn_status pni_matmul(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out);
/* Writes the library's name, version and the processor type whose kernels run. */
void pni_blas_describe(char *out, size_t size);
/* The value of OPENBLAS_CORETYPE that this processor deserves, if OpenBLAS runs kernels of an older one; else NULL. */
const char *pni_blas_better_core(void);

#endif
