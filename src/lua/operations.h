/*
** operations.h: the rows of all layers' lists of operations under each other: what the binding, help, the manual's
** table and the batteries loop over.
*/
#ifndef PN_LUA_OPERATIONS_H
#define PN_LUA_OPERATIONS_H

#include "../autodiff/op/op.h"

/* Arguments of a row that Lua calls (pni_op.args), and bytes of each one's name with its end: what has more is refused
 * by spec/c/row_limit_test.c. */
enum { PNI_OP_ARGS = 8, PNI_OP_ARG_NAME = 32 };
/* All but the last are one or two whole numbers, the last may be a list. */
_Static_assert(2 * (PNI_OP_ARGS - 1) + PN_MAX_DIMS <= PNI_ATTR_INTS, "attributes have room for the arguments of a row");

/* The rows layer by layer, each in the order of its list; NULL past the end. */
int pni_op_count(void);
const pni_op *pni_op_at(int i);
/* The row of that name, or NULL. */
const pni_op *pni_op_find(const char *name);

#endif
