/*
** op_own_gradient.c: a value with a gradient of one's own (JAX's custom_vjp): the operation of y, computed without a
** graph, a rule (an object that rides on a tensor) and the inputs x from which y was computed.
*/
#include <string.h>
#include "rule.h"

typedef pn_tensor T;
typedef pn_context C;

enum { Y, RULE, X };
enum { Y_INSIDE = 1 }; /* inputs of the capture: g, y, x */

/* ---- the rule ---- */

typedef struct {
  pni_tape *tape;
  int n, out[PNI_RULE_INPUTS]; /* values of the results */
  bool cut[PNI_RULE_INPUTS];   /* which of them were given without their graph */
} rule;

static void release(C *c, void *object) {
  rule *r = object;
  pni_tape_free(c, r->tape);
  pni_object_died(c);
}

static pn_status copy(C *c, const void *old, void *object) {
  rule *r = object;
  *r = *(const rule *)old;
  r->tape = pni_tape_copy(c, r->tape);
  if (!pni_failed(c)) return PN_OK;
  if (r->tape) release(c, r);
  return c->status;
}

static const pni_cargo cargo = {release, copy};

/* The rule that rides on t, if it is one for n inputs; or NULL. */
static const rule *rule_of(const T *t, int n) {
  const rule *r = t && t->storage->cargo == &cargo ? t->storage->data : NULL;
  return r && r->n == n ? r : NULL;
}

/* A parameter from outside would be read when the gradient is asked for, and not when y was computed. */
static pn_status check_tape(C *c, const pni_tape *tape) {
  if (tape->event.n)
    return pni_fail(c, PN_STATE, "compile: a gradient must not draw random numbers or update parameters");
  for (int64_t i = 0; i < tape->value.n; i++)
    if (tape->value.v[i].outside && tape->value.v[i].outside->storage->version != 0)
      return pni_fail(c, PN_STATE, "compile: a parameter from outside is used: pass it as an argument");
  return PN_OK;
}

static pn_status fill(C *c, rule *r, pni_tape *tape, int n, T *const *out) {
  r->n = n;
  for (int k = 0; k < n; k++) {
    if ((r->out[k] = out[k] ? pni_tape_value(c, tape, out[k]) : -1) < 0) return c->status;
    r->cut[k] = !(out[k]->flags & PNI_REQUIRES_GRAD);
  }
  return check_tape(c, tape) ? c->status : pni_tape_check_whole(c, tape);
}

T *pni_rule_end(C *c, int n, T *const *out) {
  pni_spec bytes = {.dtype = PN_BOOL, .ndim = 1, .shape = {(int64_t)sizeof(rule)}};
  pni_tape *tape = (pni_tape *)c->recorder;
  bool fits = tape && n <= PNI_RULE_INPUTS && tape->ninput == n + 2;
  if (!pni_failed(c) && !fits) pni_fail(c, PN_STATE, "own_gradient: there is no capture of g, y and %d inputs", n);
  T *t = pni_failed(c) ? NULL : pni_scoped(c, pni_tensor_new(c, &bytes));
  if (!t || fill(c, t->storage->data, tape, n, out)) {
    pn_capture_cancel(c);
    return NULL;
  }
  pni_capture_leave(c, tape); /* an object: the rule's from here on */
  ((rule *)t->storage->data)->tape = tape;
  t->storage->cargo = &cargo;
  return t;
}

/* ---- applying it ---- */

/* A value as the function had it: it may have cut its graph. */
static T *without_graph(C *c, T *t, bool cut) { return cut && t && t->flags & PNI_REQUIRES_GRAD ? pn_detach(c, t) : t; }

static T *apply_note(C *c, const pni_tape *tape, const pni_note *note, T *const *value) {
  T *few[PNI_OP_INPUTS], **in = note->nin <= PNI_OP_INPUTS ? few : pni_alloc_array(c, note->nin, sizeof *in);
  for (int k = 0; in && k < note->nin; k++)
    in[k] = without_graph(c, value[tape->edge.v[note->first + k]], tape->cut.v[note->first + k]);
  T *y = in ? pni_apply(c, note->op, note->nin, in, pni_attr_of(tape, note)) : NULL;
  if (in && in != few) pni_free(c, in);
  return y;
}

