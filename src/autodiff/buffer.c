/*
** buffer.c: buffers, the operation that attaches an update to a result, and its commitment.
*/
#include <math.h>
#include <string.h>
#include "buffer.h"
#include "nonfinite.h"
#include "replay/replay.h"

static pn_status refuse_inside(pn_context *c, const char *what) {
  return pni_refuse_capture(c, what, "make buffers outside");
}

pn_tensor *pn_buffer(pn_context *c, pn_tensor *t) {
  if (!PNI_GIVEN(c, "buffer", t)) return NULL;
  if (!pni_is_float(t)) {
    pni_fail(c, PN_DTYPE, "buffer: tensor must be float64 or float32, got %s", pn_dtype_name((pn_dtype)t->dtype));
    return NULL;
  }
  if (refuse_inside(c, "buffer")) return NULL;
  pni_spec s = pni_spec_of(t);
  pn_tensor *b = pni_tensor_new(c, &s);
  if (!b || pni_copy(c, b, t)) {
    pn_tensor_unref(b);
    return NULL;
  }
  b->flags = PNI_BUFFER;
  b->storage->version = 1;
  return pni_scoped(c, b);
}

int pn_tensor_is_buffer(const pn_tensor *t) { return t ? (t->flags & PNI_BUFFER) != 0 : 0; }

/* ---- carry: in are y, the buffer and the value; attr r[0] is the rate ---- */

static pn_status infer_carry(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *b = call->in[1], *v = call->in[2];
  char want[PNI_SHAPE_TEXT], got[PNI_SHAPE_TEXT];
  *out = pni_spec_of(call->in[0]);
  if (b->ndim == v->ndim && memcmp(b->shape, v->shape, (size_t)b->ndim * sizeof *b->shape) == 0 && b->dtype == v->dtype)
    return PN_OK;
  return pni_fail(c, PN_SHAPE, "with_update: value must be %s of the buffer's shape %s, got %s of shape %s",
                  pn_dtype_name((pn_dtype)b->dtype), pni_shape_text(b->ndim, b->shape, want),
                  pn_dtype_name((pn_dtype)v->dtype), pni_shape_text(v->ndim, v->shape, got));
}

static bool view_carry(const pni_call *call, pn_tensor *out) { return (void)call, (void)out, true; }

static pn_tensor *vjp_carry(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return (void)c, (void)y, k == 0 ? g : NULL;
}

pn_tensor *pn_with_update(pn_context *c, pn_tensor *y, pn_tensor *buffer, pn_tensor *value, double rate) {
  if (!PNI_GIVEN(c, "with_update", y, value)) return NULL;
  if (!buffer || !(buffer->flags & PNI_BUFFER)) {
    pni_fail(c, PN_STATE, "with_update: buffer must be what pn_buffer made");
    return NULL;
  }
  if (!(rate >= 0 && rate <= 1)) {
    pni_fail(c, PN_DOMAIN, "with_update: rate must lie in [0, 1], got %g", rate);
    return NULL;
  }
  if (c->recorder && ((const pni_tape *)c->recorder)->inner) {
    pni_fail(c, PN_STATE,
             "odeint, sde: f carries the update of a buffer, which no step would commit (evaluate the layer)");
    return NULL;
  }
  pn_tensor *in[] = {y, buffer, pn_contiguous(c, pn_detach(c, value))};
  return pni_apply(c, &pni_op_carry, 3, in, &(pni_attr){.r = {rate}});
}

/* ---- what a result carries ---- */

void pni_updates_free(pn_context *c, pni_updates *u) {
  for (int k = 0; k < u->n; k++) {
    pn_tensor_unref(u->buffer[k]);
    pn_tensor_unref(u->value[k]);
  }
  pni_free(c, u->buffer);
  pni_free(c, u->value);
  pni_free(c, u->rate);
  *u = (pni_updates){0};
}

/* The nodes of the operation move to the front, by the order in which they were made. */
static int64_t pick(pni_nodes *order) {
  int64_t n = 0;
  for (int64_t i = 0; i < order->n; i++) {
    pn_tensor *t = order->v[i];
    if (t->op != &pni_op_carry) continue;
    int64_t at = n++;
    for (; at > 0 && order->v[at - 1]->id > t->id; at--) order->v[at] = order->v[at - 1];
    order->v[at] = t;
  }
  return n;
}

