#include "effort.h"
#include "lapack.h"

/* A matrix that takes some milliseconds, large enough for the pace of large ones. */
enum { ORDER = 384, TRIALS = 3 };

/* Rows with a large diagonal: no pivot is small. */
static void fill(int dtype, void *a) {
  for (int64_t i = 0; i < (int64_t)ORDER * ORDER; i++) {
    double v = i % (ORDER + 1) == 0 ? ORDER : 1 / (double)(1 + i % 97);
    if (dtype == PN_FLOAT64)
      ((double *)a)[i] = v;
    else
      ((float *)a)[i] = (float)v;
  }
}

/* Seconds per operation, by the fastest of some LU factorisations: others may use the processor as well. */
static pn_status measure(pn_context *c, int dtype, double *pace) {
  const pni_lapack *f = dtype == PN_FLOAT64 ? &pni_lapack_f64 : &pni_lapack_f32;
  size_t item = pn_dtype_size((pn_dtype)dtype), ints = ORDER * sizeof(int);
  void *a = pni_alloc_array(c, ORDER * ORDER, item);
  int *pivot = a ? pni_alloc(c, ints) : NULL;
  int64_t least = INT64_MAX;
  for (int k = 0; pivot && k < TRIALS; k++) {
    fill(dtype, a);
    int64_t start = pni_now();
    f->lu(a, pivot, ORDER);
    int64_t took = pni_now() - start;
    if (took < least) least = took;
  }
  pni_free(c, pivot);
  pni_free(c, a);
  if (pni_failed(c)) return c->status;
  *pace = (double)least * 1e-9 / (2.0 / 3 * ORDER * ORDER * ORDER);
  return PN_OK;
}

pn_status pni_check_effort(pn_context *c, const char *where, int dtype, int64_t rows, int64_t cols, double operations) {
  enum { FEW = 200000000 }; /* milliseconds */
  if (!pni_deadline(c) || operations < FEW) return PN_OK;
  double *pace = &c->pace[dtype == PN_FLOAT32];
  if (*pace == 0 && measure(c, dtype, pace)) return c->status;
  double takes = operations * *pace, left = (double)(pni_deadline(c) - pni_now()) * 1e-9;
  if (takes <= left) return PN_OK;
  return pni_fail(c, PN_CANCELLED,
                  "time limit: %s of a matrix of %lld by %lld takes about %.2g seconds, and %.2g are left", where,
                  (long long)rows, (long long)cols, takes, left > 0 ? left : 0);
}
