/*
** kalman.c: from batches of filters to groups of lanes. Scratch is taken before the threads start, once per shard;
** the first group of a shard puts what is shared there.
*/
#include <stdatomic.h>
#include "kalman.h"
#include "linalg.h"

enum { SHARDS = 32, CODE_BITS = 32, CODE_NAN = INT32_MAX };

typedef struct {
  pni_kalman s;
  pni_kalman_group group;
  int lanes, nlead;
  int64_t size, count, grain; /* bytes of an element; filters; groups per shard */
  const int64_t *lead;
  const char *data[PNI_KALMAN_INPUTS];
  int64_t step[PNI_KALMAN_INPUTS][PN_MAX_DIMS];
  char *out, *scratch;
  int64_t scratch_bytes;  /* per shard */
  _Atomic int64_t failed; /* filter << CODE_BITS | code of the first failure */
} job;

int64_t pni_kalman_size(int kind, bool details, int64_t n, int64_t p) {
  if (kind == PNI_KALMAN_PREDICT) return n + n * n;
  return n + n * n + 1 + (details ? p + p * p + n * p : 0);
}

static void report(job *j, int64_t i, int code) {
  int64_t mine = i << CODE_BITS | code, seen = atomic_load(&j->failed);
  while (mine < seen && !atomic_compare_exchange_weak(&j->failed, &seen, mine)) {
  }
}

/* Operand k of filter i. */
static const void *data_at(const job *j, int k, int64_t i) {
  const int64_t *step = j->step[k];
  int64_t at = 0;
  if (j->s.in[k].shared) return j->data[k];
  for (int axis = j->nlead - 1; axis > 0; axis--) {
    at += i % j->lead[axis] * step[axis];
    i /= j->lead[axis];
  }
  return j->data[k] + (at + i * step[0]) * j->size;
}

static void run(void *data, int64_t begin, int64_t end) {
  job *j = data;
  char *scratch = j->scratch + begin / j->grain * j->scratch_bytes;
  for (int64_t g = begin; g < end; g++) {
    const void *in[PNI_KALMAN_INPUTS][PNI_SMALL_LANES];
    void *out[PNI_SMALL_LANES];
    int info[PNI_SMALL_LANES] = {0};
    int64_t first = g * j->lanes;
    int count = (int)(j->count - first < j->lanes ? j->count - first : j->lanes);
    for (int l = 0; l < count; l++) {
      for (int k = 0; k < j->s.nin; k++) in[k][l] = data_at(j, k, first + l);
      out[l] = j->out + (first + l) * j->s.size * j->size;
    }
    j->group(&j->s, count, g == begin, (const void *const(*)[PNI_SMALL_LANES])in, out, scratch, info);
    for (int l = 0; l < count; l++)
      if (info[l]) report(j, first + l, info[l] == PNI_SMALL_NOT_FINITE ? CODE_NAN : info[l]);
  }
}

/* Axes of an operand that belong to one filter. */
static int rank_of(int kind, int k) {
  static const char rank[][PNI_KALMAN_INPUTS] = {{1, 2, 2, 1, 2}, {1, 2, 1, 2, 1, 2, 1}};
  return rank[kind][k];
}

static void set_operand(job *j, int k, const pn_tensor *t) {
  int rank = rank_of(j->s.kind, k), last = t->ndim - 1;
  pn_tensor lead = *t;
  lead.ndim -= rank;
  pni_broadcast_strides(&lead, j->nlead, j->step[k]);
  bool shared = true;
  for (int axis = 0; axis < j->nlead; axis++) shared = shared && (j->step[k][axis] == 0 || j->lead[axis] == 1);
  j->s.in[k] = (pni_kalman_operand){.rows = rank == 2 ? (int)t->shape[last - 1] : 1,
                                    .cols = (int)t->shape[last],
                                    .row = rank == 2 ? t->stride[last - 1] : t->shape[last],
                                    .col = t->stride[last],
                                    .shared = shared};
  j->data[k] = pni_data(t);
}

static pn_status complain(pn_context *c, const char *where, const job *j, int64_t failed) {
  char buf[PNI_MATRIX_NAME];
  const char *name = pni_matrix_name(j->nlead, j->lead, failed >> CODE_BITS, buf);
  int code = (int)(failed & INT32_MAX);
  if (code == CODE_NAN)
    return pni_fail(c, PN_NAN, "%s: innovation covariance, %s, must be finite, got inf or nan", where, name);
  return pni_fail(c, PN_SINGULAR,
                  "%s: innovation covariance, %s, must be positive definite, got a leading minor of order %d that is "
                  "not",
                  where, name, code);
}

static pn_status run_job(pn_context *c, job *j) {
  int64_t n = j->s.n, groups = (j->count + j->lanes - 1) / j->lanes, grain = 100000 / (n * n * n * 6 + 50) + 1;
  if (grain < (groups + SHARDS - 1) / SHARDS) grain = (groups + SHARDS - 1) / SHARDS;
  int64_t shards = (groups + grain - 1) / grain;
  j->grain = grain;
  j->scratch_bytes = j->s.work * j->lanes * j->size;
  j->scratch = pni_alloc_array(c, shards, (size_t)j->scratch_bytes);
  if (!j->scratch) return c->status;
  pni_parallel(c, groups, grain, run, j);
  pni_free(c, j->scratch, (size_t)(shards * j->scratch_bytes));
  return c->status;
}

pn_status pni_kalman_step(pn_context *c, const char *where, int level, int kind, bool details, int nin,
                          pn_tensor *const *in, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  int64_t n = in[1]->shape[in[1]->ndim - 1], p = kind == PNI_KALMAN_UPDATE ? in[3]->shape[in[3]->ndim - 2] : 0;
  job j = {.s = {.kind = (pni_kalman_kind)kind, .details = details, .n = (int)n, .p = (int)p, .nin = nin},
           .nlead = out->ndim - 1,
           .size = (int64_t)pni_itemsize(out),
           .count = pni_count(out->ndim - 1, out->shape),
           .lead = out->shape,
           .out = pni_data(out),
           .failed = INT64_MAX};
  j.group = out->dtype == PN_FLOAT64 ? pni_kalman_f64(level, &j.lanes) : pni_kalman_f32(level, &j.lanes);
  j.s.size = out->shape[out->ndim - 1];
  j.s.work = j.s.size + 3 * n * n + 4 * n * p + 4 * p * p + 4 * p;
  for (int k = 0; k < nin; k++) {
    set_operand(&j, k, in[k]);
    j.s.work += j.s.in[k].rows * j.s.in[k].cols;
  }
  if (run_job(c, &j)) return c->status;
  int64_t failed = atomic_load(&j.failed);
  return failed == INT64_MAX ? PN_OK : complain(c, where, &j, failed);
}
