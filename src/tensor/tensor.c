/*
** tensor.c: storages, tensors, references. Freeing is iterative: a tensor whose last reference goes is
** put on the context's list, and one loop empties the list, so a chain of a million nodes needs no
** stack.
*/
#include <stdio.h>
#include <string.h>
#include "tensor.h"

static const char *const dtype_names[] = {"float64", "float32", "int64", "bool"};
static const size_t dtype_sizes[] = {8, 4, 8, 1};

const char *pn_dtype_name(pn_dtype dtype) { return (unsigned)dtype < 4 ? dtype_names[dtype] : "?"; }
size_t pn_dtype_size(pn_dtype dtype) { return (unsigned)dtype < 4 ? dtype_sizes[dtype] : 0; }

/* ---- storage: header and data are one block; the header takes the first 64 bytes ---- */

enum { HEADER = 64 };

static pni_storage *storage_new(pn_context *c, size_t bytes) {
  pni_storage *s = pni_alloc(c, HEADER + bytes);
  if (!s) return NULL;
  s->refs = 1;
  s->version = 0;
  s->bytes = bytes;
  s->data = (char *)s + HEADER;
  s->cargo = NULL;
  return s;
}

static void storage_unref(pn_context *c, pni_storage *s) {
  if (!s || --s->refs > 0) return;
  if (s->cargo) s->cargo->release(c, s->data);
  pni_free(c, s);
}

/* ---- geometry ---- */

int64_t pni_count(int ndim, const int64_t *shape) {
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) n = pni_times(n, shape[i]);
  return n;
}

void pni_set_contiguous_strides(pn_tensor *t) {
  int64_t s = 1;
  for (int i = t->ndim - 1; i >= 0; i--) {
    t->stride[i] = s;
    s *= t->shape[i];
  }
}

bool pni_is_contiguous(const pn_tensor *t) {
  int64_t s = 1;
  for (int i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] != 1 && t->stride[i] != s) return t->numel == 0;
    s *= t->shape[i];
  }
  return true;
}

pni_spec pni_spec_of(const pn_tensor *t) {
  pni_spec s = {.dtype = t->dtype, .ndim = t->ndim};
  for (int i = 0; i < t->ndim; i++) s.shape[i] = t->shape[i];
  return s;
}

const char *pni_shape_text(int ndim, const int64_t *shape, char buf[PNI_SHAPE_TEXT]) {
  int n = 0;
  buf[n++] = '[';
  for (int i = 0; i < ndim && n < 136; i++)
    n += snprintf(buf + n, (size_t)(160 - n), i ? ", %lld" : "%lld", (long long)shape[i]);
  buf[n++] = ']';
  buf[n] = '\0';
  return buf;
}

/* ---- tensors ---- */

static pn_tensor *shell(pn_context *c) {
  pn_tensor *t = pni_alloc(c, sizeof *t);
  if (!t) return NULL;
  t->refs = 1;
  t->flags = 0;
  t->ctx = c;
  t->storage = NULL;
  t->offset = 0;
  t->op = NULL;
  t->attr = NULL;
  t->in = t->edges;
  t->nin = 0;
  t->mark = 0;
  t->slot = 0;
  t->id = 0;
  t->grad = NULL;
  t->link = NULL;
  pni_object_born(c);
  return t;
}

bool pni_shape_given(pn_context *c, const char *where, int ndim, const int64_t *shape) {
  if (ndim >= 0 && ndim <= PN_MAX_DIMS) return PNI_LISTED(c, where, ndim, shape);
  pni_fail(c, PN_SHAPE, "%s: number of axes must be 0 to %d, got %d", where, PN_MAX_DIMS, ndim);
  return false;
}

/* Elements: where sizes have 32 bits, so many that a few numbers for each of them are counted right. */
static const int64_t MOST = (int64_t)1 << (SIZE_MAX > UINT32_MAX ? 44 : 26);

