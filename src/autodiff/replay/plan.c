/*
** plan.c: from a tape to a plan. Notes that no result, effect or check needs are dropped (draws stay: they
** advance their generator). Every value with memory of its own lives from the step that makes it to the
** last one that reads it or a view of it; values whose lives overlap get separate places in the arena,
** first fit in the order of the steps.
*/
#include <string.h>
#include "replay.h"

enum { ALIGN = 64 };

/* ---- what is needed, and how long ---- */

typedef struct {
  uint8_t *needed; /* by note */
  int64_t *last;   /* by value: the last note that reads its memory; INT64_MAX: kept to the end */
} lives;

static void use(const pni_tape *tape, lives *l, int value, int64_t note) {
  int base = tape->value.v[value].base;
  if (l->last[base] < note) l->last[base] = note;
}

static void find_lives(const pn_plan *p, lives *l) {
  const pni_tape *tape = p->tape;
  for (int64_t i = 0; i < tape->value.n; i++) l->last[i] = -1;
  for (int k = 0; k < p->nout; k++) {
    use(tape, l, p->out[k], INT64_MAX);
    l->last[p->out[k]] = INT64_MAX; /* also a view: its note is needed */
  }
  for (int64_t i = tape->note.n - 1; i >= 0; i--) {
    const pni_note *note = &tape->note.v[i];
    bool keep = !note->op || note->rng || note->op->flags & PNI_OP_CHECK || l->last[note->out] >= 0;
    if (!keep) continue;
    l->needed[i] = 1;
    for (int k = 0; k < note->nin; k++) {
      int v = tape->edge.v[note->first + k];
      if (v < 0) continue;
      use(tape, l, v, i);
      if (l->last[v] < i) l->last[v] = i;
    }
  }
}

/* ---- the arena ---- */

/* A place in use: [at, at + bytes) until note `last`. Sorted by at. */
typedef struct {
  size_t at, bytes;
  int64_t last;
} block;

typedef struct {
  block *v;
  int64_t n;
  size_t top; /* largest end so far */
} arena;

/* The lowest gap that holds `bytes` at time `now`. */
static size_t take(arena *a, size_t bytes, int64_t now, int64_t last) {
  int64_t n = 0;
  for (int64_t i = 0; i < a->n; i++)
    if (a->v[i].last >= now) a->v[n++] = a->v[i];
  a->n = n;
  size_t at = 0;
  int64_t i = 0;
  for (; i < a->n && a->v[i].at - at < bytes; i++) at = a->v[i].at + a->v[i].bytes;
  memmove(a->v + i + 1, a->v + i, (size_t)(a->n - i) * sizeof *a->v);
  a->v[i] = (block){at, bytes, last};
  a->n++;
  if (at + bytes > a->top) a->top = at + bytes;
  return at;
}

