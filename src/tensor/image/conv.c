#include <string.h>
#include "../../base/rooms.h"
#include "../../base/span.h"
#include "conv.h"

/* Patches of one tile take about this many elements, and not more than twice as many; weights are summed over at most
 * SHARDS partial sums. A product of PRODUCT multiplications takes some milliseconds. */
enum { TILE = 1 << 17, SHARDS = 16, PRODUCT = 1 << 26 };

typedef struct {
  pn_context *c;
  const pni_conv *g;
  const pni_conv_kernels *f;
  int64_t size, grain;
  int64_t depth;         /* ci kernel[0] kernel[1]: rows of a patch matrix */
  pni_conv_tile largest; /* rows, columns, and rows of a patch matrix (`last`) of a tile */
  int64_t room;          /* elements of a tile's patches */
  int64_t area, plane;   /* elements of one channel out and in */
  bool pointwise;        /* patches are the image itself */
  int64_t planes;        /* elements of an image that is split by columns; 0: it is not */
  char *x, *w, *y, *partial;
} job;

static const pni_conv_kernels *kernels_of(const pn_tensor *t) {
  return t->dtype == PN_FLOAT64 ? &pni_conv_kernels_f64 : &pni_conv_kernels_f32;
}

/* Several rows of the result where a tile has room for their patches; else of one row some columns, and of their
 * patches as many places of the kernel as there is room for. */
static pni_conv_tile largest_tile(const pni_conv *g, int64_t depth) {
  int64_t row = depth * g->out[1], rows = TILE / (row + 1) + 1;
  pni_conv_tile t = {.rows = rows < g->out[0] ? rows : g->out[0], .columns = g->out[1], .last = depth};
  if (row <= TILE) return t;
  int64_t columns = TILE / depth > 512 ? TILE / depth : 512, places;
  if (columns < t.columns) t.columns = columns;
  places = TILE / t.columns;
  if (places < t.last) t.last = places;
  return t;
}

static job job_of(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *w, const pn_tensor *y) {
  job j = {.c = c, .g = g, .f = kernels_of(x), .size = (int64_t)pni_itemsize(x)};
  j.x = pni_data(x);
  j.w = pni_data(w);
  j.y = pni_data(y);
  j.depth = g->ci * g->kernel[0] * g->kernel[1];
  j.area = g->out[0] * g->out[1];
  j.plane = g->image[0] * g->image[1];
  j.pointwise = true;
  for (int a = 0; a < 2; a++) j.pointwise = j.pointwise && g->kernel[a] == 1 && g->stride[a] == 1 && g->padding[a] == 0;
  j.largest = largest_tile(g, j.depth);
  j.room = j.largest.rows * j.largest.columns * j.largest.last;
  return j;
}

/* The tile after t, the first after {0}; places of the kernel go first, then columns, then rows. False: there is none,
 * or the work is to be left. */
static bool next_tile(const job *j, pni_conv_tile *t) {
  const pni_conv_tile *most = &j->largest;
  if (pni_leaves(j->c)) return false;
  bool begins = t->rows == 0;
  t->first = t->last;
  if (begins || t->first == j->depth) {
    t->first = 0;
    t->column += t->columns;
    if (begins || t->column == j->g->out[1]) {
      t->column = 0;
      t->row += t->rows;
      if (t->row == j->g->out[0]) return false;
      t->rows = j->g->out[0] - t->row;
      if (most->rows < t->rows) t->rows = most->rows;
    }
    t->columns = j->g->out[1] - t->column;
    if (most->columns < t->columns) t->columns = most->columns;
  }
  t->last = t->first + most->last < j->depth ? t->first + most->last : j->depth;
  return true;
}

/* Where item i (sample i / groups, group i % groups) starts. */
static char *image_at(const job *j, int64_t i) { return j->x + i * j->g->ci * j->plane * j->size; }
static char *out_at(const job *j, int64_t i) { return j->y + i * j->g->co * j->area * j->size; }
static char *weight_at(const job *j, char *w, int64_t i) {
  return w + i % j->g->groups * j->g->co * j->depth * j->size;
}

/* Where a tile begins in a channel of the result (of the image, where patches are the image). */
static int64_t place_of(const job *j, const pni_conv_tile *t) { return t->row * j->g->out[1] + t->column; }

