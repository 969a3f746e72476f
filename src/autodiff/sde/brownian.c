/*
** brownian.c: descending in the cells of a Brownian path. The position is a stack of cells, each one half of the one
** above it. Between two positions lies what of the earlier one's cells comes after it (`after`) and what of the later
** one's comes before it (`before`), below the smallest cell that holds both: sums of few cells, with no difference of
** large numbers, and of amortised constant cost where times pass in order.
*/
#include <math.h>
#include <string.h>
#include "brownian.h"

/* ---- memory ---- */

/* Octave 0 is [0, 1], octave k [2^(k-1), 2^k]. */
static int octave_of(double t) {
  int e = 0;
  if (t >= 1) frexp(t, &e);
  return e;
}
static double octave_begin(int k) { return k ? ldexp(1, k - 1) : 0; }
static double octave_length(int k) { return k ? ldexp(1, k - 1) : 1; }

static int64_t numbers_of(const pni_brownian *b) {
  return pni_times(b->lanes, 2 + 2 + 2 + 2 + 2 + 4 * (int64_t)b->room);
}

static double *take(double **from, int64_t n) {
  double *a = *from;
  *from += n;
  return a;
}

static void sit_down(pni_brownian *b, double at);

pn_status pni_brownian_open(pn_context *c, pni_brownian *b, uint64_t key, double start, double end, double tolerance,
                            int64_t begin, int64_t lanes) {
  *b = (pni_brownian){.key = key, .start = start, .begin = begin, .lanes = lanes, .octave = -1};
  int last = octave_of(end - start), cell = 0;
  b->tolerance = ldexp(1, ilogb(tolerance));
  frexp(octave_length(last) / b->tolerance, &cell);
  b->room = cell < 1 ? 1 : cell;
  if (!isfinite(start) || !(end >= start) || !isfinite(end - start) || b->room > PNI_BROWNIAN_LEVELS)
    return pni_fail(c, PN_DOMAIN, "brownian: times %g to %g are too many cells of the length %g (a larger tolerance?)",
                    start, end, tolerance);
  double *m = b->memory = pni_alloc_array(c, numbers_of(b), sizeof *m);
  if (!m) return c->status;
  b->w = take(&m, lanes);
  b->h = take(&m, lanes);
  b->normal = take(&m, 2 * lanes);
  for (int k = 0; k < 2; k++) {
    b->left[k] = take(&m, lanes);
    b->before[k] = take(&m, lanes);
    b->after[k] = take(&m, lanes);
    for (int l = 0; l < b->room; l++) {
      b->level[l].w[k] = take(&m, lanes);
      b->level[l].h[k] = take(&m, lanes);
    }
  }
  sit_down(b, 0);
  return PN_OK;
}

void pni_brownian_close(pn_context *c, pni_brownian *b) {
  pni_free(c, b->memory);
  b->memory = NULL;
}

/* ---- cells ---- */

/* Two normals for each lane, from the counters of a cell. */
static void draw(pni_brownian *b, uint64_t number) {
  uint64_t key = pni_philox_split(&(pni_philox){b->octave_key, 0}, number).key, at = (uint64_t)b->begin;
  pni_fill_normal_f64(key, 0, 2 * at, 2 * (at + (uint64_t)b->lanes), b->normal);
}

static void draw_octave(pni_brownian *b, int octave, double *w, double *h) {
  double s = sqrt(octave_length(octave)), third = s / sqrt(12);
  b->octave_key = pni_philox_split(&(pni_philox){b->key, 0}, (uint64_t)octave).key;
  draw(b, 0);
  for (int64_t i = 0; i < b->lanes; i++) {
    w[i] = s * b->normal[2 * i];
    h[i] = third * b->normal[2 * i + 1];
  }
}

static const double *w_of(const pni_brownian *b, int l) { return l ? b->level[l - 1].w[b->level[l - 1].side] : b->w; }
static const double *h_of(const pni_brownian *b, int l) { return l ? b->level[l - 1].h[b->level[l - 1].side] : b->h; }

