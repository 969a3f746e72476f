/*
** apply_op.c: applying an operation. One function does it for all rows: check inputs, infer the result,
** view or compute, and record the node if a gradient may flow. A node keeps its inputs alive.
*/
#include <string.h>
#include "nonfinite.h"
#include "op/op.h"
#include "replay/replay.h"

static pn_status check_dtypes(pn_context *c, const pni_call *call) {
  const pni_op *op = call->op;
  if (op->flags & PNI_OP_ANY_DTYPE) return PN_OK;
  for (int k = 0; k < call->nin; k++) {
    int d = call->in[k]->dtype;
    bool fits = d <= PN_FLOAT32 || (d == PN_INT64 && op->flags & PNI_OP_INTEGER);
    if (!fits)
      return pni_fail(c, PN_DTYPE, "%s: tensor must be %s, got %s (convert with :to)", op->name,
                      op->flags & PNI_OP_INTEGER ? "float64, float32 or int64" : "float64 or float32",
                      pn_dtype_name((pn_dtype)d));
    if (d != call->in[0]->dtype)
      return pni_fail(c, PN_DTYPE, "%s: tensors must have one dtype, got %s and %s (convert with :to)", op->name,
                      pn_dtype_name((pn_dtype)call->in[0]->dtype), pn_dtype_name((pn_dtype)d));
  }
  return PN_OK;
}

pn_status pni_same_float(pn_context *c, const pni_call *call, int *dtype) {
  *dtype = call->in[0]->dtype;
  return check_dtypes(c, call);
}

static pn_status broadcast_all(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *a = call->in[0];
  *out = pni_spec_of(a);
  for (int k = 1; k < call->nin; k++) {
    const pn_tensor *b = call->in[k];
    if (b->dtype != a->dtype && call->op->map)
      return pni_fail(c, PN_DTYPE, "%s: tensors must have one dtype, got %s and %s (convert with :to)", call->op->name,
                      pn_dtype_name((pn_dtype)a->dtype), pn_dtype_name((pn_dtype)b->dtype));
    pn_tensor joint = {.dtype = out->dtype, .ndim = out->ndim};
    memcpy(joint.shape, out->shape, sizeof joint.shape);
    if (pni_broadcast(c, call->op->name, &joint, b, out)) return c->status;
  }
  return PN_OK;
}

static pn_status run_map(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_map_kernel row = call->op->map[call->in[0]->dtype];
  if (!row)
    return pni_fail(c, PN_DTYPE, "%s: not defined for %s (convert with :to)", call->op->name,
                    pn_dtype_name((pn_dtype)call->in[0]->dtype));
  const pni_attr *a = call->attr;
  void *data = a->ni ? (void *)(uintptr_t)a->i : (void *)(uintptr_t)a->r;
  pni_loop l;
  pni_loop_init(&l, out, call->nin, call->in);
  return pni_loop_run(c, &l, row, data);
}

/* Axes of one element get the strides that a contiguous tensor has: kernels may read rows that run on by any stride. */
static void settle_strides(pn_tensor *t) {
  int64_t run = 1;
  for (int i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] == 1) t->stride[i] = run;
    run *= t->shape[i];
  }
}

static pn_tensor *viewed(pn_context *c, const pni_call *call, const pni_spec *spec) {
  int64_t n = pni_checked_count(c, spec);
  pn_tensor *y = n < 0 ? NULL : pni_tensor_alias(c, call->in[0]);
  if (!y) return NULL;
  y->ndim = spec->ndim;
  y->numel = n;
  memcpy(y->shape, spec->shape, sizeof y->shape);
  if (call->op->view(call, y)) {
    settle_strides(y);
    return y;
  }
  pn_tensor_unref(y);
  return NULL;
}

static pn_tensor *computed(pn_context *c, const pni_call *call, const pni_spec *spec) {
  pn_tensor *y = pni_tensor_new(c, spec);
  if (!y) return NULL;
  const pni_op *op = call->op;
  c->evaluating++;
  pn_status s = op->map ? run_map(c, call, y) : op->eval(c, call, y);
  c->evaluating--;
  if (s == PN_OK) return y;
  pn_tensor_unref(y);
  return NULL;
}

static const pni_attr no_attr; /* of calls without one */

static pn_status record(pn_context *c, const pni_call *call, pn_tensor *y) {
  const pni_attr *a = call->attr;
  if (a != &no_attr) {
    size_t bytes = offsetof(pni_attr, i) + (size_t)pni_times(a->ni, sizeof a->i[0]);
    y->attr = pni_alloc(c, bytes);
    if (!y->attr) return c->status;
    memcpy(y->attr, a, bytes);
  }
  if (call->nin > PNI_INLINE_EDGES) {
    pni_edge *in = pni_alloc_array(c, call->nin, sizeof *in);
    if (!in) return c->status;
    y->in = in;
  }
  for (int k = 0; k < call->nin; k++) {
    y->in[k].t = pn_tensor_ref(call->in[k]);
    y->in[k].version = call->in[k]->storage->version;
    y->flags |= call->in[k]->flags & PNI_CARRIES;
  }
  y->nin = call->nin;
  y->op = call->op;
  y->id = c->next_id++;
  y->flags |= call->op->flags & PNI_OP_CARRIER ? PNI_REQUIRES_GRAD | PNI_CARRIES : PNI_REQUIRES_GRAD;
  return PN_OK;
}