int64_t pni_checked_count(pn_context *c, const pni_spec *spec) {
  int64_t n = 1; /* without the sizes that are 0: strides and counts of some of the axes are bounded as well */
  bool empty = false;
  if (spec->ndim < 0 || spec->ndim > PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "tensor: number of axes must be 0 to %d, got %d", PN_MAX_DIMS, spec->ndim);
    return -1;
  }
  for (int i = 0; i < spec->ndim; i++) {
    if (spec->shape[i] < 0) {
      pni_fail(c, PN_SHAPE, "tensor: size of an axis must not be negative, got %lld", (long long)spec->shape[i]);
      return -1;
    }
    if (spec->shape[i] && n > MOST / spec->shape[i]) {
      char buf[PNI_SHAPE_TEXT];
      pni_fail(c, PN_NOMEM, "tensor: shape %s is too large for memory", pni_shape_text(spec->ndim, spec->shape, buf));
      return -1;
    }
    if (spec->shape[i])
      n *= spec->shape[i];
    else
      empty = true;
  }
  return empty ? 0 : n;
}

pn_tensor *pni_tensor_new(pn_context *c, const pni_spec *spec) {
  if (pni_failed(c)) return NULL;
  int64_t n = pni_checked_count(c, spec);
  if (n < 0) return NULL;
  pn_tensor *t = shell(c);
  if (!t) return NULL;
  t->dtype = spec->dtype;
  t->ndim = spec->ndim;
  t->numel = n;
  for (int i = 0; i < spec->ndim; i++) t->shape[i] = spec->shape[i];
  pni_set_contiguous_strides(t);
  t->storage = storage_new(c, (size_t)n * dtype_sizes[t->dtype]);
  if (t->storage) return t;
  pn_tensor_unref(t);
  return NULL;
}

pn_tensor *pni_tensor_alias(pn_context *c, const pn_tensor *t) {
  if (pni_failed(c)) return NULL;
  pn_tensor *v = shell(c);
  if (!v) return NULL;
  v->dtype = t->dtype;
  v->ndim = t->ndim;
  v->numel = t->numel;
  v->offset = t->offset;
  memcpy(v->shape, t->shape, sizeof v->shape);
  memcpy(v->stride, t->stride, sizeof v->stride);
  v->storage = t->storage;
  v->storage->refs++;
  v->slot = t->slot;
  return v;
}

pn_tensor *pn_tensor_ref(pn_tensor *t) {
  if (t) t->refs++;
  return t;
}

void pni_tensor_cut(pn_tensor *t) {
  pni_edge *in = t->in;
  int n = t->nin;
  t->op = NULL;
  t->flags &= ~PNI_REQUIRES_GRAD;
  t->in = t->edges;
  t->nin = 0;
  for (int k = 0; k < n; k++) pn_tensor_unref(in[k].t);
  if (in != t->edges) pni_free(t->ctx, in);
}

static void bury(pn_context *c, pn_tensor *t) {
  pni_tensor_cut(t);
  pni_free(c, t->attr);
  pn_tensor_unref(t->grad);
  storage_unref(c, t->storage);
  pni_free(c, t);
  c->objects--;
}

void pn_tensor_unref(pn_tensor *t) {
  if (!t || --t->refs > 0) return;
  pn_context *c = t->ctx;
  t->link = c->dying;
  c->dying = t;
  if (c->freeing) return;
  c->freeing = true;
  while (c->dying) {
    pn_tensor *next = c->dying;
    c->dying = next->link;
    bury(c, next);
  }
  c->freeing = false;
  c->objects++;
  pni_object_died(c);
}

