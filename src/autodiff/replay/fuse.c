/*
** fuse.c: groups of elementwise operations and of reductions of their rows. Neighbours whose results have one number of elements join a
** group if each of their nests is one run, or rows x columns with the group's columns, and if what they
** read of the group's own results lies exactly where it is written: then tile after tile gives what whole
** tensors would, to the bit, as an element depends on its own place only.
*/
#include <string.h>
#include "replay.h"

bool pni_map_of(const pn_plan *p, const pni_note *note, pni_loop *nest, pni_row *row, void **data) {
  if (!note->op || (!note->op->map && !note->op->kernel)) return false;
  pn_tensor *out = &p->tape->value.v[note->out].t, **in = p->arg + note->first;
  pni_attr *a = (pni_attr *)(void *)(p->tape->word.v + note->attr);
  pni_call call = {note->op, in, note->nin, a};
  *row = note->op->map ? note->op->map[in[0]->dtype] : note->op->kernel(&call, out);
  *data = !note->op->map ? NULL : a->ni ? (void *)a->i : (void *)a->r;
  pni_loop_init(nest, out, note->nin, in);
  return true;
}

pni_fold pni_fold_of(const pn_plan *p, const pni_note *note, int64_t *n, double *scale) {
  if (!note->op || !note->op->fold) return NULL;
  pn_tensor **in = p->arg + note->first;
  pni_attr *a = (pni_attr *)(void *)(p->tape->word.v + note->attr);
  return pni_is_contiguous(in[0]) ? note->op->fold(&(pni_call){note->op, in, 1, a}, n, scale) : NULL;
}

/* Operand k of a nest over rows x cols, strides in elements; false if the nest has another space. */
static bool strides(const pni_loop *l, int k, int64_t rows, int64_t cols, int64_t *row, int64_t *item) {
  if (l->ndim == 1) {
    *item = l->stride[k][0];
    *row = *item * cols;
    return l->shape[0] == rows * cols;
  }
  *row = l->stride[k][0];
  *item = l->stride[k][1];
  return l->ndim == 2 && l->shape[0] == rows && l->shape[1] == cols;
}

/* Is operand k the elements 0, 1, 2 ... of its memory, as a result is? */
static bool straight(const pni_loop *l, int k, const pn_tensor *t) {
  if (t->offset != 0) return false;
  if (t->numel == 1) return pni_count(l->ndim, l->shape) == 1;
  if (l->ndim == 1) return l->stride[k][0] == 1;
  return l->ndim == 2 && l->stride[k][1] == 1 && l->stride[k][0] == l->shape[1];
}

/* The group that is being gathered. */
typedef struct {
  int first, last, n;
  int64_t elements, rows, cols; /* cols 0: all nests so far are one run */
} gathering;

static int base_of(const pni_tape *tape, int v) { return tape->value.v[v].base; }

/* Can the note join? What it reads of the group must be read straight. */
static bool joins(const pn_plan *p, const pni_schedule *s, const gathering *g, const pni_note *note,
                  const pni_loop *l) {
  const pni_tape *tape = p->tape;
  if (pni_count(l->ndim, l->shape) != g->elements) return false;
  if (l->ndim == 2 && g->cols && (l->shape[0] != g->rows || l->shape[1] != g->cols)) return false;
  for (int k = 0; k < note->nin; k++) {
    int v = tape->edge.v[note->first + k], maker = s->maker[base_of(tape, v)];
    bool own = maker >= g->first && s->group[maker] == g->first;
    if (own && (tape->note.v[maker].op->fold || !straight(l, k + 1, &tape->value.v[v].t))) return false;
  }
  return true;
}

/* Does the note reduce rows of what the group has just made, rows that fit into a tile? */
static bool folds(const pn_plan *p, const pni_schedule *s, gathering *g, const pni_note *note) {
  const pni_tape *tape = p->tape;
  int64_t n;
  double scale;
  if (!g->n || !pni_fold_of(p, note, &n, &scale)) return false;
  int v = tape->edge.v[note->first], maker = s->maker[base_of(tape, v)];
  const pn_tensor *x = &tape->value.v[v].t;
  if (maker < g->first || s->group[maker] != g->first || tape->note.v[maker].op->fold) return false;
  if (x->offset != 0 || x->numel != g->elements || n > PNI_TILE || (g->cols && g->cols != n)) return false;
  g->rows = g->elements / n;
  g->cols = n;
  return true;
}

