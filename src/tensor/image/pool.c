/* pool.c: pooling, plane by plane. */
#include "pool.h"

typedef struct {
  pn_context *c;
  const pni_conv *g;
  const pni_pool_kernels *f;
  int64_t size, grain, area, plane; /* area, plane: elements out and in */
  int what;
  char *x, *y;
  int64_t room; /* of each shard, 0: windows are read one by one */
  double *rooms;
} job;

/* Numbers of room for the larger of both directions: rows of one axis done, a block of them, one more, and the same of
 * a row. */
static int64_t room_of(const pni_conv *g) {
  int64_t rows = g->image[0] > g->out[0] ? g->image[0] : g->out[0];
  int64_t width = g->image[1] > g->out[1] ? g->image[1] : g->out[1], gaps[2];
  for (int a = 0; a < 2; a++) {
    int64_t n = (g->out[a] - 1) * g->stride[a] + 1;
    n = n > g->image[a] ? n : g->image[a];
    gaps[a] = g->kernel[a] < n ? g->kernel[a] : n;
  }
  return g->out[0] * g->out[1] + rows * width + (gaps[0] + 2) * width + gaps[1] + 2 + 2 * width;
}

/* Where every element lies in many windows, their number must not count. */
static bool overlaps(const job *j) {
  enum { MANY = 32 };
  return (double)j->area * (double)j->g->kernel[0] * (double)j->g->kernel[1] > MANY * (double)j->plane;
}

/* Steps that a plane of one element takes. */
enum { PLANE = 256 };

static void pool(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  pni_watch w = {.c = j->c};
  int64_t size = j->what == PNI_POOL_MAX_AT ? (int64_t)sizeof(int64_t) : j->size;
  for (int64_t i = begin; i < end && !pni_watch_leaves(&w, j->area + PLANE); i++) {
    const char *x = j->x + i * j->plane * j->size;
    char *y = j->y + i * j->area * size;
    if (j->room)
      j->f->slide(&w, j->g, j->what, x, y, j->rooms + begin / j->grain * j->room);
    else
      j->f->pool(&w, j->g, j->what, x, y);
  }
}

static void unpool(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  pni_watch w = {.c = j->c};
  for (int64_t i = begin; i < end && !pni_watch_leaves(&w, j->plane + PLANE); i++) {
    const char *y = j->y + i * j->area * j->size;
    char *x = j->x + i * j->plane * j->size;
    if (j->room)
      j->f->slide_back(&w, j->g, j->what, y, x, j->rooms + begin / j->grain * j->room);
    else
      j->f->unpool(&w, j->g, j->what, y, x);
  }
}

static pn_status run(pn_context *c, const pni_conv *g, int what, const pn_tensor *x, const pn_tensor *y,
                     pni_shard body) {
  job j = {.c = c, .g = g, .size = (int64_t)pni_itemsize(x), .what = what, .x = pni_data(x), .y = pni_data(y)};
  j.f = x->dtype == PN_FLOAT64 ? &pni_pool_kernels_f64 : &pni_pool_kernels_f32;
  j.area = g->out[0] * g->out[1];
  j.plane = g->image[0] * g->image[1];
  j.grain = (int64_t)(200000 / ((double)j.plane + (double)j.area * (double)g->kernel[0] * (double)g->kernel[1])) + 1;
  if (!overlaps(&j)) return pni_parallel(c, g->n, j.grain, body, &j);
  int64_t most = (g->n + c->num_threads - 1) / c->num_threads; /* a plane's result does not depend on its shard */
  if (j.grain < most) j.grain = most;
  int64_t shards = (g->n + j.grain - 1) / j.grain;
  j.room = room_of(g);
  if (!(j.rooms = pni_alloc_array(c, pni_times(shards, j.room), sizeof *j.rooms))) return c->status;
  pni_parallel(c, g->n, j.grain, body, &j);
  pni_free(c, j.rooms);
  return c->status;
}

pn_status pni_pool(pn_context *c, const pni_conv *g, int what, const pn_tensor *x, pn_tensor *y) {
  return y->numel ? run(c, g, what, x, y, pool) : PN_OK;
}

pn_status pni_unpool(pn_context *c, const pni_conv *g, int what, const pn_tensor *y, pn_tensor *x) {
  return x->numel ? run(c, g, what, x, y, unpool) : PN_OK;
}
