/*
** sde_worker.c: a chunk of paths, step by step, forwards and for the gradient backwards. Its arrays stay in the nearest
** caches; nothing is allocated from step to step. A path's numbers depend on its place in the batch, not on its chunk
** or on who takes it. The last chunk may be short of paths: its last one stands for those that lack, and their
** gradients count nothing.
*/
#include <math.h>
#include <string.h>
#include "sde_number.h"
#include "sde_worker.h"

typedef pn_context C;
typedef pni_sde_worker W;

enum { T_IN, H_IN, W_IN, AREA_IN };

/* Normals of small batches are made for several steps at once. */
enum { NORMALS = 512 };

int64_t pni_sde_state_size(const pni_sde *o) { return pni_times(pni_times(o->set.rows, o->n), o->set.states); }
int64_t pni_sde_state_bytes(const pni_sde *o) { return pni_times(pni_sde_state_size(o), (int64_t)pni_sde_item(o)); }

/* ---- the worker ---- */

static pn_tensor *like_value(C *c, const pn_plan *p, int value) {
  pni_spec spec = pni_spec_of(&p->tensor[value]);
  return pni_tensor_new(c, &spec);
}

static int tensors_of(const pni_sde *o) { return 8 + 2 * o->parameters; }
static int64_t lanes_of(const pni_sde *o) { return o->set.rows * o->set.motions; }
static int kinds_of(const pni_sde *o) { return o->set.area ? 2 : 1; }
static int64_t sums_of(const pni_sde *o) { return pni_plus(o->shared, pni_times(o->set.rows, o->of_path)); }

/* Normals that are made ahead. */
static int64_t ahead_of(const pni_sde *o, const W *w) {
  return w->ahead > 1 ? w->ahead * lanes_of(o) * kinds_of(o) : 0;
}

static pn_status open_tensors(C *c, const pni_sde *o, W *w) {
  w->nin = w->step->tape->ninput;
  w->y = W_IN + kinds_of(o);
  w->p = w->y + 1;
  w->tensor = pni_calloc_array(c, tensors_of(o), sizeof *w->tensor);
  if (!w->tensor) return c->status;
  pn_tensor **at = w->in = w->tensor;
  for (int k = 0; k < w->nin; k++)
    if (!(*at++ = like_value(c, w->step, k))) return c->status;
  if (!(*at++ = like_value(c, w->step, w->y))) return c->status;
  if (!(w->result = *at++ = like_value(c, w->step, w->y))) return c->status;
  w->back = at;
  for (int k = 0; w->pullback && k <= o->parameters; k++)
    if (!(*at++ = like_value(c, w->step, w->y + k))) return c->status;
  return PN_OK;
}

pn_status pni_sde_worker_open(C *c, const pni_sde *o, W *w) {
  w->c = c;
  w->block = -1;
  if (open_tensors(c, o, w)) return c->status;
  int64_t lanes = lanes_of(o), each = lanes * kinds_of(o);
  w->ahead = o->chunks == 1 && each < NORMALS ? NORMALS / each : 1;
  w->normal = pni_alloc_array(c, ahead_of(o, w), pni_sde_item(o));
  w->w = pni_alloc_array(c, lanes, sizeof *w->w);
  w->h = pni_alloc_array(c, lanes, sizeof *w->h);
  w->sum = pni_alloc_array(c, sums_of(o), sizeof *w->sum);
  return w->normal && w->w && w->h && w->sum ? PN_OK : c->status;
}

void pni_sde_worker_close(const pni_sde *o, W *w) {
  C *c = w->c;
  if (!c) return;
  if (w->open) pni_brownian_close(c, &w->path);
  for (int k = 0; w->tensor && k < tensors_of(o); k++) pn_tensor_unref(w->tensor[k]);
  pni_free(c, w->tensor);
  pni_free(c, w->normal);
  pni_free(c, w->w);
  pni_free(c, w->h);
  pni_free(c, w->sum);
  pni_free(c, w->between);
  pn_plan_unref(w->step);
  pn_plan_unref(w->pullback);
  if (w->child) pn_context_close(c);
  *w = (W){0};
}

static int64_t size_of(const W *w, int k) { return w->in[w->p + k]->numel; }

