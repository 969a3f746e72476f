/*
** fuse.c: groups of elementwise operations and of reductions of their rows. Neighbours whose results have one number of
** elements join a group if the axes of all their nests are boundaries of rows, or of jumps of rows, of one length, and
** if what they read of the group's own results lies exactly where it is written: then tile after tile gives what whole
** tensors would, to the bit, as an element depends on its own place only. Sums of rows that are longer than a tile, as
** that of a whole tensor, go by pieces whose sums are added when all tiles are done, in the order of the eager sum.
*/
#include <string.h>
#include "plan.h"

bool pni_map_of(const pn_plan *p, const pni_note *note, pni_loop *nest, pni_map_kernel *row, void **data) {
  if (!note->op || (!note->op->map && !note->op->kernel)) return false;
  pn_tensor *out = &p->tensor[note->out], **in = p->arg + note->first;
  pni_attr *a = pni_attr_of(p->tape, note);
  pni_call call = {note->op, in, note->nin, a};
  *row = note->op->map ? note->op->map[in[0]->dtype] : note->op->kernel(&call, out);
  *data = !note->op->map ? NULL : a->ni ? (void *)a->i : (void *)a->r;
  pni_loop_init(nest, out, note->nin, in);
  return true;
}

pni_fold pni_fold_of(const pn_plan *p, const pni_note *note, int64_t *n, double *scale) {
  if (!note->op || !note->op->fold) return NULL;
  pn_tensor **in = p->arg + note->first;
  pni_attr *a = pni_attr_of(p->tape, note);
  return pni_is_contiguous(in[0]) ? note->op->fold(&(pni_call){note->op, in, 1, a}, n, scale) : NULL;
}

static const pni_pieces *pieces_of(const pn_plan *p, const pni_note *note) {
  pni_attr *a = pni_attr_of(p->tape, note);
  return note->op->pieces ? note->op->pieces(&(pni_call){note->op, p->arg + note->first, 1, a}) : NULL;
}

/* ---- the space of a group: `elements` in rows of cols, and jumps of several rows ---- */

typedef struct {
  int64_t elements, cols, jump; /* each divides the one before it, the last two from the end; in elements */
  int64_t size;                 /* bytes of the largest element of any operand */
  bool fixed;                   /* a row is reduced: it must stay as it is */
  bool whole;                   /* and must fit into a tile */
} space;

/* Makes every `width` elements a boundary; false if that is one too many or lies across the others. */
static bool divide(space *s, int64_t width) {
  if (width == 1 || width == s->cols || width == s->jump || width == s->elements) return true;
  if (s->jump != s->elements) return false;
  if (s->cols == s->elements) { /* the first boundary */
    s->cols = width;
    return true;
  }
  int64_t low = width < s->cols ? width : s->cols, high = width < s->cols ? s->cols : width;
  if (high % low != 0) return false;
  s->cols = low;
  s->jump = high;
  return true;
}

static int64_t tile_of(const space *s) { return PNI_TILE_BYTES / s->size; }

/* Takes a nest in: its axes are boundaries. */
static bool hold_nest(space *s, const pni_loop *l) {
  space old = *s;
  int64_t width = 1;
  if (pni_count(l->ndim, l->shape) != s->elements) return false;
  for (int a = l->ndim - 1; a > 0; a--)
    if (!divide(s, width *= l->shape[a])) return false;
  for (int k = 0; k < l->nop; k++)
    if ((int64_t)l->size[k] > s->size) s->size = (int64_t)l->size[k];
  return !s->fixed || (s->cols == old.cols && (!s->whole || s->cols <= tile_of(s)));
}

/* Takes a reduction of rows of n elements in, which can be reduced by pieces or not. */
static bool hold_fold(space *s, int64_t n, int64_t size, bool pieces) {
  if (n == 1 || s->elements % n != 0 || !divide(s, n) || s->cols != n) return false;
  if (size > s->size) s->size = size;
  s->fixed = true;
  s->whole |= n <= tile_of(s);
  return pieces || s->whole;
}

