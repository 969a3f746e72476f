/*
** plan_test.c: what a plan is made of, where results would not tell: how long values live and where they lie, groups
** and their tiles, kinds of steps at their bounds, lean steps, what is bound, loops and where they begin, lists and
** tables of a tape.
*/
#include "../../src/autodiff/replay/bind.h"
#include "../../src/autodiff/replay/plan.h"
#include "check.h"

typedef pn_context C;
typedef pn_tensor T;

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/* ---- random programs ---- */

static uint64_t place_in_stream;

static int pick(int n) {
  place_in_stream = place_in_stream * 6364136223846793005u + 1442695040888963407u;
  return (int)((place_in_stream >> 33) % (uint64_t)n);
}

enum { INPUTS = 4, POOL = 90 };

typedef struct {
  T *v[POOL];
  bool read[POOL];
  int n;
} pool;

static T *any(pool *p) {
  int k = pick(p->n);
  p->read[k] = true;
  return p->v[k];
}

/* Elementwise operations, sums of rows and columns, running sums, and views that are turned, cut or crosswise. */
static T *random_step(C *c, pool *p, int64_t rows, int64_t cols) {
  T *x = any(p), *y;
  switch (pick(10)) {
  case 0: return pn_neg(c, x);
  case 1: return pn_tanh(c, x);
  case 2: return pn_sin(c, x);
  case 3:
  case 4: return pn_add(c, x, any(p));
  case 5: return pn_mul(c, x, any(p));
  case 6: return pn_flip(c, x, 1);
  case 7: return pn_cumsum(c, x, 0);
  case 8: return pn_slice(c, x, pick(2), 0, 1, 1);
  default: y = pn_sum(c, x, (pn_axes){1, {pick(2)}}, 1); return rows == cols && pick(2) ? pn_transpose(c, x, 0, 1) : y;
  }
}

static void grow(C *c, pool *p, int more, int64_t rows, int64_t cols) {
  while (more-- > 0) {
    T *y = random_step(c, p, rows, cols);
    p->read[p->n] = false;
    p->v[p->n++] = y;
  }
}

/* 40 turns of the same, each of which reads what the one before gave. */
static void turns(C *c, pool *p, int64_t rows, int64_t cols) {
  T *h = p->v[0], *at[2] = {p->v[1], p->v[2]};
  uint64_t begin = place_in_stream;
  for (int t = 0; t < 40; t++) {
    pool turn = {.v = {h, at[0], at[1]}, .n = 3};
    place_in_stream = begin;
    grow(c, &turn, 4, rows, cols);
    h = pn_tanh(c, h); /* the first note of a turn is one that the next turn reads */
    for (int k = 3; k < turn.n; k++) h = pn_add(c, h, turn.v[k]);
  }
  p->v[p->n++] = h;
}

/* A plan of it on inputs of all shapes that broadcast; nothing but some of what comes late is a result. */
static pn_plan *random_plan(C *c, uint64_t seed, int64_t rows, int64_t cols, bool loop, T **x) {
  T *in[INPUTS], *out[POOL];
  pool p = {.n = INPUTS};
  int nout = 0;
  place_in_stream = seed;
  if (pn_capture_begin(c, INPUTS, x, in)) return NULL;
  for (int k = 0; k < INPUTS; k++) p.v[k] = in[k];
  grow(c, &p, 12, rows, cols);
  if (loop) turns(c, &p, rows, cols);
  grow(c, &p, 12, rows, cols);
  for (int k = INPUTS; k < p.n; k++)
    if (!p.read[k] && pick(4)) out[nout++] = p.v[k];
  out[nout++] = p.v[p.n - 1];
  return pn_capture_end(c, nout, out);
}

/* ---- how long values live and where they lie ---- */

enum { MOST = 1000 };

typedef struct {
  const pn_plan *p;
  const pni_tape *tape;
  bool needed[MOST];   /* by note */
  int64_t end[MOST];   /* by note: the last one of its step */
  int group[MOST];     /* by note: its step, or -1 */
  int maker[MOST];     /* by value of its own memory: the note, or -1 */
  int64_t until[MOST]; /* by value: once it is placed, the note to whose end it lives */
  int64_t at[MOST], bytes[MOST];
} lives;

static int kind_of(const lives *l, int64_t note) {
  int out = l->tape->note.v[note].out;
  return out < 0 ? -1 : l->tape->value.v[out].kind;
}

static int base_of(const lives *l, int v) { return v < 0 ? -1 : l->tape->value.v[v].base; }
static int operand_of(const lives *l, int64_t note, int k) { return l->tape->edge.v[l->tape->note.v[note].first + k]; }

static bool reads(const lives *l, int64_t note, int base) {
  for (int k = 0; k < l->tape->note.v[note].nin; k++)
    if (base_of(l, operand_of(l, note, k)) == base) return true;
  return false;
}

/* What is read, or is a part of all turns' results, is needed: from the end on. */
static void find_needed(lives *l) {
  bool read[MOST] = {false};
  for (int k = 0; k < l->p->nout; k++) read[l->p->out[k]] = true;
  for (int64_t i = l->tape->note.n - 1; i >= 0; i--) {
    int out = l->tape->note.v[i].out;
    l->needed[i] = kind_of(l, i) == PNI_VALUE_PART;
    for (int v = 0; v < (int)l->tape->value.n; v++) l->needed[i] |= read[v] && (v == out || base_of(l, v) == out);
    for (int k = 0; l->needed[i] && k < l->tape->note.v[i].nin; k++) read[operand_of(l, i, k)] = true;
  }
}

