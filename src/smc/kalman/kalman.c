/*
** kalman.c: from batches of filters to groups of lanes. Scratch is taken before the threads start, once per shard;
** the first group of a shard puts what is shared there.
*/
#include <stdatomic.h>
#include "kalman.h"
#include "../../tensor/lapack/linalg.h"

enum { SHARDS = 32, SHARDS_BYTES = 1 << 28, CODE_BITS = 32, CODE_NAN = INT32_MAX };

typedef struct {
  pn_context *c;
  pni_kalman s;
  pni_kalman_group group;
  int lanes, nlead;
  int64_t size, count, grain; /* bytes of an element; filters; groups per shard, whole rounds */
  const int64_t *lead;
  const char *data[PNI_KALMAN_INPUTS];
  int64_t step[PNI_KALMAN_INPUTS][PN_MAX_DIMS];
  bool even[PNI_KALMAN_INPUTS];     /* filters lie step[k][nlead - 1] apart, whatever their axes */
  char *out, *scratch, *sums;       /* sums: of shared operands' gradients, by shard */
  int64_t piece[PNI_KALMAN_INPUTS]; /* where piece k begins, in out or (shared) in a shard's sums; elements */
  int64_t nsums;
  int64_t scratch_bytes;  /* per shard */
  _Atomic int64_t failed; /* filter << CODE_BITS | code of the first failure */
} job;

int64_t pni_kalman_size(int kind, bool details, int64_t n, int64_t p) {
  if (kind == PNI_KALMAN_PREDICT || kind == PNI_KALMAN_ROOT_PREDICT) return n + n * n;
  return n + n * n + 1 + (details ? p + p * p + n * p : 0);
}

static void report(job *j, int64_t i, int code) {
  int64_t mine = i << CODE_BITS | code, seen = atomic_load(&j->failed);
  while (mine < seen && !atomic_compare_exchange_weak(&j->failed, &seen, mine)) {
  }
}

pni_kalman_group pni_kalman_choose(int64_t size, int level, int n, int p, int *lanes) {
  *lanes = 1;
  if (n > PNI_KALMAN_LANES || p > PNI_KALMAN_LANES) return size == 8 ? pni_kalman_alone_f64 : pni_kalman_alone_f32;
  return size == 8 ? pni_kalman_f64(level, lanes) : pni_kalman_f32(level, lanes);
}

int64_t pni_kalman_shards(int64_t bytes) {
  int64_t most = SHARDS_BYTES / bytes;
  return most < 1 ? 1 : most < SHARDS ? most : SHARDS;
}

/* Operand k of a group's filters where these lie unevenly: from the first one's place on, axis by axis. */
static void walk(const job *j, pni_kalman_lanes *g, int k, int64_t first) {
  const int64_t *step = j->step[k], *lead = j->lead;
  int64_t place[PN_MAX_DIMS], at = 0;
  for (int axis = j->nlead - 1; axis >= 0; first /= lead[axis--]) {
    place[axis] = first % lead[axis];
    at += place[axis] * step[axis];
  }
  for (int l = 0; l < g->count; l++) {
    g->in[k][l] = j->data[k] + at * j->size;
    for (int axis = j->nlead - 1; axis >= 0; axis--) {
      at += step[axis];
      if (++place[axis] < lead[axis]) break;
      at -= lead[axis] * step[axis];
      place[axis] = 0;
    }
  }
}

/* Operand k of a group's filters, or the one that all share. */
static void set_in(const job *j, pni_kalman_lanes *g, int k, int64_t first) {
  if (j->s.in[k].shared)
    g->in[k][0] = j->data[k];
  else if (!j->even[k])
    walk(j, g, k, first);
  else {
    int64_t step = j->nlead ? j->step[k][j->nlead - 1] * j->size : 0;
    const char *at = j->data[k] + first * step;
    for (int l = 0; l < g->count; l++, at += step) g->in[k][l] = at;
  }
}