/* By how many elements operand k moves when the nest moves on by `unit`. */
static int64_t stride_of(const pni_loop *l, int k, int64_t unit) {
  int64_t width = 1;
  int a = l->ndim - 1;
  for (; a > 0 && unit >= width * l->shape[a]; a--) width *= l->shape[a];
  return l->stride[k][a] * (unit / width);
}

/* Is operand k the elements of the result `made`, in order? */
static bool straight(const pni_loop *l, int k, const pn_tensor *t, const pn_tensor *made) {
  if (t->offset != made->offset) return false;
  if (t->numel == 1) return pni_count(l->ndim, l->shape) == 1;
  int64_t width = 1;
  for (int a = l->ndim - 1; a >= 0; a--) {
    if (l->stride[k][a] != width) return false;
    width *= l->shape[a];
  }
  return true;
}

/* The group that is being gathered. */
typedef struct {
  int first, last, n;
  bool straight; /* each operation is one run */
  space space;
} gathering;

static int base_of(const pni_tape *tape, int v) { return tape->value.v[v].base; }

/* The member of the group that makes what value v shows, or -1. Of an array that is the one that has just added to it:
 * what lies elsewhere in the array is older. */
static int made_by(const pn_plan *p, const pni_schedule *s, const gathering *g, int v) {
  const pni_tape *tape = p->tape;
  int maker = s->maker[base_of(tape, v)];
  if (maker < g->first || s->group[maker] != g->first) return -1;
  int made = tape->note.v[maker].out;
  int64_t at = p->tensor[v].offset - p->tensor[made].offset;
  return tape->value.v[made].kind == PNI_VALUE_PART && (at < 0 || at >= p->tensor[made].numel) ? -1 : maker;
}

static const pn_tensor *result_of(const pn_plan *p, int note) { return &p->tensor[p->tape->note.v[note].out]; }

/* Can the note join? What it reads of the group must be read straight. */
static bool joins(const pn_plan *p, const pni_schedule *s, gathering *g, const pni_note *note, const pni_loop *l) {
  const pni_tape *tape = p->tape;
  for (int k = 0; k < note->nin; k++) {
    int v = tape->edge.v[note->first + k], maker = made_by(p, s, g, v);
    if (maker < 0) continue;
    if (tape->note.v[maker].op->fold || !straight(l, k + 1, &p->tensor[v], result_of(p, maker))) return false;
  }
  space next = g->space;
  if (!hold_nest(&next, l)) return false;
  g->space = next;
  return true;
}

/* Does the note reduce rows of what the group has just made, rows that fit into a tile or are reduced by pieces? */
static bool folds(const pn_plan *p, const pni_schedule *s, gathering *g, const pni_note *note) {
  const pni_tape *tape = p->tape;
  int64_t n;
  double scale;
  if (!g->n || !pni_fold_of(p, note, &n, &scale)) return false;
  int v = tape->edge.v[note->first], maker = made_by(p, s, g, v);
  const pn_tensor *x = &p->tensor[v];
  if (maker < 0 || tape->note.v[maker].op->fold) return false;
  space next = g->space;
  if (x->offset != result_of(p, maker)->offset || x->numel != next.elements) return false;
  if (!hold_fold(&next, n, (int64_t)pni_itemsize(x), pieces_of(p, note) != NULL)) return false;
  g->space = next;
  return true;
}

/* A space of one run. */
static space run_of(int64_t elements) {
  return (space){.elements = elements, .cols = elements, .jump = elements, .size = 1};
}

/* Members of a group that fits into a tile, each of them one run, are steps by themselves: the memory between them is
 * as near, and nothing has to be cut up. */
