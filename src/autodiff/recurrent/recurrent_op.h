/* recurrent_op.h: what the rows of gated recurrences share; builders as everywhere: scoped, NULL passes. */
#ifndef PN_AUTODIFF_RECURRENT_RECURRENT_OP_H
#define PN_AUTODIFF_RECURRENT_RECURRENT_OP_H

#include "../op.h"
#include "../../tensor/recurrent/recurrent.h"

/* PN_OK if in[0] is [T, B, gates H], in[1] [gates H, H] and in[k] for k >= `states` [B, H], all of one float type. */
pn_status pni_recurrent_check(pn_context *c, const pni_call *call, const char *where, int gates, int states);
/* Contiguous copies (or the tensors themselves) of n operands; PN_OK with references that the caller gives back. */
pn_status pni_recurrent_hold(pn_context *c, int n, pn_tensor *const *in, pn_tensor **held);
void pni_recurrent_let_go(int n, pn_tensor **held);
/* W [G, H] as [H, G] in memory; a new reference. */
pn_tensor *pni_recurrent_turned(pn_context *c, const pn_tensor *w);
/* [before, h without its last step]: what each step of [T, B, H] started from. */
pn_tensor *pni_recurrent_before(pn_context *c, pn_tensor *first, pn_tensor *h);
/* Steps [B, H] as [T, B, H]. */
pn_tensor *pni_recurrent_stack(pn_context *c, int64_t n, pn_tensor *const *t);
/* Part k of width H of the last axis. */
pn_tensor *pni_recurrent_part(pn_context *c, pn_tensor *t, int64_t k, int64_t hidden);
/* Elements start .. of a row of numbers as a tensor of this shape. */
pn_tensor *pni_recurrent_cut(pn_context *c, pn_tensor *t, int64_t start, int ndim, const int64_t *shape);
/* Gradient of W: sum over steps and rows of dgh^T h, dgh [T, B, G]. */
pn_tensor *pni_recurrent_weight(pn_context *c, pn_tensor *dgh, pn_tensor *before);
/* h W^T + b (b may be NULL) of all steps: [T, B, H] -> [T, B, G]. */
pn_tensor *pni_recurrent_project(pn_context *c, pn_tensor *h, pn_tensor *w, pn_tensor *b);
/* `rows` rows of numbers of `all` from element `start` on become h W^T + b (b may be NULL); `turned` is W^T. */
pn_status pni_recurrent_fill(pn_context *c, const pn_tensor *h, int64_t rows, const pn_tensor *turned,
                             const pn_tensor *b, const pn_tensor *all, int64_t start);
/* Runs a kernel over the rows of the batch with scratch of its own. */
pn_status pni_recurrent_run(pn_context *c, pni_recurrence *j, int gates, int dtype, pni_shard body);

#endif