static size_t bytes_of(const pn_tensor *t) {
  size_t n = (size_t)t->numel * pni_itemsize(t);
  return n ? (n + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
}

static size_t place(pn_plan *p, arena *a, const lives *l, int value, int64_t now) {
  pni_storage *s = &p->storage[value];
  size_t bytes = bytes_of(&p->tape->value.v[value].t);
  s->bytes = bytes;
  return take(a, bytes, now, l->last[value] > now ? l->last[value] : now);
}

/* Offsets of all memory, then the memory, then addresses. */
static pn_status lay_out(pn_context *c, pn_plan *p, const lives *l, arena *a, size_t *offset) {
  pni_tape *tape = p->tape;
  for (int i = 0; i < tape->ninput; i++) offset[i] = place(p, a, l, i, -1);
  for (int64_t i = 0; i < tape->note.n; i++) {
    int out = tape->note.v[i].out;
    if (l->needed[i] && out >= 0 && tape->value.v[out].kind == PNI_VALUE_OWN) offset[out] = place(p, a, l, out, i);
  }
  p->arena_bytes = a->top ? a->top : ALIGN;
  if (!(p->arena = pni_alloc(c, p->arena_bytes))) return c->status;
  for (int64_t i = tape->value.n - 1; i >= 0; i--) { /* views before what they show */
    pni_value *v = &tape->value.v[i];
    pni_storage *s = &p->storage[i];
    s->refs = 1;
    s->version = 0;
    s->data = p->arena + offset[i];
    pn_tensor *t = &v->t;
    t->refs = 1;
    t->flags = 0;
    t->op = NULL;
    t->attr = NULL;
    t->attr_bytes = 0;
    t->in = NULL;
    t->nin = 0;
    t->grad = t->link = NULL;
    t->slot = 0;
    const pni_value *base = &tape->value.v[v->base];
    t->storage = base->outside ? base->outside->storage : &p->storage[v->base];
    if (base->kind == PNI_VALUE_INPUT) t->offset -= base->t.offset; /* inputs come to stand at 0 */
  }
  return PN_OK;
}

static pn_status give_memory(pn_context *c, pn_plan *p, const lives *l) {
  int64_t n = p->tape->value.n;
  p->storage = pni_alloc_array(c, n, sizeof *p->storage);
  size_t *offset = pni_calloc(c, (size_t)n * sizeof *offset);
  arena a = {.v = pni_alloc_array(c, n + 1, sizeof(block))};
  if (p->storage && offset && a.v) lay_out(c, p, l, &a, offset);
  pni_free(c, offset, (size_t)n * sizeof *offset);
  pni_free(c, a.v, (size_t)(n + 1) * sizeof(block));
  return c->status;
}

/* ---- steps ---- */

static pni_step map_step(pn_plan *p, const pni_note *note, pni_loop *nest, bool *used) {
  pni_step s = {.kind = PNI_STEP_LOOP};
  pn_tensor *out = &p->tape->value.v[note->out].t, **in = p->arg + note->first;
  pni_attr *a = (pni_attr *)(void *)(p->tape->word.v + note->attr);
  pni_row row = note->op->map[in[0]->dtype];
  void *data = a->ni ? (void *)a->i : (void *)a->r;
  pni_loop_init(nest, out, note->nin, in);
  *used = nest->ndim > 1 || nest->shape[0] > PNI_RUN;
  if (*used) {
    s.u.loop.row = row;
    s.u.loop.data = data;
    s.u.loop.nest = nest;
    return s;
  }
  s.kind = PNI_STEP_RUN;
  s.u.run.row = row;
  s.u.run.data = data;
  s.u.run.n = nest->shape[0];
  for (int k = 0; k < nest->nop; k++) {
    s.u.run.p[k] = nest->base[k];
    s.u.run.stride[k] = nest->stride[k][0];
  }
  return s;
}

static pni_step eval_step(pn_plan *p, const pni_note *note) {
  pni_step s = {.kind = PNI_STEP_EVAL};
  pni_attr *a = (pni_attr *)(void *)(p->tape->word.v + note->attr);
  s.u.eval.call = (pni_call){note->op, p->arg + note->first, note->nin, a};
  s.u.eval.out = &p->tape->value.v[note->out].t;
  s.u.eval.drawn = note->rng ? a : NULL;
  return s;
}

static void add_steps(pn_plan *p, const lives *l) {
  pni_tape *tape = p->tape;
  pni_loop *nest = p->nest;
  for (int64_t i = 0; i < tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    bool view = note->out >= 0 && tape->value.v[note->out].kind == PNI_VALUE_VIEW, used = false;
    if (!l->needed[i] || view) continue;
    pni_step *s = &p->step[p->nstep++];
    if (note->effect) {
      *s = (pni_step){.kind = PNI_STEP_EFFECT, .u.effect.in = p->arg + note->first};
    } else if (!note->op) {
      *s = (pni_step){.kind = PNI_STEP_DRAW, .u.draw.out = &tape->value.v[note->out].t};
    } else if (note->op->map) {
      *s = map_step(p, note, nest, &used);
      nest += used;
    } else {
      *s = eval_step(p, note);
    }
    s->note = (int)i;
  }
}

static pn_status make_steps(pn_context *c, pn_plan *p, const lives *l) {
  const pni_tape *tape = p->tape;
  p->step_cap = tape->note.n;
  for (int64_t i = 0; i < tape->note.n; i++)
    p->nest_cap += l->needed[i] && tape->note.v[i].op && tape->note.v[i].op->map;
  p->step = pni_alloc_array(c, p->step_cap, sizeof *p->step);
  p->nest = pni_alloc_array(c, p->nest_cap, sizeof *p->nest);
  p->arg = pni_alloc_array(c, tape->edge.cap, sizeof *p->arg);
  if (!p->step || !p->nest || !p->arg) return c->status;
  for (int64_t i = 0; i < tape->edge.n; i++) {
    int v = tape->edge.v[i];
    p->arg[i] = v < 0 ? NULL : &tape->value.v[v].t;
  }
  add_steps(p, l);
  return PN_OK;
}

static pn_status build(pn_context *c, pn_plan *p, pn_tensor *const *out) {
  pni_tape *tape = p->tape;
  p->out = pni_alloc_array(c, p->nout, sizeof *p->out);
  if (!p->out) return c->status;
  for (int k = 0; k < p->nout; k++) {
    if (!out[k]) return pni_fail(c, PN_STATE, "capture: result %d must be a tensor, got NULL", k + 1);
    if ((p->out[k] = pni_tape_value(c, tape, out[k])) < 0) return c->status;
  }
  size_t notes = (size_t)tape->note.n, values = (size_t)tape->value.n;
  lives l = {pni_calloc(c, notes), pni_calloc(c, values * sizeof *l.last)};
  if (l.needed && l.last) {
    find_lives(p, &l);
    if (give_memory(c, p, &l) == PN_OK) make_steps(c, p, &l);
  }
  pni_free(c, l.needed, notes);
  pni_free(c, l.last, values * sizeof *l.last);
  return c->status;
}

/* ---- life ---- */

static void destroy(pn_plan *p) {
  pn_context *c = p->ctx;
  const pni_tape *tape = p->tape;
  pni_free(c, p->arg, (size_t)tape->edge.cap * sizeof *p->arg);
  pni_free(c, p->storage, (size_t)tape->value.n * sizeof *p->storage);
  pni_free(c, p->step, (size_t)p->step_cap * sizeof *p->step);
  pni_free(c, p->nest, (size_t)p->nest_cap * sizeof *p->nest);
  pni_free(c, p->out, (size_t)p->nout * sizeof *p->out);
  pni_free(c, p->arena, p->arena_bytes);
  pni_tape_free(c, p->tape);
  pni_free(c, p, sizeof *p);
  pni_object_died(c);
}

pn_plan *pn_capture_end(pn_context *c, int n, pn_tensor *const *out) {
  if (!c->recorder) {
    pni_fail(c, PN_STATE, "capture: there is none to end");
    return NULL;
  }
  pn_plan *p = pni_failed(c) ? NULL : pni_calloc(c, sizeof *p);
  if (!p) {
    pn_capture_cancel(c);
    return NULL;
  }
  p->refs = 1;
  p->ctx = c;
  p->nout = n;
  p->tape = (pni_tape *)c->recorder;
  build(c, p, out);
  c->recorder = NULL; /* the tape, an object, is the plan's from here on */
  if (!pni_failed(c)) return p;
  destroy(p);
  return NULL;
}

pn_plan *pn_plan_ref(pn_plan *p) {
  if (p) p->refs++;
  return p;
}

void pn_plan_unref(pn_plan *p) {
  if (p && --p->refs == 0) destroy(p);
}

int pn_plan_num_steps(const pn_plan *p) { return (int)p->nstep; }
size_t pn_plan_memory(const pn_plan *p) { return p->arena_bytes; }
