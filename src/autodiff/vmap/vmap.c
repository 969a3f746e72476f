/*
** vmap.c: one computation for a batch of examples. It is captured on the first example; the notes are then done again
** with the examples along a first axis (batch.c), by operations like any others: what comes out has gradients, and may
** be part of a capture. What does not depend on the examples is computed once.
*/
#include <string.h>
#include "batch.h"
#include "../replay/replay.h"

/* What a value of the tape is for the batch. */
typedef struct {
  pn_tensor *t; /* a reference is ours */
  bool mapped;  /* [n, shape of one...] */
  int64_t last; /* the last note that reads it, or that it is kept to the end */
} batch_value;

static const int64_t to_the_end = INT64_MAX;

/* ---- begin ---- */

static pn_status check_inputs(pn_context *c, int n, pn_tensor *const *in, const int *mapped, int64_t *batch) {
  int first = -1;
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  for (int k = 0; k < n; k++) {
    if (!in[k]) return pni_fail(c, PN_STATE, "vmap: input %d must be a tensor, got NULL", k + 1);
    if (!mapped[k]) continue;
    if (in[k]->ndim == 0) return pni_fail(c, PN_SHAPE, "vmap: input %d must have an axis of examples, got 0-d", k + 1);
    if (first < 0) first = k;
    if (in[k]->shape[0] != in[first]->shape[0])
      return pni_fail(c, PN_SHAPE, "vmap: inputs must hold as many examples along their first axis, got %s and %s",
                      pni_shape_text(in[first]->ndim, in[first]->shape, a),
                      pni_shape_text(in[k]->ndim, in[k]->shape, b));
  }
  if (first < 0) return pni_fail(c, PN_DOMAIN, "vmap: at least one input must hold examples, got none");
  *batch = in[first]->shape[0];
  return PN_OK;
}

static pni_examples *keep(pn_context *c, int n, pn_tensor *const *in, const int *mapped, int64_t batch) {
  pni_examples *e = pni_calloc(c, sizeof *e + (size_t)pni_times(n, sizeof(pn_tensor *) + sizeof(bool)));
  if (!e) return NULL;
  e->n = batch;
  e->whole = (pn_tensor **)(void *)(e + 1);
  e->mapped = (bool *)(e->whole + n);
  for (int k = 0; k < n; k++) {
    e->whole[k] = pn_tensor_ref(in[k]);
    e->mapped[k] = mapped[k] != 0;
  }
  return e;
}

/* The first example, or zeros where there is none; no part of a graph. Scoped. */
static pn_tensor *example(pn_context *c, pn_tensor *t, bool mapped) {
  if (!mapped) return pn_detach(c, t);
  if (t->shape[0] == 0) return pn_zeros(c, (pn_dtype)t->dtype, t->ndim - 1, t->shape + 1);
  return pn_detach(c, pn_select(c, t, 0, 0));
}

pn_status pn_vmap_begin(pn_context *c, int n, pn_tensor *const *in, const int *mapped, pn_tensor **inside) {
  int64_t batch = 0;
  if (!PNI_LISTED(c, "vmap_begin", n, in, mapped, inside) || check_inputs(c, n, in, mapped, &batch)) return c->status;
  pn_tensor **one = pni_alloc_array(c, n, sizeof *one);
  pni_examples *e = one ? keep(c, n, in, mapped, batch) : NULL;
  if (e) {
    for (int k = 0; k < n; k++) one[k] = example(c, in[k], mapped[k]);
    pni_capture_examples(c, e, n, one, inside);
  }
  pni_free(c, one);
  return c->status;
}

/* ---- end ---- */

/* What the notes that matter read, and until when. `last` is -1 where nothing is needed. */
static pn_status plan_uses(pn_context *c, const pni_tape *tape, batch_value *v) {
  for (int64_t i = tape->note.n - 1; i >= 0; i--) {
    const pni_note *note = &tape->note.v[i];
    bool needed = note->out < 0 || v[note->out].last >= 0 || (note->op && note->op->flags & PNI_OP_CHECK);
    if (!needed) continue;
    const pni_event *e = pni_event_of(tape, note);
    if (e->effect) return pni_fail(c, PN_STATE, "vmap: the function must not update parameters");
    if (e->rng)
      return pni_fail(c, PN_STATE,
                      "vmap: the function must not draw random numbers (draw them outside, with an axis of examples, "
                      "and pass them)");
    if (note->out >= 0 && v[note->out].last < 0) v[note->out].last = i;
    for (int k = 0; k < note->nin; k++) {
      int at = tape->edge.v[note->first + k];
      if (at >= 0 && v[at].last < i) v[at].last = i;
    }
  }
  return PN_OK;
}

