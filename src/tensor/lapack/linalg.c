/*
** linalg.c: from batches to matrices. A job knows where matrix i of each operand lies; its body handles a
** range of matrices and remembers the first that failed. Scratch memory is taken before the threads start.
*/
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "../product/blas.h"
#include "effort.h"
#include "linalg.h"
#include "../lane/lane_matrix.h"

/* From LEAST_BATCH matrices on, the interleaved path was the faster one for every problem and order, even where it
 * leaves lanes idle (`spec/bench/linalg sizes`, measured with AVX-512; with shorter vectors only for large batches),
 * but for large inverses on less than half of the lanes. */
enum { SHARDS = 32, LEAST_BATCH = 4 };

enum { CODE_BITS = 32, CODE_NAN = INT32_MAX };

typedef struct {
  pn_context *c;
  const pni_lapack *f;
  pni_lane_group group;
  int lanes; /* 0: the LAPACK path */
  int64_t size, count, grain;
  int nlead; /* leading axes, merged where both operands run on */
  int64_t lead[PN_MAX_DIMS], a_step[PN_MAX_DIMS], b_step[PN_MAX_DIMS];
  pni_matrix a, b; /* of matrix 0; b.data NULL: the identity */
  pni_lane_matrix s;
  char *out, *scratch;
  int *pivots;
  bool divides;                   /* the factors that all matrices share have pivots without reciprocal */
  int64_t out_step, scratch_step; /* elements per matrix; elements per shard */
  _Atomic int64_t failed;         /* matrix << CODE_BITS | code of the first failure */
} job;

static void report(job *j, int64_t i, int code) {
  int64_t mine = i << CODE_BITS | code, seen = atomic_load(&j->failed);
  while (mine < seen && !atomic_compare_exchange_weak(&j->failed, &seen, mine)) {
  }
}

/* Is there no time for item i? Asked now and then, as often as `work` is worth it. */
static bool leaves_out(job *j, int64_t i, int64_t work) {
  enum { WORTH = 100000 };
  return i % (WORTH / work + 1) == 0 && pni_leaves(j->c);
}

/* Where matrix i of an operand starts. */
static const void *data_at(const job *j, const pni_matrix *m, const int64_t *step, int64_t i) {
  int64_t at = 0;
  if (!m->data) return NULL;
  for (int k = j->nlead - 1; k > 0; k--) {
    at += i % j->lead[k] * step[k];
    i /= j->lead[k];
  }
  return (const char *)m->data + (at + i * step[0]) * j->size;
}

static pni_matrix matrix_at(const job *j, pni_matrix m, const int64_t *step, int64_t i) {
  m.data = data_at(j, &m, step, i);
  return m;
}

/* ---- the LAPACK path ---- */

static int triangle_read(const job *j) {
  if (j->s.kind == PNI_LANE_TRIANGULAR) return j->s.flags & PNI_UPPER ? PNI_UPPER : PNI_TRANSPOSE;
  return j->s.kind == PNI_LANE_CHOLESKY_SOLVE ? PNI_TRANSPOSE : 0;
}

/* LU factors, column-major. */
static int factor(const job *j, pni_matrix a, void *lu, int *pivot, bool *divides) {
  int n = j->s.n;
  pni_matrix turned = {a.data, n, n, a.col_stride, a.row_stride};
  j->f->load(lu, turned);
  int info = j->f->lu(lu, pivot, n);
  *divides = !j->f->divisible(lu, n + 1, n);
  if (!*divides) return info;
  j->f->load(lu, turned);
  return j->f->lu_divide(lu, pivot, n);
}

