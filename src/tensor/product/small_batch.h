/* small_batch.h: batches of small matrix products. */
#ifndef PN_TENSOR_PRODUCT_SMALL_BATCH_H
#define PN_TENSOR_PRODUCT_SMALL_BATCH_H

#include "../tensor.h"

/* out[b] = x[b] y[b] over the last two axes, leading axes broadcast, as pni_matmul takes them. Returns false, having
 * done nothing, for what lanes or BLAS do better; shapes and strides alone decide. Else it is done or c has failed. */
bool pni_small_batch(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out);

#endif
