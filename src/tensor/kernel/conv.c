#include <string.h>
#include "conv.h"

/* Patches of one tile take about this many elements; weights are summed over at most SHARDS partial sums. */
enum { TILE = 1 << 17, SHARDS = 16 };

typedef struct {
  const pni_conv *g;
  const pni_conv_kernels *f;
  int64_t size, grain, tile; /* output rows per tile */
  int64_t depth;             /* ci kernel[0] kernel[1]: rows of a patch matrix */
  int64_t area, plane;       /* elements of one channel out and in */
  bool pointwise;            /* patches are the image itself */
  int32_t *place;            /* of each element of a channel's patches in the channel, -1 beyond it; may be NULL */
  int64_t places;
  int what;
  char *x, *w, *y, *col, *partial;
} job;

static const pni_conv_kernels *kernels_of(const pn_tensor *t) {
  return t->dtype == PN_FLOAT64 ? &pni_conv_kernels_f64 : &pni_conv_kernels_f32;
}

static job job_of(const pni_conv *g, const pn_tensor *x, const pn_tensor *w, const pn_tensor *y) {
  job j = {.g = g, .f = kernels_of(x), .size = (int64_t)pni_itemsize(x)};
  j.x = pni_data(x);
  j.w = pni_data(w);
  j.y = pni_data(y);
  j.depth = g->ci * g->kernel[0] * g->kernel[1];
  j.area = g->out[0] * g->out[1];
  j.plane = g->image[0] * g->image[1];
  j.pointwise = true;
  for (int a = 0; a < 2; a++) j.pointwise = j.pointwise && g->kernel[a] == 1 && g->stride[a] == 1 && g->padding[a] == 0;
  j.tile = TILE / (j.depth * g->out[1] + 1) + 1;
  if (j.tile > g->out[0]) j.tile = g->out[0];
  return j;
}

/* Where item i (sample i / groups, group i % groups) starts. */
static char *image_at(const job *j, int64_t i) { return j->x + i * j->g->ci * j->plane * j->size; }
static char *out_at(const job *j, int64_t i) { return j->y + i * j->g->co * j->area * j->size; }
static char *weight_at(const job *j, char *w, int64_t i) {
  return w + i % j->g->groups * j->g->co * j->depth * j->size;
}
static char *columns_at(const job *j, int64_t begin) {
  return j->col + begin / j->grain * j->depth * j->tile * j->g->out[1] * j->size;
}

/* The patch matrix of some output rows of item i and its row length. */
static const char *patch_matrix(const job *j, int64_t i, char *col, int64_t first, int64_t rows, int64_t *ld) {
  *ld = j->pointwise ? j->plane : rows * j->g->out[1];
  if (j->pointwise) return image_at(j, i) + first * j->g->out[1] * j->size;
  if (j->place)
    j->f->gather(j->place, j->places, j->g->ci, j->plane, image_at(j, i), col);
  else
    j->f->patches(j->g, image_at(j, i), col, first, rows);
  return col;
}

static void forward(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  const pni_conv *g = j->g;
  for (int64_t i = begin; i < end; i++)
    for (int64_t first = 0, rows, ld; first < g->out[0]; first += j->tile) {
      rows = first + j->tile < g->out[0] ? j->tile : g->out[0] - first;
      const char *col = patch_matrix(j, i, columns_at(j, begin), first, rows, &ld);
      char *y = out_at(j, i) + first * g->out[1] * j->size;
      j->f->gemm(false, false, g->co, rows * g->out[1], j->depth, weight_at(j, j->w, i), j->depth, col, ld, 0, y,
                 j->area);
    }
}

static void image(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  const pni_conv *g = j->g;
  for (int64_t i = begin; i < end; i++) {
    char *x = image_at(j, i), *w = weight_at(j, j->w, i);
    if (!j->pointwise) memset(x, 0, (size_t)(g->ci * j->plane * j->size));
    for (int64_t first = 0; first < g->out[0]; first += j->tile) {
      int64_t rows = first + j->tile < g->out[0] ? j->tile : g->out[0] - first, n = rows * g->out[1];
      char *col = j->pointwise ? x + first * g->out[1] * j->size : columns_at(j, begin);
      const char *y = out_at(j, i) + first * g->out[1] * j->size;
      j->f->gemm(true, false, j->depth, n, g->co, w, j->depth, y, j->area, 0, col, j->pointwise ? j->plane : n);
      if (j->place)
        j->f->put_back(j->place, j->places, g->ci, j->plane, col, x);
      else if (!j->pointwise)
        j->f->scatter(g, col, x, first, rows);
    }
  }
}

/* Items are samples; each shard has a sum of its own. */
static void weight(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  const pni_conv *g = j->g;
  char *sum = j->partial + begin / j->grain * g->groups * g->co * j->depth * j->size;
  for (int64_t i = begin * g->groups; i < end * g->groups; i++)
    for (int64_t first = 0, rows, ld; first < g->out[0]; first += j->tile) {
      rows = first + j->tile < g->out[0] ? j->tile : g->out[0] - first;
      const char *col = patch_matrix(j, i, columns_at(j, begin), first, rows, &ld);
      const char *y = out_at(j, i) + first * g->out[1] * j->size;
      bool more = i >= (begin + 1) * g->groups || first > 0;
      j->f->gemm(false, true, g->co, j->depth, rows * g->out[1], y, j->area, col, ld, more, weight_at(j, sum, i),
                 j->depth);
    }
}

/* Rows of patches that are short or have gaps are read by a table of places, where one serves all channels of all
 * images: the whole result is one tile. */
