#include <stdatomic.h>
#include "effort.h"
#include "factor.h"
#include "linalg.h"

enum { SHARDS = 8 };

typedef struct {
  pn_context *c;
  const pni_lapack *f;
  int kind;
  int64_t size, grain, count, step; /* step: elements of one packed row */
  int nlead;
  const int64_t *lead, *lead_stride;
  pni_matrix x;
  char *out, *work;
  int *iwork;
  int64_t nwork, niwork;  /* per shard */
  _Atomic int64_t failed; /* 2 * matrix + (1 if it is not finite) of the first failure */
} job;

int64_t pni_factor_size(int kind, int64_t m, int64_t n) {
  int64_t k = m < n ? m : n;
  return kind == PNI_FACTOR_QR ? m * k + k * n : kind == PNI_FACTOR_EIGH ? n + n * n : m * k + k + k * n;
}

static pni_matrix matrix_at(const job *j, int64_t i) {
  pni_matrix x = j->x;
  int64_t at = 0;
  for (int k = j->nlead - 1; k >= 0; k--) {
    at += i % j->lead[k] * j->lead_stride[k];
    i /= j->lead[k];
  }
  x.data = (const char *)x.data + at * j->size;
  return x;
}

static void run(void *data, int64_t begin, int64_t end) {
  job *j = data;
  int64_t m = j->x.rows, n = j->x.cols, k = m < n ? m : n, shard = begin / j->grain;
  void *work = j->work + shard * j->nwork * j->size;
  int *iwork = j->iwork + shard * j->niwork;
  for (int64_t i = begin; i < end; i++) {
    if (pni_leaves(j->c)) return;
    pni_matrix x = matrix_at(j, i);
    char *out = j->out + i * j->step * j->size;
    bool finite = j->f->finite(x, 0);
    int info = 0;
    if (finite && j->kind == PNI_FACTOR_QR)
      info = j->f->qr(x, out, out + m * k * j->size, work, iwork, j->nwork);
    else if (finite && j->kind == PNI_FACTOR_EIGH)
      info = j->f->eigh(x, out, out + n * j->size, work, iwork, j->nwork, j->niwork);
    else if (finite)
      info = j->f->svd(x, out, out + m * k * j->size, out + (m * k + k) * j->size, work, iwork, j->nwork);
    int64_t mine = 2 * i + !finite, seen = atomic_load(&j->failed);
    while ((info || !finite) && mine < seen && !atomic_compare_exchange_weak(&j->failed, &seen, mine)) {
    }
  }
}

/* Operations for one matrix: of Householder QR those of its two steps; of the others as they compare with LU by time,
 * where half of the operations run at the pace of memory (measured at orders from 1000 to 2200). */
static double operations(const job *j) {
  double m = (double)j->x.rows, n = (double)j->x.cols, least = m < n ? m : n, volume = m * n * least;
  return j->kind == PNI_FACTOR_QR ? 3.2 * volume : j->kind == PNI_FACTOR_EIGH ? 5.5 * volume : 13 * volume;
}

static pn_status run_job(pn_context *c, job *j) {
  int64_t m = j->x.rows, n = j->x.cols, unit = 20 * m * n * (m < n ? m : n);
  j->grain = 1000000 / (unit + 1) + 1;
  if (j->grain < (j->count + SHARDS - 1) / SHARDS) j->grain = (j->count + SHARDS - 1) / SHARDS;
  int64_t shards = (j->count + j->grain - 1) / j->grain, elements = pni_times(shards, j->nwork),
          ints = pni_times(shards, j->niwork);
  j->work = pni_alloc_array(c, elements, (size_t)j->size);
  j->iwork = j->work ? pni_alloc_array(c, ints, sizeof *j->iwork) : NULL;
  if (j->iwork) pni_parallel(c, j->count, j->grain, run, j);
  pni_free(c, j->iwork);
  pni_free(c, j->work);
  return c->status;
}

static pn_status complain(pn_context *c, const char *where, const pn_tensor *x, int64_t failed) {
  char buf[PNI_MATRIX_NAME];
  const char *name = pni_matrix_name(x->ndim - 2, x->shape, failed / 2, buf);
  if (failed % 2) return pni_fail(c, PN_NAN, "%s: %s must be finite, got inf or nan", where, name);
  return pni_fail(c, PN_SINGULAR, "%s: the iteration for %s did not converge", where, name);
}

pn_status pni_factor(pn_context *c, const char *where, int kind, const pn_tensor *x, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  int64_t m = x->shape[x->ndim - 2], n = x->shape[x->ndim - 1];
  job j = {.c = c,
           .f = x->dtype == PN_FLOAT64 ? &pni_lapack_f64 : &pni_lapack_f32,
           .kind = kind,
           .size = (int64_t)pni_itemsize(x),
           .count = pni_count(x->ndim - 2, x->shape),
           .step = pni_factor_size(kind, m, n),
           .nlead = x->ndim - 2,
           .lead = x->shape,
           .lead_stride = x->stride,
           .x = {pni_data(x), m, n, x->stride[x->ndim - 2], x->stride[x->ndim - 1]},
           .out = pni_data(out),
           .failed = INT64_MAX};
  if (m > 30000 || n > 30000) return pni_fail(c, PN_SHAPE, "%s: sides of a matrix must be at most 30000", where);
  if (kind == PNI_FACTOR_SVD && m > 16384 && n > 16384) /* LAPACK counts its work in 32 bits */
    return pni_fail(c, PN_SHAPE, "%s: the shorter side of a matrix must be at most 16384", where);
  void (*sizes)(int, int, int64_t *, int64_t *) = kind == PNI_FACTOR_QR     ? j.f->qr_work
                                                  : kind == PNI_FACTOR_EIGH ? j.f->eigh_work
                                                                            : j.f->svd_work;
  if (pni_check_effort(c, where, x->dtype, m, n, operations(&j))) return c->status;
  sizes((int)m, (int)n, &j.nwork, &j.niwork);
  j.nwork = (j.nwork + 15) / 16 * 16; /* each shard's begins at 64 bytes: some BLAS kernels sum by alignment */
  run_job(c, &j);
  int64_t failed = atomic_load(&j.failed);
  return failed == INT64_MAX || pni_failed(c) ? c->status : complain(c, where, x, failed);
}