/* The patch matrix of a tile of item i and its row length. */
static const char *patch_matrix(const job *j, int64_t i, char *col, const pni_conv_tile *t, int64_t *ld) {
  *ld = j->pointwise ? j->plane : t->rows * t->columns;
  if (j->pointwise) return image_at(j, i) + (t->first * j->plane + place_of(j, t)) * j->size;
  if (!j->planes) {
    j->f->patches(j->g, t, image_at(j, i), col);
    return col;
  }
  char *planes = col + (j->room + PNI_CONV_SLACK) * j->size;
  j->f->split(j->g, image_at(j, i), planes);
  j->f->gather(j->g, planes, col);
  return col;
}

/* A product of matrices: c [m, n] = op(a) op(b) + beta c, op(a) [m, k]. */
typedef struct {
  bool ta, tb;
  int64_t m, n, k;
  const char *a, *b;
  char *c;
  int64_t lda, ldb, ldc;
  int beta;
} product;

/* In parts of some milliseconds: rows of c, or what is summed over, which only of many channels (ta) is long. */
static void multiply(const job *j, const product *p) {
  double part = PRODUCT / ((double)p->n * (double)p->k) + 1;
  int64_t rows = part < (double)p->m ? (int64_t)part : p->m, sums = p->k;
  if (rows < 16 && rows < p->m) {
    rows = p->m;
    part = PRODUCT / ((double)p->n * (double)p->m) + 1;
    sums = part < (double)p->k ? (int64_t)part : p->k;
  }
  for (int64_t r = 0; r < p->m; r += rows)
    for (int64_t s = 0; s < p->k; s += sums) {
      if (r + s > 0 && pni_leaves(j->c)) return;
      int64_t m = r + rows < p->m ? rows : p->m - r, k = s + sums < p->k ? sums : p->k - s;
      const char *a = p->a + (p->ta ? s * p->lda + r : r * p->lda) * j->size, *b = p->b + s * p->ldb * j->size;
      j->f->gemm(p->ta, p->tb, m, p->n, k, a, p->lda, b, p->ldb, s ? 1 : p->beta, p->c + r * p->ldc * j->size, p->ldc);
    }
}

static void forward(void *data, int64_t begin, int64_t end, void *col) {
  const job *j = data;
  const pni_conv *g = j->g;
  for (int64_t i = begin; i < end; i++)
    for (pni_conv_tile t = {0}; next_tile(j, &t);) {
      product p = {.m = g->co, .n = t.rows * t.columns, .k = t.last - t.first, .lda = j->depth, .ldc = j->area};
      p.a = weight_at(j, j->w, i) + t.first * j->size;
      p.b = patch_matrix(j, i, col, &t, &p.ldb);
      p.c = out_at(j, i) + place_of(j, &t) * j->size;
      p.beta = t.first > 0;
      multiply(j, &p);
    }
}

static void image(void *data, int64_t begin, int64_t end, void *col) {
  const job *j = data;
  const pni_conv *g = j->g;
  for (int64_t i = begin; i < end; i++) {
    char *x = image_at(j, i);
    if (!j->pointwise && !pni_clear_in_shard(j->c, x, (size_t)(g->ci * j->plane * j->size))) return;
    for (pni_conv_tile t = {0}; next_tile(j, &t);) {
      product p = {.ta = true, .m = t.last - t.first, .n = t.rows * t.columns, .k = g->co, .lda = j->depth};
      p.a = weight_at(j, j->w, i) + t.first * j->size;
      p.b = out_at(j, i) + place_of(j, &t) * j->size;
      p.ldb = j->area;
      p.c = j->pointwise ? x + (t.first * j->plane + place_of(j, &t)) * j->size : col;
      p.ldc = j->pointwise ? j->plane : p.n;
      multiply(j, &p);
      if (!j->pointwise) j->f->scatter(g, &t, p.c, x);
    }
  }
}

