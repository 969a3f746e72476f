/*
** gaussian_sequence.c: steps of the Kalman filter strung together. A group of series, one per lane, goes through the
** whole sequence before the next one starts; what is the same at all steps of all series stays in the kernel's
** scratch. Shards of groups depend on the problem's size alone, so results do not depend on the threads.
*/
#include <stdatomic.h>
#include <string.h>
#include "../../tensor/lapack/linalg.h"
#include "gaussian_sequence.h"

enum { CODE_BITS = 32, CODE_NAN = INT32_MAX, STAGES = 2, LOOK_EVERY = 512 };
enum { MEAN, COV };

typedef pn_tensor T;
typedef pn_context C;

/* One kernel of a step: its operands, and which of the sequence's these are. */
typedef struct {
  pni_kalman s;
  int operand[PNI_KALMAN_INPUTS]; /* of the sequence; the gradient (adjoint operand 0): -1 */
} stage;

typedef struct {
  const pni_sequence *q;
  C *c;
  int stages, nin;
  stage stage[STAGES];
  pni_kalman_group group;
  int lanes, n, p;
  int64_t size, count, grain; /* bytes of an element; series; groups per shard */
  int64_t row;                /* elements of a packed row */
  int64_t batch[PN_MAX_DIMS];
  const char *data[PNI_SEQUENCE_INPUTS];
  int64_t step[PNI_SEQUENCE_INPUTS][PN_MAX_DIMS]; /* strides in elements: time, then the batch's */
  pni_sequence_extent extent[PNI_SEQUENCE_INPUTS];
  char *packed;
  const char *gradient; /* of the packed rows, or of their last elements */
  bool density_only;
  int wanted;
  char *out,
      *sums; /* of an adjoint; where the gradient of operand k begins in out, a shard's sums and a group's spare */
  int64_t piece[PNI_SEQUENCE_INPUTS], sum[PNI_SEQUENCE_INPUTS], nsums, spare[PNI_SEQUENCE_INPUTS], nspare;
  char *scratch;
  int64_t scratch_bytes, stage_bytes[STAGES], row_bytes; /* per shard; of them the kernels', a lane's row */
  _Atomic int64_t failed;                                /* (step of the axis, series) << CODE_BITS | code */
  atomic_bool stopped;
} job;

int pni_sequence_rank(int k) { return (int[PNI_SEQUENCE_INPUTS]){1, 2, 2, 1, 2, 1, 2, 1, 2, 1}[k]; }

static bool is_adjoint(const job *j) { return j->gradient != NULL; }

pni_sequence_extent pni_sequence_extent_of(const pni_sequence *s, int k, const T *x) {
  int lead = x->ndim - pni_sequence_rank(k);
  if (k <= COV) return PNI_SEQUENCE_CONSTANT;
  if (s->kind == PNI_SEQUENCE_PREDICT && k != 2) return PNI_SEQUENCE_VARYING;
  if (lead > s->batch && x->shape[0] != 1) return PNI_SEQUENCE_VARYING;
  for (int axis = lead > s->batch; axis < lead; axis++)
    if (x->shape[axis] != 1) return PNI_SEQUENCE_CONSTANT;
  return PNI_SEQUENCE_SHARED;
}

/* ---- where things stand ---- */

/* Operand k of series i at place 0 of the time axis. */
static const char *data_at(const job *j, int k, int64_t i) {
  const int64_t *step = j->step[k];
  int64_t at = 0;
  for (int axis = j->q->batch; axis > 0; axis--) {
    at += i % j->batch[axis - 1] * step[axis];
    i /= j->batch[axis - 1];
  }
  return j->data[k] + at * j->size;
}

static int64_t operand_size(const job *j, int k) {
  int64_t n = j->n, p = j->p;
  return (int64_t[PNI_SEQUENCE_INPUTS]){n, n * n, n * n, n, n * n, p, p * n, p, p * p, p}[k];
}