static int by_lu(const job *j, pni_matrix a, pni_matrix b, void *out, void *lu, int *pivot) {
  int n = j->s.n;
  bool divides;
  int info = factor(j, a, lu, pivot, &divides);
  if (j->s.kind >= PNI_LANE_LOGDET) {
    double det[3];
    j->f->lu_det(lu, pivot, n, det);
    if (j->size == 8)
      *(double *)out = det[j->s.kind - PNI_LANE_LOGDET];
    else
      *(float *)out = (float)det[j->s.kind - PNI_LANE_LOGDET];
    return 0;
  }
  if (info) return info;
  if (j->s.kind == PNI_LANE_INVERSE)
    j->f->identity(out, n);
  else
    j->f->load(out, b);
  (divides ? j->f->lu_solve_divide : j->f->lu_solve)(lu, pivot, out, n, j->s.k);
  return 0;
}

/* A triangle as BLAS takes it: rows of unit stride, or the transposed triangle. */
static int blas_triangle(const pni_matrix *a, int flags, int *lda) {
  bool swap = a->col_stride != 1;
  int64_t ld = swap ? a->col_stride : a->row_stride;
  *lda = (int)(ld > a->rows ? ld : a->rows);
  return swap ? flags ^ (PNI_UPPER | PNI_TRANSPOSE) : flags;
}

static int by_triangle(const job *j, pni_matrix a, pni_matrix b, void *out) {
  int lda, flags = blas_triangle(&a, j->s.flags, &lda), zero = j->f->zero_diagonal(a.data, lda, j->s.n);
  if (zero) return zero;
  j->f->load(out, b);
  bool divides = !j->f->divisible(a.data, lda + 1, j->s.n);
  void (*solve)(const void *, int, int, void *, int, int) = divides ? j->f->triangular_divide : j->f->triangular;
  solve(a.data, lda, flags, out, j->s.n, j->s.k);
  if (j->s.kind == PNI_LANE_CHOLESKY_SOLVE) solve(a.data, lda, flags ^ PNI_TRANSPOSE, out, j->s.n, j->s.k);
  return 0;
}

/* Matrix i alone; 0 or the code of its failure. */
static int one_matrix(const job *j, int64_t i, void *lu, int *pivot) {
  pni_matrix a = matrix_at(j, j->a, j->a_step, i), b = matrix_at(j, j->b, j->b_step, i);
  char *out = j->out + i * j->out_step * j->size;
  if (!j->f->finite(a, triangle_read(j))) return CODE_NAN;
  if (j->s.kind == PNI_LANE_CHOLESKY) {
    j->f->load_symmetric(out, a);
    return j->f->cholesky(out, j->s.n);
  }
  if (j->s.kind == PNI_LANE_TRIANGULAR || j->s.kind == PNI_LANE_CHOLESKY_SOLVE) return by_triangle(j, a, b, out);
  return by_lu(j, a, b, out, lu, pivot);
}

static void run_lapack(void *data, int64_t begin, int64_t end) {
  job *j = data;
  int64_t shard = begin / j->grain;
  char *lu = j->scratch ? j->scratch + shard * j->scratch_step * j->size : NULL;
  int *pivot = j->pivots ? j->pivots + shard * j->s.n : NULL;
  for (int64_t i = begin; i < end; i++) {
    if (leaves_out(j, i, (int64_t)j->s.n * j->s.n)) return;
    int info = one_matrix(j, i, lu, pivot);
    if (info) report(j, i, info);
  }
}

/* ---- one matrix for the whole batch: it is factored once; single columns are the rows of one matrix ---- */

static bool is_shared(const job *j) {
  bool triangle = j->s.kind == PNI_LANE_TRIANGULAR || j->s.kind == PNI_LANE_CHOLESKY_SOLVE, shared = j->count > 1;
  for (int k = 0; k < j->nlead; k++) shared = shared && (j->a_step[k] == 0 || j->lead[k] == 1);
  return shared && ((triangle && j->s.k == 1) || j->s.kind == PNI_LANE_SOLVE);
}

static void solve_rows(const job *j, char *out, int count) {
  int lda, flags = blas_triangle(&j->a, j->s.flags, &lda), n = j->s.n;
  if (j->s.kind == PNI_LANE_SOLVE) {
    j->f->lu_solve_rows(j->scratch, j->pivots, out, n, count);
    return;
  }
  j->f->triangular_rows(j->a.data, lda, flags, out, n, count);
  if (j->s.kind == PNI_LANE_CHOLESKY_SOLVE) j->f->triangular_rows(j->a.data, lda, flags ^ PNI_TRANSPOSE, out, n, count);
}

