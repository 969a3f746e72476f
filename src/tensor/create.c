/*
** create.c: tensors from numbers. All results are contiguous and scoped.
*/
#include <math.h>
#include <string.h>
#include "../base/span.h"
#include "tensor.h"

static pn_tensor *make(pn_context *c, int dtype, int ndim, const int64_t *shape) {
  if (!pni_shape_given(c, "tensor", ndim, shape)) return NULL;
  if ((unsigned)dtype > PN_BOOL) {
    pni_fail(c, PN_DTYPE, "tensor: unknown dtype number %d", dtype);
    return NULL;
  }
  pni_spec s = {.dtype = dtype, .ndim = ndim};
  for (int i = 0; i < ndim; i++) s.shape[i] = shape[i];
  return pni_scoped(c, pni_tensor_new(c, &s));
}

static void store(pn_tensor *t, int64_t i, double v) {
  void *p = pni_data(t);
  switch (t->dtype) {
  case PN_FLOAT64: ((double *)p)[i] = v; break;
  case PN_FLOAT32: ((float *)p)[i] = (float)v; break;
  case PN_INT64: ((int64_t *)p)[i] = (int64_t)v; break;
  default: ((uint8_t *)p)[i] = v != 0;
  }
}

pn_tensor *pn_zeros(pn_context *c, pn_dtype dtype, int ndim, const int64_t *shape) {
  pn_tensor *t = make(c, (int)dtype, ndim, shape);
  return t && pni_clear(c, pni_data(t), (size_t)t->numel * pni_itemsize(t)) == PN_OK ? t : NULL;
}

pn_tensor *pn_full(pn_context *c, pn_dtype dtype, int ndim, const int64_t *shape, double value) {
  if (dtype == PN_INT64 && !(fabs(value) <= 9.2e18)) {
    pni_fail(c, PN_DOMAIN, "full: value must fit into int64, got %g", value);
    return NULL;
  }
  pn_tensor *t = make(c, (int)dtype, ndim, shape);
  for (pni_span s = {0}; t && pni_next_span(c, t->numel, &s);)
    for (int64_t i = s.begin; i < s.end; i++) store(t, i, value);
  return pni_failed(c) ? NULL : t;
}

pn_tensor *pn_scalar(pn_context *c, pn_dtype dtype, double value) { return pn_full(c, dtype, 0, NULL, value); }

pn_tensor *pn_from_data(pn_context *c, pn_dtype dtype, int ndim, const int64_t *shape, const void *data) {
  pn_tensor *t = make(c, (int)dtype, ndim, shape);
  if (!t || !PNI_LISTED(c, "from_data", t->numel, data)) return NULL;
  if (pni_copy_bytes(c, pni_data(t), data, (size_t)t->numel * pni_itemsize(t))) return NULL;
  uint8_t *truth = t->dtype == PN_BOOL ? pni_data(t) : NULL;
  for (pni_span s = {0}; truth && pni_next_span(c, t->numel, &s);)
    for (int64_t i = s.begin; i < s.end; i++) truth[i] = truth[i] != 0; /* inside, bool is 0 or 1 */
  return pni_failed(c) ? NULL : t;
}

static pn_tensor *sequence(pn_context *c, pn_dtype dtype, double start, double step, int64_t n) {
  pn_tensor *t = make(c, (int)dtype, 1, &n);
  for (pni_span s = {0}; t && pni_next_span(c, n, &s);)
    for (int64_t i = s.begin; i < s.end; i++) store(t, i, start + (double)i * step);
  return pni_failed(c) ? NULL : t;
}

pn_tensor *pn_arange(pn_context *c, pn_dtype dtype, double start, double stop, double step) {
  double n = ceil((stop - start) / step);
  if (!isfinite(n) || fabs(n) > 1e13) {
    pni_fail(c, PN_DOMAIN, "arange: step must lead from start to stop, got %g, %g, %g", start, stop, step);
    return NULL;
  }
  return sequence(c, dtype, start, step, n > 0 ? (int64_t)n : 0);
}

pn_tensor *pn_linspace(pn_context *c, pn_dtype dtype, double start, double stop, int64_t n) {
  if (n < 0 || dtype > PN_FLOAT32) {
    pni_fail(c, PN_DOMAIN, "linspace: n must not be negative and dtype a float, got %lld and %s", (long long)n,
             pn_dtype_name(dtype));
    return NULL;
  }
  pn_tensor *t = sequence(c, dtype, start, n > 1 ? (stop - start) / (double)(n - 1) : 0, n);
  if (t && n > 1) store(t, n - 1, stop);
  return t;
}

pn_tensor *pn_eye(pn_context *c, pn_dtype dtype, int64_t n, int64_t m) {
  pn_tensor *t = pn_zeros(c, dtype, 2, (int64_t[]){n, m});
  for (pni_span s = {0}; t && pni_next_span(c, n < m ? n : m, &s);)
    for (int64_t i = s.begin; i < s.end; i++) store(t, i * m + i, 1);
  return pni_failed(c) ? NULL : t;
}
