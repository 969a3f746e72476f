/*
** record.c: the recorder. A tensor's slot says what it is to the capture: a value of the tape that varies,
** a constant of the tape, or (no slot) nothing the tape has seen. Slots carry the number of the capture, so
** those of an old one mean nothing and need not be taken back.
*/
#include <string.h>
#include "replay.h"

pn_status pni_list_reserve(pn_context *c, void **v, int64_t n, int64_t *cap, int64_t more, size_t size) {
  if (n + more <= *cap) return PN_OK;
  if (more > INT32_MAX - n)
    return pni_fail(c, PN_NOMEM, "compile: the function does more than a plan can list (2^31 of a kind)");
  int64_t room = *cap ? 2 * *cap : 64;
  while (room < n + more) room *= 2;
  void *fresh = pni_alloc_array(c, room, size);
  if (!fresh) return c->status;
  if (n) memcpy(fresh, *v, (size_t)n * size);
  pni_free(c, *v);
  *v = fresh;
  *cap = room;
  return PN_OK;
}
static pni_tape *tape_of(const pn_context *c) { return (pni_tape *)c->recorder; }

static uint64_t slot_of(const pn_context *c, int at, bool constant) {
  return (uint64_t)c->captures << 32 | (constant ? PNI_SLOT_CONSTANT : 0) | (uint64_t)at;
}

static int place(const pn_tensor *t) { return (int)(t->slot & (PNI_SLOT_CONSTANT - 1)); }

bool pni_record_made(const pn_context *c, const pn_tensor *t) {
  if (!c->recorder || !pni_has_slot(c, t) || t->slot & PNI_SLOT_CONSTANT) return false;
  return tape_of(c)->value.v[place(t)].kind != PNI_VALUE_OUTSIDE;
}

/* A new value with t's geometry; -1 with the reason in c. */
static int add_value(pn_context *c, pni_tape *tape, pn_tensor *t, int kind) {
  pni_geometry g = pni_geometry_from(t);
  int geometry = pni_tape_geometry(c, tape, &g);
  if (geometry < 0 || PNI_RESERVE(c, tape->value, 1)) return -1;
  if (tape->examples) {
    if (PNI_RESERVE(c, tape->slot, 1)) return -1;
    tape->slot.v[tape->slot.n++] = t->slot;
  }
  int at = (int)tape->value.n++;
  bool varies = pni_varies(c, t);
  tape->value.v[at] = (pni_value){.offset = t->offset, .geometry = geometry, .base = at, .kind = kind};
  t->slot = slot_of(c, at, kind == PNI_VALUE_OUTSIDE && !varies);
  return at;
}

/* Is t computed from inputs of a capture around this one? */
static bool is_made_around(const pni_tape *tape, const pn_tensor *t) {
  for (; tape->outer; tape = (const pni_tape *)tape->outer)
    if (t->slot >> 32 == tape->outer_capture && !(t->slot & PNI_SLOT_CONSTANT))
      return ((const pni_tape *)tape->outer)->value.v[place(t)].kind != PNI_VALUE_OUTSIDE;
  return false;
}

/* Results that were computed from parameters before the capture would not follow the parameters. */
static pn_status check_outside(pn_context *c, const pn_tensor *t) {
  const pni_tape *tape = tape_of(c);
  if (tape->examples) return PN_OK;
  if (tape->inner && !pni_has_slot(c, t) &&
      ((t->flags & (PNI_REQUIRES_GRAD | PNI_PARAM)) == PNI_REQUIRES_GRAD || is_made_around(tape, t)))
    return pni_fail(c, PN_STATE, "%s", tape->inner);
  if (!(t->flags & PNI_REQUIRES_GRAD) || t->flags & PNI_PARAM || pni_has_slot(c, t)) return PN_OK;
  return pni_fail(c, PN_STATE,
                  "compile: a tensor that was computed from parameters outside the function is used inside (compute it "
                  "inside, or cut it off with detach)");
}

/* Is t, which may be used, one number that stays as it is, and nothing but that? */
static bool is_number(const pn_context *c, const pni_tape *tape, const pn_tensor *t) {
  return t->numel == 1 && !t->storage->cargo && !tape->examples && !pni_varies(c, t);
}

