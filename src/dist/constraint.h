/*
** constraint.h: the set a parameter or a value must lie in. One const descriptor each; messages, the
** check of parameters and the support of densities all read it.
*/
#ifndef PN_DIST_CONSTRAINT_H
#define PN_DIST_CONSTRAINT_H

#include "../tensor/tensor.h"

typedef struct pni_constraint {
  const char *name; /* "positive" */
  const char *must; /* completes "must be ...", "positive" */
  int rank;         /* trailing axes that one member of the set takes */
  bool discrete;
  double low, high; /* ends of a set of numbers that is an interval; both 0 otherwise */
  /* Is this one a member? `x` holds it row-major as doubles and may be overwritten if rank > 0;
   * `size` its sizes. NaN never is. */
  bool (*holds)(double *x, const int64_t *size);
  /* Writes a member; NULL: every element 1. */
  void (*member)(double *x, const int64_t *size);
} pni_constraint;

/* PN_OK if every member of x (any dtype, at least k->rank axes) satisfies k; else PN_DOMAIN with
 * "<where>: <role> must be <what>, got <value>". */
pn_status pni_constraint_require(pn_context *c, const pni_constraint *k, const char *where, const char *role,
                                 const pn_tensor *x);
/* bool tensor of x's shape without the last k->rank axes. Scoped, no graph. */
pn_tensor *pni_constraint_mask(pn_context *c, const pni_constraint *k, const pn_tensor *x);
/* One member with the given sizes (k->rank of them). Scoped. */
pn_tensor *pni_constraint_member(pn_context *c, const pni_constraint *k, pn_dtype dtype, const int64_t *size);

int pni_constraint_count(void);
const pni_constraint *pni_constraint_at(int i);

#define X(name) extern const pni_constraint pni_constraint_##name;
#include "constraint.def"
#undef X

#endif