void pni_sde_worker_begin(const pni_sde *o, W *w) {
  const char *from = o->in + (size_t)(o->set.paths * o->n) * pni_sde_item(o);
  w->block = -1;
  for (int k = 0; k < o->parameters; k++) {
    if (o->own[k]) continue;
    size_t bytes = (size_t)size_of(w, k) * pni_sde_item(o);
    memcpy(pni_data(w->in[w->p + k]), from, bytes);
    from += bytes;
  }
}

/* ---- a chunk ---- */

typedef pni_sde_part part;

pni_sde_part pni_sde_part_of(const pni_sde *o, int64_t chunk) {
  part p = {.number = chunk, .first = chunk * o->set.rows, .paths = o->set.rows, .given = o->given, .steps = o->steps};
  if (p.first + p.paths > o->set.paths) p.paths = o->set.paths - p.first;
  if (o->grid && o->grid[chunk].c) {
    p.given = o->grid[chunk].given;
    p.grid = o->grid[chunk].t;
    p.steps = o->grid[chunk].steps;
  }
  p.span = pni_sde_span(o, p.steps);
  return p;
}

int64_t pni_sde_span(const pni_sde *o, int64_t steps) {
  if (o->set.gradient == PNI_SDE_REVERSIBLE) return 0;
  return o->set.gradient == PNI_SDE_GRAPH ? 1 : (int64_t)fmax(ceil(sqrt((double)steps)), 1);
}

/* The last path's numbers, also for the rows that lack one. */
static void fill_up(const pni_sde *o, const part *p, void *data, int64_t each) {
  size_t bytes = (size_t)each * pni_sde_item(o);
  char *last = (char *)data + (size_t)(p->paths - 1) * bytes;
  for (int64_t r = p->paths; r < o->set.rows; r++) memcpy((char *)data + (size_t)r * bytes, last, bytes);
}

/* The numbers of the chunk's paths out of rows of `each`, of which `width` from column `at` on are wanted. */
static void gather_rows(const pni_sde *o, const part *p, void *to, const char *rows, int64_t each, int64_t at,
                        int64_t width) {
  size_t size = pni_sde_item(o), bytes = (size_t)width * size;
  for (int64_t r = 0; r < p->paths; r++)
    memcpy((char *)to + (size_t)r * bytes, rows + (size_t)((p->first + r) * each + at) * size, bytes);
  fill_up(o, p, to, width);
}

void pni_sde_begin_chunk(const pni_sde *o, W *w, const part *p) {
  size_t size = pni_sde_item(o);
  const char *own = o->in + (size_t)(o->set.paths * o->n + o->shared) * size;
  int64_t at = 0;
  for (int k = 0; k < o->parameters; k++) {
    if (!o->own[k]) continue;
    int64_t width = size_of(w, k) / o->set.rows;
    gather_rows(o, p, pni_data(w->in[w->p + k]), own, o->of_path, at, width);
    at += width;
  }
}