static void find_steps(lives *l) {
  for (int v = 0; v < (int)l->tape->value.n; v++) l->maker[v] = -1, l->at[v] = -1;
  for (int64_t i = 0; i < l->tape->note.n; i++) {
    l->end[i] = i;
    l->group[i] = -1;
    if (kind_of(l, i) == PNI_VALUE_OWN) l->maker[l->tape->note.v[i].out] = (int)i;
  }
  for (int s = 0; s < l->p->nstep; s++) {
    const pni_step *step = &l->p->step[s];
    int64_t i = step->note;
    for (int n = step->kind == PNI_STEP_GROUP ? step->u.group.n : 0; n > 0; i++) {
      if (!l->needed[i] || kind_of(l, i) == PNI_VALUE_VIEW) continue;
      l->group[i] = s;
      n--;
    }
    for (int64_t k = step->note; k < i; k++) l->end[k] = i - 1;
  }
}

static bool is_result(const lives *l, int base) {
  for (int k = 0; k < l->p->nout; k++)
    if (base_of(l, l->p->out[k]) == base) return true;
  return false;
}

static const pni_roll *roll_at(const lives *l, int64_t note) {
  for (int64_t i = 0; i < l->tape->roll.n; i++) {
    const pni_roll *r = &l->tape->roll.v[i];
    if (note >= r->first && note <= r->first + r->n - 1) return r;
  }
  return NULL;
}

/* The last note that reads or writes the memory: whole steps, or not. In a loop what was there before it, or is added
 * to by each turn, is there to its end. */
static int64_t last_use(const lives *l, int base, bool whole) {
  int64_t last = is_result(l, base) ? INT64_MAX : -1;
  for (int64_t i = 0; i < l->tape->note.n; i++) {
    bool writes = kind_of(l, i) == PNI_VALUE_PART && base_of(l, l->tape->note.v[i].out) == base;
    bool in_group = l->group[i] >= 0;
    if (!l->needed[i] || !(writes || reads(l, i, base))) continue;
    int64_t at = whole && in_group ? l->end[i] : i;
    const pni_roll *r = roll_at(l, i);
    if (r && l->maker[base] < r->first && at < r->first + r->n - 1) at = r->first + r->n - 1;
    if (at > last) last = at;
  }
  return last;
}

/* Does only the group that makes it read it? */
static bool is_local(const lives *l, int v) {
  int64_t maker = l->maker[v];
  if (maker < 0 || l->group[maker] < 0 || l->tape->note.v[maker].op->fold || is_result(l, v)) return false;
  for (int64_t i = 0; i < l->tape->note.n; i++)
    if (l->needed[i] && kind_of(l, i) != PNI_VALUE_VIEW && reads(l, i, v) && l->group[i] != l->group[maker])
      return false;
  return true;
}

/* The lowest place that nothing holds which lives at `now`. */
static void place(lives *l, int v, int64_t now, int64_t last) {
  const T *t = &l->p->tensor[v];
  int64_t bytes = (t->numel * (int64_t)pni_itemsize(t) + 63) / 64 * 64, at = 0;
  if (bytes == 0) bytes = 64;
  for (bool again = true; again;) {
    again = false;
    for (int w = 0; w < (int)l->tape->value.n; w++)
      if (l->at[w] >= 0 && l->until[w] >= now && l->at[w] < at + bytes && at < l->at[w] + l->bytes[w]) {
        at = l->at[w] + l->bytes[w];
        again = true;
      }
  }
  l->at[v] = at;
  l->bytes[v] = bytes;
  l->until[v] = last > now ? last : now;
}

static void place_array(lives *l, int64_t note, int64_t now) {
  int base = kind_of(l, note) == PNI_VALUE_PART ? base_of(l, l->tape->note.v[note].out) : -1;
  if (base >= 0 && l->at[base] < 0) place(l, base, now, last_use(l, base, true));
}

/* In a group: the first free slot, which is free again once its last reader has run. */
static int slot_of(const lives *l, int64_t note) {
  int64_t busy[PNI_TILE_SLOTS];
  int slot = -1;
  for (int k = 0; k < PNI_TILE_SLOTS; k++) busy[k] = -1;
  for (int64_t i = 0; i <= note; i++) {
    int v = l->tape->note.v[i].out;
    if (l->group[i] != l->group[note] || !is_local(l, v)) continue;
    for (slot = 0; slot < PNI_TILE_SLOTS && busy[slot] >= i; slot++)
      ;
    if (slot == PNI_TILE_SLOTS)
      slot = -1;
    else
      busy[slot] = last_use(l, v, false);
  }
  return slot;
}

static void place_own(lives *l, int64_t i) {
  int v = l->tape->note.v[i].out;
  if (!l->needed[i] || kind_of(l, i) != PNI_VALUE_OWN || l->tape->value.v[v].bound != PNI_PLACED) return;
  if (l->group[i] >= 0 && is_local(l, v) && slot_of(l, i) >= 0) return;
  int64_t last = last_use(l, v, true), end = l->group[i] >= 0 ? l->end[i] : i;
  place(l, v, i, last > end ? last : end);
}

/* The plan's places, against all of the above. */
static void check_places(const pn_plan *p) {
  static lives l;
  int64_t top = 0;
  l.p = p;
  l.tape = p->tape;
  if (l.tape->note.n > MOST || l.tape->value.n > MOST) {
    CHECK(!"the plan fits these lists");
    return;
  }
  find_needed(&l);
  find_steps(&l);
  for (int v = 0; v < l.tape->ninput; v++)
    if (l.tape->value.v[v].bound == PNI_PLACED) place(&l, v, -1, last_use(&l, v, true));
  for (int64_t i = 0; i < l.tape->note.n; i++) {
    const pni_roll *r = roll_at(&l, i);
    for (int k = 0; r && r->first == i && k < r->n; k++) place_array(&l, i + k, i);
    place_array(&l, i, i);
    place_own(&l, i);
  }
  for (int v = 0; v < (int)l.tape->value.n; v++) {
    if (l.at[v] < 0) continue;
    CHECK_INT((char *)p->storage[v].data - p->arena, l.at[v]);
    CHECK_INT(p->storage[v].bytes, l.bytes[v]);
    if (l.at[v] + l.bytes[v] > top) top = l.at[v] + l.bytes[v];
  }
  CHECK_INT(p->arena_bytes, top ? top : 64);
  for (int64_t i = 0; i < l.tape->note.n; i++) {
    if (l.group[i] < 0) continue;
    const pni_group *g = &p->step[l.group[i]].u.group;
    int k = 0;
    CHECK(roll_at(&l, i) == roll_at(&l, p->step[l.group[i]].note));
    for (int64_t j = p->step[l.group[i]].note; j < i; j++) k += l.group[j] == l.group[i];
    CHECK_INT(g->member[k].op[0].slot, is_local(&l, l.tape->note.v[i].out) ? slot_of(&l, i) : -1);
  }
}

