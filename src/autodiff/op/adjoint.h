/*
** adjoint.h: gradients of an elementwise operation in several inputs from one kernel. The adjoint is a hidden
** operation of the inputs and of the result's gradient g; it gives those that are wanted under each other, as
** [count, shape of the result...].
*/
#ifndef PN_AUTODIFF_OP_ADJOINT_H
#define PN_AUTODIFF_OP_ADJOINT_H

#include "op.h"

/* What the adjoint's kernel gets as data. Operand 0 is the first of the wanted gradients, the last operand is g. */
typedef struct pni_adjoint {
  int64_t wanted;      /* bit k: the gradient in input k */
  int64_t apart;       /* elements from one gradient to the next */
  const int64_t *ints; /* of the operation itself */
} pni_adjoint;

/* Position of the gradient in input k among the wanted ones, or -1. */
static inline int pni_adjoint_place(const pni_adjoint *a, int k) {
  int place = 0;
  for (int i = 0; i < k; i++) place += (int)(a->wanted >> i & 1);
  return a->wanted >> k & 1 ? place : -1;
}

/* For `infer` and `eval` of an adjoint; attr: `wanted`, then the ints of the operation. row: one kernel per float type. */
pn_status pni_adjoint_infer(pn_context *c, const pni_call *call, pni_spec *out);
pn_status pni_adjoint_eval(pn_context *c, const pni_call *call, pn_tensor *out, const pni_map_kernel row[2]);

/* For `vjps`: the adjoint of y's inputs and g, cut into out[k] of the shape of y. Through y's vjp where the adjoint would
 * have too many axes. */
pn_status pni_adjoint_apply(pn_context *c, const pni_op *adjoint, pn_tensor *y, pn_tensor *g, const bool *wanted,
                            pn_tensor **out);

#endif
