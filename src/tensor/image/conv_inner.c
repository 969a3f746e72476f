/* conv_inner.c: convolution by images whose channels lie innermost. */
#include "../../base/rooms.h"
#include "../../base/span.h"
#include "../product/gemm.h"
#include "conv.h"

/* Patches of one tile take about this many elements, where that is LEAST places or more; weights are summed over at
 * most SHARDS partial sums. A product of PRODUCT multiplications takes some milliseconds. */
enum { TILE = 1 << 15, LEAST = 16, SHARDS = 16, PRODUCT = 1 << 26 };

typedef struct {
  pn_context *c;
  const pni_conv *g;
  const pni_conv_inner_kernels *f;
  const pni_conv_kernels *any; /* products and sums, whatever the layout */
  int64_t size, grain;
  int64_t window, depth; /* places of a kernel; ci of these: numbers of a patch */
  int64_t area, plane;   /* places of one channel out and in */
  int64_t tile, images;  /* places of a tile: those of so many whole images, or some of one */
  int64_t packs;         /* numbers of a group's packed weight, 0: it is not packed */
  int64_t room;          /* elements of a shard's images, patches and results */
  char *x, *w, *y, *sums;
} job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static job job_of(pn_context *c, const pni_conv *g, const pn_tensor *x, const pn_tensor *w, const pn_tensor *y) {
  job j = {.c = c, .g = g, .size = (int64_t)pni_itemsize(x), .x = pni_data(x), .w = pni_data(w), .y = pni_data(y)};
  j.f = x->dtype == PN_FLOAT64 ? &pni_conv_inner_kernels_f64 : &pni_conv_inner_kernels_f32;
  j.any = x->dtype == PN_FLOAT64 ? &pni_conv_kernels_f64 : &pni_conv_kernels_f32;
  j.window = g->kernel[0] * g->kernel[1];
  j.depth = g->ci * j.window;
  j.area = g->out[0] * g->out[1];
  j.plane = g->image[0] * g->image[1];
  j.tile = least((int64_t)(PRODUCT / ((double)j.depth * (double)g->co)), TILE / j.depth);
  if (j.tile < LEAST) j.tile = LEAST;
  return j;
}

/* Tiles of whole images where there is room for them, and for these. */
static void choose_tile(job *j) {
  int64_t most = least(j->grain, TILE / pni_plus(pni_times(j->plane, j->g->ci), 1) + 1);
  j->images = least(j->tile / j->area, most);
  if (j->images < 1) j->images = 1;
  j->tile = least(j->tile, j->images * j->area);
}

/* ---- where item i of group i / n and sample i % n begins ---- */

static char *item_at(const job *j, char *first, int64_t i, int64_t channels, int64_t plane) {
  return first + (i % j->g->n * j->g->groups + i / j->g->n) * channels * plane * j->size;
}
static char *image_at(const job *j, int64_t i) { return item_at(j, j->x, i, j->g->ci, j->plane); }
static char *out_at(const job *j, int64_t i) { return item_at(j, j->y, i, j->g->co, j->area); }
static char *weight_at(const job *j, char *w, int64_t i) { return w + i / j->g->n * j->g->co * j->depth * j->size; }

/* A shard's images, patches, and results, all with channels innermost. */
typedef struct {
  char *x, *col, *y;
} room;

static room room_of(const job *j, void *first) {
  room r = {.x = first};
  r.col = r.x + (j->images * j->plane * j->g->ci + PNI_CONV_SLACK) * j->size;
  r.y = r.col + (j->tile * j->depth + PNI_CONV_SLACK) * j->size;
  return r;
}

/* How many items from i on, before `end`, are of one group and fit into a tile. */
static int64_t block_of(const job *j, int64_t i, int64_t end) {
  return least(least(j->images, end - i), j->g->n - i % j->g->n);
}

static void take_images(const job *j, int64_t i, int64_t n, char *x) {
  for (int64_t k = 0; k < n; k++, x += j->plane * j->g->ci * j->size)
    j->f->turn(j->g->ci, j->plane, image_at(j, i + k), j->plane, x, j->g->ci);
}

