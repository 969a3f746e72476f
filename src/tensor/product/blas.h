/*
** blas.h: matrix products. Batches and row blocks are sharded over the context's own threads,
** so the BLAS library is kept to one (threads.c); results do not depend on the number of threads.
*/
#ifndef PN_TENSOR_PRODUCT_BLAS_H
#define PN_TENSOR_PRODUCT_BLAS_H

#include "../tensor.h"
#include "small_product.h"

/* out[b] = x[b] y[b] + bias over the last two axes, leading axes broadcast; x and y have at least two axes, all
 * float of one dtype. out is contiguous and starts with the broadcast leading axes; it may lack the row or
 * column axis where that has size 1. bias is NULL or of one axis, added to every row. */
pn_status pni_matmul(pn_context *c, const pn_tensor *x, const pn_tensor *y, const pn_tensor *bias, pn_tensor *out);

/* A product with everything decided but the numbers: for operands whose addresses stay. */
typedef struct pni_product {
  pni_small_product_kernel kernel; /* called with tiny, or NULL: BLAS by what follows */
  pni_small_product tiny;
  int trans_x, trans_y, ldx, ldy; /* as CBLAS takes them */
  int dtype;
  int64_t m, n, k;
  int64_t blocks, part, units, grain;       /* parts per matrix, rows or columns of a part; shards of all of it */
  bool columns;                             /* parts are columns */
  bool ours;                                /* by our kernels */
  int64_t together;                         /* shards that take a tenth of a second at most */
  int nbatch;                               /* leading axes */
  const int64_t *shape;                     /* of the result, borrowed */
  int64_t sx[PN_MAX_DIMS], sy[PN_MAX_DIMS]; /* element strides of the leading axes */
  const char *x, *y;
  char *out;
  const void *bias; /* elements, bias_step apart, or NULL */
  int64_t bias_step;
  const pn_tensor *added; /* with kernel: the bias or NULL, and where it is added */
  pn_tensor *out_tensor;
} pni_product;
/* Prepares what pni_matmul would do; false where that needs copies of the operands or other kernels. */
bool pni_product_prepare(const pn_tensor *x, const pn_tensor *y, const pn_tensor *bias, pn_tensor *out, pni_product *p);
pn_status pni_product_run(pn_context *c, const pni_product *p);
#endif
