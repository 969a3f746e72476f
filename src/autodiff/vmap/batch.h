/*
** batch.h: one operation for a batch of examples. What differs from example to example has the examples along a first
** axis; the rest is the same for all.
*/
#ifndef PN_AUTODIFF_VMAP_BATCH_H
#define PN_AUTODIFF_VMAP_BATCH_H

#include "../replay/replay.h"

typedef struct pni_batch {
  const pni_op *op;
  const pni_attr *attr; /* of one example, as long as its ints in use */
  int nin;
  pn_tensor **in;           /* [n, shape of one...] where mapped; a rule may write here */
  const bool *mapped;       /* at least one is */
  const pni_geometry *like; /* of one example's result */
  int64_t n;                /* examples */
} pni_batch;

/* The operation for all examples: [n, shape of one result...]. By the rule that op.def names, or example by example.
 * Scoped. */
pn_tensor *pni_batch_apply(pn_context *c, const pni_batch *b);
/* t for each of n examples, a view: [n, shape of t...]. Scoped. */
pn_tensor *pni_batch_spread(pn_context *c, pn_tensor *t, int64_t n);

#endif