static void close_group(pni_schedule *s, gathering *g) {
  bool apart = g->n == 1 || (g->straight && g->space.elements <= tile_of(&g->space));
  for (int i = g->first; g->n && apart && i <= g->last; i++)
    if (s->group[i] == g->first) s->group[i] = -1;
  if (g->n > 1 && !apart) s->until[g->first] = g->last;
  g->n = 0;
}

/* Groups do not reach across the ends of a roll. */
static bool is_end_of_roll(const pni_tape *tape, int note) {
  for (int64_t i = 0; i < tape->roll.n; i++)
    if (note == tape->roll.v[i].first || note == tape->roll.v[i].first + tape->roll.v[i].n) return true;
  return false;
}

/* Notes that member i now is the latest to add to its array. */
static void add_member(const pn_plan *p, pni_schedule *s, gathering *g, int i) {
  const pni_value *out = &p->tape->value.v[p->tape->note.v[i].out];
  s->group[i] = g->first;
  g->last = i;
  g->n++;
  if (out->kind == PNI_VALUE_PART) s->maker[out->base] = i;
}

static void gather(const pn_plan *p, pni_schedule *s) {
  const pni_tape *tape = p->tape;
  gathering g = {0};
  for (int i = 0; i < (int)tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    pni_loop l;
    pni_map_kernel row;
    void *data;
    s->group[i] = -1;
    if (g.n && is_end_of_roll(tape, i)) close_group(s, &g);
    if (!s->needed[i] || (note->out >= 0 && tape->value.v[note->out].kind == PNI_VALUE_VIEW)) continue;
    if (folds(p, s, &g, note)) {
      add_member(p, s, &g, i);
      continue;
    }
    bool fits = pni_map_of(p, note, &l, &row, &data) && l.ndim <= 3 && pni_count(l.ndim, l.shape) > 0;
    if (g.n && (!fits || !joins(p, s, &g, note, &l))) close_group(s, &g);
    if (!fits) continue;
    if (!g.n) {
      g = (gathering){.first = i, .straight = true, .space = run_of(pni_count(l.ndim, l.shape))};
      hold_nest(&g.space, &l);
    }
    g.straight &= l.ndim <= 1;
    add_member(p, s, &g, i);
  }
  close_group(s, &g);
}

/* Values that only their own group reads need no memory. */
static void find_local(const pn_plan *p, pni_schedule *s) {
  const pni_tape *tape = p->tape;
  for (int64_t i = 0; i < tape->value.n; i++) {
    int maker = s->maker[i];
    bool made = maker >= 0 && tape->value.v[i].kind == PNI_VALUE_OWN && s->needed[maker] && s->group[maker] >= 0 &&
                !tape->note.v[maker].op->fold;
    s->slot[i] = made && s->last[i] < INT64_MAX && s->last[i] >= 0 ? 0 : -1;
  }
  for (int64_t i = 0; i < tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    bool view = note->out >= 0 && tape->value.v[note->out].kind == PNI_VALUE_VIEW;
    if (!s->needed[i] || view) continue;
    for (int k = 0; k < note->nin; k++) {
      int v = tape->edge.v[note->first + k], base = v < 0 ? -1 : base_of(tape, v);
      if (base >= 0 && s->slot[base] == 0 && s->group[i] != s->group[s->maker[base]]) s->slot[base] = -1;
    }
  }
}

/* Places in the tile, first come first served; who gets none lies in memory. */
static void place_local(const pn_plan *p, pni_schedule *s) {
  const pni_tape *tape = p->tape;
  int64_t busy[PNI_TILE_SLOTS];
  int group = -1;
  for (int i = 0; i < (int)tape->note.n; i++) {
    int out = tape->note.v[i].out;
    if (s->group[i] < 0 || s->slot[out] < 0) continue;
    if (s->group[i] != group)
      for (int k = 0; k < PNI_TILE_SLOTS; k++) busy[k] = -1;
    group = s->group[i];
    s->slot[out] = -1;
    for (int k = 0; k < PNI_TILE_SLOTS; k++)
      if (busy[k] < i) { /* its last reader has run */
        busy[k] = s->last[out];
        s->slot[out] = k;
        break;
      }
  }
}