/* A group on its way through time. */
typedef struct {
  job *j;
  int64_t first, number, t; /* first series; number of the group in its shard; place on the time axis */
  bool opens, closes;       /* first and last group of its shard */
  int count;
  char *rows[PNI_LANE_COUNT]; /* between stages; of an adjoint, the gradient of the packed row */
  const char *base[PNI_SEQUENCE_INPUTS][PNI_LANE_COUNT];
  char *scratch, *sums, *spare; /* spare: one operand's gradients */
} walk;

static char *packed_at(const job *j, int64_t t, int64_t i) { return j->packed + (t * j->count + i) * j->row * j->size; }

/* The state before a step: that of the step before, or the first. */
static const char *state_at(const walk *w, int k, int l, int64_t s) {
  const job *j = w->j;
  if (s == 0) return w->base[k][l];
  int64_t before = j->q->reverse ? w->t + 1 : w->t - 1;
  return packed_at(j, before, w->first + l) + (k == COV ? j->n * j->size : 0);
}

/* Operands of stage g at step s. */
static void set_in(const walk *w, int g, int64_t s, pni_kalman_lanes *lanes) {
  const job *j = w->j;
  const stage *x = &j->stage[g];
  for (int i = 0; i < x->s.nin; i++) {
    int k = x->operand[i];
    if (k < 0)
      for (int l = 0; l < w->count; l++) lanes->in[i][l] = w->rows[l];
    else if (k <= COV && g > 0)
      for (int l = 0; l < w->count; l++) lanes->in[i][l] = w->rows[l] + (k == COV ? j->n * j->size : 0);
    else if (k <= COV)
      for (int l = 0; l < w->count; l++) lanes->in[i][l] = state_at(w, k, l, s);
    else if (x->s.in[i].shared)
      lanes->in[i][0] = j->data[k];
    else
      for (int l = 0; l < w->count; l++) lanes->in[i][l] = w->base[k][l] + w->t * j->step[k][0] * j->size;
  }
}

static void report(job *j, const walk *w, const pni_kalman_lanes *lanes) {
  for (int l = 0; l < w->count; l++) {
    if (!lanes->info[l]) continue;
    int64_t code = lanes->info[l] == PNI_LANE_NOT_FINITE ? CODE_NAN : lanes->info[l];
    int64_t mine = (w->t * j->count + w->first + l) << CODE_BITS | code, seen = atomic_load(&j->failed);
    while (mine < seen && !atomic_compare_exchange_weak(&j->failed, &seen, mine)) {
    }
  }
}

static bool any_failed(const walk *w, const pni_kalman_lanes *lanes) {
  for (int l = 0; l < w->count; l++)
    if (lanes->info[l]) return true;
  return false;
}

/* Now and then: has somebody asked to stop? */
static bool must_stop(job *j, int64_t s) {
  if (j->n <= PNI_KALMAN_LANES && s % LOOK_EVERY != LOOK_EVERY - 1) return false;
  if (pni_is_over(j->c)) atomic_store(&j->stopped, true);
  return atomic_load(&j->stopped);
}

/* ---- forwards ---- */

static void forwards(walk *w) {
  job *j = w->j;
  int64_t steps = j->q->steps;
  pni_watch watch = {.c = j->c};
  pni_kalman_lanes lanes = {.count = w->count, .number = w->number, .watch = &watch};
  for (int64_t s = 0; s < steps && !must_stop(j, s); s++) {
    w->t = j->q->reverse ? steps - 1 - s : s;
    lanes.first = w->opens && s == 0;
    lanes.last = w->closes && s == steps - 1;
    char *scratch = w->scratch;
    for (int g = 0; g < j->stages; g++) {
      set_in(w, g, s, &lanes);
      for (int l = 0; l < w->count; l++)
        lanes.out[0][l] = g + 1 < j->stages ? w->rows[l] : packed_at(j, w->t, w->first + l);
      lanes.scratch = scratch;
      scratch += j->stage_bytes[g];
      j->group(&j->stage[g].s, &lanes);
      if (watch.left) return;
      if (any_failed(w, &lanes)) {
        report(j, w, &lanes);
        return;
      }
    }
  }
}

/* ---- backwards ---- */