/* Results of places first .. last - 1 of the items from i on: taken to y [places, co], or back from there. */
static void move_results(const job *j, int64_t i, int64_t first, int64_t last, char *y, bool back) {
  int64_t co = j->g->co, n;
  for (int64_t at = first; at < last; at += n, y += n * co * j->size) {
    int64_t place = at % j->area;
    char *out = out_at(j, i + at / j->area) + place * j->size;
    n = least(last - at, j->area - place);
    if (back)
      j->f->turn(n, co, y, co, out, j->area);
    else
      j->f->turn(co, n, out, j->area, y, co);
  }
}

/* ---- the three products of shards ---- */

static void forward(void *data, int64_t begin, int64_t end, void *first) {
  const job *j = data;
  int64_t n, co = j->g->co;
  room r = room_of(j, first);
  for (int64_t i = begin; i < end; i += n) {
    n = block_of(j, i, end);
    const char *w = weight_at(j, j->w, i);
    take_images(j, i, n, r.x);
    for (int64_t at = 0; at < n * j->area; at += j->tile) {
      if (pni_leaves(j->c)) return;
      int64_t last = least(at + j->tile, n * j->area), places = last - at;
      j->f->patches(j->g, at, last, r.x, r.col);
      if (j->packs)
        j->f->packed(places, co, j->depth, r.col, j->w + i / j->g->n * j->packs * j->size, r.y);
      else
        j->any->gemm(false, true, places, co, j->depth, r.col, j->depth, w, j->depth, 0, r.y, co);
      move_results(j, i, at, last, r.y, true);
    }
  }
}

static void image(void *data, int64_t begin, int64_t end, void *first) {
  const job *j = data;
  int64_t n, co = j->g->co, ci = j->g->ci;
  room r = room_of(j, first);
  for (int64_t i = begin; i < end; i += n) {
    n = block_of(j, i, end);
    const char *w = weight_at(j, j->w, i);
    if (!pni_clear_in_shard(j->c, r.x, (size_t)(n * j->plane * ci * j->size))) return;
    for (int64_t at = 0; at < n * j->area; at += j->tile) {
      if (pni_leaves(j->c)) return;
      int64_t last = least(at + j->tile, n * j->area), places = last - at;
      move_results(j, i, at, last, r.y, false);
      if (j->packs)
        j->f->packed(places, j->depth, co, r.y, j->w + i / j->g->n * j->packs * j->size, r.col);
      else
        j->any->gemm(false, false, places, j->depth, co, r.y, co, w, j->depth, 0, r.col, j->depth);
      j->f->scatter(j->g, at, last, r.col, r.x);
    }
    for (int64_t k = 0; k < n; k++)
      j->f->turn(j->plane, ci, r.x + k * j->plane * ci * j->size, ci, image_at(j, i + k), j->plane);
  }
}

/* Items are samples; each shard has a sum of its own. */
static void weight(void *data, int64_t begin, int64_t end, void *first) {
  const job *j = data;
  int64_t n, co = j->g->co;
  room r = room_of(j, first);
  char *sums = j->sums + begin / j->grain * j->g->groups * co * j->depth * j->size;
  for (int64_t group = 0; group < j->g->groups; group++)
    for (int64_t s = begin; s < end; s += n) {
      int64_t i = group * j->g->n + s;
      char *sum = weight_at(j, sums, i);
      n = block_of(j, i, group * j->g->n + end);
      take_images(j, i, n, r.x);
      for (int64_t at = 0; at < n * j->area; at += j->tile) {
        if (pni_leaves(j->c)) return;
        int64_t last = least(at + j->tile, n * j->area), places = last - at;
        bool more = s > begin || at > 0;
        j->f->patches(j->g, at, last, r.x, r.col);
        move_results(j, i, at, last, r.y, false);
        j->any->gemm(true, false, co, j->depth, places, r.y, co, r.col, j->depth, more, sum, j->depth);
      }
    }
}

