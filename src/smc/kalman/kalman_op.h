/*
** kalman_op.h: the operations of the Kalman filter, all hidden: pn_kalman_predict ... slice them.
*/
#ifndef PN_SMC_KALMAN_KALMAN_OP_H
#define PN_SMC_KALMAN_KALMAN_OP_H

#include "../../autodiff/op/op.h"

/* An operand: its name and shape for messages, its own axes and their sizes. */
typedef struct pni_kalman_input {
  const char *name, *shape;
  int rank;
  int64_t size[2];
} pni_kalman_input;

/* The leading axes of all operands broadcast, each operand of the shape that the orders n and p (of operand y; 0: there
 * is none) ask for. */
pn_status pni_kalman_infer(pn_context *c, const pni_call *call, const char *where, const pni_kalman_input *o, int y,
                           pni_spec *out);
/* The order that a matrix's last axis (or the one before, back = 2) gives; 0 with PN_SHAPE. */
int64_t pni_kalman_order(pn_context *c, const char *where, const char *name, const pn_tensor *x, int back);

#define X(name) extern const pni_op pni_kalman_op_##name;
#include "kalman_op.def"
#undef X

#endif