/* ---- lean steps ---- */

enum { LEAN = 4096 };

static int64_t elements_of(const pn_plan *p, const pni_step *s) {
  const pni_note *note = &p->tape->note.v[s->note];
  int64_t n = p->tensor[note->out].numel;
  if (s->kind == PNI_STEP_RUN) return n < LEAN ? n : LEAN;
  if (s->kind != PNI_STEP_FOLD && s->kind != PNI_STEP_PREPARED) return LEAN;
  for (int k = 0; k < note->nin; k++) n += p->tensor[p->tape->edge.v[note->first + k]].numel;
  return n < LEAN ? n : LEAN;
}

/* From each step that is lean as many are done together as stay below LEAN elements, as far as those that the next one
 * has together, and not across the end of a loop. */
static void check_lean(const pn_plan *p) {
  for (int64_t i = 0; i < p->nstep; i++) {
    const pni_step *s = &p->step[i];
    bool end = i + 1 == p->nstep;
    int64_t sum = elements_of(p, s);
    for (int64_t r = 0; r < i; r++) end |= p->step[r].kind == PNI_STEP_ROLL && r + p->step[r].u.roll.n == i;
    CHECK_INT(s->elements, sum);
    if (sum >= LEAN) {
      CHECK_INT(s->lean, 0);
      continue;
    }
    for (int64_t k = 1; !end && k <= p->step[i + 1].lean; k++) sum += elements_of(p, &p->step[i + k]);
    CHECK_INT(s->lean, end || !p->step[i + 1].lean || sum >= LEAN ? 1 : p->step[i + 1].lean + 1);
  }
}

