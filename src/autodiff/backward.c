/*
** backward.c: reverse accumulation. The graph below y, inputs first (graph.c), is walked from y down; each
** row's vjp builds the gradients with the same builders, so with create_graph they can be differentiated
** again.
*/
#include <string.h>
#include "graph.h"
#include "slice_parts.h"

/* d y / d node for the nodes of `order`, as far as they are needed; each entry holds a reference. */
typedef struct {
  pni_nodes order;
  pn_tensor **grad;
  uint8_t *needed;
  pni_slice_parts parts; /* of gradients, still to be added */
  bool spends;           /* each entry of `order` holds a reference, or is NULL once it is done with */
} sweep;

static void sweep_free(pn_context *c, sweep *s) {
  for (int64_t i = 0; s->grad && i < s->order.n; i++) pn_tensor_unref(s->grad[i]);
  pni_free(c, s->grad);
  pni_free(c, s->needed);
  pni_slice_parts_free(c, &s->parts);
  for (int64_t i = 0; s->spends && i < s->order.n; i++) {
    if (s->order.v[i]) s->order.v[i]->mark = 0;
    pn_tensor_unref(s->order.v[i]);
  }
  if (!s->spends) pni_nodes_unmark(&s->order);
  pni_nodes_free(c, &s->order);
}

/* Node i is done with: it lets go of what it was computed from, and the sweep of it. (Slices are looked at again when
 * the gradients of all slices of a tensor are joined.) */
static void spend(sweep *s, int64_t i) {
  pn_tensor *t = s->order.v[i];
  if (!s->spends || !t->op || pni_slice_parts_takes(t)) return;
  t->mark = 0;
  pni_tensor_cut(t);
  s->order.v[i] = NULL;
  pn_tensor_unref(t);
}

/* (What is carried is not read.) */
static pn_status fresh(pn_context *c, const pn_tensor *t) {
  if (t->op->flags & PNI_OP_CARRIER) return PN_OK;
  for (int k = 0; k < t->nin; k++) {
    const pn_tensor *in = t->in[k].t;
    if (in->storage->version == t->in[k].version) continue;
    char buf[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_STALE,
                    "backward: a parameter under '%s' (shape %s) was changed after the graph was made; compute the "
                    "loss again before differentiating",
                    t->op->name, pni_shape_text(in->ndim, in->shape, buf));
  }
  return PN_OK;
}

/* Adds g to the gradient of node `at`. */
static pn_status accumulate(pn_context *c, sweep *s, int64_t at, pn_tensor *g) {
  pn_tensor **slot = &s->grad[at];
  pn_tensor *sum = *slot ? pn_add(c, *slot, g) : g;
  if (!sum) return c->status;
  pn_tensor_ref(sum);
  pn_tensor_unref(*slot);
  *slot = sum;
  return PN_OK;
}

/* Adds what came from slices of node `at`. */
static pn_status accumulate_parts(pn_context *c, sweep *s, int64_t at) {
  if (s->parts.last[at] < 0) return PN_OK;
  pn_tensor *sum = pni_slice_parts_join(c, &s->parts, at);
  return sum ? accumulate(c, s, at, sum) : c->status;
}

/* g of the slice y waits for those of other slices of the same tensor. */
static pn_status keep_part(pn_context *c, sweep *s, pn_tensor *y, pn_tensor *g) {
  const pn_tensor *in = y->in[0].t;
  int64_t at = in->mark - 1;
  if (!(in->flags & PNI_REQUIRES_GRAD) || !s->needed[at]) return PN_OK;
  if (pni_slice_parts_add(c, &s->parts, at, y, g)) return c->status;
  return pni_slice_parts_are_many(&s->parts, at) ? accumulate_parts(c, s, at) : PN_OK;
}

/* Has the gradient of y's one input begun, in memory that nobody else sees? */
static bool begun(const pn_context *c, const sweep *s, const pn_tensor *y) {
  const pn_tensor *sum = s->grad[y->in[0].t->mark - 1];
  return sum && c->no_grad && !c->recorder && sum->refs == 1 && sum->storage->refs == 1 && pni_is_contiguous(sum);
}

static bool is_like(const pn_tensor *d, const pn_tensor *in) {
  return d->dtype == in->dtype && d->ndim == in->ndim &&
         memcmp(d->shape, in->shape, (size_t)in->ndim * sizeof *in->shape) == 0;
}

/* The same numbers in other axes, or one for all. */
static bool repeats(const pn_tensor *d, const pn_tensor *in) {
  return d->dtype == in->dtype && (d->numel == in->numel || d->numel == 1) && !is_like(d, in);
}

