/*
** gaussian_op.h: the operations of Gaussian sequences, all hidden: the functions pn_kalman_filter ... slice them.
*/
#ifndef PN_SMC_GAUSSIAN_GAUSSIAN_OP_H
#define PN_SMC_GAUSSIAN_GAUSSIAN_OP_H

#include "gaussian_sequence.h"

#define X(name) extern const pni_op pni_gaussian_op_##name;
#include "gaussian_op.def"
#undef X

#endif