/* The first of the times that is no earlier than the end of step k. */
static int64_t interval_of(const pni_sde *o, const part *p, int64_t k) {
  int64_t low = 1, high = o->num_times - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (p->given[middle] > k)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* The time after k steps. */
static double time_of(const pni_sde *o, const part *p, int64_t k) {
  if (p->grid) return p->grid[k];
  if (k == 0) return o->times[0];
  int64_t i = interval_of(o, p, k - 1), n = p->given[i] - p->given[i - 1], j = k - p->given[i - 1];
  return j == n ? o->times[i] : o->times[i - 1] + (o->times[i] - o->times[i - 1]) * ((double)j / (double)n);
}

/* ---- the Brownian motions ---- */

static void fill_normals(const pni_sde *o, uint64_t begin, uint64_t end, char *to) {
  if (o->dtype == PN_FLOAT64)
    pni_fill_normal_f64(o->key, 0, begin, end, (double *)(void *)to);
  else
    pni_fill_normal_f32(o->key, 0, begin, end, (float *)(void *)to);
}

/* The normals of step k: number e of kind j is element (k * kinds + j) * all + e of the key's stream, with `all` the
 * motions of all paths. Where one chunk has all paths, those of several steps are made at once. */
static void draw_normals(const pni_sde *o, W *w, const part *p, int64_t k, int64_t j, char *to) {
  int64_t kinds = kinds_of(o), m = o->set.motions, block = k / w->ahead;
  uint64_t all = (uint64_t)(o->set.paths * m), n = (uint64_t)(p->paths * m);
  if (w->ahead == 1) {
    uint64_t first = (uint64_t)(k * kinds + j) * all + (uint64_t)(p->first * m);
    fill_normals(o, first, first + n, to);
    return;
  }
  if (block != w->block) {
    uint64_t first = (uint64_t)(block * w->ahead * kinds) * all;
    fill_normals(o, first, first + (uint64_t)(w->ahead * kinds) * all, w->normal);
    w->block = block;
  }
  size_t bytes = (size_t)n * pni_sde_item(o);
  memcpy(to, (char *)w->normal + (size_t)((k - block * w->ahead) * kinds + j) * bytes, bytes);
}

pn_status pni_sde_open_path(const pni_sde *o, W *w, const part *p) {
  if (!o->set.tree) return PN_OK;
  if (w->open) pni_brownian_close(w->c, &w->path);
  w->open = false;
  double start = o->set.own_start ? o->times[0] : o->set.start;
  int64_t m = o->set.motions;
  if (pni_brownian_open(w->c, &w->path, o->key, start, o->times[o->num_times - 1], o->set.tolerance, p->first * m,
                        p->paths * m))
    return w->c->status;
  w->open = true;
  return PN_OK;
}

/* w and areas of the step from t to `end`, number k, into their tensors. */
void pni_sde_motions(const pni_sde *o, W *w, const part *p, int64_t k, double t, double end) {
  int64_t lanes = p->paths * o->set.motions;
  void *to = pni_data(w->in[W_IN]), *area = o->set.area ? pni_data(w->in[AREA_IN]) : NULL;
  if (o->set.tree) {
    bool at_end = w->path.at == end - w->path.start, forward = w->path.at == t - w->path.start;
    if (!forward && !at_end) {
      pni_brownian_seek(&w->path, w->backwards ? end : t);
      forward = !w->backwards;
    }
    pni_brownian_move(&w->path, forward ? end : t, w->w, w->h);
    pni_sde_put(o, to, lanes, w->w, 1);
    if (area) pni_sde_put(o, area, lanes, w->h, 1);
  } else {
    double s = sqrt(end - t);
    draw_normals(o, w, p, k, 0, to);
    pni_sde_scaled(o, to, lanes, to, s);
    if (area) draw_normals(o, w, p, k, 1, area);
    if (area) pni_sde_scaled(o, area, lanes, area, s / sqrt(12));
  }
  fill_up(o, p, to, o->set.motions);
  if (area) fill_up(o, p, area, o->set.motions);
}

/* ---- one step ---- */

void *pni_sde_state_of(const W *w) { return pni_data(w->in[w->y]); }

static void set_times(const pni_sde *o, W *w, double t, double h) {
  pni_sde_put(o, pni_data(w->in[T_IN]), 1, &t, 1);
  pni_sde_put(o, pni_data(w->in[H_IN]), 1, &h, 1);
}

/* From the state and the motions at hand, into w->result. */
pn_status pni_sde_advance(const pni_sde *o, W *w, double t, double h) {
  set_times(o, w, t, h);
  return pni_plan_run_into(w->c, w->step, w->in, &w->result);
}

static void swap(pn_tensor **a, pn_tensor **b) {
  pn_tensor *t = *a;
  *a = *b;
  *b = t;
}

/* The result becomes the state at hand. */
static void take_result(W *w) {
  pn_tensor **result = &w->in[w->nin + 1];
  swap(&w->in[w->y], result);
  w->result = *result;
}

static pn_status left_the_numbers(const pni_sde *o, W *w, const part *p, double t, double end) {
  const void *y = pni_data(w->result);
  int64_t i = 0;
  while (isfinite(pni_sde_number(o, y, i))) i++;
  return pni_fail(w->c, PN_NAN, "sde: y is not finite after the step from t = %g to %g: element %lld of path %lld", t,
                  end, (long long)(i % o->n) + 1, (long long)(p->first + i / o->n) + 1);
}

/* Step k, after which the state is the next one. */
static pn_status step_on(const pni_sde *o, W *w, const part *p, int64_t k, double t, double end) {
  if (pni_check_cancel(w->c)) return w->c->status;
  pni_sde_motions(o, w, p, k, t, end);
  if (pni_sde_advance(o, w, t, end - t)) return w->c->status;
  if (!pni_sde_all_finite(o, pni_data(w->result), p->paths * o->n)) return left_the_numbers(o, w, p, t, end);
  take_result(w);
  return PN_OK;
}

/* ---- the solution ---- */

/* All arrays of the state are y0 at first. */
void pni_sde_first_state(const pni_sde *o, W *w, const part *p) {
  char *y = pni_sde_state_of(w);
  size_t bytes = (size_t)(o->set.rows * o->n) * pni_sde_item(o);
  gather_rows(o, p, y, o->in, o->n, 0, o->n);
  for (int s = 1; s < o->set.states; s++) memcpy(y + (size_t)s * bytes, y, bytes);
}

void pni_sde_give(const pni_sde *o, const W *w, const part *p, int64_t time, char *out) {
  size_t each = (size_t)o->n * pni_sde_item(o);
  memcpy(out + (size_t)(time * o->set.paths + p->first) * each, pni_sde_state_of(w), (size_t)p->paths * each);
}

/* Keeps the state before step k, if it is one of those. */
static void keep(const pni_sde *o, const W *w, const part *p, int64_t k, char *kept) {
  if (!kept || !p->span || k % p->span) return;
  size_t bytes = (size_t)pni_sde_state_bytes(o);
  memcpy(kept + (size_t)(k / p->span) * bytes, pni_sde_state_of(w), bytes);
}

/* From y0 through all steps. kept or out may be NULL. */
static pn_status walk(const pni_sde *o, W *w, const part *p, char *kept, char *out) {
  pni_sde_first_state(o, w, p);
  if (out) pni_sde_give(o, w, p, 0, out);
  double t = o->times[0];
  for (int64_t k = 0, i = 1; k < p->steps; k++) {
    double end = time_of(o, p, k + 1);
    keep(o, w, p, k, kept);
    if (step_on(o, w, p, k, t, end)) return w->c->status;
    if (out && k + 1 == p->given[i]) pni_sde_give(o, w, p, i++, out);
    t = end;
  }
  if (kept && !p->span) memcpy(kept, pni_sde_state_of(w), (size_t)pni_sde_state_bytes(o));
  return PN_OK;
}

static pn_status check_start(const pni_sde *o, W *w, const part *p) {
  const char *y0 = o->in + (size_t)(p->first * o->n) * pni_sde_item(o);
  if (pni_sde_all_finite(o, y0, p->paths * o->n)) return PN_OK;
  int64_t i = 0;
  while (isfinite(pni_sde_number(o, y0, i))) i++;
  return pni_fail(w->c, PN_NAN, "sde: y0 must be finite, element %lld of path %lld is not", (long long)(i % o->n) + 1,
                  (long long)(p->first + i / o->n) + 1);
}

pn_status pni_sde_forward(pni_sde *o, W *w, int64_t chunk, char *kept, char *out) {
  part p = pni_sde_part_of(o, chunk);
  w->backwards = false;
  pni_sde_begin_chunk(o, w, &p);
  if (pni_sde_open_path(o, w, &p) || check_start(o, w, &p)) return w->c->status;
  return o->set.adaptive ? pni_sde_adapt(o, w, &p, out) : walk(o, w, &p, kept, out);
}

/* ---- the gradient ---- */

/* Room for the states between two checkpoints. */
static pn_status reserve(const pni_sde *o, W *w, const part *p) {
  int64_t bytes = pni_times(p->span > 1 ? p->span : 0, pni_sde_state_bytes(o));
  if (bytes <= (int64_t)w->between_bytes) return PN_OK;
  pni_free(w->c, w->between);
  w->between_bytes = 0;
  w->between = pni_alloc_array(w->c, bytes, 1);
  if (!w->between) return w->c->status;
  w->between_bytes = (size_t)bytes;
  return PN_OK;
}

/* The state before step k becomes the one at hand; `between` holds those since the checkpoint before the last call's
 * k. */
static pn_status recall(const pni_sde *o, W *w, const part *p, int64_t k, const char *kept) {
  size_t bytes = (size_t)pni_sde_state_bytes(o);
  int64_t first = k - k % p->span, last = first + p->span < p->steps ? first + p->span : p->steps;
  if (k == last - 1 && p->span > 1) {
    memcpy(pni_sde_state_of(w), kept + (size_t)(first / p->span) * bytes, bytes);
    for (int64_t j = first; j < k; j++) {
      memcpy(w->between + (size_t)(j - first) * bytes, pni_sde_state_of(w), bytes);
      if (step_on(o, w, p, j, time_of(o, p, j), time_of(o, p, j + 1))) return w->c->status;
    }
    return PN_OK;
  }
  memcpy(pni_sde_state_of(w), p->span > 1 ? w->between + (size_t)(k - first) * bytes : kept + (size_t)k * bytes, bytes);
  return PN_OK;
}

/* The same out of the state after step k, and the motions of the step. */
static pn_status reverse(const pni_sde *o, W *w, const part *p, int64_t k, double t, double end) {
  pni_sde_motions(o, w, p, k, t, end);
  void *to = pni_data(w->in[W_IN]);
  pni_sde_scaled(o, to, lanes_of(o), to, -1);
  if (pni_sde_advance(o, w, end, t - end)) return w->c->status;
  pni_sde_scaled(o, to, lanes_of(o), to, -1);
  take_result(w);
  return PN_OK;
}

/* Gradients of parameters on their way: shared ones, then those of each path. */
static void add_parameters(const pni_sde *o, W *w) {
  double *shared = w->sum, *own = w->sum + o->shared;
  for (int k = 0; k < o->parameters; k++) {
    double **to = o->own[k] ? &own : &shared;
    pni_sde_add_up(o, *to, size_of(w, k), pni_data(w->back[1 + k]));
    *to += size_of(w, k);
  }
}

/* Step k: v of the state after it becomes that of the state before. */
static pn_status pull_back(const pni_sde *o, W *w, const part *p, int64_t k, const char *kept) {
  double t = time_of(o, p, k), end = time_of(o, p, k + 1);
  if (pni_check_cancel(w->c)) return w->c->status;
  if (p->span) {
    if (recall(o, w, p, k, kept)) return w->c->status;
    pni_sde_motions(o, w, p, k, t, end);
  } else if (reverse(o, w, p, k, t, end))
    return w->c->status;
  set_times(o, w, t, end - t);
  if (pni_plan_run_into(w->c, w->pullback, w->in, w->back)) return w->c->status;
  swap(&w->in[w->nin], &w->back[0]);
  add_parameters(o, w);
  return PN_OK;
}

static void add_rows(const pni_sde *o, const part *p, int64_t time, void *to, const char *g) {
  size_t each = (size_t)o->n * pni_sde_item(o);
  pni_sde_add(o, to, p->paths * o->n, g + (size_t)(time * o->set.paths + p->first) * each);
}

/* Where gradients have gone: out gets those of y0 and of parameters that each path has. */
static void give_gradients(const pni_sde *o, W *w, const part *p, const char *g, char *out, double *partial) {
  size_t size = pni_sde_item(o);
  int64_t width = o->set.rows * o->n, at = 0;
  char *v = pni_data(w->in[w->nin]), *y0 = out + (size_t)(p->first * o->n) * size;
  for (int s = 1; s < o->set.states; s++) pni_sde_add(o, v, width, v + (size_t)(s * width) * size);
  add_rows(o, p, 0, v, g);
  memcpy(y0, v, (size_t)(p->paths * o->n) * size);
  memcpy(partial, w->sum, (size_t)o->shared * sizeof *partial);
  const double *own = w->sum + o->shared;
  char *rows = out + (size_t)(o->set.paths * o->n + o->shared) * size;
  for (int k = 0; k < o->parameters; k++) {
    if (!o->own[k]) continue;
    int64_t each = size_of(w, k) / o->set.rows;
    for (int64_t r = 0; r < p->paths; r++)
      pni_sde_put(o, rows + (size_t)((p->first + r) * o->of_path + at) * size, each, own + r * each, 1);
    own += size_of(w, k);
    at += each;
  }
}

static pn_status pull_all(const pni_sde *o, W *w, const part *p, const char *kept, const char *g) {
  w->backwards = true;
  memset(pni_data(w->in[w->nin]), 0, (size_t)pni_sde_state_bytes(o));
  memset(w->sum, 0, (size_t)sums_of(o) * sizeof *w->sum);
  if (!p->span) memcpy(pni_sde_state_of(w), kept, (size_t)pni_sde_state_bytes(o));
  for (int64_t k = p->steps - 1, i = o->num_times - 1; k >= 0; k--) {
    if (k + 1 == p->given[i]) add_rows(o, p, i--, pni_data(w->in[w->nin]), g);
    if (pull_back(o, w, p, k, kept)) return w->c->status;
  }
  return PN_OK;
}

int64_t pni_sde_slots(const pni_sde *o, int64_t steps) {
  int64_t span = pni_sde_span(o, steps);
  return span ? (steps + span - 1) / span : 1;
}

/* States that were not kept are made again first. */
pn_status pni_sde_backward(pni_sde *o, W *w, int64_t chunk, const char *kept, const char *g, char *out,
                           double *partial) {
  part p = pni_sde_part_of(o, chunk);
  int64_t bytes = kept ? 0 : pni_times(pni_sde_slots(o, p.steps), pni_sde_state_bytes(o));
  w->backwards = false;
  pni_sde_begin_chunk(o, w, &p);
  if (pni_sde_open_path(o, w, &p) || reserve(o, w, &p)) return w->c->status;
  char *made = kept ? NULL : pni_alloc_array(w->c, bytes, 1);
  if ((kept || made) && (kept || walk(o, w, &p, made, NULL) == PN_OK) &&
      pull_all(o, w, &p, kept ? kept : made, g) == PN_OK)
    give_gradients(o, w, &p, g, out, partial);
  pni_free(w->c, made);
  return w->c->status;
}

/* ---- each path by itself ---- */

static void move_first_path(const pni_sde *o, W *w) {
  for (int s = 0; s < o->set.states; s++)
    for (int64_t i = 0; i < o->n; i++) {
      char *y = (char *)pni_sde_state_of(w) + (size_t)(s * o->set.rows * o->n + i) * pni_sde_item(o);
      double other = pni_sde_number(o, y, 0) * (1 + 0x1p-8) + 0x1p-10;
      pni_sde_put(o, y, 1, &other, 1);
    }
}

/* A step of the first chunk, and the same with the first path elsewhere: the others' results must be the same bits. */
pn_status pni_sde_probe(pni_sde *o, W *w) {
  part p = pni_sde_part_of(o, 0);
  size_t each = (size_t)o->n * pni_sde_item(o), bytes = (size_t)pni_sde_state_bytes(o);
  if (p.paths < 2 || !o->steps) return PN_OK;
  w->backwards = false;
  pni_sde_begin_chunk(o, w, &p);
  if (pni_sde_open_path(o, w, &p)) return w->c->status;
  double t = o->times[0], end = time_of(o, &p, 1);
  char *result = pni_data(w->result), *first = pni_alloc(w->c, bytes);
  if (!first) return w->c->status;
  pni_sde_first_state(o, w, &p);
  pni_sde_motions(o, w, &p, 0, t, end);
  if (pni_sde_advance(o, w, t, end - t) == PN_OK) {
    memcpy(first, result, bytes);
    move_first_path(o, w);
    pn_status s = pni_sde_advance(o, w, t, end - t);
    if (s != PN_OK && s != PN_CANCELLED && s != PN_NOMEM) pn_context_clear_error(w->c); /* it may not lie there */
    if (s == PN_OK && memcmp(first + each, result + each, bytes / (size_t)o->set.states - each) != 0)
      pni_fail(w->c, PN_STATE,
               "sde: drift or diffusion makes a path depend on others, which lie along the first axis of y0: give "
               "what belongs together further axes, [paths, ...]");
  }
  pni_free(w->c, first);
  w->block = -1;
  return w->c->status;
}