#define ADD(to, from, size, N)                                                                                         \
  for (int64_t i_ = 0; i_ < (size); i_++) ((N *)(to))[i_] += ((const N *)(from))[i_]

static void add(const job *j, char *to, const char *from, int64_t size) {
  if (j->size == 8) {
    ADD(to, from, size, double);
  } else {
    ADD(to, from, size, float);
  }
}

/* The gradient of the rows at w->t joins what came from the step after. */
static void add_gradient(const walk *w) {
  const job *j = w->j;
  for (int l = 0; l < w->count; l++) {
    int64_t at = w->t * j->count + w->first + l, last = j->row - 1;
    if (j->density_only) {
      memcpy(w->rows[l] + last * j->size, j->gradient + at * j->size, (size_t)j->size);
      continue;
    }
    const char *from = j->gradient + at * j->row * j->size;
    bool density = j->q->kind == PNI_SEQUENCE_FILTER;
    add(j, w->rows[l], from, density ? last : j->row);
    if (density) memcpy(w->rows[l] + last * j->size, from + last * j->size, (size_t)j->size);
  }
}

/* Piece k of series i (and place t) in the result. */
static char *piece_at(const job *j, int k, int64_t i) {
  return j->out + (j->piece[k] + i * operand_size(j, k)) * j->size;
}

/* Where lane l's gradient of operand k goes. */
static char *target(const walk *w, int k, int l, pni_sequence_extent extent) {
  const job *j = w->j;
  if (extent == PNI_SEQUENCE_SHARED) return w->sums + j->sum[k] * j->size;
  if (extent == PNI_SEQUENCE_VARYING) return piece_at(j, k, w->t * j->count + w->first + l);
  return w->spare + (j->spare[k] * j->lanes + l * operand_size(j, k)) * j->size;
}

/* Results of the adjoint kernel at this step. */
static void set_out(const walk *w, pni_kalman_lanes *lanes) {
  const job *j = w->j;
  for (int k = 0; k + 1 < j->stage[0].s.nin; k++)
    for (int l = 0; l < w->count; l++)
      lanes->out[k + 1][l] = k <= COV ? w->rows[l] + (k == COV ? j->n * j->size : 0) : target(w, k, l, j->extent[k]);
}

#define HALVE(to, from, n, N)                                                                                          \
  for (int64_t i_ = 0; i_ < (n) * (n); i_++)                                                                           \
  ((N *)(to))[i_] = (((const N *)(from))[i_] + ((const N *)(from))[i_ % (n) * (n) + i_ / (n)]) / 2

/* b and q of predictions have the gradients of mean and cov themselves; q is read as its symmetric part. */
static void keep_predict(const walk *w) {
  const job *j = w->j;
  for (int l = 0; l < w->count; l++) {
    int64_t at = w->t * j->count + w->first + l;
    const char *cov = w->rows[l] + j->n * j->size;
    if (j->wanted >> 3 & 1) memcpy(piece_at(j, 3, at), w->rows[l], (size_t)(j->n * j->size));
    if (!(j->wanted >> 4 & 1)) continue;
    if (j->size == 8)
      HALVE(piece_at(j, 4, at), cov, j->n, double);
    else
      HALVE(piece_at(j, 4, at), cov, j->n, float);
  }
}

/* Gradients of operands that do not change with time are summed over it. */
static void add_constants(const walk *w) {
  const job *j = w->j;
  for (int k = 2; k + 1 < j->stage[0].s.nin; k++)
    if (j->wanted >> k & 1 && j->extent[k] == PNI_SEQUENCE_CONSTANT)
      for (int l = 0; l < w->count; l++)
        add(j, piece_at(j, k, w->first + l), target(w, k, l, PNI_SEQUENCE_CONSTANT), operand_size(j, k));
}

static void keep_first(const walk *w) {
  const job *j = w->j;
  for (int k = MEAN; k <= COV; k++)
    for (int l = 0; j->wanted >> k & 1 && l < w->count; l++)
      memcpy(piece_at(j, k, w->first + l), w->rows[l] + (k == COV ? j->n * j->size : 0),
             (size_t)(operand_size(j, k) * j->size));
}

