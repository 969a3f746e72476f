/* distance.c: distances of all rows, sharded over threads when they are many, and sums of gradients over the shards. */
#include "distance.h"
#include <string.h>
#include "lane_matrix.h"

typedef struct {
  const pni_distance *d;
  void (*run)(int level, const pni_distance *d, int64_t begin, int64_t end);
} job;

static void shard(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  j->run(PNI_LANE_BEST, j->d, begin, end);
}

static double number(int dtype, const void *p, int64_t i) {
  return dtype == PN_FLOAT64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static pn_status run(pn_context *c, int dtype, const pni_distance *d, int64_t rows) {
  job j = {d, dtype == PN_FLOAT64 ? pni_distance_f64 : pni_distance_f32};
  for (int i = 0; i < d->n; i++)
    if (number(dtype, d->l, i * (d->n + 1)) == 0)
      return pni_fail(c, PN_SINGULAR, "distance: matrix must be invertible, got 0 at place %d of its diagonal", i + 1);
  return pni_parallel(c, rows, PNI_DISTANCE_SHARD, shard, &j);
}

pn_status pni_distance_run(pn_context *c, int dtype, const pni_distance *d, int64_t rows) {
  return run(c, dtype, d, rows);
}

/* out[i] = scale * sum over the shards of element first + i */
static void add_shards(int dtype, const pni_distance *d, int64_t shards, int64_t first, int64_t count, double scale,
                       void *out) {
  int64_t size = d->n * d->n + d->n;
  if (shards == 1 && dtype == PN_FLOAT64) {
    const double *sum = (const double *)d->sums + first;
    for (int64_t i = 0; i < count; i++) ((double *)out)[i] = scale * (0 + sum[i]);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    double s = 0;
    for (int64_t k = 0; k < shards; k++) s += number(dtype, d->sums, k * size + first + i);
    if (dtype == PN_FLOAT64)
      ((double *)out)[i] = scale * s;
    else
      ((float *)out)[i] = (float)(scale * s);
  }
}

pn_status pni_distance_adjoint(pn_context *c, int dtype, pni_distance *d, int64_t rows) {
  bool sums = d->gl || (d->gx && d->x_one) || (d->gm && d->m_one);
  int64_t size = pni_plus(pni_times(d->n, d->n), d->n), shards = (rows + PNI_DISTANCE_SHARD - 1) / PNI_DISTANCE_SHARD;
  size_t item = pn_dtype_size((pn_dtype)dtype);
  if (sums && !(d->sums = pni_alloc_array(c, pni_times(shards, size), item))) return c->status;
  if (run(c, dtype, d, rows) == PN_OK) {
    if (d->gl) add_shards(dtype, d, shards, 0, d->n * d->n, -1, d->gl);
    if (d->gx && d->x_one) add_shards(dtype, d, shards, d->n * d->n, d->n, 1, d->gx);
    if (d->gm && d->m_one) add_shards(dtype, d, shards, d->n * d->n, d->n, -1, d->gm);
  }
  if (sums) pni_free(c, d->sums);
  d->sums = NULL;
  return c->status;
}
