/*
** plan.c: from a tape to a plan. Notes that no result, effect or check needs are dropped (draws stay: they
** advance their generator). Every value with memory of its own lives from the step that makes it to the
** last one that reads it or a view of it; values whose lives overlap get separate places in the arena,
** first fit in the order of the steps. Large inputs and results need none (bind.c).
*/
#include <string.h>
#include "bind.h"
#include "roll.h"
#include "turn.h"

enum { ALIGN = 64 };

/* ---- what is needed, and how long ---- */

static void use(const pni_tape *tape, pni_schedule *l, int value, int64_t note) {
  int base = tape->value.v[value].base;
  if (l->last[base] < note) l->last[base] = note;
}

static void find_makers(const pn_plan *p, pni_schedule *l) {
  const pni_tape *tape = p->tape;
  for (int64_t i = 0; i < tape->value.n; i++) l->maker[i] = -1;
  for (int64_t i = 0; i < tape->note.n; i++) {
    int out = tape->note.v[i].out;
    if (out >= 0 && tape->value.v[out].kind == PNI_VALUE_OWN) l->maker[out] = (int)i;
  }
}

static const pni_roll *roll_of(const pni_tape *tape, int64_t note) {
  for (int64_t i = 0; i < tape->roll.n; i++)
    if (note >= tape->roll.v[i].first && note < tape->roll.v[i].first + tape->roll.v[i].n) return &tape->roll.v[i];
  return NULL;
}

/* Note i reads or writes the value. In a roll it will do so again, unless the value is made anew at each turn. */
static void use_at(const pni_tape *tape, pni_schedule *l, int value, int64_t i) {
  const pni_roll *roll = roll_of(tape, i);
  if (roll && l->maker[tape->value.v[value].base] < roll->first) i = roll->first + roll->n - 1;
  use(tape, l, value, i);
}

static void find_lives(const pn_plan *p, pni_schedule *l) {
  const pni_tape *tape = p->tape;
  for (int64_t i = 0; i < tape->value.n; i++) l->last[i] = -1;
  for (int k = 0; k < p->nout; k++) {
    use(tape, l, p->out[k], INT64_MAX);
    l->last[p->out[k]] = INT64_MAX; /* also a view: its note is needed */
  }
  for (int64_t i = tape->note.n - 1; i >= 0; i--) {
    const pni_note *note = &tape->note.v[i];
    bool part = note->out >= 0 && tape->value.v[note->out].kind == PNI_VALUE_PART;
    bool spare = note->spare && l->last[tape->edge.v[note->first]] < 0;
    bool keep = part || !note->op || pni_rng_of(tape, note) || (note->op->flags & PNI_OP_CHECK && !spare) ||
                l->last[note->out] >= 0;
    if (!keep) continue;
    l->needed[i] = 1;
    if (part) use_at(tape, l, note->out, i);
    for (int k = 0; k < note->nin; k++) {
      int v = tape->edge.v[note->first + k];
      if (v < 0) continue;
      use_at(tape, l, v, i);
      if (l->last[v] < i) l->last[v] = i;
    }
  }
}

/* A group runs as one: what a member reads lives until its last member, and so does what it writes. (Between
 * its members stand only views, so nothing else dies meanwhile.) */