static void backwards(walk *w) {
  job *j = w->j;
  int64_t steps = j->q->steps;
  pni_watch watch = {.c = j->c};
  pni_kalman_lanes lanes = {.count = w->count, .number = w->number, .scratch = w->scratch, .watch = &watch};
  for (int l = 0; l < w->count; l++) memset(w->rows[l], 0, (size_t)(j->row * j->size));
  for (int64_t s = steps - 1; s >= 0 && !must_stop(j, s); s--) {
    w->t = j->q->reverse ? steps - 1 - s : s;
    lanes.first = w->opens && s == steps - 1;
    lanes.last = w->closes && s == 0;
    add_gradient(w);
    if (j->q->kind == PNI_SEQUENCE_PREDICT) keep_predict(w);
    set_in(w, 0, s, &lanes);
    set_out(w, &lanes);
    j->group(&j->stage[0].s, &lanes);
    if (watch.left) return;
    if (any_failed(w, &lanes)) {
      report(j, w, &lanes);
      return;
    }
    add_constants(w);
  }
  keep_first(w);
}

static void run(void *data, int64_t begin, int64_t end) {
  job *j = data;
  int64_t shard = begin / j->grain;
  walk w = {.j = j, .scratch = j->scratch + shard * j->scratch_bytes, .sums = j->sums + shard * j->nsums * j->size};
  char *rows = w.scratch + j->stage_bytes[0] + j->stage_bytes[1];
  w.spare = rows + j->lanes * j->row_bytes;
  for (int l = 0; l < j->lanes; l++) w.rows[l] = rows + l * j->row_bytes;
  for (int64_t g = begin; g < end && !atomic_load(&j->stopped); g++) {
    w.first = g * j->lanes;
    w.count = (int)(j->count - w.first < j->lanes ? j->count - w.first : j->lanes);
    w.number = g - begin;
    w.opens = g == begin;
    w.closes = g + 1 == end;
    for (int k = 0; k < j->nin; k++)
      for (int l = 0; l < w.count; l++) w.base[k][l] = data_at(j, k, w.first + l);
    if (is_adjoint(j))
      backwards(&w);
    else
      forwards(&w);
  }
}

/* ---- a job ---- */

/* Operands of a kernel: what is the same for all series at all steps is shared. */
static void set_stage(job *j, int g, int kind, const int *operand, int nin, T *const *in) {
  stage *x = &j->stage[g];
  x->s = (pni_kalman){.kind = (pni_kalman_kind)kind, .n = j->n, .m = j->n, .p = j->p, .nin = nin, .size = j->row};
  x->s.masked = j->nin == PNI_SEQUENCE_INPUTS && operand[nin - 1] == PNI_SEQUENCE_INPUTS - 1;
  for (int i = 0; i < nin; i++) {
    int k = x->operand[i] = operand[i];
    if (k < 0) {
      x->s.in[i] = (pni_kalman_operand){.rows = 1, .cols = (int)j->row, .row = j->row, .col = 1};
      continue;
    }
    const T *t = in[k];
    int rank = pni_sequence_rank(k), last = t->ndim - 1;
    x->s.in[i] = (pni_kalman_operand){.rows = rank == 2 ? (int)t->shape[last - 1] : 1,
                                      .cols = (int)t->shape[last],
                                      .row = rank == 2 ? t->stride[last - 1] : t->shape[last],
                                      .col = t->stride[last],
                                      .shared = k > COV && pni_kalman_shared(t, rank)};
  }
}

static void set_data(job *j, T *const *in) {
  for (int k = 0; k < j->nin; k++) {
    T lead = *in[k];
    lead.ndim -= pni_sequence_rank(k);
    pni_broadcast_strides(&lead, j->q->batch + 1, j->step[k]);
    j->data[k] = pni_data(in[k]);
    j->extent[k] = pni_sequence_extent_of(j->q, k, in[k]);
  }
}