static void close_group(pni_schedule *s, gathering *g) {
  if (g->n > 1) s->until[g->first] = g->last;
  if (g->n == 1) s->group[g->first] = -1;
  g->n = 0;
}

static void gather(const pn_plan *p, pni_schedule *s) {
  const pni_tape *tape = p->tape;
  gathering g = {0};
  for (int i = 0; i < (int)tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    pni_loop l;
    pni_row row;
    void *data;
    s->group[i] = -1;
    if (!s->needed[i] || (note->out >= 0 && tape->value.v[note->out].kind == PNI_VALUE_VIEW)) continue;
    if (folds(p, s, &g, note)) {
      s->group[i] = g.first;
      g.last = i;
      g.n++;
      continue;
    }
    bool fits = pni_map_of(p, note, &l, &row, &data) && l.ndim <= 2 && pni_count(l.ndim, l.shape) > 0;
    if (g.n && (!fits || !joins(p, s, &g, note, &l))) close_group(s, &g);
    if (!fits) continue;
    if (!g.n) g = (gathering){.first = i, .elements = pni_count(l.ndim, l.shape)};
    if (l.ndim == 2) {
      g.rows = l.shape[0];
      g.cols = l.shape[1];
    }
    s->group[i] = g.first;
    g.last = i;
    g.n++;
  }
  close_group(s, &g);
}