static bool is_root(const job *j) {
  return j->s.kind == PNI_KALMAN_ROOT_PREDICT || j->s.kind == PNI_KALMAN_ROOT_UPDATE;
}
static bool is_adjoint(const job *j) { return j->s.kind >= PNI_KALMAN_PREDICT_ADJOINT; }
static int64_t operand_size(const job *j, int k) { return (int64_t)j->s.in[k].rows * j->s.in[k].cols; }

/* Where lane l's pieces of the result go. */
static void set_out(const job *j, pni_kalman_lanes *g, int l, int64_t i, int64_t shard) {
  if (!is_adjoint(j)) {
    g->out[0][l] = j->out + i * j->s.size * j->size;
    return;
  }
  for (int k = 1; k < j->s.nin; k++)
    g->out[k][l] = j->s.in[k].shared ? j->sums + (shard * j->nsums + j->piece[k]) * j->size
                                     : j->out + (j->piece[k] + i * operand_size(j, k)) * j->size;
}

static void run(void *data, int64_t begin, int64_t end) {
  job *j = data;
  int64_t shard = begin / j->grain;
  pni_watch watch = {.c = j->c};
  pni_kalman_lanes group = {.scratch = j->scratch + shard * j->scratch_bytes, .watch = &watch};
  for (int64_t g = begin; g < end && !pni_leaves(j->c); g++) {
    int64_t first = g * j->lanes;
    group.count = (int)(j->count - first < j->lanes ? j->count - first : j->lanes);
    group.number = g - begin;
    group.first = g == begin;
    group.last = g + 1 == end;
    for (int k = 0; k < j->s.nin; k++) set_in(j, &group, k, first);
    for (int l = 0; l < group.count; l++) set_out(j, &group, l, first + l, shard);
    j->group(&j->s, &group);
    if (watch.left) return;
    for (int l = 0; l < group.count; l++)
      if (group.info[l]) report(j, first + l, group.info[l] == PNI_LANE_NOT_FINITE ? CODE_NAN : group.info[l]);
  }
}

/* Axes of an operand that belong to one filter. */
static int rank_of(int kind, int k) {
  static const char rank[][PNI_KALMAN_INPUTS] = {[PNI_KALMAN_PREDICT] = {1, 2, 2, 1, 2},
                                                 [PNI_KALMAN_UPDATE] = {1, 2, 1, 2, 1, 2, 1},
                                                 [PNI_KALMAN_STEP] = {1, 2, 2, 1, 2, 1, 2, 1, 2, 1},
                                                 [PNI_KALMAN_ROOT_PREDICT] = {1, 2, 2, 1, 2},
                                                 [PNI_KALMAN_ROOT_UPDATE] = {1, 2, 1, 2, 1, 2, 1},
                                                 [PNI_KALMAN_PREDICT_ADJOINT] = {1, 1, 2, 2},
                                                 [PNI_KALMAN_UPDATE_ADJOINT] = {1, 1, 2, 1, 2, 1, 2, 1},
                                                 [PNI_KALMAN_STEP_ADJOINT] = {1, 1, 2, 2, 1, 2, 1, 2, 1, 2, 1}};
  return rank[kind][k];
}

/* The operands a and c of a step, 0: it has none; whether what was observed is its last operand. */
static int transition_of(int kind) { return (int[]){2, 0, 2, 2, 0, 3, 0, 3}[kind]; }
static int emission_of(int kind) { return (int[]){0, 3, 6, 0, 3, 0, 4, 7}[kind]; }
static bool is_masked(int kind, int nin) { return nin == (int[]){6, 7, 10, 6, 7, 5, 8, 11}[kind]; }
static int order_of(const pn_tensor *x, int back) { return (int)x->shape[x->ndim - back]; }

bool pni_kalman_shared(const pn_tensor *x, int rank) {
  for (int axis = 0; axis < x->ndim - rank; axis++)
    if (x->shape[axis] != 1) return false;
  return true;
}