static bool wants_gradient(const pn_context *c, const pni_call *call) {
  if (c->no_grad || call->op->flags & PNI_OP_NODIFF) return false;
  for (int k = 0; k < call->nin; k++)
    if (call->in[k]->flags & PNI_REQUIRES_GRAD) return true;
  return (call->op->flags & PNI_OP_CARRIER) != 0;
}

/* Loops have room for so many operands, eagerly and in plans. */
static pn_status check_operands(pn_context *c, const pni_call *call) {
  if (call->nin < PNI_OPERANDS || !(call->op->map || call->op->kernel)) return PN_OK;
  return pni_fail(c, PN_DOMAIN, "%s: at most %d tensors are possible, got %d", call->op->name, PNI_OPERANDS - 1,
                  call->nin);
}

/* The rule that rows with an axis need not repeat. */
static pn_status check_axis(pn_context *c, const pni_call *call) {
  if (call->nin == 0) return pni_fail(c, PN_DOMAIN, "%s: list must hold at least one tensor", call->op->name);
  const pn_tensor *x = call->in[0];
  int64_t axis = call->attr->i[0];
  if (axis >= 0 && axis < x->ndim) return PN_OK;
  if (x->ndim == 0) return pni_fail(c, PN_SHAPE, "%s: tensor must have an axis, got a 0-d one", call->op->name);
  return pni_fail(c, PN_SHAPE, "%s: axis must lie in the tensor's %d axes, got number %lld", call->op->name, x->ndim,
                  (long long)(axis < 0 ? axis : axis + 1));
}

static bool is_whole(const pn_tensor *x) { return x && !pni_is_float(x); }

/* Fails where y is the first with a NaN. */
static pn_status trap_nan(pn_context *c, const pni_call *call, const pn_tensor *y) {
  if (!pni_has_nan(c, y)) return PN_OK;
  for (int k = 0; k < call->nin; k++)
    if (pni_has_nan(c, call->in[k])) return PN_OK;
  char s[PNI_SHAPE_TEXT];
  return pni_fail(c, PN_DOMAIN, "%s: gives NaN (result of shape %s) and no input has one", call->op->name,
                  pni_shape_text(y->ndim, y->shape, s));
}

pn_tensor *pni_apply(pn_context *c, const pni_op *op, int nin, pn_tensor *const *in, const pni_attr *attr) {
  if (op->flags & PNI_OP_AS_FLOAT && is_whole(in[0])) return pni_apply1(c, op, pn_cast(c, in[0], PN_FLOAT64), attr);
  if (pni_failed(c) || pni_check_cancel(c)) return NULL;
  for (int k = 0; k < nin; k++)
    if (!in[k]) {
      pni_fail(c, PN_STATE, "%s: input %d must be a tensor, got NULL", op->name, k + 1);
      return NULL;
    }
  pni_call call = {op, in, nin, attr ? attr : &no_attr};
  pni_spec spec;
  if (c->recorder && pni_record_refuses(c, &call)) return NULL;
  if (check_operands(c, &call) || check_dtypes(c, &call)) return NULL;
  if (op->flags & PNI_OP_AXIS && check_axis(c, &call)) return NULL;
  if (op->infer ? op->infer(c, &call, &spec) : broadcast_all(c, &call, &spec)) return NULL;
  pn_tensor *y = op->view ? viewed(c, &call, &spec) : NULL;
  if (!y && !pni_failed(c) && (op->eval || op->map)) y = computed(c, &call, &spec);
  if (y && ((c->trap_nan && trap_nan(c, &call, y)) || (c->recorder && pni_record_apply(c, &call, y)) ||
            (wants_gradient(c, &call) && record(c, &call, y)))) {
    pn_tensor_unref(y);
    return NULL;
  }
  return pni_scoped(c, y);
}

pn_tensor *pni_like(pn_context *c, const pn_tensor *x, double value) {
  return x ? pn_scalar(c, (pn_dtype)x->dtype, value) : NULL;
}

pn_tensor *pni_flat_rows(pn_context *c, pn_tensor *t) {
  if (!t || t->ndim == 2) return t;
  return pn_reshape(c, t, 2, (int64_t[]){pni_count(t->ndim - 1, t->shape), t->shape[t->ndim - 1]});
}

pn_tensor *pni_sum_to(pn_context *c, pn_tensor *g, const pn_tensor *x) {
  if (!g || !x) return NULL;
  pn_axes axes = {0, {0}}, last = {0, {0}}; /* that end the shape, as places of images do: rows, which fuse */
  int lead = g->ndim - x->ndim;
  bool same = lead == 0;
  for (int i = 0; i < g->ndim; i++) {
    if (i >= lead && x->shape[i - lead] == g->shape[i]) continue;
    same = false;
    if (i < lead || g->shape[i] != 1) axes.axis[axes.n++] = i;
  }
  if (same) return g;
  for (int i = g->ndim - 1; axes.n && axes.axis[axes.n - 1] == i; i--) last.axis[last.n++] = axes.axis[--axes.n];
  if (last.n) g = pn_sum(c, g, last, 1);
  if (axes.n && g) g = pn_sum(c, g, axes, 1);
  if (g && g->ndim == x->ndim && memcmp(g->shape, x->shape, (size_t)x->ndim * sizeof *x->shape) == 0) return g;
  /* a gradient smaller than x (an op may return one value for all) is repeated */
  if (g && pni_count(g->ndim, g->shape) != x->numel) return pn_broadcast_to(c, g, x->ndim, x->shape);
  return pn_reshape(c, g, x->ndim, x->shape);
}

int pn_set_no_grad(pn_context *c, int off) {
  int old = c->no_grad;
  c->no_grad = off != 0;
  return old;
}