/* Values that only their own group reads need no memory. */
static void find_local(const pn_plan *p, pni_schedule *s) {
  const pni_tape *tape = p->tape;
  for (int64_t i = 0; i < tape->value.n; i++) {
    int maker = s->maker[i];
    bool made = maker >= 0 && s->needed[maker] && s->group[maker] >= 0 && !tape->note.v[maker].op->fold;
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
  const pni_tape *tape = p->tape;
  for (int64_t i = 0; i < tape->value.n; i++) s->maker[i] = -1;
  for (int64_t i = 0; i < tape->note.n; i++) {
    int out = tape->note.v[i].out;
    if (out >= 0 && tape->value.v[out].kind == PNI_VALUE_OWN) s->maker[out] = (int)i;
  }
  gather(p, s);
  find_local(p, s);
  place_local(p, s);
}

/* ---- the step ---- */

static void set_space(const pn_plan *p, const pni_schedule *s, int first, pni_group *g) {
  g->rows = g->cols = 0;
  for (int i = first; i < (int)p->tape->note.n && g->cols == 0; i++) {
    pni_loop l;
    pni_row row;
    void *data;
    if (s->group[i] != first) continue;
    const pni_note *note = &p->tape->note.v[i];
    if (note->op->fold) {
      double scale;
      pni_fold_of(p, note, &g->cols, &scale);
      g->rows = p->arg[note->first]->numel / g->cols;
      continue;
    }
    pni_map_of(p, note, &l, &row, &data);
    g->rows = l.shape[0];
    if (l.ndim == 2) g->cols = l.shape[1];
  }
  if (g->cols == 0) g->cols = 1; /* one run all over: rows of one element */
  g->block = g->cols > PNI_TILE ? 0 : PNI_TILE / g->cols;
}

static void set_fold(const pn_plan *p, const pni_schedule *s, const pni_group *g, const pni_note *note, pni_member *m) {
  const pni_tape *tape = p->tape;
  int64_t n;
  int v = tape->edge.v[note->first];
  const pn_tensor *out = &tape->value.v[note->out].t, *x = &tape->value.v[v].t;
  int64_t size = (int64_t)pni_itemsize(out);
  m->fold = pni_fold_of(p, note, &n, &m->scale);
  m->nop = 2;
  m->op[0] = (pni_operand){pni_data(out), size, 0, size, -1};
  m->op[1] = (pni_operand){pni_data(x), size * g->cols, 1, size, s->slot[base_of(tape, v)]};
}

static void set_member(const pn_plan *p, const pni_schedule *s, const pni_group *g, int note, pni_member *m) {
  const pni_tape *tape = p->tape;
  const pni_note *n = &tape->note.v[note];
  pni_loop l;
  m->fold = NULL;
  if (n->op->fold) {
    set_fold(p, s, g, n, m);
    return;
  }
  pni_map_of(p, n, &l, &m->row, &m->data);
  m->nop = l.nop;
  m->flat = true;
  for (int k = 0; k < l.nop; k++) {
    int v = k ? tape->edge.v[n->first + k - 1] : n->out, base = base_of(tape, v);
    pni_operand *o = &m->op[k];
    int64_t row = 0;
    strides(&l, k, g->rows, g->cols, &row, &o->item);
    o->base = l.base[k];
    o->size = (int64_t)l.size[k];
    o->row = row * o->size;
    o->slot = s->slot[base];
    m->flat = m->flat && row == o->item * g->cols;
  }
}

pni_step pni_group_step(const pn_plan *p, const pni_schedule *s, int first, pni_member **m) {
  pni_step step = {.kind = PNI_STEP_GROUP};
  pni_group *g = &step.u.group;
  set_space(p, s, first, g);
  g->member = *m;
  for (int i = first; i < (int)p->tape->note.n && (s->group[i] == first || s->group[i] < 0); i++)
    if (s->group[i] == first) set_member(p, s, g, i, &(*m)[g->n++]);
  *m += g->n;
  return step;
}

/* ---- running ---- */

/* Rows and columns of one tile. */
typedef struct {
  int64_t row, col, rows, cols;
} tile;

static char *start_of(const pni_operand *o, const tile *t, char *scratch) {
  if (o->slot >= 0) return scratch + (size_t)o->slot * PNI_TILE * sizeof(double);
  return o->base + t->row * o->row + t->col * o->item * o->size;
}

static void run_fold(const pni_member *m, const tile *t, char *scratch) {
  char *out = start_of(&m->op[0], t, scratch), *x = start_of(&m->op[1], t, scratch);
  for (int64_t r = 0; r < t->rows; r++, out += m->op[0].row, x += m->op[1].row) {
    m->fold(x, t->cols, out);
    if (m->scale == 0) continue;
    if (m->op[0].size == sizeof(double))
      *(double *)(void *)out *= m->scale;
    else
      *(float *)(void *)out = (float)((double)*(float *)(void *)out * m->scale);
  }
}

static void run_member(const pni_member *m, const tile *t, char *scratch) {
  char *p[4];
  int64_t stride[4], step[4];
  for (int k = 0; k < m->nop; k++) {
    const pni_operand *o = &m->op[k];
    p[k] = start_of(o, t, scratch);
    stride[k] = o->item;
    step[k] = o->row;
  }
  if (m->flat || t->rows == 1) {
    m->row(m->data, t->rows * t->cols, p, stride);
    return;
  }
  for (int64_t r = 0; r < t->rows; r++) {
    char *q[4];
    for (int k = 0; k < m->nop; k++) q[k] = p[k] + r * step[k];
    m->row(m->data, t->cols, q, stride);
  }
}

static void run_tiles(void *data, int64_t begin, int64_t end) {
  const pni_group *g = data;
  _Alignas(64) char scratch[PNI_TILE_SLOTS * PNI_TILE * sizeof(double)];
  int64_t parts = g->block ? 1 : (g->cols + PNI_TILE - 1) / PNI_TILE;
  for (int64_t i = begin; i < end; i++) {
    tile t = {i * g->block, 0, g->block, g->cols};
    if (g->block) {
      if (t.row + t.rows > g->rows) t.rows = g->rows - t.row;
    } else {
      t = (tile){i / parts, i % parts * PNI_TILE, 1, PNI_TILE};
      if (t.col + t.cols > g->cols) t.cols = g->cols - t.col;
    }
    for (int k = 0; k < g->n; k++) (g->member[k].fold ? run_fold : run_member)(&g->member[k], &t, scratch);
  }
}

pn_status pni_group_run(pn_context *c, const pni_group *g) {
  enum { GRAIN = 64 };
  int64_t tiles = g->block ? (g->rows + g->block - 1) / g->block : g->rows * ((g->cols + PNI_TILE - 1) / PNI_TILE);
  if (tiles > 2 * GRAIN) return pni_parallel(c, tiles, GRAIN, run_tiles, (void *)(uintptr_t)g);
  run_tiles((void *)(uintptr_t)g, 0, tiles);
  return PN_OK;
}