static pn_status complain(const job *j, int64_t failed) {
  char name[PNI_MATRIX_NAME];
  int64_t at = failed >> CODE_BITS, t = at / j->count;
  const char *which = pni_matrix_name(j->q->batch, j->batch, at % j->count, name);
  int code = (int)(failed & INT32_MAX);
  const char *what = j->q->kind == PNI_SEQUENCE_ROOT ? "root of the innovation covariance" : "innovation covariance";
  if (code == CODE_NAN)
    return pni_fail(j->c, PN_NAN, "%s: step %lld: %s, %s, must be finite, got inf or nan", j->q->where,
                    (long long)(t + 1), what, which);
  return pni_fail(j->c, PN_SINGULAR,
                  "%s: step %lld: %s, %s, must be positive definite, got a leading minor of order %d that is not",
                  j->q->where, (long long)(t + 1), what, which, code);
}

/* The shards' sums to where they belong, always in the same order. */
static void add_shards(const job *j, int64_t shards) {
  for (int k = 2; k < j->nin; k++) {
    if (!(j->wanted >> k & 1) || j->extent[k] != PNI_SEQUENCE_SHARED) continue;
    for (int64_t i = 0; i < operand_size(j, k); i++) {
      double total = 0;
      for (int64_t s = 0; s < shards; s++) {
        const char *from = j->sums + (s * j->nsums + j->sum[k] + i) * j->size;
        total += j->size == 8 ? *(const double *)from : (double)*(const float *)from;
      }
      if (j->size == 8)
        ((double *)j->out)[j->piece[k] + i] = total;
      else
        ((float *)j->out)[j->piece[k] + i] = (float)total;
    }
  }
}

static pn_status run_job(job *j) {
  int64_t round = j->size == 8 ? PNI_KALMAN_ROUND_F64 : PNI_KALMAN_ROUND_F32, turns = round / j->lanes;
  int64_t n = j->n, rounds = (j->count + round - 1) / round;
  int64_t grain = 100000 / ((n * n * n * 6 + 50) * j->q->steps) + 1;
  int64_t vector = j->lanes * j->size, all = 0;
  for (int g = 0; g < j->stages; g++) {
    j->stage[g].s.work = pni_kalman_work(&j->stage[g].s);
    j->stage_bytes[g] = j->stage[g].s.work * vector;
    all += j->stage_bytes[g];
  }
  j->row_bytes = j->row * j->size;
  j->scratch_bytes = all + (j->row + j->nspare) * vector;
  int64_t most = pni_kalman_shards(j->scratch_bytes);
  if (grain < (rounds + most - 1) / most) grain = (rounds + most - 1) / most;
  int64_t groups = (j->count + j->lanes - 1) / j->lanes, shards = (rounds + grain - 1) / grain;
  j->grain = grain * turns;
  int64_t nsums = pni_times(shards, j->nsums);
  j->scratch = pni_alloc_array(j->c, shards, (size_t)j->scratch_bytes);
  j->sums = j->scratch ? pni_alloc_array(j->c, nsums, (size_t)j->size) : NULL;
  if (j->sums && pni_parallel(j->c, groups, j->grain, run, j) == PN_OK && is_adjoint(j)) add_shards(j, shards);
  pni_free(j->c, j->sums);
  pni_free(j->c, j->scratch);
  if (pni_failed(j->c)) return j->c->status;
  if (atomic_load(&j->stopped))
    return pni_check_cancel(j->c) ? j->c->status : pni_fail(j->c, PN_CANCELLED, "interrupted");
  int64_t failed = atomic_load(&j->failed);
  return failed == INT64_MAX ? PN_OK : complain(j, failed);
}

static void open_job(job *j, C *c, const pni_sequence *s, int nin, T *const *in, int dtype, int64_t n, T *packed) {
  *j = (job){.q = s, .c = c, .nin = nin, .n = (int)n, .size = dtype == PN_FLOAT64 ? 8 : 4, .failed = INT64_MAX};
  j->p = s->kind == PNI_SEQUENCE_PREDICT ? 0 : (int)in[6]->shape[in[6]->ndim - 2];
  j->row = n + n * n + (s->kind != PNI_SEQUENCE_PREDICT);
  j->count = pni_count(s->batch, packed->shape + 1);
  memcpy(j->batch, packed->shape + 1, (size_t)s->batch * sizeof *j->batch);
  j->packed = pni_data(packed);
  j->group = pni_kalman_choose(j->size, PNI_LANE_BEST, j->n, j->p, &j->lanes);
}

