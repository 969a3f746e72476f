/*
** roll.c: rolling up what a tape repeats (repeat.c). Of each section there remain the turns that are peeled, as they
** are, and the notes of one turn, which a replay does over and over while their operands move (turn.c): results are
** the same bits, only their places are counted instead of listed. What a turn hands on to others (to the next one, to
** the gradient's loop, to a result) lies in an array of all turns; what it keeps to itself has one place for all.
*/
#include <string.h>
#include "roll.h"

typedef struct {
  pn_context *c;
  const pni_line *l;
  const pni_tape *old;
  pni_tape *to;
  int *known; /* by old value: its number in `to`, or -1 */
  int *array; /* by place in the line, of a section's first turn: the array of its results, or -1 */
} writer;

/* A new value, whose geometry is g; its number, or -1. An outside tensor gets another reference. */
static int add_value(writer *w, const pni_value *v, const pni_geometry *g) {
  int geometry = pni_tape_geometry(w->c, w->to, g);
  if (geometry < 0 || PNI_RESERVE(w->c, w->to->value, 1)) return -1;
  int at = (int)w->to->value.n++;
  w->to->value.v[at] = *v;
  w->to->value.v[at].geometry = geometry;
  if (v->outside) pn_tensor_ref(v->outside);
  if (v->base < 0) w->to->value.v[at].base = at;
  return at;
}

/* ---- arrays ---- */

static const pni_section *section_of(const pni_line *l, int place) {
  return l->section[place] < 0 ? NULL : &l->sections.v[l->section[place]];
}

/* The place in the first turn of what computes the base of an old value, if its results are kept in an array; or -1. */
static int array_place(const writer *w, int v) {
  int q = w->l->maker[w->old->value.v[v].base];
  const pni_section *s = q < 0 ? NULL : section_of(w->l, q);
  if (!s) return -1;
  int first = s->begin + (q - s->begin) % s->period;
  return w->l->kept[first] ? first : -1;
}

static int array_at(writer *w, int place) {
  if (w->array[place] >= 0) return w->array[place];
  const pni_section *s = section_of(w->l, place);
  const pni_geometry *one = pni_geometry_of(w->old, w->old->note.v[w->l->note[place]].out);
  pni_geometry all = {.dtype = one->dtype, .ndim = 1, .numel = s->turns * one->numel, .stride = {1}};
  all.shape[0] = all.numel;
  return w->array[place] = add_value(w, &(pni_value){.kind = PNI_VALUE_ARRAY, .base = -1}, &all);
}

/* Value v of the old tape, but of geometry g, as a view or part of the array at `place`. */
static int in_array(writer *w, int v, const pni_geometry *g, int place, int kind, int64_t move) {
  pni_value x = w->old->value.v[v];
  x.kind = kind;
  x.base = array_at(w, place);
  x.offset = pni_find_value(w->l, NULL, v).at;
  x.move = move;
  return x.base < 0 ? -1 : add_value(w, &x, g);
}

/* ---- values ---- */

/* The old value v, at rest; its number, or -1. */
static int keep(writer *w, int v) {
  if (v < 0 || w->known[v] >= 0) return v < 0 ? -1 : w->known[v];
  pni_value x = w->old->value.v[v];
  int place = array_place(w, v);
  const pni_geometry *g = pni_geometry_of(w->old, v);
  if (place >= 0) return w->known[v] = in_array(w, v, g, place, PNI_VALUE_VIEW, 0);
  bool own = x.base == v;
  x.base = own ? -1 : keep(w, x.base);
  if (!own && x.base < 0) return -1;
  return w->known[v] = add_value(w, &x, g);
}

/* The constants that operand k of note m has at the turns after those that are peeled, in one tensor (new), or NULL
 * with *alike where all are the same. */
static pn_tensor *join(writer *w, const pni_section *s, int m, int k, bool *alike) {
  int v = pni_turn_operand(w->l, s, s->peel, m, k);
  const pn_tensor *first = w->old->value.v[v].outside;
  int64_t n = pni_extent(pni_geometry_of(w->old, v));
  size_t bytes = (size_t)n * pni_itemsize(first);
  *alike = true;
  for (int64_t turn = s->peel + 1; turn < s->turns && *alike; turn++) {
    const pn_tensor *t = w->old->value.v[pni_turn_operand(w->l, s, turn, m, k)].outside;
    *alike = memcmp(pni_data(t), pni_data(first), bytes) == 0;
  }
  if (*alike) return NULL;
  pni_spec spec = {.dtype = first->dtype, .ndim = 1, .shape = {(s->turns - s->peel) * n}};
  pn_tensor *all = pni_tensor_new(w->c, &spec);
  for (int64_t turn = s->peel; all && turn < s->turns; turn++)
    memcpy((char *)pni_data(all) + (size_t)(turn - s->peel) * bytes,
           pni_data(w->old->value.v[pni_turn_operand(w->l, s, turn, m, k)].outside), bytes);
  return all;
}