static void set_operand(job *j, int k, const pn_tensor *t) {
  int rank = rank_of((int)j->s.kind, k), last = t->ndim - 1;
  pn_tensor lead = *t;
  lead.ndim -= rank;
  pni_broadcast_strides(&lead, j->nlead, j->step[k]);
  j->even[k] = true;
  for (int axis = 0; axis + 1 < j->nlead; axis++)
    j->even[k] &= j->step[k][axis] == j->step[k][axis + 1] * j->lead[axis + 1];
  j->s.in[k] = (pni_kalman_operand){.rows = rank == 2 ? (int)t->shape[last - 1] : 1,
                                    .cols = (int)t->shape[last],
                                    .row = rank == 2 ? t->stride[last - 1] : t->shape[last],
                                    .col = t->stride[last],
                                    .shared = pni_kalman_shared(t, rank)};
  j->data[k] = pni_data(t);
}

/* Is a shared operand the identity? */
static bool is_unit(const job *j, int k) {
  const pni_kalman_operand *o = &j->s.in[k];
  bool unit = o->shared && o->rows == o->cols;
  for (int64_t i = 0; unit && i < o->rows; i++)
    for (int64_t m = 0; unit && m < o->cols; m++) {
      int64_t at = i * o->row + m * o->col;
      double x = j->size == 8 ? ((const double *)(const void *)j->data[k])[at]
                              : (double)((const float *)(const void *)j->data[k])[at];
      unit = x == (i == m);
    }
  return unit;
}

static pn_status complain(pn_context *c, const char *where, const job *j, int64_t failed) {
  char buf[PNI_MATRIX_NAME];
  const char *name = pni_matrix_name(j->nlead, j->lead, failed >> CODE_BITS, buf);
  int code = (int)(failed & INT32_MAX);
  if (code == CODE_NAN)
    return pni_fail(c, PN_NAN, "%s: %s, %s, must be finite, got inf or nan", where,
                    is_root(j) ? "roots" : "innovation covariance", name);
  if (is_root(j))
    return pni_fail(c, PN_SINGULAR,
                    "%s: root of the innovation covariance, %s, must be invertible, got 0 at place %d of its diagonal",
                    where, name, code);
  return pni_fail(c, PN_SINGULAR,
                  "%s: innovation covariance, %s, must be positive definite, got a leading minor of order %d that is "
                  "not",
                  where, name, code);
}

/* The shards' sums to where they belong in out, always in the same order. */
static void add_shards(const job *j, int64_t shards, int64_t at) {
  for (int k = 1; k < j->s.nin; k++) {
    if (!(j->s.wanted >> k & 1)) continue;
    int64_t size = operand_size(j, k);
    for (int64_t i = 0; j->s.in[k].shared && i < size; i++) {
      double total = 0;
      for (int64_t s = 0; s < shards; s++) {
        const char *from = j->sums + (s * j->nsums + j->piece[k] + i) * j->size;
        total += j->size == 8 ? *(const double *)from : (double)*(const float *)from;
      }
      if (j->size == 8)
        ((double *)j->out)[at + i] = total;
      else
        ((float *)j->out)[at + i] = (float)total;
    }
    at += j->s.in[k].shared ? size : j->count * size;
  }
}

int64_t pni_kalman_work(const pni_kalman *s) {
  int64_t n = s->n > s->m ? s->n : s->m, p = s->p, work = s->size + 9 * n * n + 10 * n * p + 6 * p * p + 2 * n + 10 * p;
  /* an operand itself, and of an adjoint its gradient and the sums of these */
  for (int k = 0; k < s->nin; k++)
    work += (2 + (s->in[k].shared ? PNI_LANE_COUNT : 0)) * (int64_t)s->in[k].rows * s->in[k].cols;
  return work;
}