static void random_programs(pn_dtype dtype) {
  static const int64_t sizes[][2] = {{3, 5}, {8, 8}, {16, 32}, {16, 33}, {40, 25}, {2, 600}, {3, 1100}, {32, 32}};
  for (uint64_t k = 0; k < 128; k++) {
    C *c = pn_context_new(&(pn_context_config){.threads = 1, .seed = k});
    int64_t rows = sizes[k % 8][0], cols = sizes[k % 8][1];
    size_t mark = pn_scope_open(c);
    T *x[] = {pn_randn(c, NULL, dtype, SHAPE(rows, cols)), pn_randn(c, NULL, dtype, SHAPE(rows, 1)),
              pn_randn(c, NULL, dtype, SHAPE(1, cols)), pn_randn(c, NULL, dtype, SHAPE(rows, cols))};
    pn_plan *p = random_plan(c, k, rows, cols, k % 16 >= 8, x);
    CHECK(p != NULL);
    if (p) check_places(p), check_lean(p);
    pn_plan_unref(p);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
}

/* ---- groups and their tiles; what is a step by itself ---- */

/* x [sizes], u of its last two axes, v of its last, s [.., 1] -> y */
typedef T *(*body)(C *c, T **in);

static T *straight(C *c, T **in) { return pn_tanh(c, pn_neg(c, in[0])); }
static T *alone(C *c, T **in) { return pn_neg(c, in[0]); }
static T *over_rows(C *c, T **in) { return pn_tanh(c, pn_add(c, pn_mul(c, in[0], in[3]), in[2])); }
static T *over_jumps(C *c, T **in) { return pn_tanh(c, pn_sub(c, in[0], in[1])); }
static T *over_both(C *c, T **in) { return pn_mul(c, pn_sub(c, in[0], in[1]), in[2]); }
static T *summed(C *c, T **in) { return pn_sum(c, pn_mul(c, in[0], in[2]), (pn_axes){1, {2}}, 0); }
static T *averaged(C *c, T **in) { return pn_mean(c, pn_square(c, in[0]), (pn_axes){1, {2}}, 0); }
static T *whole(C *c, T **in) { return pn_sum(c, pn_square(c, in[0]), PN_ALL, 0); }
static T *masked(C *c, T **in) { return pn_cast(c, pn_gt(c, in[0], pn_neg(c, in[0])), PN_FLOAT32); }

/* An axis of its own each way: four that do not run on. */
static T *crosswise(C *c, T **in) {
  T *x = pn_reshape(c, in[0], SHAPE(4, 5, 6, 7)), *z = pn_slice(c, pn_slice(c, x, 1, 0, 1, 1), 3, 0, 1, 1);
  return pn_tanh(c, pn_add(c, pn_neg(c, x), z));
}

/* Rows of 20, then the same numbers in rows of 30, which are no boundaries of those. */
static T *uneven(C *c, T **in) {
  T *y = pn_reshape(c, pn_add(c, pn_neg(c, in[0]), in[2]), SHAPE(40, 30));
  return pn_add(c, y, pn_slice(c, pn_reshape(c, in[0], SHAPE(1200)), 0, 0, 30, 1));
}

/* Another operation on rows that were reduced. */
static T *beside(C *c, T **in) {
  T *y = pn_square(c, in[0]);
  in[1] = pn_sum(c, y, (pn_axes){1, {2}}, 0);
  return pn_tanh(c, y);
}

static pn_plan *plan_of(C *c, body f, pn_dtype dtype, int64_t k, int64_t b, int64_t d) {
  T *x[] = {pn_randn(c, NULL, dtype, SHAPE(k, b, d)), pn_randn(c, NULL, dtype, SHAPE(b, d)),
            pn_randn(c, NULL, dtype, SHAPE(d)), pn_randn(c, NULL, dtype, SHAPE(k, b, 1))};
  T *in[INPUTS];
  if (pn_capture_begin(c, INPUTS, x, in)) return NULL;
  T *y = f(c, in);
  return pn_capture_end(c, f == beside ? 2 : 1, (T *[]){y, in[1]});
}

/* Rows, and jumps of rows, of a group; rows per tile of so many elements; how far each member's operands run on. */
typedef struct {
  body f;
  int dtype;
  int64_t k, b, d;
  int n;
  int64_t rows, cols, jump, tile, block, part_bytes;
  const char *even; /* r, j, a: PNI_EVEN_...; f, p: a reduction whole, by pieces */
} grouped;

static void groups(void) {
  enum { WIDE = PNI_TILE_BYTES / 8, NARROW = PNI_TILE_BYTES / 4 };
  static const grouped all[] = {{straight, PN_FLOAT64, 1, 1, WIDE + 1, 2, 1, WIDE + 1, 1, WIDE, 0, 0, "aa"},
                                {straight, PN_FLOAT32, 1, 1, NARROW + 1, 2, 1, NARROW + 1, 1, NARROW, 0, 0, "aa"},
                                {over_rows, PN_FLOAT64, 1, 40, 30, 3, 40, 30, 40, WIDE, 17, 0, "rra"},
                                {over_rows, PN_FLOAT32, 1, 40, 30, 3, 40, 30, 40, NARROW, 34, 0, "rra"},
                                {over_rows, PN_FLOAT64, 1, 4, WIDE, 3, 4, WIDE, 4, WIDE, 1, 0, "rra"},
                                {over_rows, PN_FLOAT64, 1, 4, WIDE + 1, 3, 4, WIDE + 1, 4, WIDE, 0, 0, "rra"},
                                {over_rows, PN_FLOAT64, 1, 2, 3, 3, 2, 3, 2, WIDE, 170, 0, "rra"},
                                {over_jumps, PN_FLOAT64, 6, 10, 20, 2, 6, 200, 6, WIDE, 2, 0, "ra"},
                                {over_both, PN_FLOAT64, 6, 10, 20, 2, 60, 20, 10, WIDE, 25, 0, "jr"},
                                {over_both, PN_FLOAT32, 6, 10, 20, 2, 60, 20, 10, NARROW, 51, 0, "jr"},
                                {summed, PN_FLOAT64, 2, 20, 30, 2, 40, 30, 40, WIDE, 17, 0, "rf"},
                                {averaged, PN_FLOAT32, 2, 20, 30, 2, 40, 30, 40, NARROW, 34, 0, "af"},
                                {summed, PN_FLOAT64, 1, 2, WIDE, 2, 2, WIDE, 2, WIDE, 1, 0, "rf"},
                                {summed, PN_FLOAT64, 1, 2, WIDE + 1, 2, 2, WIDE + 1, 2, WIDE, 0, 64, "rp"},
                                {summed, PN_FLOAT64, 1, 3, 768, 2, 3, 768, 3, WIDE, 0, 128, "rp"},
                                {whole, PN_FLOAT64, 1, 1, 8 * 256 + 1, 2, 1, 2049, 1, WIDE, 0, 128, "ap"},
                                {whole, PN_FLOAT64, 1, 1, 8 * 256, 2, 1, 2048, 1, WIDE, 0, 64, "ap"},
                                {whole, PN_FLOAT32, 1, 1, 16 * 256 + 1, 2, 1, 4097, 1, NARROW, 0, 128, "ap"},
                                {beside, PN_FLOAT64, 1, 2, WIDE, 3, 2, WIDE, 2, WIDE, 1, 0, "afa"},
                                {beside, PN_FLOAT64, 1, 2, WIDE + 1, 3, 2, WIDE + 1, 2, WIDE, 0, 64, "apa"},
                                {masked, PN_FLOAT64, 1, 1, WIDE + 1, 3, 1, WIDE + 1, 1, WIDE, 0, 0, "aaa"},
                                {masked, PN_FLOAT32, 1, 1, NARROW + 1, 3, 1, NARROW + 1, 1, NARROW, 0, 0, "aaa"}};
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const grouped *w = &all[i];
    size_t mark = pn_scope_open(c);
    pn_plan *p = plan_of(c, w->f, (pn_dtype)w->dtype, w->k, w->b, w->d);
    bool one = p && p->nstep == 1 && p->step[0].kind == PNI_STEP_GROUP && p->step[0].u.group.n == w->n;
    if (!one) printf("case %zu: %lld steps\n", i, p ? (long long)p->nstep : -1);
    CHECK(one);
    for (int k = 0; one && k < w->n; k++) {
      const pni_group *g = &p->step[0].u.group;
      const pni_member *m = &g->member[k];
      char even = m->fold ? (m->pieces ? 'p' : 'f') : "rja"[m->even];
      bool fits = g->rows == w->rows && g->cols == w->cols && g->jump == w->jump && g->tile == w->tile &&
                  g->block == w->block && (int64_t)p->part_bytes == w->part_bytes && even == w->even[k];
      if (!fits)
        printf("case %zu, member %d (%c): %lld x %lld, jump %lld, tile %lld, block %lld, %zu bytes\n", i, k, even,
               (long long)g->rows, (long long)g->cols, (long long)g->jump, (long long)g->tile, (long long)g->block,
               p->part_bytes);
      CHECK(fits);
    }
    if (p) CHECK_INT(pn_plan_memory(p), p->arena_bytes + (size_t)w->part_bytes);
    pn_plan_unref(p);
    pn_scope_close(c, mark);
  }
  pn_context_close(c);
}