/* Equal numbers are one value: those that gradients make anew at each turn need not be kept. */
int pni_tape_value(pn_context *c, pni_tape *tape, pn_tensor *t) {
  if (pni_has_slot(c, t)) return place(t);
  if (check_outside(c, t)) return -1;
  bool number = is_number(c, tape, t);
  int at = number ? pni_tape_known(tape, t) : -1;
  if (at >= 0) {
    t->slot = slot_of(c, at, true);
    return at;
  }
  at = add_value(c, tape, t, PNI_VALUE_OUTSIDE);
  if (at < 0) return -1;
  tape->value.v[at].outside = pn_tensor_ref(t);
  return number && pni_tape_learn(c, tape, at) ? -1 : at;
}

/* Notes something with n inputs, and its result y of that kind unless it is NULL. NULL with the reason in c. */
static pni_note *add_note(pn_context *c, pni_tape *tape, int n, pn_tensor *const *in, pn_tensor *y, int kind) {
  if (PNI_RESERVE(c, tape->note, 1) || PNI_RESERVE(c, tape->edge, n)) return NULL;
  int64_t first = tape->edge.n;
  for (int k = 0; k < n; k++) {
    int at = in[k] ? pni_tape_value(c, tape, in[k]) : -1;
    if (pni_failed(c)) return NULL;
    tape->edge.v[first + k] = at;
  }
  int out = y ? add_value(c, tape, y, kind) : -1;
  if (y && out < 0) return NULL;
  tape->edge.n += n;
  pni_note *note = &tape->note.v[tape->note.n++];
  *note = (pni_note){.attr = -1, .first = first, .nin = n, .out = out, .event = -1};
  return note;
}

/* The note is of this event, for which room was made. */
static void add_event(pni_tape *tape, pni_note *note, const pni_event *e) {
  note->event = (int)tape->event.n;
  tape->event.v[tape->event.n++] = *e;
}

pn_status pni_tape_check_draws(pn_context *c, const pni_tape *tape, const char *where) {
  if (c->reservations == tape->reservations) return PN_OK;
  return pni_fail(c, PN_STATE,
                  "compile: random numbers were drawn before %s in a way that cannot be repeated (a sampler in C is a "
                  "source or an operation that draws; a draw that failed cannot be caught inside the function)",
                  where);
}

/* Who catches a failure within a capture and goes another way would go it always. */
pn_status pni_tape_check_whole(pn_context *c, const pni_tape *tape) {
  if (c->broken[0])
    return pni_fail(
        c, PN_STATE,
        "compile: the function went on after a failure that may not come again, its way would be frozen: %s",
        c->broken);
  return pni_tape_check_draws(c, tape, "the end");
}

static pn_status drawn(pn_context *c, pn_tensor *t, pn_rng *rng, const pni_draw *d) {
  pni_tape *tape = tape_of(c);
  tape->reservations++;
  if (pni_tape_check_draws(c, tape, "this one")) return c->status;
  pni_note *note = PNI_RESERVE(c, tape->event, 1) ? NULL : add_note(c, tape, 0, NULL, t, PNI_VALUE_OWN);
  if (note) add_event(tape, note, &(pni_event){.rng = pni_rng_ref(rng), .positions = c->drawn_positions, .draw = *d});
  return c->status;
}

pn_status pni_record_refuses(pn_context *c, const pni_call *call) {
  bool varies = false;
  for (int k = 0; k < call->nin; k++) {
    if (check_outside(c, call->in[k])) return c->status;
    varies |= pni_varies(c, call->in[k]);
  }
  if (varies && call->op->flags & PNI_OP_DYNAMIC)
    return pni_fail(c, PN_STATE,
                    "compile: the shape of %s's result depends on values that differ from call to call (weigh with a "
                    "mask, or choose with where)",
                    call->op->name);
  return PN_OK;
}

/* Which inputs came without a graph, and whether the result may have one. */
static pn_status note_graph(pn_context *c, pni_tape *tape, const pni_call *call, pni_note *note) {
  if (PNI_RESERVE(c, tape->cut, tape->edge.n - tape->cut.n)) return c->status;
  memset(tape->cut.v + tape->cut.n, 0, (size_t)(tape->edge.n - tape->cut.n));
  for (int k = 0; k < call->nin; k++) tape->cut.v[note->first + k] = !(call->in[k]->flags & PNI_REQUIRES_GRAD);
  tape->cut.n = tape->edge.n;
  note->cut = c->no_grad;
  return PN_OK;
}

