/*
** buffer.h: buffers are tensors that change and are not trained, as running statistics are. A forward pass changes
** none: it gives a result that carries the update (op `carry`), and whoever takes the step commits what the loss
** carries, after everything that can fail. So a step that is refused leaves parameters and buffers as they were, a pass
** that no step follows changes nothing, and a plan repeats the update with the step that it belongs to.
*/
#ifndef PN_AUTODIFF_BUFFER_H
#define PN_AUTODIFF_BUFFER_H

#include "graph.h"

/* What a result carries, in the order in which it was computed: buffer[k] goes rate[k] of the way to value[k]. All
 * references are ours. */
typedef struct pni_updates {
  int n;
  pn_tensor **buffer, **value;
  double *rate;
} pni_updates;

/* Fills the empty u with what y carries. To be freed also after a failure. */
pn_status pni_updates_gather(pn_context *c, pn_tensor *y, pni_updates *u);
/* PN_NAN unless all values, value[k] for buffer k, are finite. */
pn_status pni_updates_check(pn_context *c, const pni_updates *u, pn_tensor *const *value);
/* Changes the buffers; cannot fail. */
void pni_updates_commit(const pni_updates *u, pn_tensor *const *value);
void pni_updates_free(pn_context *c, pni_updates *u);

#endif