pn_dtype pn_tensor_dtype(const pn_tensor *t) { return t ? (pn_dtype)t->dtype : 0; }
int pn_tensor_ndim(const pn_tensor *t) { return t ? t->ndim : 0; }
const int64_t *pn_tensor_shape(const pn_tensor *t) { return t ? t->shape : NULL; }
int64_t pn_tensor_numel(const pn_tensor *t) { return t ? t->numel : 0; }
const void *pn_tensor_data(const pn_tensor *t) {
  if (!t) return NULL;
  if (pni_check_read(t->ctx, t, "data")) return NULL;
  return pni_is_contiguous(t) ? pni_data(t) : NULL;
}

/* ---- reading elements ---- */

static double load(const void *p, int dtype) {
  switch (dtype) {
  case PN_FLOAT64: return *(const double *)p;
  case PN_FLOAT32: return (double)*(const float *)p;
  case PN_INT64: return (double)*(const int64_t *)p;
  default: return (double)*(const uint8_t *)p;
  }
}

double pni_element(const pn_tensor *t, int64_t position) {
  pn_context *c = t->ctx;
  if (c->recorder && !c->evaluating && !c->broken[0] && pni_varies(c, t))
    snprintf(c->broken, sizeof c->broken, "an element of a tensor was read that differs from call to call");
  int64_t at = 0;
  for (int i = t->ndim - 1; i >= 0; i--) {
    at += position % t->shape[i] * t->stride[i];
    position /= t->shape[i];
  }
  return load((const char *)pni_data(t) + at * (int64_t)dtype_sizes[t->dtype], t->dtype);
}

pn_status pn_tensor_item(pn_context *c, const pn_tensor *t, double *out) {
  if (!PNI_GIVEN(c, "item", t, out)) return c->status;
  if (t->numel != 1) {
    char buf[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_SHAPE, "item: tensor must have one element, got shape %s",
                    pni_shape_text(t->ndim, t->shape, buf));
  }
  if (pni_check_read(c, t, "item")) return c->status;
  *out = load(pni_data(t), t->dtype);
  return PN_OK;
}

pn_status pn_tensor_copy_out(pn_context *c, const pn_tensor *t, double *out, int64_t n) {
  if (!PNI_GIVEN(c, "copy_out", t)) return c->status;
  if (n != t->numel)
    return pni_fail(c, PN_SHAPE, "copy_out: n must be %lld, got %lld", (long long)t->numel, (long long)n);
  if (!PNI_LISTED(c, "copy_out", n, out)) return c->status;
  if (pni_check_read(c, t, "copy_out")) return c->status;
  if (t->dtype == PN_FLOAT64 && pni_is_contiguous(t)) {
    if (n) memcpy(out, pni_data(t), (size_t)n * sizeof *out);
    return PN_OK;
  }
  pn_tensor *d = pni_contiguous(c, t);
  if (!d) return c->status;
  const char *p = pni_data(d);
  for (int64_t i = 0; i < n; i++) out[i] = load(p + i * (int64_t)dtype_sizes[d->dtype], d->dtype);
  pn_tensor_unref(d);
  return PN_OK;
}

pn_tensor *pni_contiguous(pn_context *c, const pn_tensor *t) {
  if (pni_is_contiguous(t)) return pn_tensor_ref((pn_tensor *)t);
  pni_spec spec = pni_spec_of(t);
  pn_tensor *d = pni_tensor_new(c, &spec);
  if (d && pni_copy(c, d, t) != PN_OK) {
    pn_tensor_unref(d);
    return NULL;
  }
  return d;
}

/* ---- capture ---- */

pn_status pni_refuse_read(pn_context *c, const pn_tensor *t, const char *what) {
  if (!pni_varies(c, t)) return PN_OK;
  return pni_fail(c, PN_STATE,
                  "compile: %s reads a value that differs from call to call, and what is done with it would be frozen "
                  "(choose with where, or return the tensor and read it outside)",
                  what);
}

pn_status pni_refuse_capture(pn_context *c, const char *what, const char *instead) {
  if (!c->recorder) return c->status;
  return pni_fail(c, PN_STATE, "compile: %s cannot be part of a compiled function: %s", what, instead);
}
