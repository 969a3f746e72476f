/*
** kalman_op.h: the operations of the Kalman filter, all hidden: pn_kalman_predict ... slice them.
*/
#ifndef PN_SMC_KALMAN_KALMAN_OP_H
#define PN_SMC_KALMAN_KALMAN_OP_H

#include "../../autodiff/op/op.h"

#define X(name) extern const pni_op pni_kalman_op_##name;
#include "kalman_op.def"
#undef X

#endif