/* The operands with a contiguous state before the first step, which later ones are read like. New. */
static bool own_state(C *c, int nin, T *const *in, T **own) {
  memcpy(own, in, (size_t)nin * sizeof *own);
  own[MEAN] = pni_contiguous(c, in[MEAN]);
  own[COV] = own[MEAN] ? pni_contiguous(c, in[COV]) : NULL;
  return own[COV] != NULL;
}

static void release_state(T **own) {
  pn_tensor_unref(own[MEAN]);
  if (own[MEAN]) pn_tensor_unref(own[COV]);
}

pn_status pni_sequence_run(C *c, const pni_sequence *s, int nin, T *const *in, T *out) {
  static const int all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, update[] = {0, 1, 5, 6, 7, 8, 9};
  T *own[PNI_SEQUENCE_INPUTS];
  job j;
  if (out->numel == 0) return PN_OK;
  if (own_state(c, nin, in, own)) {
    open_job(&j, c, s, nin, own, out->dtype, in[COV]->shape[in[COV]->ndim - 1], out);
    set_data(&j, own);
    if (s->kind == PNI_SEQUENCE_FILTER) set_stage(&j, j.stages++, PNI_KALMAN_STEP, all, nin, own);
    if (s->kind == PNI_SEQUENCE_PREDICT) set_stage(&j, j.stages++, PNI_KALMAN_PREDICT, all, nin, own);
    if (s->kind == PNI_SEQUENCE_ROOT) {
      set_stage(&j, j.stages++, PNI_KALMAN_ROOT_PREDICT, all, 5, own);
      set_stage(&j, j.stages++, PNI_KALMAN_ROOT_UPDATE, update, nin - 3, own);
    }
    run_job(&j);
  }
  release_state(own);
  return c->status;
}

/* Where the pieces of the result and their sums stand. */
static void set_pieces(job *j) {
  int64_t at = 0;
  for (int k = 0; k < j->nin; k++) {
    if (!(j->wanted >> k & 1)) continue;
    pni_sequence_extent extent = j->extent[k];
    int64_t size = operand_size(j, k);
    j->piece[k] = at;
    j->sum[k] = j->nsums;
    j->spare[k] = j->nspare;
    if (extent == PNI_SEQUENCE_SHARED) j->nsums += size;
    if (extent == PNI_SEQUENCE_CONSTANT) j->nspare += size;
    at += size * (extent == PNI_SEQUENCE_SHARED ? 1 : j->count * (extent == PNI_SEQUENCE_VARYING ? j->q->steps : 1));
  }
}

pn_status pni_sequence_adjoint(C *c, const pni_sequence *s, int wanted, int nin, T *const *in, T *out) {
  static const int all[] = {-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  T *own[PNI_SEQUENCE_INPUTS], *packed = in[1];
  bool predict = s->kind == PNI_SEQUENCE_PREDICT;
  job j;
  memset(pni_data(out), 0, (size_t)out->numel * pni_itemsize(out));
  if (out->numel == 0 || packed->numel == 0) return PN_OK;
  if (own_state(c, nin - 2, in + 2, own)) {
    open_job(&j, c, s, nin - 2, own, out->dtype, own[COV]->shape[own[COV]->ndim - 1], packed);
    set_data(&j, own);
    j.gradient = pni_data(in[0]);
    j.density_only = in[0]->ndim < packed->ndim;
    j.out = pni_data(out);
    j.wanted = wanted;
    set_stage(&j, j.stages++, predict ? PNI_KALMAN_PREDICT_ADJOINT : PNI_KALMAN_STEP_ADJOINT, all,
              predict ? 4 : nin - 1, own);
    j.stage[0].s.wanted = (wanted << 1 | 6) & (predict ? 15 : -1);
    set_pieces(&j);
    run_job(&j);
  }
  release_state(own);
  return c->status;
}