/* The kinds of steps (R un, F old, L oop, G roup, P repared, E valuated) at the bounds between them. */
static void kinds(void) {
  static const struct {
    body f;
    int dtype;
    int64_t k, b, d;
    const char *steps;
  } all[] = {{straight, PN_FLOAT64, 1, 1, PNI_TILE_BYTES / 8, "RR"},
             {straight, PN_FLOAT32, 1, 1, PNI_TILE_BYTES / 4, "RR"},
             {masked, PN_FLOAT64, 1, 1, PNI_TILE_BYTES / 8, "RRR"},
             {alone, PN_FLOAT64, 1, 1, PNI_RUN, "R"},
             {alone, PN_FLOAT64, 1, 1, PNI_RUN + 1, "L"},
             {alone, PN_FLOAT32, 1, 2, PNI_RUN / 2, "R"},
             {crosswise, PN_FLOAT64, 4, 5, 42, "RLR"},
             {uneven, PN_FLOAT64, 6, 10, 20, "GL"}};
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t mark = pn_scope_open(c);
    char steps[16] = "";
    pn_plan *p = plan_of(c, all[i].f, (pn_dtype)all[i].dtype, all[i].k, all[i].b, all[i].d);
    for (int64_t k = 0; p && k < p->nstep && k < 15; k++) steps[k] = "RFLGPEDXO"[p->step[k].kind];
    CHECK_STR(steps, all[i].steps);
    pn_plan_unref(p);
    pn_scope_close(c, mark);
  }
  for (int more = 0; more < 2; more++) { /* rows [2, n] are reduced as they lie up to as many elements */
    size_t mark = pn_scope_open(c);
    T *x = pn_randn(c, NULL, PN_FLOAT32, SHAPE(2, PNI_RUN / 2 + more)), *in, *y;
    CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
    y = pn_mean(c, in, (pn_axes){1, {1}}, 0);
    pn_plan *p = pn_capture_end(c, 1, &y);
    CHECK(p && p->nstep == 1 && (p->step[0].kind == PNI_STEP_FOLD) == !more);
    if (p && !more) CHECK(p->step[0].u.fold.rows == 2 && p->step[0].u.fold.n == PNI_RUN / 2);
    pn_plan_unref(p);
    pn_scope_close(c, mark);
  }
  pn_context_close(c);
}

static int64_t done;

static void count_and_copy(void *data, int64_t n, char *const *p, const int64_t *s) {
  (void)data;
  done += n;
  for (int64_t i = 0; i < n; i++) ((double *)(void *)p[0])[i * s[0]] = ((const double *)(const void *)p[1])[i * s[1]];
}

static const pni_op counting_op = {.name = "counting",
                                   .args = "a:t",
                                   .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_NODIFF,
                                   .map = (const pni_map_kernel[4]){count_and_copy}};

/* Each element of a group is computed once, with a limit of time and without one, of few tiles or many. */
static void once(void) {
  static const int64_t sizes[][2] = {{1, 513}, {1, 8192}, {1, 8193}, {40, 30}, {3, 1100}, {700, 300}};
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int limit = 0; limit < 2; limit++) {
      size_t mark = pn_scope_open(c);
      T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(sizes[i][0], sizes[i][1])), *in, *y;
      CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
      y = pn_mul(c, pn_slice(c, in, 0, 0, 1, 1), pni_apply1(c, &counting_op, pn_neg(c, in), &(pni_attr){0}));
      pn_plan *p = pn_capture_end(c, 1, &y);
      CHECK(p && p->nstep == 1 && p->step[0].kind == PNI_STEP_GROUP);
      pn_context_set_deadline(c, limit ? 100 : 0);
      done = 0;
      CHECK_STATUS(c, pn_plan_run(c, p, 1, &x, &y), PN_OK);
      CHECK_INT(done, x->numel);
      pn_context_set_deadline(c, 0);
      pn_plan_unref(p);
      pn_scope_close(c, mark);
    }
  pn_context_close(c);
}

/* ---- large inputs and results ---- */

/* From 8192 bytes on they are read and computed where they lie; an input that nobody reads has no place. */
static void bound(void) {
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (int64_t n = 1023; n <= 1025; n++)
    for (int set = 0; set < 2; set++) {
      size_t mark = pn_scope_open(c);
      T *w = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(n))), *x[] = {pn_detach(c, w), pn_detach(c, w)}, *in[2];
      if (set) CHECK_STATUS(c, pn_param_set(c, w, pn_randn(c, NULL, PN_FLOAT64, SHAPE(n))), PN_OK);
      CHECK_STATUS(c, pn_capture_begin(c, 2, x, in), PN_OK);
      T *y = pn_neg(c, in[0]), *out[] = {y, y, pn_slice(c, y, 0, 0, 5, 1)}, *got[3];
      pn_plan *p = pn_capture_end(c, 3, out);
      bool large = n >= 1024;
      CHECK(p && p->nbound == (large ? 2 : 0) && p->npatch == (large ? 2 : 0) && p->direct == !large);
      CHECK_INT(p->arena_bytes, large ? 64 : 2 * 8192);
      CHECK_INT(p->tape->value.v[1].bound, PNI_UNREAD);
      CHECK_STATUS(c, pn_plan_run(c, p, 2, x, got), PN_OK);
      if (large) CHECK(p->storage[0].data == pni_data(x[0])); /* no effect: also one of a parameter's memory */
      for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < got[k]->numel; i++)
          CHECK(((const double *)pni_data(got[k]))[i] == -((const double *)pni_data(x[0]))[i]);
      pn_plan_unref(p);
      pn_scope_close(c, mark);
    }
  pn_context_close(c);
}

/* ---- loops ---- */

enum { STEADY, LAGGED, PAIRED, SAME, BROKEN, IDLE, ALIKE, UNLIKE, LONGEST = 120 };

/* Turns of one kind: h = tanh(h w); of the two before, a, b = b, tanh(a b); of two kinds by turns; the same of the
 * input each time, all results; where turn `n / 2` is exp instead of a product, or computes what nobody reads; with a
 * constant that is made anew each turn, of equal numbers, or of others, the last three of four. How many results, in
 * list. */
