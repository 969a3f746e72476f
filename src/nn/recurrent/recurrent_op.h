/* recurrent_op.h: what the rows of gated recurrences share; builders as everywhere: scoped, NULL passes. */
#ifndef PN_NN_RECURRENT_RECURRENT_OP_H
#define PN_NN_RECURRENT_RECURRENT_OP_H

#include "nn_op.h"
#include "recurrent.h"

/* The three gradients that those of all inputs are made of, from g, the one of the result y, in operations; `step` has
 * room for a tensor a step. */
typedef void (*pni_recurrent_walk)(pn_context *c, pn_tensor *y, pn_tensor *g, pn_tensor **step, pn_tensor *d[3]);
/* Gradients of the wanted inputs of y from these. */
typedef void (*pni_recurrent_share)(pn_context *c, pn_tensor *y, pn_tensor *const d[3], const bool *wanted,
                                    pn_tensor **out);
/* The gradient of input k of y = [..., T, B, H] by both. */
pn_tensor *pni_recurrent_vjp(pn_context *c, pn_tensor *y, pn_tensor *g, int k, pni_recurrent_walk walk,
                             pni_recurrent_share share);
/* The kernels of t's element type. */
const pni_recurrent_kernels *pni_recurrent_kernels_of(const pn_tensor *t);

/* PN_OK if in[0] is [T, B, gates H], in[1] [gates H, H] and in[k] for k >= `states` [B, H], all of one float type. */
pn_status pni_recurrent_check(pn_context *c, const pni_call *call, const char *where, int gates, int states);
/* Gradients where there is no step: zeros. */
pn_status pni_recurrent_nothing(pn_tensor *out);
/* Runs f on contiguous copies of the operands (or on themselves) unless the result is empty. */
pn_status pni_recurrent_on_contiguous(pn_context *c, const pni_call *call, pn_tensor *out,
                                      pn_status (*f)(pn_context *, pn_tensor *const *, pn_tensor *));
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
/* Runs a kernel over the rows of the batch with scratch of its own. */
pn_status pni_recurrent_run(pn_context *c, pni_recurrence *j, int gates, int dtype, pni_shard body);

#endif