static void run_shared(void *data, int64_t begin, int64_t end) {
  job *j = data;
  for (int64_t i = begin; i < end; i++) {
    if (leaves_out(j, i, (int64_t)j->s.n * j->s.k * (j->s.k > 1 ? j->s.n : 1))) return;
    char *out = j->out + i * j->out_step * j->size;
    pni_matrix b = matrix_at(j, j->b, j->b_step, i);
    if (j->divides && j->s.kind != PNI_LANE_SOLVE) {
      by_triangle(j, j->a, b, out);
      continue;
    }
    j->f->load(out, b);
    if (j->divides)
      j->f->lu_solve_divide(j->scratch, j->pivots, out, j->s.n, j->s.k);
    else if (j->s.k > 1)
      j->f->lu_solve(j->scratch, j->pivots, out, j->s.n, j->s.k);
  }
  if (j->s.k != 1 || j->divides) return;
  int64_t rows = 1 + (1 << 26) / ((int64_t)j->s.n * j->s.n); /* of some milliseconds */
  for (int64_t i = begin; i < end; i += rows) {
    if (i > begin && leaves_out(j, 0, 1)) return;
    solve_rows(j, j->out + i * j->out_step * j->size, (int)(end - i < rows ? end - i : rows));
  }
}

/* Checks the matrix; factors it into the scratch of the first shard. */
static void prepare_shared(job *j) {
  int lda, info = 0, n = j->s.n;
  blas_triangle(&j->a, j->s.flags, &lda);
  if (!j->f->finite(j->a, triangle_read(j)))
    info = CODE_NAN;
  else if (j->s.kind == PNI_LANE_SOLVE)
    info = factor(j, j->a, j->scratch, j->pivots, &j->divides);
  else {
    info = j->f->zero_diagonal(j->a.data, lda, n);
    j->divides = !j->f->divisible(j->a.data, lda + 1, n);
  }
  if (info) report(j, 0, info);
}

/* ---- the interleaved path: an item is a group of matrices ---- */

static void run_groups(void *data, int64_t begin, int64_t end) {
  job *j = data;
  void *scratch = j->scratch ? j->scratch + begin / j->grain * j->scratch_step * j->size : NULL;
  for (int64_t g = begin; g < end; g++) {
    if (leaves_out(j, g, (int64_t)j->s.n * j->s.n * j->lanes)) return;
    const void *a[PNI_LANE_COUNT], *b[PNI_LANE_COUNT];
    void *out[PNI_LANE_COUNT];
    int info[PNI_LANE_COUNT] = {0};
    int64_t first = g * j->lanes;
    int count = (int)(j->count - first < j->lanes ? j->count - first : j->lanes);
    for (int l = 0; l < count; l++) {
      a[l] = data_at(j, &j->a, j->a_step, first + l);
      b[l] = data_at(j, &j->b, j->b_step, first + l);
      out[l] = j->out + (first + l) * j->out_step * j->size;
    }
    j->group(&j->s, scratch, count, a, b, out, info);
    for (int l = 0; l < count; l++) {
      int pivot[PNI_LANE_MAX];
      if (info[l] == PNI_LANE_ALONE) info[l] = one_matrix(j, first + l, scratch, pivot);
      if (info[l]) report(j, first + l, info[l] == PNI_LANE_NOT_FINITE ? CODE_NAN : info[l]);
    }
  }
}

/* ---- setting up ---- */

static pni_matrix matrix_of(const pn_tensor *t) {
  return (pni_matrix){pni_data(t), t->shape[t->ndim - 2], t->shape[t->ndim - 1], t->stride[t->ndim - 2],
                      t->stride[t->ndim - 1]};
}