static pn_tensor *repeated(pn_context *c, pn_tensor *d, const pn_tensor *in) {
  if (d->numel == in->numel) return pn_reshape(c, d, in->ndim, in->shape);
  return pn_broadcast_to(c, pn_reshape(c, d, 0, d->shape), in->ndim, in->shape);
}

static pn_status refuse_gradient(pn_context *c, const pn_tensor *y, const pn_tensor *d, const pn_tensor *in) {
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  return pni_fail(c, PN_SHAPE, "%s: its gradient must be %s %s as the input is, got %s %s", y->op->name,
                  pn_dtype_name((pn_dtype)in->dtype), pni_shape_text(in->ndim, in->shape, s),
                  pn_dtype_name((pn_dtype)d->dtype), pni_shape_text(d->ndim, d->shape, t));
}

static pn_status through(pn_context *c, sweep *s, pn_tensor *y, pn_tensor *g) {
  pn_tensor *all[PNI_OP_INPUTS];
  bool wanted[PNI_OP_INPUTS], together = y->op->vjps && c->no_grad && y->nin <= PNI_OP_INPUTS;
  if (fresh(c, y)) return c->status;
  if (pni_slice_parts_takes(y)) return keep_part(c, s, y, g);
  if (y->op->vjp_add && begun(c, s, y)) return y->op->vjp_add(c, y, g, s->grad[y->in[0].t->mark - 1]);
  for (int k = 0; together && k < y->nin; k++) {
    const pn_tensor *in = y->in[k].t;
    wanted[k] = in->flags & PNI_REQUIRES_GRAD && s->needed[in->mark - 1];
    all[k] = NULL;
  }
  if (together && y->op->vjps(c, y, g, wanted, all)) return c->status;
  for (int k = 0; k < y->nin; k++) {
    pn_tensor *in = y->in[k].t;
    if (!(in->flags & PNI_REQUIRES_GRAD) || !s->needed[in->mark - 1]) continue;
    if (k && y->op->flags & PNI_OP_ASIDE && s->needed[in->mark - 1] != 2) continue;
    pn_tensor *d = together ? all[k] : y->op->vjp(c, y, g, k);
    if (d && y->op->flags & PNI_OP_ELEMENTWISE)
      d = pni_sum_to(c, d, in);
    else if (d && repeats(d, in))
      d = repeated(c, d, in);
    if (!d) return c->status ? c->status : pni_fail(c, PN_MISSING, "%s: has no derivative", y->op->name);
    if (!is_like(d, in)) return refuse_gradient(c, y, d, in);
    if (accumulate(c, s, in->mark - 1, d)) return c->status;
  }
  return PN_OK;
}

static pn_status sweep_run(pn_context *c, sweep *s, pn_tensor *y) {
  int64_t n = s->order.n;
  for (int64_t i = 0; i < n; i++) { /* a node is needed if an input is */
    pn_tensor *t = s->order.v[i];
    for (int k = 0; k < t->nin && !s->needed[i]; k++) {
      pn_tensor *in = t->in[k].t;
      if (in->flags & PNI_REQUIRES_GRAD && s->needed[in->mark - 1]) s->needed[i] = 1;
    }
  }
  size_t mark = pn_scope_open(c);
  pn_tensor *one = pn_full(c, (pn_dtype)y->dtype, y->ndim, y->shape, 1);
  s->grad[n - 1] = pn_tensor_ref(one);
  for (int64_t i = n - 1; one && i >= 0; i--) {
    pn_tensor *t = s->order.v[i];
    if (!s->needed[i]) {
      spend(s, i);
      continue;
    }
    size_t inner = pn_scope_open(c);
    pn_status status = accumulate_parts(c, s, i);
    if (status == PN_OK && t->op && s->grad[i]) status = through(c, s, t, s->grad[i]);
    pn_scope_close(c, inner);
    if (status) break;
    if (!t->op) continue;
    if (s->needed[i] == 1) { /* not asked for itself: its gradient is spent */
      pn_tensor_unref(s->grad[i]);
      s->grad[i] = NULL;
    }
    spend(s, i);
  }
  pn_scope_close(c, mark);
  return c->status;
}