static bool by_table(const job *j) {
  enum { SHORT = 16 };
  return !j->pointwise && j->plane > 0 && j->tile == j->g->out[0] && (j->g->stride[1] > 1 || j->g->out[1] < SHORT);
}

static void fill_places(const pni_conv *g, int32_t *at) {
  for (int64_t i = 0; i < g->kernel[0]; i++)
    for (int64_t k = 0; k < g->kernel[1]; k++)
      for (int64_t p = 0; p < g->out[0]; p++)
        for (int64_t q = 0; q < g->out[1]; q++) {
          int64_t row = p * g->stride[0] + i * g->dilation[0] - g->padding[0];
          int64_t column = q * g->stride[1] + k * g->dilation[1] - g->padding[1];
          bool in = row >= 0 && row < g->image[0] && column >= 0 && column < g->image[1];
          *at++ = in ? (int32_t)(row * g->image[1] + column) : -1;
        }
}

static bool make_places(pn_context *c, job *j) {
  if (!by_table(j)) return true;
  j->places = j->g->kernel[0] * j->g->kernel[1] * j->area;
  j->place = pni_alloc_array(c, j->places, sizeof *j->place);
  if (j->place) fill_places(j->g, j->place);
  return j->place != NULL;
}

/* Runs `body` over items with a patch buffer for each shard. */
static pn_status run(pn_context *c, job *j, int64_t items, pni_shard body) {
  int64_t work = j->g->co * j->depth * j->area * (body == weight ? j->g->groups : 1) + 1;
  j->grain = 400000 / work + 1;
  if (j->grain < (items + SHARDS - 1) / SHARDS) j->grain = (items + SHARDS - 1) / SHARDS;
  int64_t shards = (items + j->grain - 1) / j->grain, col = j->pointwise ? 1 : j->depth * j->tile * j->g->out[1];
  int64_t weights = j->g->groups * j->g->co * j->depth;
  bool partial = body == weight && shards > 1;
  j->col = make_places(c, j) ? pni_alloc_array(c, shards * col, (size_t)j->size) : NULL;
  j->partial = partial && j->col ? pni_alloc_array(c, shards * weights, (size_t)j->size) : j->w;
  if (j->col && j->partial && pni_parallel(c, items, j->grain, body, j) == PN_OK && partial) {
    memcpy(j->w, j->partial, (size_t)(weights * j->size));
    for (int64_t s = 1; s < shards; s++) j->f->add(j->w, j->partial + s * weights * j->size, weights);
  }
  if (partial && j->col && j->partial) pni_free(c, j->partial, (size_t)(shards * weights * j->size));
  if (j->col) pni_free(c, j->col, (size_t)(shards * col * j->size));
  if (j->place) pni_free(c, j->place, (size_t)j->places * sizeof *j->place);
  return c->status;
}

/* Nothing to add up: the result is zero. */
static bool nothing(const pni_conv *g, const pn_tensor *out) {
  bool none = g->n == 0 || g->ci == 0 || g->co == 0 || g->out[0] == 0 || g->out[1] == 0;
  if (none && out->numel) memset(pni_data(out), 0, (size_t)out->numel * pni_itemsize(out));
  return none || out->numel == 0;
}

pn_status pni_conv_forward(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *w, pn_tensor *y) {
  if (nothing(g, y)) return PN_OK;
  job j = job_of(g, x, w, y);
  return run(c, &j, g->n * g->groups, forward);
}

pn_status pni_conv_image(pn_context *c, const pni_conv *g, const pn_tensor *y, const pn_tensor *w, pn_tensor *x) {
  if (nothing(g, x)) return PN_OK;
  job j = job_of(g, x, w, y);
  return run(c, &j, g->n * g->groups, image);
}

pn_status pni_conv_weight(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *y, pn_tensor *w) {
  if (nothing(g, w)) return PN_OK;
  job j = job_of(g, x, w, y);
  return run(c, &j, g->n, weight);
}

/* ---- pooling: items are planes ---- */

static void pool(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  int64_t size = j->what == PNI_POOL_MAX_AT ? (int64_t)sizeof(int64_t) : j->size;
  for (int64_t i = begin; i < end; i++)
    j->f->pool(j->g, j->what, j->x + i * j->plane * j->size, j->y + i * j->area * size);
}

static void unpool(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  for (int64_t i = begin; i < end; i++)
    j->f->unpool(j->g, j->what, j->y + i * j->area * j->size, j->x + i * j->plane * j->size);
}

static pn_status run_planes(pn_context *c, const pni_conv *g, int what, const pn_tensor *x, const pn_tensor *y,
                            pni_shard body) {
  job j = {.g = g, .f = kernels_of(x), .size = (int64_t)pni_itemsize(x), .what = what};
  j.x = pni_data(x);
  j.y = pni_data(y);
  j.area = g->out[0] * g->out[1];
  j.plane = g->image[0] * g->image[1];
  return pni_parallel(c, g->n, 200000 / (j.plane + j.area * g->kernel[0] * g->kernel[1] + 1) + 1, body, &j);
}

pn_status pni_pool(pn_context *c, const pni_conv *g, int what, const pn_tensor *x, pn_tensor *y) {
  return y->numel ? run_planes(c, g, what, x, y, pool) : PN_OK;
}

pn_status pni_unpool(pn_context *c, const pni_conv *g, int what, const pn_tensor *y, pn_tensor *x) {
  return x->numel ? run_planes(c, g, what, x, y, unpool) : PN_OK;
}