void pni_fuse(const pn_plan *p, pni_schedule *s) {
  gather(p, s);
  find_local(p, s);
  place_local(p, s);
}

/* ---- the step ---- */

/* The space that gathering found. */
static space space_of(const pn_plan *p, const pni_schedule *s, int first) {
  space found = {0};
  for (int i = first; i <= s->until[first]; i++) {
    const pni_note *note = &p->tape->note.v[i];
    pni_loop l;
    pni_map_kernel row;
    void *data;
    int64_t n;
    double scale;
    if (s->group[i] != first) continue;
    if (note->op->fold) {
      pni_fold_of(p, note, &n, &scale);
      hold_fold(&found, n, (int64_t)pni_itemsize(p->arg[note->first]), pieces_of(p, note) != NULL);
      continue;
    }
    pni_map_of(p, note, &l, &row, &data);
    if (!found.elements) found = run_of(pni_count(l.ndim, l.shape));
    hold_nest(&found, &l);
  }
  return found;
}

static void set_space(const space *s, pni_group *g) {
  g->rows = s->elements / s->cols;
  g->cols = s->cols;
  g->jump = s->jump / s->cols;
  g->tile = tile_of(s);
  g->block = g->cols > g->tile ? 0 : g->tile / g->cols;
}

/* Bytes that value v moves from turn to turn. */
static int64_t moved(const pn_plan *p, int v) {
  return p->tape->value.v[v].move * (int64_t)pni_itemsize(&p->tensor[v]);
}

static void set_fold(const pn_plan *p, const pni_schedule *s, const pni_group *g, const pni_note *note, pni_member *m) {
  const pni_tape *tape = p->tape;
  int64_t n;
  int v = tape->edge.v[note->first], base = base_of(tape, v);
  const pn_tensor *out = &p->tensor[note->out], *x = &p->tensor[v];
  int64_t size = (int64_t)pni_itemsize(out);
  m->fold = pni_fold_of(p, note, &n, &m->scale);
  m->pieces = g->cols > g->tile ? pieces_of(p, note) : NULL;
  m->nop = 2;
  m->op[0] = (pni_operand){pni_data(out), size * g->jump, size, 0, size, -1, note->out, moved(p, note->out)};
  m->op[1] =
      (pni_operand){pni_data(x), size * g->cols * g->jump, size * g->cols, 1, size, s->slot[base], base, moved(p, v)};
}

static void set_member(const pn_plan *p, const pni_schedule *s, const pni_group *g, int note, pni_member *m) {
  const pni_tape *tape = p->tape;
  const pni_note *n = &tape->note.v[note];
  pni_loop l;
  m->fold = NULL;
  m->pieces = NULL;
  if (n->op->fold) {
    set_fold(p, s, g, n, m);
    return;
  }
  pni_map_of(p, n, &l, &m->row, &m->data);
  m->nop = l.nop;
  m->even = PNI_EVEN_ALL;
  for (int k = 0; k < l.nop; k++) {
    int v = k ? tape->edge.v[n->first + k - 1] : n->out, base = base_of(tape, v);
    pni_operand *o = &m->op[k];
    int64_t row = stride_of(&l, k, g->cols), jump = stride_of(&l, k, g->cols * g->jump);
    o->item = stride_of(&l, k, 1);
    o->base = l.base[k];
    o->size = (int64_t)l.size[k];
    o->row = row * o->size;
    o->jump = jump * o->size;
    o->slot = s->slot[base];
    o->value = base;
    o->move = moved(p, v);
    if (g->rows > 1 && row != o->item * g->cols)
      m->even = PNI_EVEN_ROW;
    else if (g->rows > g->jump && jump != row * g->jump && m->even == PNI_EVEN_ALL)
      m->even = PNI_EVEN_JUMP;
  }
}

