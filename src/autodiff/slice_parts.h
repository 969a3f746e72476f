/*
** slice_parts.h: gradients of slices of one tensor, put together when all are there: those that do not overlap, as the
** steps of a series or the pieces of a packed row, are one tensor joined of them, instead of a sum of as many tensors
** that are zero elsewhere.
*/
#ifndef PN_AUTODIFF_SLICE_PARTS_H
#define PN_AUTODIFF_SLICE_PARTS_H

#include "op/op.h"

/* The gradient g (a reference is held) of a slice y, and the part of the same tensor that came before, or -1. */
typedef struct pni_slice_part {
  pn_tensor *y, *g;
  int64_t before, elements; /* of this part and those before it */
} pni_slice_part;

typedef struct pni_slice_parts {
  pni_slice_part *v;
  int64_t n, cap;
  int64_t *last; /* by node: its latest part, or -1 */
  int64_t nodes;
} pni_slice_parts;

pn_status pni_slice_parts_open(pn_context *c, pni_slice_parts *p, int64_t nodes);
void pni_slice_parts_free(pn_context *c, pni_slice_parts *p);
/* Is y a slice whose gradient can wait? */
bool pni_slice_parts_takes(const pn_tensor *y);
/* Keeps the gradient g of the slice y of node `at`. */
pn_status pni_slice_parts_add(pn_context *c, pni_slice_parts *p, int64_t at, pn_tensor *y, pn_tensor *g);
/* Do the parts of node `at`, which has some, take more than twice its memory? Then they overlap. */
bool pni_slice_parts_are_many(const pni_slice_parts *p, int64_t at);
/* The gradient of node `at` from its parts, which are forgotten. Scoped; NULL where there are none, or c has failed. */
pn_tensor *pni_slice_parts_join(pn_context *c, pni_slice_parts *p, int64_t at);

#endif