/* Items are samples; each shard has a sum of its own. */
static void weight(void *data, int64_t begin, int64_t end, void *col) {
  const job *j = data;
  const pni_conv *g = j->g;
  char *sum = j->partial + begin / j->grain * g->groups * g->co * j->depth * j->size;
  for (int64_t i = begin * g->groups; i < end * g->groups; i++)
    for (pni_conv_tile t = {0}; next_tile(j, &t);) {
      product p = {.tb = true, .m = g->co, .n = t.last - t.first, .k = t.rows * t.columns, .lda = j->area};
      p.a = out_at(j, i) + place_of(j, &t) * j->size;
      p.b = patch_matrix(j, i, col, &t, &p.ldb);
      p.c = weight_at(j, sum, i) + t.first * j->size;
      p.ldc = j->depth;
      p.beta = i >= (begin + 1) * g->groups || t.row > 0 || t.column > 0;
      multiply(j, &p);
    }
}

/* Rows of patches that are short or have gaps are runs once the image is split by columns, where the whole result is
 * one tile. */
static int64_t planes_of(const job *j) {
  enum { SHORT = 16 };
  const pni_conv *g = j->g;
  bool whole = j->room == j->depth * j->area;
  if (j->pointwise || !whole || (g->stride[1] == 1 && g->out[1] >= SHORT)) return 0;
  int64_t rows = pni_times(g->ci, g->image[0] + 2 * g->padding[0]);
  int64_t planes = pni_times(rows, pni_times(g->stride[1], pni_conv_split_width(g)));
  return planes <= TILE ? planes : 0;
}

/* Runs `body` over items with a patch buffer for each shard. */
static pn_status run(pn_context *c, job *j, int64_t items, pni_room_shard body) {
  double work = (double)(j->g->co * (body == weight ? j->g->groups : 1)) * (double)j->depth * (double)j->area;
  j->grain = (int64_t)(400000 / (work + 1)) + 1;
  if (j->grain < (items + SHARDS - 1) / SHARDS) j->grain = (items + SHARDS - 1) / SHARDS;
  int64_t shards = (items + j->grain - 1) / j->grain, room = j->pointwise ? 1 : j->room;
  j->planes = body == image ? 0 : planes_of(j);
  if (j->planes) room = pni_plus(room, j->planes + 2 * PNI_CONV_SLACK);
  int64_t weights = pni_times(pni_times(j->g->groups, j->g->co), j->depth);
  bool partial = body == weight && shards > 1;
  j->partial = partial ? pni_alloc_array(c, pni_times(shards, weights), (size_t)j->size) : j->w;
  if (j->partial) pni_parallel_in_rooms(c, items, j->grain, room, (size_t)j->size, body, j);
  if (partial && !pni_failed(c)) {
    memcpy(j->w, j->partial, (size_t)(weights * j->size));
    for (int64_t s = 1; s < shards && !pni_check_cancel(c); s++)
      j->f->add(j->w, j->partial + s * weights * j->size, weights);
  }
  if (partial) pni_free(c, j->partial);
  return c->status;
}

/* Nothing to add up: the result is zero. */
static bool nothing(pn_context *c, const pni_conv *g, const pn_tensor *out) {
  bool none = g->n == 0 || g->ci == 0 || g->co == 0 || g->out[0] == 0 || g->out[1] == 0;
  if (none) pni_clear(c, pni_data(out), (size_t)out->numel * pni_itemsize(out));
  return none || out->numel == 0;
}

pn_status pni_conv_forward(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *w, pn_tensor *y) {
  if (nothing(c, g, y)) return c->status;
  if (pni_conv_turns(g)) return pni_conv_turned(c, g, PNI_CONV_FORWARD, x, w, y);
  job j = job_of(c, g, x, w, y);
  return run(c, &j, g->n * g->groups, forward);
}

pn_status pni_conv_image(pn_context *c, const pni_conv *g, const pn_tensor *y, const pn_tensor *w, pn_tensor *x) {
  if (nothing(c, g, x)) return c->status;
  if (pni_conv_turns(g)) return pni_conv_turned(c, g, PNI_CONV_IMAGE, x, w, y);
  job j = job_of(c, g, x, w, y);
  return run(c, &j, g->n * g->groups, image);
}

pn_status pni_conv_weight(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *y, pn_tensor *w) {
  if (nothing(c, g, w)) return c->status;
  if (pni_conv_turns(g)) return pni_conv_turned(c, g, PNI_CONV_WEIGHT, x, w, y);
  job j = job_of(c, g, x, w, y);
  return run(c, &j, g->n, weight);
}