static void lead_steps(const pn_tensor *t, int nlead, int64_t *step) {
  pn_tensor lead = *t;
  lead.ndim = t->ndim - 2;
  pni_broadcast_strides(&lead, nlead, step);
}

static void merge_lead(job *j, const int64_t *shape) {
  int n = 0;
  for (int k = 0; k < j->nlead; k++) {
    bool joins = n > 0 && j->a_step[n - 1] == j->a_step[k] * shape[k] && j->b_step[n - 1] == j->b_step[k] * shape[k];
    if (!joins) n++;
    j->lead[n - 1] = joins ? j->lead[n - 1] * shape[k] : shape[k];
    j->a_step[n - 1] = j->a_step[k];
    j->b_step[n - 1] = j->b_step[k];
  }
  j->nlead = n;
}

const char *pni_matrix_name(int nlead, const int64_t *lead, int64_t i, char buf[PNI_MATRIX_NAME]) {
  char shape[PNI_SHAPE_TEXT];
  int64_t at[PN_MAX_DIMS];
  for (int k = nlead - 1; k >= 0; k--) {
    at[k] = i % lead[k] + 1;
    i /= lead[k];
  }
  snprintf(buf, PNI_MATRIX_NAME, nlead ? "matrix %s of the batch" : "matrix%s",
           nlead ? pni_shape_text(nlead, at, shape) : "");
  return buf;
}

/* Number of the matrix of `a` that problem i of the batch is about. */
static int64_t own_number(const pn_tensor *a, int nlead, const int64_t *lead, int64_t i) {
  int64_t number = 0, step = 1;
  for (int k = nlead - 1, own = a->ndim - 3; own >= 0; k--, own--) {
    if (a->shape[own] > 1) number += i % lead[k] * step;
    step *= a->shape[own];
    i /= lead[k];
  }
  return number;
}

static pn_status complain(pn_context *c, const char *where, int kind, const pn_tensor *a, int64_t number, int code) {
  char buf[PNI_MATRIX_NAME];
  const char *name = pni_matrix_name(a->ndim - 2, a->shape, number, buf);
  if (code == CODE_NAN) return pni_fail(c, PN_NAN, "%s: %s must be finite, got inf or nan", where, name);
  switch (kind) {
  case PNI_LANE_CHOLESKY:
    return pni_fail(c, PN_SINGULAR, "%s: %s must be positive definite, got a leading minor of order %d that is not",
                    where, name, code);
  case PNI_LANE_TRIANGULAR:
  case PNI_LANE_CHOLESKY_SOLVE:
    return pni_fail(c, PN_SINGULAR, "%s: %s must be invertible, got 0 at place %d of its diagonal", where, name, code);
  default:
    return pni_fail(c, PN_SINGULAR,
                    "%s: %s must be invertible, got a pivot of 0 in elimination step %d (a leading minor of order %d "
                    "has no full rank)",
                    where, name, code, code);
  }
}

int64_t pni_lane_scratch(const pni_lane_matrix *s) {
  int64_t n = s->n, k = s->k > s->inner ? s->k : s->inner;
  return n * (n + k) + n * (n > k ? n : k) + n;
}

/* Of groups their vectors, else a matrix and its pivots, for each shard. */
static pn_status take_scratch(pn_context *c, job *j, int64_t shards, bool groups) {
  int64_t n = j->s.n;
  j->scratch_step = groups ? pni_lane_scratch(&j->s) * j->lanes : n * n;
  j->scratch = pni_alloc_array(c, pni_times(shards, j->scratch_step), (size_t)j->size);
  if (!groups) j->pivots = j->scratch ? pni_alloc_array(c, pni_times(shards, n), sizeof *j->pivots) : NULL;
  return c->status;
}

static void drop_scratch(pn_context *c, job *j) {
  pni_free(c, j->scratch);
  pni_free(c, j->pivots);
}

static void choose_group(job *j) {
  j->group = j->size == 8 ? pni_lane_f64(PNI_LANE_BEST, &j->lanes) : pni_lane_f32(PNI_LANE_BEST, &j->lanes);
}