static int joined(writer *w, const pni_section *s, int m, int k) {
  int v = pni_turn_operand(w->l, s, s->peel, m, k);
  bool alike;
  pn_tensor *all = join(w, s, m, k, &alike);
  if (alike) return keep(w, v);
  if (!all) return -1;
  const pni_geometry *one = pni_geometry_of(w->old, v), g = pni_geometry_from(all);
  pni_value whole = {.kind = PNI_VALUE_OUTSIDE, .base = -1, .outside = all}, x = w->old->value.v[v];
  x.kind = PNI_VALUE_VIEW;
  x.base = add_value(w, &whole, &g);
  x.outside = NULL;
  x.offset = 0;
  x.move = pni_extent(one);
  pn_tensor_unref(all);
  return x.base < 0 ? -1 : add_value(w, &x, one);
}

/* Operand k of note m of a section as the first turn of the roll reads it. */
static int operand(writer *w, const pni_section *s, int m, int k) {
  int v = pni_turn_operand(w->l, s, s->peel, m, k);
  if (v < 0) return -1;
  pni_whereabouts a = pni_find_value(w->l, NULL, v),
                  b = pni_find_value(w->l, NULL, pni_turn_operand(w->l, s, s->peel + 1, m, k));
  if (a.of != b.of) return joined(w, s, m, k);
  int place = array_place(w, v);
  if (a.at == b.at || (place < 0 && w->l->maker[w->old->value.v[v].base] >= s->begin)) return keep(w, v);
  const pni_geometry *g = pni_geometry_of(w->old, v);
  if (place >= 0) return in_array(w, v, g, place, PNI_VALUE_VIEW, b.at - a.at);
  pni_value x = w->old->value.v[v];
  x.kind = PNI_VALUE_VIEW;
  x.base = keep(w, x.base);
  x.outside = NULL;
  x.move = b.at - a.at;
  return x.base < 0 ? -1 : add_value(w, &x, g);
}

/* ---- notes ---- */

/* The note at a place of the line, without its operands. */
static pni_note *add_note(writer *w, int place) {
  const pni_note *old = &w->old->note.v[w->l->note[place]];
  pni_tape *to = w->to;
  int64_t attr = old->attr < 0 ? -1 : pni_tape_attr(w->c, to, pni_attr_of(w->old, old));
  if (pni_failed(w->c) || PNI_RESERVE(w->c, to->note, 1) || PNI_RESERVE(w->c, to->edge, old->nin) ||
      PNI_RESERVE(w->c, to->event, 1))
    return NULL;
  pni_note *note = &to->note.v[to->note.n++];
  *note = *old;
  note->attr = attr;
  note->first = to->edge.n;
  if (old->event < 0) return note;
  note->event = (int)to->event.n;
  pni_event *e = &to->event.v[to->event.n++];
  *e = w->old->event.v[old->event];
  if (e->effect) e->effect->retain(e->object);
  if (e->rng) pni_rng_ref(e->rng);
  return note;
}

/* How many operands of a list, vectors, lie one after another from number k on, so that all of them are one: evenly if
 * of one element each, else without gaps. */
static int run_of(const writer *w, const pni_note *old, int k) {
  const int *v = w->old->edge.v + old->first;
  const pni_geometry *t = pni_geometry_of(w->old, v[k]);
  int n = 1;
  if (t->ndim != 1 || k + 1 == old->nin) return 1;
  pni_whereabouts a = pni_find_value(w->l, NULL, v[k]), b = pni_find_value(w->l, NULL, v[k + 1]);
  if (t->shape[0] != 1 && (t->stride[0] != 1 || b.at - a.at != t->shape[0])) return 1;
  for (; k + n < old->nin; n++) {
    const pni_geometry *next = pni_geometry_of(w->old, v[k + n]);
    pni_whereabouts now = pni_find_value(w->l, NULL, v[k + n]);
    if (next->ndim != 1 || next->shape[0] != t->shape[0] || next->stride[0] != t->stride[0] || now.of != a.of ||
        now.at - a.at != n * (b.at - a.at))
      break;
  }
  return n;
}

/* Operands k .. k + n - 1 of the note as one, if they are results of a section; its number, or -1. */
static int operands_as_one(writer *w, const pni_note *old, int k, int n) {
  int v = w->old->edge.v[old->first + k], place = array_place(w, v);
  int64_t step = pni_find_value(w->l, NULL, w->old->edge.v[old->first + k + 1]).at - pni_find_value(w->l, NULL, v).at;
  pni_geometry all = *pni_geometry_of(w->old, v);
  if (all.shape[0] == 1) all.stride[0] = step;
  all.shape[0] *= n;
  all.numel *= n;
  return in_array(w, v, &all, place, PNI_VALUE_VIEW, 0);
}