/* Cuts the cell of level l at the share x of its length d. Given W and H, with y = 1 - x, q = x^3 + y^3 and normals
 * X, Z, the parts have
 *   W1 = x W + 6 x y H + s X,              W2 = W - W1,              s^2 = d x y q,
 *   H1 = x^2 H - x^3 y d / (2 s) X + r Z,  H2 = y^2 H - y^3 x d / (2 s) X - r x / y Z,  r^2 = d x y^3 / (12 q). */
static void cut(pni_brownian *b, int l, double x) {
  pni_brownian_level *v = &b->level[l];
  double y = 1 - x, q = x * x * x + y * y * y, d = v->length, s = sqrt(d * x * y * q);
  double bend = 6 * x * y, r = sqrt(d * x * y * y * y / (12 * q)), r2 = r * x / y;
  double x2 = x * x, y2 = y * y, k1 = x2 * x * y * d / (2 * s), k2 = y2 * y * x * d / (2 * s);
  const double *w = w_of(b, l), *h = h_of(b, l), *z = b->normal;
  draw(b, v->number);
  for (int64_t i = 0; i < b->lanes; i++) {
    double w1 = x * w[i] + bend * h[i] + s * z[2 * i];
    v->w[0][i] = w1;
    v->w[1][i] = w[i] - w1;
    v->h[0][i] = x2 * h[i] - k1 * z[2 * i] + r * z[2 * i + 1];
    v->h[1][i] = y2 * h[i] - k2 * z[2 * i] - r2 * z[2 * i + 1];
  }
}

static bool holds(const pni_brownian_level *v, double at) { return v->begin <= at && at < v->begin + v->length; }

/* The position becomes `at`, which the cell of level l holds. */
static void descend(pni_brownian *b, int l, double at) {
  for (;; l++) {
    pni_brownian_level *v = &b->level[l];
    b->depth = l;
    b->at = at;
    b->inside = false;
    if (at == v->begin) return;
    if (v->length <= b->tolerance) {
      b->inside = true;
      cut(b, l, (at - v->begin) / v->length);
      return;
    }
    double half = v->length / 2;
    if (!v->halved) cut(b, l, 0.5);
    v->halved = true;
    v->side = at >= v->begin + half;
    pni_brownian_level *next = &b->level[l + 1];
    uint64_t number = 2 * v->number + (uint64_t)v->side;
    if (next->number != number || next->length != half) next->halved = false;
    next->number = number;
    next->begin = v->begin + (v->side ? half : 0);
    next->length = half;
  }
}

static void sit_down(pni_brownian *b, double at) {
  int octave = octave_of(at);
  if (octave != b->octave) {
    draw_octave(b, octave, b->w, b->h);
    b->octave = octave;
    b->level[0] = (pni_brownian_level){.begin = octave_begin(octave),
                                       .length = octave_length(octave),
                                       .number = 1,
                                       .w = {b->level[0].w[0], b->level[0].w[1]},
                                       .h = {b->level[0].h[0], b->level[0].h[1]}};
    for (int l = 1; l < b->room; l++) b->level[l].number = 0;
  }
  descend(b, 0, at);
}

/* ---- sums of cells ---- */

/* Increments and integrals of the path over its first point, [2][lanes], over a time that grows at its end. */
typedef struct {
  double **sum, length;
} span;

static void begin_span(const pni_brownian *b, span *s) {
  s->length = 0;
  memset(s->sum[0], 0, (size_t)b->lanes * sizeof(double));
  memset(s->sum[1], 0, (size_t)b->lanes * sizeof(double));
}

static void append(const pni_brownian *b, span *s, const double *w, const double *h, double length) {
  double *sum = s->sum[0], *integral = s->sum[1];
  for (int64_t i = 0; i < b->lanes; i++) {
    integral[i] += length * (sum[i] + (w[i] / 2 + h[i]));
    sum[i] += w[i];
  }
  s->length += length;
}

/* What of the cells of levels `top` and below comes after the position. */
static void add_after(const pni_brownian *b, span *s, int top) {
  const pni_brownian_level *v = &b->level[b->depth];
  begin_span(b, s);
  if (b->inside)
    append(b, s, v->w[1], v->h[1], v->begin + v->length - b->at);
  else
    append(b, s, w_of(b, b->depth), h_of(b, b->depth), v->length);
  for (int l = b->depth - 1; l >= top; l--) {
    v = &b->level[l];
    if (v->side == 0) append(b, s, v->w[1], v->h[1], v->length / 2);
  }
}

