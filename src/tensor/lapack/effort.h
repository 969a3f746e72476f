/*
** effort.h: factorisations under a time limit. LAPACK cannot be interrupted within one matrix: what takes longer than
** is left is refused before it begins, by the known number of its operations and the pace of this processor, which is
** measured once per context, when it is first asked for. Between two matrices of a batch limits are looked at.
*/
#ifndef PN_TENSOR_LAPACK_EFFORT_H
#define PN_TENSOR_LAPACK_EFFORT_H

#include "../tensor.h"

/* PN_OK if a factorisation of one rows x cols matrix in so many operations ends before the context's deadline;
 * PN_CANCELLED "<where>: ..." if not. */
pn_status pni_check_effort(pn_context *c, const char *where, int dtype, int64_t rows, int64_t cols, double operations);

#endif