/* The values that the wanted results need. */
static void mark_needed(const rule *r, const bool *wanted, bool *needed) {
  const pni_tape *tape = r->tape;
  for (int k = 0; k < r->n; k++)
    if (wanted[k]) needed[r->out[k]] = true;
  for (int64_t i = tape->note.n - 1; i >= 0; i--) {
    const pni_note *note = &tape->note.v[i];
    for (int k = 0; needed[note->out] && k < note->nin; k++) needed[tape->edge.v[note->first + k]] = true;
  }
}

/* The wanted gradients for g, y and x in `in`; scoped, as everything on the way. */
static pn_status apply(C *c, const rule *r, T *const *in, const bool *wanted, T **out) {
  const pni_tape *tape = r->tape;
  size_t values = (size_t)tape->value.n;
  T **value = pni_alloc_array(c, tape->value.n, sizeof *value);
  bool *needed = pni_calloc(c, values);
  if (value && needed) {
    mark_needed(r, wanted, needed);
    for (size_t i = 0; i < values; i++) value[i] = i < (size_t)tape->ninput ? in[i] : tape->value.v[i].outside;
    for (int64_t i = 0; i < tape->note.n && !pni_failed(c); i++) {
      const pni_note *note = &tape->note.v[i];
      if (needed[note->out]) value[note->out] = apply_note(c, tape, note, value);
    }
    for (int k = 0; k < r->n; k++)
      if (wanted[k]) out[k] = without_graph(c, value[r->out[k]], r->cut[k]);
  }
  pni_free(c, value);
  pni_free(c, needed);
  return c->status;
}

/* ---- the operation ---- */

/* The rule's notes hold the sizes of the capture: y and x must have them. */
static pn_status infer(C *c, const pni_call *call, pni_spec *out) {
  const rule *r = rule_of(call->nin > RULE ? call->in[RULE] : NULL, call->nin - X);
  *out = pni_spec_of(call->in[Y]);
  if (!r) return pni_fail(c, PN_STATE, "own_gradient: there is no rule for %d inputs", call->nin - X);
  for (int k = 0; k < call->nin; k++) {
    const pni_geometry *g = pni_geometry_of(r->tape, k < X ? Y_INSIDE : Y_INSIDE + 1 + k - X);
    pni_spec captured = {.dtype = g->dtype, .ndim = g->ndim};
    memcpy(captured.shape, g->shape, sizeof captured.shape);
    if (k != RULE && pni_require_like(c, call, k, &captured)) return c->status;
  }
  return PN_OK;
}

/* The result is y itself: shape, strides and offset are there. */
static bool view(const pni_call *call, T *out) {
  (void)call, (void)out;
  return true;
}

static const rule *inputs_of(T *y, T *g, T **in) {
  in[0] = g;
  in[1] = y;
  for (int k = X; k < y->nin; k++) in[k] = pni_in(y, k);
  return pni_in(y, RULE)->storage->data;
}

static T *vjp(C *c, T *y, T *g, int k) {
  T *in[PNI_OP_INPUTS], *out[PNI_OP_INPUTS] = {NULL};
  bool wanted[PNI_OP_INPUTS] = {false};
  const rule *r = inputs_of(y, g, in);
  if (k < X) return NULL; /* y was computed without a graph */
  wanted[k - X] = true;
  return apply(c, r, in, wanted, out) ? NULL : out[k - X];
}

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[PNI_OP_INPUTS];
  return apply(c, inputs_of(y, g, in), in, wanted + X, out + X);
}

T *pni_own_gradient(C *c, T *y, T *t, int n, T *const *x) {
  T *in[PNI_OP_INPUTS] = {y, t};
  if (pni_failed(c)) return NULL;
  if (!y || n > PNI_RULE_INPUTS || !rule_of(t, n)) {
    pni_fail(c, PN_STATE, "own_gradient: there is no rule for %d inputs", n);
    return NULL;
  }
  for (int k = 0; k < n; k++) in[X + k] = x[k];
  return pni_apply(c, &pni_op_own_gradient, X + n, in, NULL);
}

const pni_op pni_op_own_gradient = {
    .name = "own_gradient",
    .args = "y:t rule:t x:T",
    .doc = "y with the gradient that a rule gives: a part of pn.op",
    .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN,
    .infer = infer,
    .view = view,
    .vjp = vjp,
    .vjps = vjps,
};