pni_step pni_group_step(const pn_plan *p, const pni_schedule *s, int first, pni_member **m) {
  pni_step step = {.kind = PNI_STEP_GROUP};
  pni_group *g = &step.u.group;
  space found = space_of(p, s, first);
  set_space(&found, g);
  g->member = *m;
  for (int i = first; i <= s->until[first]; i++)
    if (s->group[i] == first) set_member(p, s, g, i, &(*m)[g->n++]);
  *m += g->n;
  return step;
}

static int64_t pieces_per_row(const pni_group *g) { return (g->cols + PNI_PIECE - 1) / PNI_PIECE; }

/* Bytes that member m needs for its parts. */
static int64_t part_bytes(const pni_group *g, const pni_member *m) {
  return m->fold && m->pieces ? g->rows * pieces_per_row(g) * m->op[1].size : 0;
}

pn_status pni_group_parts(pn_context *c, pn_plan *p) {
  int64_t most = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t i = 0; i < p->nstep; i++) {
      const pni_group *g = &p->step[i].u.group;
      int64_t at = 0;
      for (int k = 0; p->step[i].kind == PNI_STEP_GROUP && k < g->n; k++) {
        g->member[k].part = p->part ? p->part + at : NULL;
        at += (part_bytes(g, &g->member[k]) + 63) / 64 * 64;
      }
      if (at > most) most = at;
    }
    if (most == 0) return PN_OK;
    if (pass == 0 && !(p->part = pni_alloc_array(c, most, 1))) return c->status;
    p->part_bytes = (size_t)most;
  }
  return PN_OK;
}

/* ---- running ---- */

/* Rows and columns of one tile. */
typedef struct {
  int64_t row, col, rows, cols;
} tile;

/* A row of the whole space: `in` of the jump number `jump`. */
typedef struct {
  int64_t jump, in;
} place;

/* Where row `r` of the tile, which is the row `at` of the space, begins. */
static char *start_of(const pni_operand *o, const tile *t, int64_t r, place at, char *scratch) {
  if (o->slot >= 0) return scratch + (size_t)o->slot * PNI_TILE_BYTES + r * o->row;
  return o->base + at.jump * o->jump + at.in * o->row + t->col * o->item * o->size;
}

static place place_of(const pni_group *g, const tile *t) {
  return g->rows > g->jump ? (place){t->row / g->jump, t->row % g->jump} : (place){0, t->row};
}

void pni_scale_fold(int dtype, double scale, char *out, int64_t n) {
  if (scale == 0) return;
  for (int64_t r = 0; r < n; r++)
    if (dtype == PN_FLOAT64)
      ((double *)(void *)out)[r] *= scale;
    else
      ((float *)(void *)out)[r] = (float)((double)((float *)(void *)out)[r] * scale);
}

static void scale_rows(const pni_member *m, char *out, int64_t n) {
  pni_scale_fold(m->op[0].size == sizeof(double) ? PN_FLOAT64 : PN_FLOAT32, m->scale, out, n);
}

static void run_fold(const pni_group *g, const pni_member *m, const tile *t, char *scratch) {
  place at = place_of(g, t);
  char *out = start_of(&m->op[0], t, 0, at, scratch), *x = start_of(&m->op[1], t, 0, at, scratch);
  if (m->pieces) { /* the tile is a part of a row */
    int64_t piece = t->row * pieces_per_row(g) + t->col / PNI_PIECE;
    m->pieces->parts(x, t->cols, m->part + piece * m->op[1].size);
    return;
  }
  m->fold(x, t->rows, t->cols, out);
  scale_rows(m, out, t->rows);
}

/* All tiles are done. */
static void join_pieces(const pni_group *g, const pni_member *m) {
  int64_t bytes = pieces_per_row(g) * m->op[1].size;
  for (int64_t r = 0; r < g->rows; r++)
    m->pieces->join(m->part + r * bytes, g->cols, m->op[0].base + r * m->op[0].size);
  scale_rows(m, m->op[0].base, g->rows);
}