static int turn_by_turn(C *c, int kind, int n, T *w, T *h, T **list) {
  T *a = h, *b = h;
  for (int t = 0; t < n; t++) {
    double v[] = {7, 0.5, 0.25, kind == UNLIKE ? t : 1.5};
    switch (kind) {
    case LAGGED: h = pn_tanh(c, pn_mul(c, a, b)), a = b, b = h; break;
    case PAIRED: h = t % 2 ? pn_sin(c, h) : pn_mul(c, h, w); break;
    case SAME: list[t] = pn_tanh(c, b); break;
    case IDLE:
      if (t == n / 2) pn_exp(c, h);
      h = pn_tanh(c, pn_mul(c, h, w));
      break;
    case ALIKE:
    case UNLIKE: h = pn_tanh(c, pn_mul(c, h, pn_slice(c, pn_from_data(c, PN_FLOAT64, SHAPE(4), v), 0, 1, 3, 1))); break;
    default: h = pn_tanh(c, kind == BROKEN && t == n / 2 ? pn_exp(c, h) : pn_mul(c, h, w)); break;
    }
  }
  if (kind != SAME) list[0] = h;
  return kind == SAME ? n : 1;
}

static pn_plan *looped(C *c, int kind, int n, T *w) {
  T *x = pn_full(c, PN_FLOAT64, SHAPE(3), 0.5), *h, *list[LONGEST];
  if (pn_capture_begin(c, 1, &x, &h)) return NULL;
  return pn_capture_end(c, turn_by_turn(c, kind, n, w, h, list), list);
}

/* Runs the plan twice, of another input, against what it was captured from. */
static void check_turns(C *c, pn_plan *p, int kind, int n, T *w) {
  T *x = pn_from_data(c, PN_FLOAT64, SHAPE(3), (double[]){0.9, -0.4, 0.3}), *got[LONGEST], *want[LONGEST];
  int results = turn_by_turn(c, kind, n, w, x, want);
  for (int again = 0; again < 2; again++) {
    CHECK_STATUS(c, pn_plan_run(c, p, 1, &x, got), PN_OK);
    for (int k = 0; k < results; k++) CHECK(memcmp(pni_data(got[k]), pni_data(want[k]), 3 * sizeof(double)) == 0);
  }
}

/* Turns that read what lies elsewhere (the input, not a turn's result) stay as they are; 32 others are a loop. */
static void loops(void) {
  static const struct {
    int kind, n, rolls;
    pni_roll roll[2];
    int notes, arrays;
  } all[] = {{STEADY, 33, 1, {{2, 2, 32}}, 4, 1},
             {STEADY, 32, 0, {{0}}, 64, 0},
             {LAGGED, 34, 1, {{4, 2, 32}}, 6, 1},
             {LAGGED, 33, 0, {{0}}, 66, 0},
             {PAIRED, 66, 1, {{2, 2, 32}}, 4, 1},
             {PAIRED, 64, 0, {{0}}, 64, 0},
             {SAME, 32, 1, {{0, 1, 32}}, 1, 1},
             {SAME, 31, 0, {{0}}, 31, 0},
             {BROKEN, 100, 2, {{2, 2, 49}, {7, 2, 48}}, 10, 2},
             {IDLE, 40, 1, {{2, 2, 39}}, 4, 1},
             {ALIKE, 33, 1, {{2, 2, 32}}, 4, 1},
             {UNLIKE, 33, 1, {{2, 2, 32}}, 4, 1}};
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t mark = pn_scope_open(c);
    T *w = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(3), 0.9));
    pn_plan *p = looped(c, all[i].kind, all[i].n, w);
    int arrays = 0;
    CHECK(p && p->tape->roll.n == all[i].rolls);
    CHECK_INT(p->tape->note.n, all[i].notes);
    for (int64_t v = 0; v < p->tape->value.n; v++) arrays += p->tape->value.v[v].kind == PNI_VALUE_ARRAY;
    CHECK_INT(arrays, all[i].arrays);
    for (int k = 0; k < all[i].rolls && k < p->tape->roll.n; k++) {
      const pni_roll *got = &p->tape->roll.v[k], *want = &all[i].roll[k];
      if (got->first != want->first || got->n != want->n || got->turns != want->turns)
        printf("case %zu, loop %d: %lld turns of %d notes from %d on\n", i, k, (long long)got->turns, got->n,
               got->first);
      CHECK(got->first == want->first && got->n == want->n && got->turns == want->turns);
    }
    check_turns(c, p, all[i].kind, all[i].n, w);
    pn_plan_unref(p);
    pn_scope_close(c, mark);
  }
  pn_context_close(c);
}