static pn_status run_job(pn_context *c, job *j) {
  int64_t round = j->size == 8 ? PNI_KALMAN_ROUND_F64 : PNI_KALMAN_ROUND_F32, turns = round / j->lanes;
  int64_t n = j->s.n, rounds = (j->count + round - 1) / round, grain = 100000 / (n * n * n * 6 + 50) + 1;
  j->scratch_bytes = j->s.work * j->lanes * j->size;
  int64_t most = pni_kalman_shards(j->scratch_bytes);
  if (grain < (rounds + most - 1) / most) grain = (rounds + most - 1) / most;
  int64_t groups = (j->count + j->lanes - 1) / j->lanes, shards = (rounds + grain - 1) / grain;
  int64_t nsums = pni_times(shards, j->nsums);
  grain *= turns;
  j->grain = grain;
  j->scratch = pni_alloc_array(c, shards, (size_t)j->scratch_bytes);
  j->sums = j->scratch ? pni_alloc_array(c, nsums, (size_t)j->size) : NULL;
  if (j->sums && pni_parallel(c, groups, grain, run, j) == PN_OK && is_adjoint(j)) add_shards(j, shards, 0);
  pni_free(c, j->sums);
  pni_free(c, j->scratch);
  return c->status;
}

static pn_status run_step(pn_context *c, const char *where, int level, job *j, pn_tensor *const *in) {
  for (int k = 0; k < j->s.nin; k++) set_operand(j, k, in[k]);
  int a = transition_of((int)j->s.kind), emission = emission_of((int)j->s.kind);
  j->s.still = a && is_unit(j, a);
  j->s.unit = emission && is_unit(j, emission);
  j->s.m = a ? j->s.in[a].rows : j->s.n;
  j->group = pni_kalman_choose(j->size, level, j->s.n, j->s.p > j->s.m ? j->s.p : j->s.m, &j->lanes);
  j->s.work = pni_kalman_work(&j->s);
  int64_t at = 0;
  for (int k = 1; is_adjoint(j) && k < j->s.nin; k++) {
    if (!(j->s.wanted >> k & 1)) continue;
    int64_t size = operand_size(j, k);
    j->piece[k] = j->s.in[k].shared ? j->nsums : at;
    if (j->s.in[k].shared) j->nsums += size;
    at += j->s.in[k].shared ? size : j->count * size;
  }
  if (run_job(c, j)) return c->status;
  int64_t failed = atomic_load(&j->failed);
  return failed == INT64_MAX ? PN_OK : complain(c, where, j, failed);
}

pn_status pni_kalman_step(pn_context *c, const char *where, int level, int kind, bool details, int nin,
                          pn_tensor *const *in, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  int emission = emission_of(kind);
  job j = {.c = c,
           .s = {.kind = (pni_kalman_kind)kind,
                 .details = details,
                 .masked = is_masked(kind, nin),
                 .n = order_of(in[1], 1),
                 .p = emission ? order_of(in[emission], 2) : 0,
                 .nin = nin},
           .nlead = out->ndim - 1,
           .size = (int64_t)pni_itemsize(out),
           .count = pni_count(out->ndim - 1, out->shape),
           .lead = out->shape,
           .out = pni_data(out),
           .failed = INT64_MAX};
  j.s.size = out->shape[out->ndim - 1];
  return run_step(c, where, level, &j, in);
}

pn_status pni_kalman_adjoint(pn_context *c, const char *where, int level, int kind, int wanted, int nin,
                             pn_tensor *const *in, pn_tensor *out) {
  const pn_tensor *g = in[0];
  int emission = emission_of(kind);
  job j = {.c = c,
           .s = {.kind = (pni_kalman_kind)kind,
                 .masked = is_masked(kind, nin),
                 .n = order_of(in[2], 1),
                 .p = emission ? order_of(in[emission], 2) : 0,
                 .nin = nin,
                 .wanted = wanted},
           .nlead = g->ndim - 1,
           .size = (int64_t)pni_itemsize(out),
           .count = pni_count(g->ndim - 1, g->shape),
           .lead = g->shape,
           .out = pni_data(out),
           .failed = INT64_MAX};
  return run_step(c, where, level, &j, in);
}