/* Does note i again for the batch. in and mapped have room for its inputs. */
static pn_status redo(pn_context *c, const pni_tape *tape, int64_t i, batch_value *v, pn_tensor **in, bool *mapped) {
  const pni_note *note = &tape->note.v[i];
  const pni_attr *attr = pni_attr_of(tape, note);
  bool any = false;
  size_t mark = pn_scope_open(c);
  for (int k = 0; k < note->nin; k++) {
    const batch_value *from = &v[tape->edge.v[note->first + k]];
    bool cut = tape->cut.v[note->first + k] && from->t->flags & PNI_REQUIRES_GRAD;
    in[k] = cut ? pn_detach(c, from->t) : from->t;
    any |= mapped[k] = from->mapped;
  }
  int old = pn_set_no_grad(c, c->no_grad || note->cut);
  pni_batch b = {note->op, attr, note->nin, in, mapped, pni_geometry_of(tape, note->out), tape->examples->n};
  pn_tensor *y = any ? pni_batch_apply(c, &b) : pni_apply(c, note->op, note->nin, in, attr);
  pn_set_no_grad(c, old);
  v[note->out].t = y ? pn_tensor_ref(y) : NULL;
  v[note->out].mapped = any;
  pn_scope_close(c, mark);
  return c->status;
}

static void drop(batch_value *v) {
  pn_tensor_unref(v->t);
  v->t = NULL;
}

static pn_status redo_all(pn_context *c, const pni_tape *tape, batch_value *v) {
  int most = 1;
  for (int64_t i = 0; i < tape->note.n; i++) most = tape->note.v[i].nin > most ? tape->note.v[i].nin : most;
  pn_tensor **in = pni_alloc_array(c, most, sizeof *in);
  bool *mapped = pni_alloc_array(c, most, sizeof *mapped);
  for (int64_t i = 0; in && mapped && i < tape->note.n && !pni_failed(c); i++) {
    const pni_note *note = &tape->note.v[i];
    if (note->out < 0 || v[note->out].last < 0 || redo(c, tape, i, v, in, mapped)) continue;
    for (int k = 0; k < note->nin; k++)
      if (v[tape->edge.v[note->first + k]].last == i) drop(&v[tape->edge.v[note->first + k]]);
    if (v[note->out].last == i) drop(&v[note->out]);
  }
  pni_free(c, in);
  pni_free(c, mapped);
  return c->status;
}

/* The results, whose places on the tape are `at`. */
static pn_status finish(pn_context *c, const pni_tape *tape, int n, const int *at, pn_tensor *const *result,
                        pn_tensor **out) {
  const pni_examples *e = tape->examples;
  batch_value *v = pni_calloc_array(c, tape->value.n, sizeof *v);
  if (!v) return c->status;
  for (int64_t i = 0; i < tape->value.n; i++) {
    bool input = i < tape->ninput;
    v[i].t = pn_tensor_ref(input ? e->whole[i] : tape->value.v[i].outside);
    v[i].mapped = input && e->mapped[i];
    v[i].last = -1;
  }
  for (int k = 0; k < n; k++) v[at[k]].last = to_the_end;
  if (plan_uses(c, tape, v) == PN_OK && redo_all(c, tape, v) == PN_OK)
    for (int k = 0; k < n; k++) {
      pn_tensor *t = v[at[k]].t;
      if (!(result[k]->flags & PNI_REQUIRES_GRAD)) t = pn_detach(c, t);
      if (t && !v[at[k]].mapped) t = pni_batch_spread(c, t, e->n);
      out[k] = t ? pni_scoped(c, pn_tensor_ref(t)) : NULL;
    }
  for (int64_t i = 0; i < tape->value.n; i++) drop(&v[i]);
  pni_free(c, v);
  return c->status;
}

static pn_status places(pn_context *c, pni_tape *tape, int n, pn_tensor *const *result, int *at) {
  for (int k = 0; k < n; k++) {
    if (!result[k]) return pni_fail(c, PN_STATE, "vmap: result %d must be a tensor, got NULL", k + 1);
    if ((at[k] = pni_tape_value(c, tape, result[k])) < 0) return c->status;
  }
  if (c->broken[0])
    return pni_fail(c, PN_STATE,
                    "vmap: the function went on after a failure that may come for one example and not for "
                    "another: %s",
                    c->broken);
  return PN_OK;
}

pn_status pn_vmap_end(pn_context *c, int n, pn_tensor *const *result, pn_tensor **out) {
  pni_tape *tape = (pni_tape *)c->recorder;
  if (!tape || !tape->examples) return pni_fail(c, PN_STATE, "vmap: there is none to end");
  int *at = PNI_LISTED(c, "vmap_end", n, result, out) ? pni_alloc_array(c, n, sizeof *at) : NULL;
  bool ready = at && places(c, tape, n, result, at) == PN_OK;
  pni_capture_leave(c, tape);
  if (ready) finish(c, tape, n, at, result, out);
  pni_free(c, at);
  pni_tape_free(c, tape);
  pni_object_died(c);
  return c->status;
}