/* The first value of a plan without inputs, which is drawn, is so at each run. */
static void drawn_first(void) {
  C *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  for (int way = 0; way < 2; way++) {
    T *x[3];
    pn_seed(c, 4);
    CHECK_STATUS(c, pn_capture_begin(c, 0, NULL, NULL), PN_OK);
    x[0] = way ? pn_rand(c, NULL, PN_FLOAT64, SHAPE(3)) : pn_randn(c, NULL, PN_FLOAT32, SHAPE(3));
    pn_plan *p = pn_capture_end(c, 1, x);
    CHECK(p && p->nstep == 1 && p->tape->value.n == 1);
    for (int k = 1; k < 3; k++) CHECK_STATUS(c, pn_plan_run(c, p, 0, NULL, &x[k]), PN_OK);
    pn_seed(c, 4);
    for (int k = 0; k < 3; k++) {
      T *y = way ? pn_rand(c, NULL, PN_FLOAT64, SHAPE(3)) : pn_randn(c, NULL, PN_FLOAT32, SHAPE(3));
      CHECK(memcmp(pni_data(y), pni_data(x[k]), 3 * pni_itemsize(y)) == 0);
    }
    pn_plan_unref(p);
  }
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* Draws of a loop that is done, one behind it, and a failure then: the generator stands where it stood. */
static void rewound(void) {
  C *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  T *x = pn_scalar(c, PN_FLOAT64, 1), *in, *out;
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  T *h = in, *zero = pn_scalar(c, PN_FLOAT64, 0);
  for (int t = 0; t < 40; t++)
    h = pn_add(c, pn_mul(c, h, pn_scalar(c, PN_FLOAT64, 0.5)), pn_randn(c, NULL, PN_FLOAT64, 0, NULL));
  T *last = pn_randn(c, NULL, PN_FLOAT64, 0, NULL);
  pn_dist *law = pn_dist_new(c, "normal", 2, NULL, (T *[]){zero, in});
  T *y = pn_dist_log_prob(c, law, pn_add(c, h, last));
  pn_dist_unref(law);
  pn_plan *p = pn_capture_end(c, 1, &y);
  CHECK(p && p->tape->roll.n == 1);
  for (int sign = 1; sign >= -1; sign -= 2) {
    uint64_t before[2], after[2];
    x = pn_scalar(c, PN_FLOAT64, sign);
    pn_rng_get_state(pn_context_rng(c), before);
    CHECK_STATUS(c, pn_plan_run(c, p, 1, &x, &out), sign > 0 ? PN_OK : PN_DOMAIN);
    pn_context_clear_error(c);
    pn_rng_get_state(pn_context_rng(c), after);
    CHECK((memcmp(before, after, sizeof before) == 0) == (sign < 0));
  }
  CHECK(pn_plan_run(c, NULL, 1, &x, &out) == PN_STATE);
  pn_context_clear_error(c);
  CHECK(pn_plan_run(c, p, 1, NULL, &out) == PN_STATE);
  pn_context_clear_error(c);
  CHECK(pn_plan_run(c, p, 1, &x, NULL) == PN_STATE);
  pn_context_clear_error(c);
  pn_plan_unref(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* ---- copies for other contexts ---- */

/* What has one storage has one in the copy, with the numbers it has then; nobody copies for who has cancelled; a plan
 * with an effect has no copy, and maps no rows. */
static void copied(void) {
  C *c = pn_context_new(NULL), *d = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), other = pn_scope_open(d);
  T *w = pn_param(c, pn_arange(c, PN_FLOAT64, 1, 7, 1)), *part = pn_detach(c, pn_slice(c, w, 0, 2, 3, 1)), *in, *got;
  T *apart = pn_arange(c, PN_FLOAT64, 0, 3, 1), *x = pn_full(c, PN_FLOAT64, SHAPE(3), 2), *y;
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  y = pn_add(c, pn_mul(c, pn_mul(c, in, part), pn_slice(c, w, 0, 0, 3, 1)), apart);
  pn_plan *p = pn_capture_end(c, 1, &y);
  CHECK_STATUS(c, pn_param_set(c, w, pn_arange(c, PN_FLOAT64, 11, 17, 1)), PN_OK);
  pn_context_cancel(d);
  CHECK(!pn_plan_copy(d, p));
  CHECK_FAIL(d, PN_CANCELLED, "interrupted");
  pn_context_uncancel(d);
  pn_plan *copy = pn_plan_copy(d, p);
  const pni_storage *storage[8];
  int n = 0, distinct = 0;
  for (int64_t v = 0; copy && v < copy->tape->value.n && n < 8; v++)
    if (copy->tape->value.v[v].outside) storage[n++] = copy->tape->value.v[v].outside->storage;
  for (int k = 0; k < n; k++) {
    bool new = true;
    for (int j = 0; j < k; j++) new &= storage[j] != storage[k];
    distinct += new;
  }
  CHECK(n == 3 && distinct == 2);
  CHECK_STATUS(c, pn_param_set(c, w, pn_zeros(c, PN_FLOAT64, SHAPE(6))), PN_OK);
  T *z = pn_full(d, PN_FLOAT64, SHAPE(3), 3);
  CHECK_STATUS(d, pn_plan_run(d, copy, 1, &z, &got), PN_OK);
  for (int i = 0; i < 3; i++) CHECK_NEAR(pni_element(got, i), 3 * (13 + i) * (11 + i) + i, 0);
  pn_optim *o = pn_optim_new(c, "sgd", 1, &w, NULL, NULL);
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  T *loss = pn_sum(c, pn_mul(c, pn_slice(c, w, 0, 0, 3, 1), in), PN_ALL, 0);
  CHECK_STATUS(c, pn_optim_step(c, o, loss), PN_OK);
  pn_plan *step = pn_capture_end(c, 1, &loss);
  CHECK(step && step->effects && !pn_plan_copy(d, step));
  CHECK_FAIL(d, PN_STATE, "plan_copy: a plan that updates parameters has no copy");
  CHECK(!pn_plan_map(c, step, pn_full(c, PN_FLOAT64, SHAPE(2, 3), 1)));
  CHECK_FAIL(c, PN_SHAPE, "plan_map: needs rows [.., 3]");
  pn_optim_unref(o);
  pn_plan_unref(step);
  pn_plan_unref(p);
  pn_plan_unref(copy);
  pn_scope_close(c, mark);
  pn_scope_close(d, other);
  CHECK(pn_context_objects(c) == 0 && pn_context_objects(d) == 0);
  pn_context_close(c);
  pn_context_close(d);
}

/* ---- what a tape lists once ---- */

/* Geometries and attributes that differ in one number have numbers of their own, also where their hashes agree (as
 * those of some among so many do), and are found again. */
static void interned(void) {
  enum { N = 100000, FIELDS = 4 };
  C *c = pn_context_new(NULL);
  for (int field = 0; field < FIELDS; field++) {
    pni_tape *tape = pni_calloc(c, sizeof *tape);
    int64_t wrong = 0, word = 0;
    for (int again = 0; tape && again < 2; again++)
      for (int k = 0; k < N; k++) {
        pni_geometry g = {.dtype = PN_FLOAT64, .ndim = 1, .numel = 1, .shape = {1}, .stride = {1}};
        pni_attr a = {.ni = 1, .i = {7}};
        if (field == 0) g.shape[0] = k;
        if (field == 1) g.stride[0] = k;
        if (field == 2) a.i[0] = k;
        if (field == 3) a.r[1] = k;
        if (field < 2) {
          wrong += pni_tape_geometry(c, tape, &g) != k;
          continue;
        }
        int64_t at = pni_tape_attr(c, tape, &a);
        wrong += at != (again ? (int64_t)k * (word / N) : word);
        if (!again) word = tape->word.n;
      }
    CHECK_INT(wrong, 0);
    const pni_table *t = field < 2 ? &tape->geometry_table : &tape->word_table;
    CHECK(t->n == N && t->room == 262144); /* a half at most is taken: the power of 2 above 2 N */
    pni_tape_free(c, tape);
  }
  pn_context_close(c);
}

/* One number is one value of the tape, whoever makes it, if shape and type agree; a parameter is its own. Of tensors,
 * those that the capture makes vary, not what it finds or computes of that alone. */
static void numbers(void) {
  enum { FORMS = 6 };
  C *c = pn_context_new(NULL);
  for (int form = 0; form < FORMS; form++) {
    size_t mark = pn_scope_open(c);
    T *x = pn_full(c, PN_FLOAT64, SHAPE(3), 1), *w = pn_param(c, pn_scalar(c, PN_FLOAT64, 2)), *in;
    T *two = pn_scalar(c, PN_FLOAT64, 2), *first = form == 4   ? w
                                                   : form == 5 ? pn_full(c, PN_FLOAT64, SHAPE(3), 2)
                                                               : two;
    T *again = form == 1   ? pn_full(c, PN_FLOAT64, SHAPE(1), 2)
               : form == 2 ? pn_scalar(c, PN_FLOAT64, 3)
               : form == 3 ? pn_scalar(c, PN_FLOAT32, 2)
               : form == 5 ? pn_full(c, PN_FLOAT64, SHAPE(3), 2)
                           : pn_scalar(c, PN_FLOAT64, 2);
    CHECK(!pni_record_made(c, x) && !pni_record_is_plain(c));
    CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
    T *product = pn_mul(c, in, first), *y = pn_add(c, product, pn_cast(c, again, PN_FLOAT64));
    CHECK(pni_record_is_plain(c) && pni_record_made(c, in) && pni_record_made(c, product) && pni_record_made(c, y));
    CHECK(!pni_record_made(c, x) && !pni_record_made(c, w) && !pni_record_made(c, first));
    CHECK(!pni_record_made(c, again) && !pni_record_made(c, pn_exp(c, two)) && pni_record_made(c, pn_exp(c, w)));
    pn_plan *p = pn_capture_end(c, 1, &y);
    CHECK(!pni_record_made(c, in) && !pni_record_made(c, y));
    int outside = 0;
    for (int64_t v = 0; p && v < p->tape->value.n; v++) outside += p->tape->value.v[v].outside == NULL ? 0 : 1;
    int64_t of_w = form == 4 ? 0 : 1; /* that of exp(w) above */
    CHECK_INT(outside - of_w, form == 0 || form == 3 ? 1 : 2);
    pn_plan_unref(p);
    pn_scope_close(c, mark);
  }
  pn_context_close(c);
}

/* Lists double from 64 on, keep what they hold, and end where an int does. */
static void lists(void) {
  C *c = pn_context_new(NULL);
  int64_t cap = 0;
  int *v = NULL;
  static const int64_t rooms[][3] = {{0, 1, 64}, {63, 1, 64}, {64, 1, 128}, {100, 28, 128}, {128, 200, 512}};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
    CHECK_STATUS(c, pni_list_reserve(c, (void **)&v, rooms[i][0], &cap, rooms[i][1], sizeof *v), PN_OK);
    CHECK_INT(cap, rooms[i][2]);
    for (int k = 0; i && k < (int)rooms[i - 1][0]; k++) CHECK_INT(v[k], k);
    for (int k = 0; k < (int)cap; k++) v[k] = k;
  }
  pni_free(c, v);
  for (int more = 1; more <= 3; more++) {
    char *none = NULL;
    cap = 0;
    pn_context_set_memory_limit(c, 1 << 20);
    CHECK_STATUS(c, pni_list_reserve(c, (void **)&none, 0, &cap, (int64_t)INT32_MAX - 1 + more, 1), PN_NOMEM);
    CHECK(!none && cap == 0);
    CHECK_FAIL(c, PN_NOMEM,
               more > 1 ? "compile: the function does more than a plan can list (2^31 of a kind)" : "limit");
  }
  pn_context_close(c);
}

/* A run that ends between two steps for lack of time has drawn nothing. */
static void stopped_draws(void) {
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  T *x, *y[2];
  CHECK_STATUS(c, pn_capture_begin(c, 0, NULL, NULL), PN_OK);
  x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(3));
  for (int k = 0; k < 50000; k++) x = pn_tanh(c, pn_add(c, x, x));
  pn_plan *p = pn_capture_end(c, 1, &x);
  for (int k = 0; k < 2; k++) {
    pn_seed(c, 4);
    if (k == 0) {
      pn_context_set_deadline(c, 0.0003);
      CHECK_STATUS(c, pn_plan_run(c, p, 0, NULL, &x), PN_TIME);
      CHECK_FAIL(c, PN_TIME, "time limit");
      pn_context_set_deadline(c, 0);
    }
    CHECK_STATUS(c, pn_plan_run(c, p, 0, NULL, &y[k]), PN_OK);
  }
  CHECK(memcmp(pni_data(y[0]), pni_data(y[1]), 3 * sizeof(double)) == 0);
  pn_plan_unref(p);
  pn_context_close(c);
}

int main(void) {
  random_programs(PN_FLOAT64);
  random_programs(PN_FLOAT32);
  groups();
  kinds();
  once();
  bound();
  loops();
  stopped_draws();
  drawn_first();
  rewound();
  copied();
  interned();
  numbers();
  lists();
  CHECK_DONE();
}