/* Operations for one matrix. */
static double operations(const job *j) {
  double n = j->s.n, k = j->s.k, cube = n * n * n;
  switch (j->s.kind) {
  case PNI_LANE_CHOLESKY: return cube / 3;
  case PNI_LANE_TRIANGULAR: return n * n * k;
  case PNI_LANE_CHOLESKY_SOLVE: return 2 * n * n * k;
  case PNI_LANE_TRIA: return 170 * n * n * (double)j->a.cols; /* rotations, of a whole group whatever its size */
  case PNI_LANE_SOLVE:
  case PNI_LANE_INVERSE: return cube * 2 / 3 + 2 * n * n * k;
  default: return cube * 2 / 3;
  }
}

static pn_status run_job(pn_context *c, job *j, int path) {
  int64_t n = j->s.n, work = n * n * (n + j->s.k) + 8, items = j->count;
  bool fits = n <= PNI_LANE_MAX && j->s.k <= PNI_LANE_MAX && path != PNI_PATH_LAPACK;
  choose_group(j);
  bool idle = j->s.kind == PNI_LANE_INVERSE && n > 16 && 2 * j->count < j->lanes;
  bool small = fits && (path == PNI_PATH_SMALL || (j->count >= LEAST_BATCH && !idle));
  if (j->s.kind == PNI_LANE_TRIA) small = true;
  bool shared = path == PNI_PATH_CHOICE && is_shared(j);
  pni_shard body = shared ? run_shared : small ? run_groups : run_lapack;
  if (body == run_groups) {
    items = (j->count + j->lanes - 1) / j->lanes;
    work *= 2; /* interleaving */
  } else if (shared)
    work = n * n * j->s.k + 8;
  int64_t grain = 400000 / work + 1;
  if (grain < (items + SHARDS - 1) / SHARDS) grain = (items + SHARDS - 1) / SHARDS;
  j->grain = grain;
  int64_t shards = shared ? 1 : (items + grain - 1) / grain; /* that need scratch */
  bool groups = body == run_groups, scratch = groups || j->s.kind >= PNI_LANE_SOLVE;
  if (!scratch || take_scratch(c, j, shards, groups) == PN_OK) {
    if (shared) prepare_shared(j);
    if (atomic_load(&j->failed) == INT64_MAX) pni_parallel(c, items, grain, body, j);
  }
  drop_scratch(c, j);
  return c->status;
}

/* A triangle that BLAS can read: one of its strides is 1 and the other does not overlap. */
static bool blas_reads(const pn_tensor *a) {
  int64_t n = a->shape[a->ndim - 1], rs = a->stride[a->ndim - 2], cs = a->stride[a->ndim - 1];
  return n == 1 || (cs == 1 && rs >= n) || (rs == 1 && cs >= n);
}

