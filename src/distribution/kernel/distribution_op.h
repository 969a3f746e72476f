/*
** distribution_op.h: the operations of densities, all hidden: parts of distributions and Bayesian layers.
*/
#ifndef PN_DISTRIBUTION_KERNEL_DISTRIBUTION_OP_H
#define PN_DISTRIBUTION_KERNEL_DISTRIBUTION_OP_H

#include "../../autodiff/op/op.h"

#define X(name) extern const pni_op pni_distribution_op_##name;
#include "distribution_op.def"
#undef X

#endif