static void stretch_lives(const pn_plan *p, pni_schedule *l) {
  const pni_tape *tape = p->tape;
  for (int64_t i = 0; i < tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    if (l->group[i] < 0) continue;
    int end = l->until[l->group[i]];
    for (int k = 0; k < note->nin; k++) use(tape, l, tape->edge.v[note->first + k], end);
    if (l->last[note->out] < end) l->last[note->out] = end;
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

static size_t place(pn_plan *p, arena *a, const pni_schedule *l, int value, int64_t now) {
  pni_storage *s = &p->storage[value];
  size_t bytes = bytes_of(&p->tensor[value]);
  s->bytes = bytes;
  return take(a, bytes, now, l->last[value] > now ? l->last[value] : now);
}

/* Value i as a tensor of the plan; inputs come to stand at 0. */
static void settle_value(pn_context *c, pn_plan *p, int64_t i) {
  pni_tape *tape = p->tape;
  pni_value *v = &tape->value.v[i];
  const pni_value *base = &tape->value.v[v->base];
  const pni_geometry *g = pni_geometry_of(tape, i);
  pn_tensor *t = &p->tensor[i];
  memset(t, 0, sizeof *t);
  t->refs = 1;
  t->ctx = c;
  t->dtype = g->dtype;
  t->ndim = g->ndim;
  t->numel = g->numel;
  t->offset = v->offset - (base->kind == PNI_VALUE_INPUT ? base->offset : 0);
  memcpy(t->shape, g->shape, sizeof t->shape);
  memcpy(t->stride, g->stride, sizeof t->stride);
  t->storage = base->outside ? base->outside->storage : &p->storage[v->base];
  p->storage[i] = (pni_storage){.refs = 1, .data = p};
  v->bound = PNI_PLACED;
}

/* Values as the plan's own tensors; storages have no memory yet. */
static pn_status settle_values(pn_context *c, pn_plan *p) {
  const pni_tape *tape = p->tape;
  p->tensor = pni_alloc_array(c, tape->value.n, sizeof *p->tensor);
  p->storage = pni_alloc_array(c, tape->value.n, sizeof *p->storage);
  p->arg = pni_alloc_array(c, tape->edge.n, sizeof *p->arg);
  if (!p->tensor || !p->storage || !p->arg) return c->status;
  for (int64_t i = 0; i < tape->value.n; i++) settle_value(c, p, i);
  for (int64_t i = 0; i < tape->edge.n; i++) {
    int v = tape->edge.v[i];
    p->arg[i] = v < 0 ? NULL : &p->tensor[v];
  }
  return PN_OK;
}

/* Arrays come to be with their first part. */
static void place_array(pn_plan *p, arena *a, const pni_schedule *l, const pni_note *note, int64_t now,
                        size_t *offset) {
  const pni_value *v = note->out < 0 ? NULL : &p->tape->value.v[note->out];
  if (v && v->kind == PNI_VALUE_PART && !p->storage[v->base].bytes) offset[v->base] = place(p, a, l, v->base, now);
}

static void lay_out(pn_plan *p, const pni_schedule *l, arena *a, size_t *offset) {
  const pni_tape *tape = p->tape;
  const pni_roll *roll = tape->roll.v, *end = roll + tape->roll.n;
  for (int i = 0; i < tape->ninput; i++)
    if (tape->value.v[i].bound == PNI_PLACED) offset[i] = place(p, a, l, i, -1);
  for (int64_t i = 0; i < tape->note.n; i++) {
    int out = tape->note.v[i].out;
    for (; roll < end && roll->first == i; roll++) /* what a later turn needs, before the first */
      for (int k = 0; k < roll->n; k++) place_array(p, a, l, &tape->note.v[i + k], i, offset);
    place_array(p, a, l, &tape->note.v[i], i, offset);
    bool own = l->needed[i] && out >= 0 && tape->value.v[out].kind == PNI_VALUE_OWN;
    if (own && l->slot[out] < 0 && tape->value.v[out].bound == PNI_PLACED) offset[out] = place(p, a, l, out, i);
  }
}

static pn_status give_memory(pn_context *c, pn_plan *p, const pni_schedule *l) {
  int64_t n = p->tape->value.n;
  size_t *offset = pni_calloc_array(c, n, sizeof *offset);
  arena a = {.v = pni_alloc_array(c, n + 1, sizeof(block))};
  if (offset && a.v) {
    lay_out(p, l, &a, offset);
    p->arena_bytes = a.top ? a.top : ALIGN;
    p->arena = pni_alloc(c, p->arena_bytes);
    for (int64_t i = 0; p->arena && i < n; i++) p->storage[i].data = p->arena + offset[i];
  }
  pni_free(c, offset);
  pni_free(c, a.v);
  return c->status;
}

/* ---- steps ---- */

static pni_step map_step(pn_plan *p, const pni_note *note, pni_loop **nest) {
  pni_step s = {.kind = PNI_STEP_LOOP};
  pni_loop *l = *nest;
  pni_map_kernel row;
  void *data;
  pni_map_of(p, note, l, &row, &data);
  if (l->ndim > 1 || l->shape[0] > PNI_RUN) {
    s.u.loop.row = row;
    s.u.loop.data = data;
    s.u.loop.nest = l;
    ++*nest;
    return s;
  }
  s.kind = PNI_STEP_RUN;
  s.u.run.row = row;
  s.u.run.data = data;
  s.u.run.n = l->shape[0];
  for (int k = 0; k < l->nop; k++) {
    s.u.run.p[k] = l->base[k];
    s.u.run.stride[k] = l->stride[k][0];
  }
  return s;
}

/* A reduction of rows that is no member of a group. */
static bool fold_step(pn_plan *p, const pni_note *note, pni_step *s) {
  int64_t n;
  double scale;
  pni_fold fold = pni_fold_of(p, note, &n, &scale);
  if (!fold || p->arg[note->first]->numel > PNI_RUN) return false;
  pn_tensor *x = p->arg[note->first], *out = &p->tensor[note->out];
  *s = (pni_step){.kind = PNI_STEP_FOLD,
                  .u.fold = {fold, x->numel / n, n, scale, {pni_data(out), pni_data(x)}, out->dtype}};
  return true;
}

static pni_step eval_step(pn_plan *p, const pni_note *note) {
  pni_step s = {.kind = PNI_STEP_EVAL};
  pni_attr *a = pni_attr_of(p->tape, note);
  s.u.eval.call = (pni_call){note->op, p->arg + note->first, note->nin, a};
  s.u.eval.out = &p->tensor[note->out];
  s.u.eval.drawn = pni_rng_of(p->tape, note) ? a : NULL;
  return s;
}

/* Prepared if the operation knows how, else evaluated. */
static pni_step product_step(pn_plan *p, const pni_note *note, pni_prepared **next) {
  pni_step s = eval_step(p, note);
  if (!note->op->prepare || !note->op->prepare(&s.u.eval.call, s.u.eval.out, *next)) return s;
  s = (pni_step){.kind = PNI_STEP_PREPARED, .u.prepared = {note->op->run, *next}};
  ++*next;
  return s;
}

static bool is_map(const pni_note *note) { return note->op && (note->op->map || note->op->kernel); }

static void add_steps(pn_plan *p, const pni_schedule *l) {
  pni_tape *tape = p->tape;
  pni_loop *nest = p->nest;
  pni_member *member = p->member;
  pni_prepared *prepared = p->prepared;
  const pni_roll *roll = tape->roll.v, *end = roll + tape->roll.n;
  pni_step *rolled = NULL; /* whose steps these are */
  for (int64_t i = 0; i < tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    bool view = note->out >= 0 && tape->value.v[note->out].kind == PNI_VALUE_VIEW;
    if (roll < end && roll->first + roll->n == i) {
      rolled = NULL;
      roll++;
    }
    if (roll < end && roll->first == i) {
      rolled = &p->step[p->nstep++];
      *rolled = (pni_step){.kind = PNI_STEP_ROLL, .note = (int)i, .u.roll.turns = roll->turns};
    }
    if (!l->needed[i] || view || (l->group[i] >= 0 && l->group[i] != i)) continue;
    pni_step *s = &p->step[p->nstep++];
    if (rolled) rolled->u.roll.n++;
    bool effect = pni_event_of(tape, note)->effect != NULL;
    p->effects |= effect;
    if (effect)
      *s = (pni_step){.kind = PNI_STEP_EFFECT, .u.effect.in = p->arg + note->first};
    else if (!note->op)
      *s = (pni_step){.kind = PNI_STEP_DRAW, .u.draw.out = &p->tensor[note->out]};
    else if (l->group[i] == i)
      *s = pni_group_step(p, l, (int)i, &member);
    else if (!fold_step(p, note, s))
      *s = is_map(note) ? map_step(p, note, &nest) : product_step(p, note, &prepared);
    s->note = (int)i;
  }
}

/* Elements of the steps between two looks at the clock. */
enum { LEAN = 4096 };

/* Or LEAN. */
static int64_t elements_of(const pn_plan *p, const pni_step *s) {
  if (s->kind == PNI_STEP_RUN) return s->u.run.n < LEAN ? s->u.run.n : LEAN;
  if (s->kind != PNI_STEP_FOLD && s->kind != PNI_STEP_PREPARED) return LEAN;
  const pni_note *note = &p->tape->note.v[s->note];
  int64_t n = p->tensor[note->out].numel;
  for (int k = 0; k < note->nin && n < LEAN; k++) n += p->arg[note->first + k] ? p->arg[note->first + k]->numel : 0;
  return n < LEAN ? n : LEAN;
}

/* They do not reach across the end of a roll. */
static void find_lean(pn_plan *p) {
  int64_t sum = LEAN;
  bool end = true;
  for (int64_t i = 0; i < p->nstep; i++)
    if (p->step[i].kind == PNI_STEP_ROLL && i + 1 + p->step[i].u.roll.n < p->nstep)
      p->step[i + 1 + p->step[i].u.roll.n].lean = -1;
  for (int64_t i = p->nstep - 1; i >= 0; i--) {
    pni_step *s = &p->step[i];
    int64_t n = elements_of(p, s);
    bool joins = !end && sum + n < LEAN;
    end = s->lean < 0;
    s->lean = n >= LEAN ? 0 : joins ? s[1].lean + 1 : 1;
    s->elements = (int)n;
    sum = joins ? sum + n : n;
  }
}

static pn_status make_steps(pn_context *c, pn_plan *p, const pni_schedule *l) {
  const pni_tape *tape = p->tape;
  p->step_cap = tape->note.n + tape->roll.n;
  for (int64_t i = 0; i < tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    p->map_cap += l->needed[i] && (is_map(note) || l->group[i] >= 0);
    p->prepared_cap += l->needed[i] && note->op && note->op->prepare;
  }
  p->step = pni_alloc_array(c, p->step_cap, sizeof *p->step);
  p->nest = pni_alloc_array(c, p->map_cap + 1, sizeof *p->nest); /* one to try in */
  p->member = pni_alloc_array(c, p->map_cap, sizeof *p->member);
  p->prepared = pni_alloc_array(c, p->prepared_cap, sizeof *p->prepared);
  if (!p->step || !p->nest || !p->member || !p->prepared) return c->status;
  add_steps(p, l);
  find_lean(p);
  return pni_group_parts(c, p) || pni_bind_steps(c, p) ? c->status : pni_turn_steps(c, p);
}

static pn_status schedule(pn_context *c, pn_plan *p) {
  const pni_tape *tape = p->tape;
  size_t notes = (size_t)tape->note.n, values = (size_t)tape->value.n;
  pni_schedule l = {.needed = pni_calloc(c, notes), .last = pni_calloc_array(c, tape->value.n, sizeof *l.last)};
  int *ints = pni_calloc_array(c, 2 * (tape->note.n + tape->value.n), sizeof *ints);
  if (l.needed && l.last && ints) {
    l.group = ints;
    l.until = ints + notes;
    l.slot = ints + 2 * notes;
    l.maker = l.slot + values;
    find_makers(p, &l);
    find_lives(p, &l);
    pni_fuse(p, &l);
    stretch_lives(p, &l);
    if (pni_bind_choose(c, p, &l) == PN_OK && give_memory(c, p, &l) == PN_OK) make_steps(c, p, &l);
  }
  pni_free(c, l.needed);
  pni_free(c, l.last);
  pni_free(c, ints);
  return c->status;
}

pn_status pni_plan_settle(pn_context *c, pn_plan *p) {
  if (settle_values(c, p) || schedule(c, p)) return c->status;
  p->direct = p->nbound == 0;
  for (int k = 0; k < p->nout; k++) p->direct &= pni_is_contiguous(&p->tensor[p->out[k]]);
  return PN_OK;
}

/* Which values the results are: all that is asked of the tensors themselves. */
static pn_status find_results(pn_context *c, pn_plan *p, pn_tensor *const *out) {
  if (!p->out) return c->status;
  for (int k = 0; k < p->nout; k++) {
    if (!out[k]) return pni_fail(c, PN_STATE, "capture: result %d must be a tensor, got NULL", k + 1);
    if ((p->out[k] = pni_tape_value(c, p->tape, out[k])) < 0) return c->status;
  }
  return pni_tape_check_whole(c, p->tape);
}

/* ---- life ---- */

static void destroy(pn_plan *p) {
  pn_context *c = p->ctx;
  pni_free(c, p->arg);
  pni_free(c, p->tensor);
  pni_free(c, p->storage);
  pni_free(c, p->step);
  pni_free(c, p->nest);
  pni_free(c, p->member);
  pni_free(c, p->prepared);
  pni_free(c, p->out);
  pni_free(c, p->bound);
  pni_free(c, p->patch);
  pni_free(c, p->shift);
  pni_free(c, p->part);
  pni_free(c, p->arena);
  pni_tape_free(c, p->tape);
  pni_free(c, p);
  pni_object_died(c);
}

pn_plan *pni_plan_new(pn_context *c, pni_tape *tape, int nout) {
  pn_plan *p = pni_calloc(c, sizeof *p);
  if (!p) return NULL;
  p->refs = 1;
  p->ctx = c;
  p->nout = nout;
  p->tape = tape;
  p->out = pni_alloc_array(c, nout, sizeof *p->out);
  return p;
}

pn_plan *pni_capture_close(pn_context *c, int n, pn_tensor *const *out) {
  if (!c->recorder || ((pni_tape *)c->recorder)->examples) {
    pni_fail(c, PN_STATE, "capture: there is none to end");
    pn_capture_cancel(c);
    return NULL;
  }
  pn_plan *p = PNI_LISTED(c, "capture_end", n, out) ? pni_plan_new(c, (pni_tape *)c->recorder, n) : NULL;
  if (!p) {
    pn_capture_cancel(c);
    return NULL;
  }
  find_results(c, p, out);
  pni_capture_leave(c, p->tape); /* an object: the plan's from here on */
  if (!pni_failed(c)) return p;
  destroy(p);
  return NULL;
}

pn_status pni_plan_finish(pn_context *c, pn_plan *p) {
  return pni_roll_up(c, p->tape, p->nout, p->out) ? c->status : pni_plan_settle(c, p);
}

pn_plan *pn_capture_end(pn_context *c, int n, pn_tensor *const *out) {
  pn_plan *p = pni_capture_close(c, n, out);
  if (!p || pni_plan_finish(c, p) == PN_OK) return p;
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

/* Lean ones that follow one another are one. */
int pn_plan_num_steps(const pn_plan *p) {
  int n = 0;
  for (int64_t i = 0; p && i < p->nstep; i += p->step[i].lean ? p->step[i].lean : 1)
    n += p->step[i].kind != PNI_STEP_ROLL;
  return n;
}
int pn_plan_num_loops(const pn_plan *p) { return p ? (int)p->tape->roll.n : 0; }
size_t pn_plan_memory(const pn_plan *p) { return p ? p->arena_bytes + p->part_bytes : 0; }
