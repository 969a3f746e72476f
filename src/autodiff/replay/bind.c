/*
** bind.c: large inputs and results where they lie, instead of copies in the arena. Steps hold addresses, so a plan
** knows every place that holds one of a bound value's, and moves them when a run finds the value elsewhere than
** the run before it did; in a loop whose tensors come back from the context's pool nothing moves. Steps that
** evaluate reach memory by the storages of values and need no such care.
** Two cases are copied: inputs that are not contiguous, and those that share memory with a parameter which an effect
** of the plan may change (a function's arguments keep their values while it runs). Results never alias anything: only
** what a step computes is bound, and to one result each.
*/
#include "bind.h"
#include "turn.h"

/* Smaller ones are copied: as fast, and nothing is to be moved. */
enum { LEAST = 8192 };

static bool is_large(const pn_tensor *t) { return (size_t)t->numel * pni_itemsize(t) >= LEAST; }

static void add(pn_plan *p, int value, int out) {
  p->tape->value.v[value].bound = p->nbound;
  p->bound[p->nbound++] = (pni_bound){.value = value, .out = out};
}

pn_status pni_bind_choose(pn_context *c, pn_plan *p, const pni_schedule *s) {
  pni_value *v = p->tape->value.v;
  p->bound_cap = p->tape->ninput + p->nout;
  p->bound = pni_alloc_array(c, p->bound_cap, sizeof *p->bound);
  if (!p->bound) return c->status;
  for (int k = 0; k < p->tape->ninput; k++) {
    if (s->last[k] < 0)
      v[k].bound = PNI_UNREAD;
    else if (is_large(&p->tensor[k]))
      add(p, k, -1);
  }
  for (int k = 0; k < p->nout; k++) {
    const pni_value *r = &v[p->out[k]];
    if (r->kind == PNI_VALUE_OWN && r->bound == PNI_PLACED && is_large(&p->tensor[p->out[k]])) add(p, p->out[k], k);
  }
  return PN_OK;
}

/* ---- where the addresses are ---- */

static int operands(const pni_note *note) { return note->nin + 1; }

static int bound_of(const pn_plan *p, int value) {
  const pni_value *v = p->tape->value.v;
  return value < 0 ? -1 : v[v[value].base].bound;
}

static int operand(const pn_plan *p, const pni_note *note, int k) {
  return k ? p->tape->edge.v[note->first + k - 1] : note->out;
}

static void note_place(pn_plan *p, int value, char **at) {
  int bound = bound_of(p, value);
  if (bound < 0) return;
  if (p->patch) p->patch[p->npatch] = (pni_patch){.bound = bound, .at = at};
  p->npatch++;
}

static void note_prepared(pn_plan *p, pni_step *s) {
  const pni_note *note = &p->tape->note.v[s->note];
  bool any = false;
  for (int k = 0; k < operands(note); k++) any |= bound_of(p, operand(p, note, k)) >= 0;
  if (!any) return;
  if (p->patch) p->patch[p->npatch] = (pni_patch){.step = s};
  p->npatch++;
}

static void note_group(pn_plan *p, const pni_group *g) {
  for (int i = 0; i < g->n; i++)
    for (int k = 0; k < g->member[i].nop; k++) {
      pni_operand *o = &g->member[i].op[k];
      if (o->slot < 0) note_place(p, o->value, &o->base);
    }
}

/* Counts the patches, and notes them where there is room for them. */
static void note_all(pn_plan *p) {
  p->npatch = 0;
  for (int64_t i = 0; i < p->nstep; i++) {
    pni_step *s = &p->step[i];
    const pni_note *note = &p->tape->note.v[s->note];
    switch (s->kind) {
    case PNI_STEP_RUN:
      for (int k = 0; k < operands(note); k++) note_place(p, operand(p, note, k), &s->u.run.p[k]);
      break;
    case PNI_STEP_FOLD:
      for (int k = 0; k < 2; k++) note_place(p, operand(p, note, k), &s->u.fold.p[k]);
      break;
    case PNI_STEP_LOOP:
      for (int k = 0; k < operands(note); k++) note_place(p, operand(p, note, k), &s->u.loop.nest->base[k]);
      break;
    case PNI_STEP_GROUP: note_group(p, &s->u.group); break;
    case PNI_STEP_PREPARED: note_prepared(p, s); break;
    default: break;
    }
  }
}

pn_status pni_bind_steps(pn_context *c, pn_plan *p) {
  for (int k = 0; k < p->nbound; k++) p->bound[k].at = p->storage[p->bound[k].value].data;
  if (!p->nbound) return PN_OK;
  note_all(p);
  p->patch = pni_alloc_array(c, p->patch_cap = p->npatch, sizeof *p->patch);
  if (p->patch) note_all(p);
  return c->status;
}

/* ---- before a run ---- */

/* Whether a step prepares depends on shapes and strides alone: it has done it before. */
void pni_prepare_again(const pn_plan *p, pni_step *s) {
  const pni_note *note = &p->tape->note.v[s->note];
  pni_call call = {note->op, p->arg + note->first, note->nin, pni_attr_of(p->tape, note)};
  note->op->prepare(&call, &p->tensor[note->out], s->u.prepared.p);
}

static void move_all(pn_plan *p) {
  for (int64_t i = 0; i < p->npatch; i++) {
    pni_patch *t = &p->patch[i];
    if (t->at)
      *t->at += p->bound[t->bound].move;
    else
      pni_prepare_again(p, t->step);
  }
}

/* The input itself where it can be read in place, else a copy (scoped). */
static pn_tensor *readable(pn_context *c, const pn_plan *p, pn_tensor *t) {
  bool changes = p->effects && t->storage->version != 0;
  if (!changes && pni_is_contiguous(t)) return t;
  pni_spec spec = pni_spec_of(t);
  pn_tensor *d = pni_scoped(c, pni_tensor_new(c, &spec));
  return d && pni_copy(c, d, t) == PN_OK ? d : NULL;
}

pn_status pni_bind(pn_context *c, pn_plan *p, pn_tensor *const *in, size_t first) {
  bool moved = false;
  for (int k = 0; k < p->nbound; k++) {
    const pni_bound *b = &p->bound[k];
    const pn_tensor *t = b->out < 0 ? readable(c, p, in[b->value]) : c->scope[first + (size_t)b->out];
    if (!t) return c->status;
    p->storage[b->value].data = pni_data(t);
  }
  for (int k = 0; k < p->nbound; k++) {
    pni_bound *b = &p->bound[k];
    char *at = p->storage[b->value].data;
    b->move = (ptrdiff_t)((uintptr_t)at - (uintptr_t)b->at);
    b->at = at;
    moved |= b->move != 0;
  }
  if (moved) move_all(p);
  return PN_OK;
}