pn_status pni_record_apply(pn_context *c, const pni_call *call, pn_tensor *y) {
  pni_tape *tape = tape_of(c);
  bool varies = (call->op->flags & PNI_OP_DRAW) != 0;
  tape->reservations += varies;
  if (pni_tape_check_draws(c, tape, call->op->name)) return c->status;
  for (int k = 0; k < call->nin; k++) varies |= pni_varies(c, call->in[k]);
  if (!varies) { /* y is a constant. It may be a view of one: then its slot is not its own */
    y->slot = 0;
    return PN_OK;
  }
  int64_t attr = pni_tape_attr(c, tape, call->attr);
  bool draws = (call->op->flags & PNI_OP_DRAW) != 0, view = call->op->view && y->storage == call->in[0]->storage;
  if (attr < 0 || (draws && PNI_RESERVE(c, tape->event, 1))) return c->status;
  pni_note *note = add_note(c, tape, call->nin, call->in, y, view ? PNI_VALUE_VIEW : PNI_VALUE_OWN);
  if (!note || ((tape->examples || tape->inner) && note_graph(c, tape, call, note))) return c->status;
  note->op = call->op;
  note->attr = attr;
  if (view) tape->value.v[note->out].base = tape->value.v[tape->edge.v[note->first]].base;
  if (draws) add_event(tape, note, &(pni_event){.rng = pni_rng_ref(c->drawn_from), .positions = c->drawn_positions});
  return PN_OK;
}

pn_status pni_record_effect(pn_context *c, const pni_effect *effect, void *object, int n, pn_tensor *const *in) {
  pni_tape *tape = tape_of(c);
  pni_note *note = PNI_RESERVE(c, tape->event, 1) ? NULL : add_note(c, tape, n, in, NULL, 0);
  if (!note) return c->status;
  add_event(tape, note, &(pni_event){.effect = effect, .object = object});
  effect->retain(object);
  return PN_OK;
}

bool pni_record_is_plain(const pn_context *c) { return c->recorder && !tape_of(c)->examples; }

pn_status pni_record_check_instead(pn_context *c, const pn_tensor *t, int n, pn_tensor *const *instead) {
  pni_tape *tape = tape_of(c);
  if (!pni_has_slot(c, t) || t->slot & PNI_SLOT_CONSTANT) return c->status;
  int v = place(t);
  int64_t before = tape->note.n;
  for (int64_t i = 0; i < before; i++) {
    pni_note *note = &tape->note.v[i];
    if (!note->op || !(note->op->flags & PNI_OP_CHECK) || note->nin != 1 || tape->edge.v[note->first] != v) continue;
    note->spare = true;
    const pni_op *op = note->op;
    const pni_attr *old = pni_attr_of(tape, note);
    pni_attr attr = {.ni = old->ni, .r = {old->r[0], old->r[1]}};
    memcpy(attr.i, old->i, (size_t)attr.ni * sizeof *attr.i);
    for (int k = 0; k < n; k++)
      if (!pni_apply1(c, op, instead[k], &attr)) return c->status;
  }
  return c->status;
}

/* ---- begin and end ---- */

static void examples_free(pn_context *c, pni_examples *e, int n) {
  for (int k = 0; e && k < n; k++) pn_tensor_unref(e->whole[k]);
  pni_free(c, e);
}

void pni_tape_free(pn_context *c, pni_tape *tape) {
  examples_free(c, tape->examples, tape->ninput);
  for (int64_t i = 0; i < tape->value.n; i++) pn_tensor_unref(tape->value.v[i].outside);
  for (int64_t i = 0; i < tape->event.n; i++) {
    const pni_event *e = &tape->event.v[i];
    if (e->effect) e->effect->release(e->object);
    pn_rng_free(e->rng);
  }
  pni_free(c, tape->value.v);
  pni_free(c, tape->note.v);
  pni_free(c, tape->edge.v);
  pni_free(c, tape->cut.v);
  pni_free(c, tape->slot.v);
  pni_free(c, tape->event.v);
  pni_free(c, tape->word.v);
  pni_free(c, tape->geometry.v);
  pni_table_free(c, &tape->number_table);
  pni_table_free(c, &tape->word_table);
  pni_table_free(c, &tape->geometry_table);
  pni_free(c, tape->roll.v);
  pni_free(c, tape);
}