/* `rows` short rows at once: operands that do not run on from row to row are gathered. */
static void run_short(const pni_group *g, const pni_member *m, int64_t rows, char *const *from) {
  uint64_t room[PNI_OPERANDS][PNI_TILE_BYTES / sizeof(uint64_t) + PNI_GATHER_PAD];
  int64_t stride[PNI_OPERANDS];
  char *p[PNI_OPERANDS];
  for (int k = 0; k < m->nop; k++) {
    const pni_operand *o = &m->op[k];
    p[k] = from[k];
    stride[k] = o->item;
    if (o->row == o->item * g->cols * o->size) continue;
    pni_gather_rows(p[k] = (char *)room[k], from[k], rows, o->row, g->cols, o->item, o->size);
    stride[k] = 1;
  }
  m->row(m->data, rows * g->cols, p, stride);
}

static void run_member(const pni_group *g, const pni_member *m, const tile *t, char *scratch) {
  place at = place_of(g, t);
  bool brief = m->even == PNI_EVEN_ROW && g->cols <= PNI_SHORT_ROW && t->cols == g->cols;
  int64_t stride[PNI_OPERANDS];
  char *p[PNI_OPERANDS];
  for (int k = 0; k < m->nop; k++) stride[k] = m->op[k].item;
  for (int64_t r = 0, n; r < t->rows; r += n) {
    int64_t left = t->rows - r, run = g->jump - at.in;
    n = m->even == PNI_EVEN_ALL ? left : m->even == PNI_EVEN_ROW && !brief ? 1 : left < run ? left : run;
    for (int k = 0; k < m->nop; k++) p[k] = start_of(&m->op[k], t, r, at, scratch);
    if (brief)
      run_short(g, m, n, p);
    else
      m->row(m->data, n * t->cols, p, stride);
    if ((at.in += n) < g->jump) continue;
    at.in = 0;
    at.jump++;
  }
}

static int64_t parts_of(const pni_group *g) { return (g->cols + g->tile - 1) / g->tile; }

static void run_tiles(void *data, int64_t begin, int64_t end) {
  const pni_group *g = data;
  _Alignas(64) char scratch[PNI_TILE_SLOTS * PNI_TILE_BYTES];
  int64_t parts = g->block ? 1 : parts_of(g);
  for (int64_t i = begin; i < end; i++) {
    tile t = {i * g->block, 0, g->block, g->cols};
    if (g->block) {
      if (t.row + t.rows > g->rows) t.rows = g->rows - t.row;
    } else {
      t = (tile){i / parts, i % parts * g->tile, 1, g->tile};
      if (t.col + t.cols > g->cols) t.cols = g->cols - t.col;
    }
    for (int k = 0; k < g->n; k++) (g->member[k].fold ? run_fold : run_member)(g, &g->member[k], &t, scratch);
  }
}

pn_status pni_group_run(pn_context *c, const pni_group *g) {
  enum { GRAIN = 8 };
  int64_t tiles = g->block ? (g->rows + g->block - 1) / g->block : g->rows * parts_of(g);
  pn_status s = PN_OK;
  if (tiles > 2 * GRAIN)
    s = pni_parallel(c, tiles, pni_deadline(c) ? 1 : GRAIN, run_tiles, (void *)(uintptr_t)g);
  else if (!pni_deadline(c))
    run_tiles((void *)(uintptr_t)g, 0, tiles);
  for (int64_t i = 0; pni_deadline(c) && tiles <= 2 * GRAIN && i < tiles && s == PN_OK; i++) {
    run_tiles((void *)(uintptr_t)g, i, i + 1);
    if (i + 1 < tiles) s = pni_check_cancel(c);
  }
  for (int k = 0; k < g->n && s == PN_OK; k++)
    if (g->member[k].fold && g->member[k].pieces) join_pieces(g, &g->member[k]);
  return s;
}