static pn_status fill(pn_context *c, pni_updates *u, int64_t n, pn_tensor *const *node) {
  u->buffer = pni_calloc_array(c, n, sizeof *u->buffer);
  u->value = pni_calloc_array(c, n, sizeof *u->value);
  u->rate = pni_calloc_array(c, n, sizeof *u->rate);
  u->n = u->buffer && u->value && u->rate ? (int)n : 0;
  if (u->n < n) { /* sizes are told by n, so what there is goes now */
    pni_free(c, u->buffer);
    pni_free(c, u->value);
    pni_free(c, u->rate);
    *u = (pni_updates){0};
    return c->status;
  }
  for (int k = 0; k < u->n; k++) {
    u->buffer[k] = pn_tensor_ref(node[k]->in[1].t);
    u->value[k] = pn_tensor_ref(node[k]->in[2].t);
    u->rate[k] = node[k]->attr->r[0];
  }
  return PN_OK;
}

pn_status pni_updates_gather(pn_context *c, pn_tensor *y, pni_updates *u) {
  *u = (pni_updates){0};
  if (pni_failed(c) || !(y->flags & PNI_CARRIES)) return c->status;
  pni_nodes order = {0};
  pni_topological(c, y, &order);
  pni_nodes_unmark(&order);
  int64_t n = pni_failed(c) ? 0 : pick(&order);
  if (n) fill(c, u, n, order.v);
  pni_nodes_free(c, &order);
  return c->status;
}

pn_status pni_updates_check(pn_context *c, const pni_updates *u, pn_tensor *const *value) {
  char s[PNI_SHAPE_TEXT];
  for (int k = 0; k < u->n; k++)
    if (!pni_all_finite(c, value[k]))
      return c->status ? c->status
                       : pni_fail(c, PN_NAN, "buffers: the update of a buffer of shape %s must be finite",
                                  pni_shape_text(value[k]->ndim, value[k]->shape, s));
  return PN_OK;
}

void pni_updates_commit(const pni_updates *u, pn_tensor *const *value) {
  for (int k = 0; k < u->n; k++) {
    pn_tensor *b = u->buffer[k];
    double rate = u->rate[k];
    for (int64_t i = 0; i < b->numel; i++) {
      if (b->dtype == PN_FLOAT64) {
        double *x = (double *)pni_data(b) + i;
        *x = (1 - rate) * *x + rate * ((const double *)pni_data(value[k]))[i];
      } else {
        float *x = (float *)pni_data(b) + i;
        *x = (float)((1 - rate) * (double)*x + rate * (double)((const float *)pni_data(value[k]))[i]);
      }
    }
    b->storage->version++;
  }
}

/* ---- committing without an optimiser ---- */

typedef struct {
  int32_t refs;
  pn_context *ctx;
  pni_updates u;
} commitment;

static void retain(void *object) { ((commitment *)object)->refs++; }

static void release(void *object) {
  commitment *t = object;
  pn_context *c = t->ctx;
  if (--t->refs > 0) return;
  pni_updates_free(c, &t->u);
  pni_free(c, t);
  pni_object_died(c);
}

static pn_status run(pn_context *c, void *object, int n, pn_tensor *const *in) {
  const commitment *t = object;
  (void)n;
  if (pni_updates_check(c, &t->u, in)) return c->status;
  pni_updates_commit(&t->u, in);
  return PN_OK;
}

pn_status pn_update_buffers(pn_context *c, pn_tensor *y) {
  static const pni_effect effect = {run, retain, release};
  if (pni_failed(c)) return c->status;
  if (!y) return pni_fail(c, PN_STATE, "update_buffers: y must be a tensor, got NULL");
  commitment *t = pni_calloc(c, sizeof *t);
  if (!t) return c->status;
  pni_object_born(c);
  t->refs = 1;
  t->ctx = c;
  c->evaluating++;
  if (pni_updates_gather(c, y, &t->u) == PN_OK && t->u.n && pni_updates_check(c, &t->u, t->u.value) == PN_OK &&
      (!c->recorder || pni_record_effect(c, &effect, t, t->u.n, t->u.value) == PN_OK))
    pni_updates_commit(&t->u, t->u.value);
  c->evaluating--;
  release(t);
  return c->status;
}

const pni_op pni_op_carry = {.name = "carry",
                             .args = "y:t buffer:t value:t rate:n",
                             .doc =
                                 "y; with the update of a buffer, which moves to value by rate when a step commits it",
                             .flags = PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE | PNI_OP_CARRIER,
                             .infer = infer_carry,
                             .view = view_carry,
                             .vjp = vjp_carry};