/* Weights [groups co, ci, window] as [groups co, window, ci], or back. */
static void turn_weights(const job *j, const char *from, char *to, bool back) {
  int64_t step = j->depth * j->size, rows = back ? j->window : j->g->ci, columns = back ? j->g->ci : j->window;
  for (int64_t k = 0; k < j->g->groups * j->g->co; k++, from += step, to += step)
    j->f->turn(rows, columns, from, columns, to, rows);
}

/* The weight as the shards take it. NULL with the reason in c. */
static char *prepared_weight(pn_context *c, job *j, bool of_image) {
  int64_t co = j->g->co, groups = j->g->groups, n = of_image ? j->depth : co, k = of_image ? co : j->depth;
  char *w = pni_alloc_array(c, pni_times(pni_times(groups, co), j->depth), (size_t)j->size);
  if (!w) return NULL;
  turn_weights(j, j->w, w, false);
  int64_t packs = pni_gemm_pack_size(n, k);
  char *packed = packs ? pni_alloc_array(c, pni_times(groups, packs), (size_t)j->size) : NULL;
  char *turned = packed && !of_image ? pni_alloc_array(c, pni_times(k, n), (size_t)j->size) : NULL;
  for (int64_t i = 0; i < groups && packed && !pni_failed(c); i++) {
    const char *from = w + i * co * j->depth * j->size;
    if (turned) j->f->turn(co, j->depth, from, j->depth, turned, co);
    pni_gemm_pack(j->size == 4, n, k, turned ? turned : from, packed + i * packs * j->size);
  }
  pni_free(c, turned);
  if (!packed) return w;
  j->packs = packs;
  pni_free(c, w);
  return packed;
}

/* Runs `body` over items with room for each shard. */
static pn_status run(pn_context *c, job *j, int64_t items, pni_room_shard body) {
  const pni_conv *g = j->g;
  double work = (double)(g->co * (body == weight ? g->groups : 1)) * (double)j->depth * (double)j->area;
  j->grain = (int64_t)(400000 / (work + 1)) + 1;
  if (j->grain < (items + SHARDS - 1) / SHARDS) j->grain = (items + SHARDS - 1) / SHARDS;
  choose_tile(j);
  int64_t shards = (items + j->grain - 1) / j->grain, weights = pni_times(pni_times(g->groups, g->co), j->depth);
  char *result = j->w;
  j->room = pni_plus(pni_times(j->images, pni_times(j->plane, g->ci)), pni_times(j->tile, pni_plus(j->depth, g->co)));
  j->room = pni_plus(j->room, 2 * PNI_CONV_SLACK);
  if (body == weight)
    j->sums = pni_alloc_array(c, pni_times(shards, weights), (size_t)j->size);
  else
    j->w = prepared_weight(c, j, body == image);
  if (!pni_failed(c)) pni_parallel_in_rooms(c, items, j->grain, j->room, (size_t)j->size, body, j);
  if (!pni_failed(c) && body == weight) {
    for (int64_t s = 1; s < shards && !pni_check_cancel(c); s++)
      j->any->add(j->sums, j->sums + s * weights * j->size, weights);
    turn_weights(j, j->sums, result, true);
  }
  pni_free(c, body == weight ? j->sums : j->w);
  return c->status;
}

bool pni_conv_turns(const pni_conv *g) {
  enum { CHANNELS = 8, SHORT = 16 };
  bool pointwise =
      g->kernel[0] * g->kernel[1] == 1 && g->stride[0] * g->stride[1] == 1 && !g->padding[0] && !g->padding[1];
  return g->ci >= CHANNELS && !pointwise && (g->stride[1] > 1 || g->out[1] < SHORT);
}

pn_status pni_conv_turned(pn_context *c, const pni_conv *g, int what, const pn_tensor *x, const pn_tensor *w,
                          const pn_tensor *y) {
  static const pni_room_shard body[] = {
      [PNI_CONV_FORWARD] = forward, [PNI_CONV_IMAGE] = image, [PNI_CONV_WEIGHT] = weight};
  job j = job_of(c, g, x, w, y);
  return run(c, &j, what == PNI_CONV_WEIGHT ? g->n : g->n * g->groups, body[what]);
}
