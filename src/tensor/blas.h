/*
** blas.h: matrix products on CBLAS. Batches and row blocks are sharded over the context's own threads,
** so the BLAS library is kept to one (threads.c); results do not depend on the number of threads.
*/
#ifndef PN_TENSOR_BLAS_H
#define PN_TENSOR_BLAS_H

#include "tensor.h"
#include "tiny/tiny.h"

/* out[b] = x[b] y[b] over the last two axes, leading axes broadcast; x and y have at least two axes, all
 * float of one dtype. out is contiguous and starts with the broadcast leading axes; it may lack the row or
 * column axis where that has size 1. */
pn_status pni_matmul(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out);

/* A product with everything decided but the numbers: for operands whose addresses stay. */
typedef struct pni_product {
  pni_tiny_kernel kernel; /* called with tiny, or NULL: BLAS by what follows */
  pni_tiny tiny;
  int trans_x, trans_y, ldx, ldy; /* as CBLAS takes them */
  int dtype;
  int64_t m, n, k;
  int64_t blocks, rows, units, grain;       /* row blocks per matrix, rows per block; shards of all of it */
  int nbatch;                               /* leading axes */
  const int64_t *shape;                     /* of the result, borrowed */
  int64_t sx[PN_MAX_DIMS], sy[PN_MAX_DIMS]; /* element strides of the leading axes */
  const char *x, *y;
  char *out;
} pni_product;
/* Prepares what pni_matmul would do; false where that needs copies of the operands or other kernels. */
bool pni_product_prepare(const pn_tensor *x, const pn_tensor *y, pn_tensor *out, pni_product *p);
pn_status pni_product_run(pn_context *c, const pni_product *p);
/* Writes the library's name, version and the processor type whose kernels run. */
void pni_blas_describe(char *out, size_t size);
/* The value of OPENBLAS_CORETYPE that this processor deserves, if OpenBLAS runs kernels of an older one; else NULL. */
const char *pni_blas_better_core(void);

#endif