/* Operands of a note outside of rolls. */
static pn_status write_operands(writer *w, const pni_note *old, int at) {
  int now, joins = old->op && old->op->flags & PNI_OP_JOINS;
  for (int k = 0, n; k < old->nin; k += n) {
    int v = w->old->edge.v[old->first + k];
    n = joins && v >= 0 && array_place(w, v) >= 0 ? run_of(w, old, k) : 1;
    now = n > 1 ? operands_as_one(w, old, k, n) : keep(w, v);
    if (pni_failed(w->c)) return w->c->status;
    w->to->edge.v[w->to->edge.n++] = now;
    w->to->note.v[at].nin -= n - 1;
  }
  return PN_OK;
}

/* The note at a place, as it is, or (roll) with operands that move. */
static pn_status write_note(writer *w, int place, const pni_section *s, bool roll) {
  const pni_note *old = &w->old->note.v[w->l->note[place]];
  pni_note *note = add_note(w, place);
  int at = (int)w->to->note.n - 1, m = s ? (place - s->begin) % s->period : 0;
  if (note && !roll && write_operands(w, old, at)) return w->c->status;
  for (int k = 0; note && roll && k < old->nin; k++) {
    int now = operand(w, s, m, k);
    if (pni_failed(w->c)) return w->c->status;
    w->to->edge.v[w->to->edge.n++] = now;
  }
  if (!note || old->out < 0) return w->c->status;
  int array = array_place(w, old->out);
  const pni_geometry *g = pni_geometry_of(w->old, old->out);
  int out = array < 0 ? keep(w, old->out) : in_array(w, old->out, g, array, PNI_VALUE_PART, roll ? g->numel : 0);
  w->to->note.v[at].out = out;
  return w->c->status;
}

static pn_status write_section(writer *w, const pni_section *s) {
  int body = s->begin + (int)s->peel * s->period;
  for (int place = s->begin; place < body; place++)
    if (write_note(w, place, s, false)) return w->c->status;
  if (PNI_RESERVE(w->c, w->to->roll, 1)) return w->c->status;
  w->to->roll.v[w->to->roll.n++] = (pni_roll){(int)w->to->note.n, s->period, s->turns - s->peel};
  for (int place = body; place < body + s->period; place++)
    if (write_note(w, place, s, true)) return w->c->status;
  return PN_OK;
}

static pn_status write_all(writer *w, int nout, const int *out, int *fresh) {
  const pni_line *l = w->l;
  for (int v = 0; v < w->old->ninput; v++)
    if (keep(w, v) < 0) return w->c->status;
  for (int place = 0; place < l->n;) {
    const pni_section *s = section_of(l, place);
    if (s ? write_section(w, s) : write_note(w, place, NULL, false)) return w->c->status;
    place += s ? (int)s->turns * s->period : 1;
  }
  for (int k = 0; k < nout; k++)
    if ((fresh[k] = keep(w, out[k])) < 0) return w->c->status;
  return PN_OK;
}

/* The lists of two tapes change places. */
static void exchange(pni_tape *a, pni_tape *b) {
  pni_tape old = *a;
#define EXCHANGE(list) memcpy(&a->list, &b->list, sizeof a->list), memcpy(&b->list, &old.list, sizeof b->list)
  EXCHANGE(value);
  EXCHANGE(note);
  EXCHANGE(edge);
  EXCHANGE(event);
  EXCHANGE(word);
  EXCHANGE(geometry);
  EXCHANGE(number_table);
  EXCHANGE(word_table);
  EXCHANGE(geometry_table);
  EXCHANGE(roll);
#undef EXCHANGE
}

static pn_status rewrite(pn_context *c, pni_tape *tape, const pni_line *l, int nout, int *out) {
  size_t values = (size_t)tape->value.n, places = (size_t)l->n;
  writer w = {.c = c, .l = l, .old = tape, .to = pni_calloc(c, sizeof *w.to)};
  int *fresh = pni_alloc_array(c, nout, sizeof *fresh);
  w.known = pni_alloc_array(c, (int64_t)values, sizeof *w.known);
  w.array = pni_alloc_array(c, (int64_t)places, sizeof *w.array);
  if (w.known) memset(w.known, -1, values * sizeof *w.known);
  if (w.array) memset(w.array, -1, places * sizeof *w.array);
  if (!pni_failed(c) && write_all(&w, nout, out, fresh) == PN_OK) {
    memcpy(out, fresh, (size_t)nout * sizeof *out);
    exchange(tape, w.to);
  }
  pni_free(c, w.known);
  pni_free(c, w.array);
  pni_free(c, fresh);
  if (w.to) pni_tape_free(c, w.to);
  return c->status;
}

pn_status pni_roll_up(pn_context *c, pni_tape *tape, int nout, int *out) {
  pni_line l;
  if (tape->note.n < PNI_LEAST_TURNS) return PN_OK;
  if (pni_line_open(c, &l, tape, nout, out) == PN_OK && l.sections.n) rewrite(c, tape, &l, nout, out);
  pni_line_free(c, &l);
  return c->status;
}