static pn_status sweep_start(pn_context *c, sweep *s, pn_tensor *y) {
  if (pni_failed(c)) return c->status;
  if (!y) return pni_fail(c, PN_STATE, "backward: y must be a tensor, got NULL");
  if (y->numel != 1) {
    char buf[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_SHAPE, "backward: y must have one element, got shape %s",
                    pni_shape_text(y->ndim, y->shape, buf));
  }
  if (!(y->flags & PNI_REQUIRES_GRAD))
    return pni_fail(c, PN_STATE,
                    "backward: y does not depend on a parameter (made under no_grad, of constants, or through whole "
                    "numbers or truth values, which have no gradient?)");
  if (pni_topological(c, y, &s->order)) {
    s->spends = false;
    return c->status;
  }
  for (int64_t i = 0; s->spends && i < s->order.n; i++) pn_tensor_ref(s->order.v[i]);
  s->grad = pni_calloc_array(c, s->order.n, sizeof *s->grad);
  s->needed = pni_calloc(c, (size_t)s->order.n);
  pni_slice_parts_open(c, &s->parts, s->order.n);
  return c->status;
}

static pn_status backward(pn_context *c, pn_tensor *y, bool spends) {
  sweep s = {.spends = spends};
  int old = pn_set_no_grad(c, 1);
  if (sweep_start(c, &s, y) == PN_OK) {
    for (int64_t i = 0; i < s.order.n; i++)
      if (!s.order.v[i]->op) s.needed[i] = 2;
    sweep_run(c, &s, y);
  }
  /* all sums first, then all parameters: a failure leaves every gradient as it was */
  size_t mark = pn_scope_open(c);
  for (int64_t i = 0; i < s.order.n && !pni_failed(c); i++) {
    pn_tensor *p = s.order.v[i];
    if (s.needed[i] != 2 || !s.grad[i] || !p->grad) continue;
    if (!pni_has_slot(c, p->grad)) pni_refuse_capture(c, "adding to an earlier gradient", "use grad");
    accumulate(c, &s, i, p->grad);
  }
  for (int64_t i = 0; i < s.order.n && !pni_failed(c); i++) {
    pn_tensor *p = s.order.v[i];
    if (s.needed[i] != 2 || !s.grad[i]) continue;
    pn_tensor_unref(p->grad);
    p->grad = s.grad[i];
    s.grad[i] = NULL;
  }
  pn_scope_close(c, mark);
  sweep_free(c, &s);
  pn_set_no_grad(c, old);
  return c->status;
}

pn_status pn_backward(pn_context *c, pn_tensor *y) { return backward(c, y, false); }

/* What goes serves gradients of any size: none of it waits for its own. */
pn_status pni_backward_spend(pn_context *c, pn_tensor *y) {
  size_t limit = c->pool_limit;
  c->pool_limit = 0;
  pn_status status = backward(c, y, true);
  c->pool_limit = limit;
  return status;
}

/* Of what no graph leads to there is no gradient; says how there would be one. */
static pn_status check_inputs(pn_context *c, int n, pn_tensor *const *x) {
  for (int k = 0; k < n && !pni_failed(c); k++)
    if (!x[k] || !(x[k]->flags & PNI_REQUIRES_GRAD))
      pni_fail(c, PN_STATE, "grad: input %d must be a parameter or depend on one, got %s", k + 1,
               !x[k] ? "NULL" : "data (call x:requires_grad(true) before anything is computed from it)");
  return c->status;
}

pn_status pn_grad(pn_context *c, pn_tensor *y, int n, pn_tensor *const *x, int create_graph, pn_tensor **out) {
  if (!PNI_LISTED(c, "grad", n, x, out)) return c->status;
  sweep s = {0};
  int old = create_graph ? c->no_grad : pn_set_no_grad(c, 1);
  if (check_inputs(c, n, x) == PN_OK && sweep_start(c, &s, y) == PN_OK) {
    for (int k = 0; k < n; k++)
      if (x[k]->mark > 0) s.needed[x[k]->mark - 1] = 2;
    sweep_run(c, &s, y);
  }
  size_t first = c->scope_len; /* the results come to stand there; out is written when all exist */
  for (int k = 0; k < n && !pni_failed(c); k++) {
    pn_tensor *g = x[k]->mark > 0 ? s.grad[x[k]->mark - 1] : NULL;
    if (g)
      pni_scoped(c, pn_tensor_ref(g));
    else
      pn_zeros(c, (pn_dtype)x[k]->dtype, x[k]->ndim, x[k]->shape);
  }
  for (int k = 0; k < n && !pni_failed(c); k++) out[k] = c->scope[first + (size_t)k];
  sweep_free(c, &s);
  pn_set_no_grad(c, old);
  return c->status;
}
