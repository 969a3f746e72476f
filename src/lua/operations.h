/*
** operations.h: the rows of all layers' lists of operations under each other: what the binding, help, the README's table
** and the batteries loop over.
*/
#ifndef PN_LUA_OPERATIONS_H
#define PN_LUA_OPERATIONS_H

#include "../autodiff/op/op.h"

/* The rows layer by layer, each in the order of its list; NULL past the end. */
int pni_op_count(void);
const pni_op *pni_op_at(int i);
/* The row of that name, or NULL. */
const pni_op *pni_op_find(const char *name);

#endif
