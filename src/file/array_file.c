/*
** array_file.c: an array that stays in its file and is read by rows, so that it may be larger than memory and its
** elements stay as narrow as they stand there until they are used. Rows are read with pread, not mapped: a file that
** shrinks meanwhile is an error, where a map would be a signal.
*/
#include <string.h>
#include "file.h"

struct pn_array_file {
  pn_context *c;
  pni_source s; /* open; its path is `path` */
  pni_array_place place;
  int64_t row; /* elements of a row */
  char path[];
};

static pn_status find(pni_source *s, const char *name, pni_array_place *a) {
  unsigned char magic[8] = {0};
  size_t got;
  if (s->packed) return pni_source_fail(s, PN_FORMAT, "is gzipped: its rows cannot be reached one by one");
  pn_status status = pni_source_some(s, magic, sizeof magic, &got);
  if (status != PN_OK) return status;
  s->at = 0;
  s->room = s->end;
  bool npy = memcmp(magic, "\x93NUMPY", 6) == 0, idx = !npy && !magic[0] && !magic[1] && magic[3];
  if ((npy || idx) && name) return pni_source_fail(s, PN_DOMAIN, "holds one array, which has no name");
  return npy ? pni_npy_find(s, a) : idx ? pni_idx_find(s, a) : pni_safetensors_find(s, name, a);
}

pn_array_file *pn_array_open(pn_context *c, const char *path, const char *name) {
  if (pni_failed(c)) return NULL;
  pn_array_file *a = pni_calloc(c, sizeof *a + (path ? strlen(path) : 0) + 1);
  if (!a) return NULL;
  a->c = c;
  if (path) strcpy(a->path, path);
  if (pni_source_open(c, "open", path ? a->path : NULL, &a->s) != PN_OK) {
    pni_free(c, a);
    return NULL;
  }
  pni_object_born(c);
  if (find(&a->s, name, &a->place) == PN_OK && a->place.ndim == 0)
    pni_source_fail(&a->s, PN_SHAPE, "holds a single number, which has no rows");
  if (pni_failed(c)) {
    pn_array_close(a);
    return NULL;
  }
  a->row = pni_count(a->place.ndim - 1, a->place.shape + 1);
  return a;
}

void pn_array_close(pn_array_file *a) {
  if (!a) return;
  pn_context *c = a->c;
  pni_source_close(&a->s);
  pni_free(c, a);
  pni_object_died(c);
}

int pn_array_ndim(const pn_array_file *a) { return a ? a->place.ndim : 0; }
const int64_t *pn_array_shape(const pn_array_file *a) { return a ? a->place.shape : NULL; }
pn_dtype pn_array_dtype(const pn_array_file *a) { return a ? (pn_dtype)a->place.type->dtype : 0; }
const char *pn_array_type(const pn_array_file *a) { return a ? pni_element_name(a->place.type) : NULL; }

/* Rows from `first` into memory. */
static pn_status read_rows(pn_context *c, const pn_array_file *a, int64_t first, int64_t count, int dtype, void *out) {
  pni_source part;
  const int64_t bytes = a->row * a->place.type->size;
  pn_status status = pni_source_range(&part, &a->s, a->place.begin + first * bytes, count * bytes, false);
  part.range = false; /* nobody asks for its sum */
  part.c = c;
  if (status == PN_OK)
    status = pni_source_elements(&part, a->place.type, a->place.big_endian, dtype, out, count * a->row);
  pni_source_close(&part);
  return status;
}

/* An uninitialised tensor of `count` rows; NULL is a failure. New. */
static pn_tensor *new_rows(pn_context *c, const pn_array_file *a, int64_t count, pn_dtype dtype) {
  if (pni_failed(c)) return NULL;
  if ((unsigned)dtype > PN_BOOL) {
    pni_fail(c, PN_DTYPE, "array: unknown dtype number %d", (int)dtype);
    return NULL;
  }
  pni_spec spec = {.dtype = (int)dtype, .ndim = a->place.ndim};
  memcpy(spec.shape, a->place.shape, sizeof spec.shape);
  spec.shape[0] = count;
  return pni_tensor_new(c, &spec);
}

static pn_tensor *finish(pn_context *c, pn_tensor *t, pn_status status) {
  if (status == PN_OK) return pni_scoped(c, t);
  pn_tensor_unref(t);
  return NULL;
}

pn_tensor *pn_array_rows(pn_context *c, const pn_array_file *a, int64_t first, int64_t count, pn_dtype dtype) {
  if (!PNI_GIVEN(c, "array_rows", a)) return NULL;
  if (first < 0 || count < 0 || first > a->place.shape[0] || count > a->place.shape[0] - first) {
    pni_fail(c, PN_DOMAIN, "array: rows must lie in 0 to %lld, got %lld from %lld on", (long long)a->place.shape[0] - 1,
             (long long)count, (long long)first);
    return NULL;
  }
  pn_tensor *t = new_rows(c, a, count, dtype);
  return t ? finish(c, t, read_rows(c, a, first, count, (int)dtype, pni_data(t))) : NULL;
}

pn_tensor *pn_array_take(pn_context *c, const pn_array_file *a, const pn_tensor *index, pn_dtype dtype) {
  if (!PNI_GIVEN(c, "array_take", a, index)) return NULL;
  if (index->dtype != PN_INT64 || index->ndim != 1) {
    pni_fail(c, PN_SHAPE, "array: index must be int64 [n]");
    return NULL;
  }
  if (pni_check_read(c, index, "an array in a file")) return NULL;
  pn_tensor *order = pni_contiguous(c, index), *t = order ? new_rows(c, a, order->numel, dtype) : NULL;
  const int64_t *row = t ? pni_data(order) : NULL;
  pn_status status = t ? PN_OK : c->status;
  const size_t bytes = t ? (size_t)a->row * pni_itemsize(t) : 0;
  for (int64_t i = 0, n; t && i < order->numel && status == PN_OK; i += n) {
    for (n = 1; i + n < order->numel && row[i + n] == row[i] + n;) n++; /* a run is read at once */
    if (row[i] < 0 || row[i] > a->place.shape[0] - n)
      status = pni_fail(c, PN_DOMAIN, "array: rows must lie in 0 to %lld, got %lld", (long long)a->place.shape[0] - 1,
                        (long long)(row[i] < 0 ? row[i] : row[i] + n - 1));
    else
      status = read_rows(c, a, row[i], n, (int)dtype, (char *)pni_data(t) + (size_t)i * bytes);
  }
  pn_tensor_unref(order);
  return t ? finish(c, t, status) : NULL;
}