static pn_status solve_batch(pn_context *c, const char *where, int path, int kind, int flags, const pn_tensor *a,
                             const pn_tensor *b, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  bool scalar = kind >= PNI_LANE_LOGDET && kind <= PNI_LANE_DET_SIGN;
  int nlead = out->ndim - (scalar ? 0 : 2);
  job j = {.c = c,
           .f = a->dtype == PN_FLOAT64 ? &pni_lapack_f64 : &pni_lapack_f32,
           .size = (int64_t)pni_itemsize(a),
           .count = pni_count(nlead, out->shape),
           .nlead = nlead,
           .out = pni_data(out),
           .failed = INT64_MAX};
  if (a->shape[a->ndim - 1] > 30000 || (b && b->shape[b->ndim - 1] > INT32_MAX))
    return pni_fail(c, PN_SHAPE, "%s: order of a matrix must be at most 30000", where);
  pn_tensor *own = NULL;
  if ((kind == PNI_LANE_TRIANGULAR || kind == PNI_LANE_CHOLESKY_SOLVE) && !blas_reads(a)) {
    if (!(own = pni_contiguous(c, a))) return c->status;
    a = own;
  }
  j.a = matrix_of(a);
  /* strides of axes of one element say nothing: BLAS gets some that it takes */
  if (j.a.rows == 1) j.a.row_stride = 1;
  if (j.a.cols == 1) j.a.col_stride = 1;
  lead_steps(a, nlead, j.a_step);
  if (b) {
    j.b = matrix_of(b);
    lead_steps(b, nlead, j.b_step);
  }
  merge_lead(&j, out->shape);
  int64_t n = j.a.rows, k = scalar ? 0 : b ? j.b.cols : n;
  j.s = (pni_lane_matrix){(pni_lane_problem)kind, flags,          (int)n,         (int)k,        (int)j.a.cols,
                          j.a.row_stride,         j.a.col_stride, j.b.row_stride, j.b.col_stride};
  j.out_step = scalar ? 1 : n * k;
  if (pni_check_effort(c, where, a->dtype, n, n, operations(&j))) {
    pn_tensor_unref(own);
    return c->status;
  }
  run_job(c, &j, path);
  int64_t failed = atomic_load(&j.failed);
  if (failed != INT64_MAX && !pni_failed(c)) {
    int64_t number = own_number(a, nlead, out->shape, failed >> CODE_BITS);
    complain(c, where, kind, a, number, (int)(failed & INT32_MAX));
  }
  pn_tensor_unref(own);
  return c->status;
}

/* The determinant of no rows is 1. */
static pn_status empty_det(int kind, pn_tensor *out) {
  double *d = pni_data(out);
  float *f = pni_data(out);
  for (int64_t i = 0; i < out->numel; i++)
    if (out->dtype == PN_FLOAT64)
      d[i] = kind == PNI_LANE_LOGDET ? 0 : 1;
    else
      f[i] = kind == PNI_LANE_LOGDET ? 0 : 1;
  return PN_OK;
}

pn_status pni_linalg(pn_context *c, const char *where, int path, int kind, int flags, const pn_tensor *a,
                     const pn_tensor *b, pn_tensor *out) {
  bool scalar = kind >= PNI_LANE_LOGDET && kind <= PNI_LANE_DET_SIGN;
  if (a->shape[a->ndim - 1] == 0) return scalar ? empty_det(kind, out) : PN_OK;
  return solve_batch(c, where, path, kind, flags, a, b, out);
}

bool pni_lane_matmul(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out) {
  int nlead = (x->ndim > y->ndim ? x->ndim : y->ndim) - 2;
  int64_t n = x->shape[x->ndim - 2], inner = x->shape[x->ndim - 1], k = y->shape[y->ndim - 1];
  int64_t largest = n > inner ? n : inner;
  if (k > largest) largest = k;
  if (largest > PNI_LANE_PRODUCT) return false;
  job j = {.c = c,
           .size = (int64_t)pni_itemsize(x),
           .count = pni_count(nlead, out->shape),
           .nlead = nlead,
           .a = matrix_of(x),
           .b = matrix_of(y),
           .out = pni_data(out),
           .out_step = n * k,
           .failed = INT64_MAX};
  choose_group(&j);
  /* BLAS has tuned kernels for products, short vectors gain nothing over them (spec/bench/linalg.c) */
  bool whole_register = j.lanes * j.size == 64;
  if (j.count < LEAST_BATCH || 2 * j.count < j.lanes || (!whole_register && largest > PNI_LANE_PRODUCT / 2))
    return false;
  j.s = (pni_lane_matrix){
      PNI_LANE_MATMUL, 0, (int)n, (int)k, (int)inner, j.a.row_stride, j.a.col_stride, j.b.row_stride, j.b.col_stride};
  lead_steps(x, nlead, j.a_step);
  lead_steps(y, nlead, j.b_step);
  merge_lead(&j, out->shape);
  int64_t groups = (j.count + j.lanes - 1) / j.lanes;
  pni_parallel(c, groups, 100000 / (n * inner * k + 8) + 1, run_groups, &j);
  return true;
}