/* What of them comes before it. */
static void add_before(const pni_brownian *b, span *s, int top) {
  begin_span(b, s);
  for (int l = top; l < b->depth; l++) {
    const pni_brownian_level *v = &b->level[l];
    if (v->side == 1) append(b, s, v->w[0], v->h[0], v->length / 2);
  }
  const pni_brownian_level *v = &b->level[b->depth];
  if (b->inside) append(b, s, v->w[0], v->h[0], b->at - v->begin);
}

/* One after another: w and h from the sums. */
static void join(const pni_brownian *b, const span *a, const span *z, double *w, double *h) {
  double length = a->length + z->length;
  for (int64_t i = 0; i < b->lanes; i++) {
    double sum = a->sum[0][i] + z->sum[0][i];
    double integral = a->sum[1][i] + (z->sum[1][i] + z->length * a->sum[0][i]);
    w[i] = sum;
    h[i] = integral / length - sum / 2;
  }
}

/* ---- moving ---- */

/* Between two points of one last cell, of which b is at the later one and `left` holds what lies before the earlier. */
static void within(const pni_brownian *b, double earlier, double *w, double *h) {
  const pni_brownian_level *v = &b->level[b->depth];
  double t1 = earlier - v->begin, t2 = b->at - v->begin, length = t2 - t1;
  for (int64_t i = 0; i < b->lanes; i++) {
    double w1 = b->left[0][i], i1 = t1 * (w1 / 2 + b->left[1][i]);
    double w2 = v->w[0][i], i2 = t2 * (w2 / 2 + v->h[0][i]);
    w[i] = w2 - w1;
    h[i] = (i2 - i1 - length * w1) / length - w[i] / 2;
  }
}

static void keep_left(pni_brownian *b) {
  const pni_brownian_level *v = &b->level[b->depth];
  memcpy(b->left[0], v->w[0], (size_t)b->lanes * sizeof(double));
  memcpy(b->left[1], v->h[0], (size_t)b->lanes * sizeof(double));
}

/* Positions in two octaves, b at the earlier one: what lies between, and b goes to the other if `go`. */
static void across(pni_brownian *b, double later, double *w, double *h) {
  span after = {.sum = b->after}, before = {.sum = b->before};
  int last = octave_of(later);
  add_after(b, &after, 0);
  for (int k = b->octave + 1; k < last; k++) {
    draw_octave(b, k, b->left[0], b->left[1]);
    append(b, &after, b->left[0], b->left[1], octave_length(k));
  }
  sit_down(b, later);
  add_before(b, &before, 0);
  join(b, &after, &before, w, h);
}

void pni_brownian_seek(pni_brownian *b, double t) { sit_down(b, t - b->start); }

void pni_brownian_move(pni_brownian *b, double t, double *w, double *h) {
  double from = b->at, to = t - b->start;
  bool forward = to > from;
  if (to == from) {
    memset(w, 0, (size_t)b->lanes * sizeof *w);
    memset(h, 0, (size_t)b->lanes * sizeof *h);
    return;
  }
  if (octave_of(to) != b->octave) {
    if (!forward) sit_down(b, to);
    across(b, forward ? to : from, w, h);
    if (!forward) sit_down(b, to);
    return;
  }
  int top = b->depth; /* the smallest cell that holds both */
  while (!holds(&b->level[top], to)) top--;
  double earlier = forward ? from : to;
  if (top == b->depth && b->inside && earlier != b->level[top].begin) {
    if (!forward) descend(b, top, to);
    keep_left(b);
    descend(b, top, forward ? to : from);
    within(b, earlier, w, h);
    if (!forward) descend(b, top, to);
    return;
  }
  bool begins = earlier == b->level[top].begin; /* then nothing of the cell comes before it */
  span after = {.sum = b->after}, before = {.sum = b->before};
  begin_span(b, &after);
  int below = begins ? top : top + 1;
  if (forward) {
    if (!begins) add_after(b, &after, below);
    descend(b, top, to);
    add_before(b, &before, below);
  } else {
    add_before(b, &before, below);
    descend(b, top, to);
    if (!begins) add_after(b, &after, below);
  }
  join(b, &after, &before, w, h);
}
