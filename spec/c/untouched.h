/*
** untouched.h: tensors of any size without its memory, for what looks at shapes alone.
*/
#ifndef PN_SPEC_UNTOUCHED_H
#define PN_SPEC_UNTOUCHED_H

#include "../../src/tensor/tensor.h"

/* A matrix of any shape, none of whose elements may be touched. */
static inline pn_tensor *untouched(pn_context *c, pn_dtype dtype, int64_t rows, int64_t cols) {
  pn_tensor *t = pni_scoped(c, pni_tensor_alias(c, pn_scalar(c, dtype, 1)));
  t->ndim = 2;
  t->shape[0] = rows, t->shape[1] = cols;
  pni_set_contiguous_strides(t);
  t->numel = rows * cols;
  return t;
}

#endif
