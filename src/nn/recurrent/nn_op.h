/*
** nn_op.h: the operations of layers, all hidden.
*/
#ifndef PN_NN_RECURRENT_NN_OP_H
#define PN_NN_RECURRENT_NN_OP_H

#include "../../autodiff/op/op.h"

#define X(name) extern const pni_op pni_nn_op_##name;
#include "nn_op.def"
#undef X

#endif