/* The stand-in of an input: the same values, contiguous, nothing but data. */
static pn_tensor *stand_in(pn_context *c, pni_tape *tape, int k, const pn_tensor *t) {
  if (!t || !pni_is_data(t)) {
    pni_fail(c, PN_STATE, "compile: input %d must be data, got %s", k + 1,
             !t                     ? "NULL"
             : t->flags & PNI_PARAM ? "a parameter (the function reads parameters in place)"
                                    : "a tensor that depends on parameters (detach it)");
    return NULL;
  }
  pn_tensor *d = pni_contiguous(c, t);
  pn_tensor *s = d ? pni_scoped(c, pni_tensor_alias(c, d)) : NULL;
  pn_tensor_unref(d);
  if (!s || add_value(c, tape, s, PNI_VALUE_INPUT) < 0) return NULL;
  s->flags |= t->flags & PNI_REQUIRES_GRAD;
  return s;
}

void pni_capture_leave(pn_context *c, const pni_tape *tape) {
  for (int64_t i = 0; tape->examples && i < tape->value.n; i++) /* the capture around it goes on with them */
    if (tape->value.v[i].outside) tape->value.v[i].outside->slot = tape->slot.v[i];
  c->recorder = tape->outer;
  if (tape->outer) c->captures = tape->outer_capture;
}

/* in may be inside itself, but no part of the scope, which grows (and moves) here. */
static pn_status begin(pn_context *c, const char *inner, pni_examples *e, int n, pn_tensor *const *in,
                       pn_tensor **inside) {
  pni_tape *tape = pni_calloc(c, sizeof *tape);
  if (!tape) {
    examples_free(c, e, n);
    return c->status;
  }
  tape->examples = e;
  tape->recorder.drawn = drawn;
  tape->ninput = n;
  tape->reservations = c->reservations;
  tape->inner = inner;
  tape->outer = c->recorder;
  tape->outer_capture = c->captures;
  c->captures = ++c->captures_begun;
  if (!c->recorder) {
    c->broken[0] = '\0';
    c->captures_first = c->captures;
  }
  size_t first = c->scope_len;
  for (int k = 0; k < n; k++)
    if (!stand_in(c, tape, k, in[k])) {
      pni_capture_leave(c, tape);
      pni_tape_free(c, tape);
      return c->status;
    }
  for (int k = 0; k < n; k++) inside[k] = c->scope[first + (size_t)k];
  pni_object_born(c);
  c->recorder = &tape->recorder;
  return PN_OK;
}

pn_status pn_capture_begin(pn_context *c, int n, pn_tensor *const *in, pn_tensor **inside) {
  if (!PNI_LISTED(c, "capture_begin", n, in, inside) ||
      pni_refuse_capture(c, "another capture", "end the one that is going on"))
    return c->status;
  return begin(c, NULL, NULL, n, in, inside);
}

pn_status pni_capture_enter(pn_context *c, const char *what, int n, pn_tensor *const *in, int first, int last,
                            pn_tensor **inside) {
  for (int k = 0; k < n; k++)
    if (pni_failed(c) || !(inside[k] = pni_scoped(c, pni_tensor_alias(c, in[k])))) return c->status;
  if (begin(c, what, NULL, n, inside, inside)) return c->status;
  for (int k = first; k < last; k++)
    if (pni_is_float(inside[k])) inside[k]->flags |= PNI_REQUIRES_GRAD | PNI_PARAM;
  return PN_OK;
}

pn_status pni_capture_examples(pn_context *c, pni_examples *e, int n, pn_tensor *const *in, pn_tensor **inside) {
  if (begin(c, NULL, e, n, in, inside)) return c->status;
  for (int k = 0; k < n; k++) inside[k]->flags |= e->whole[k]->flags & PNI_REQUIRES_GRAD;
  return PN_OK;
}

int pn_capturing(const pn_context *c) { return c->recorder != NULL; }

void pn_capture_cancel(pn_context *c) {
  pni_tape *tape = tape_of(c);
  if (!tape) return;
  pni_capture_leave(c, tape);
  pni_tape_free(c, tape);
  pni_object_died(c);
}
