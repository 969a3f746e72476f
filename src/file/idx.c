/*
** idx.c: the IDX format of the MNIST files: two zero bytes, the element type, the number of axes, the
** sizes as big-endian 32-bit numbers, then the elements big-endian and row-major.
** Source: yann.lecun.com/exdb/mnist, "the IDX file format".
*/
#include <string.h>
#include "file.h"

static pn_status read_header(pni_source *s, pni_array_place *a) {
  unsigned char lead[4], size[4];
  pn_status status = pni_source_read(s, lead, 4);
  if (status != PN_OK) return status;
  a->type = pni_element_idx(lead[2]);
  a->big_endian = true;
  if (lead[0] || lead[1] || !a->type) return pni_source_fail(s, PN_FORMAT, "is no IDX file");
  if (lead[3] > PN_MAX_DIMS)
    return pni_source_fail(s, PN_SHAPE, "holds a tensor of %d axes; at most %d are possible", lead[3], PN_MAX_DIMS);
  a->ndim = lead[3];
  for (int i = 0; i < a->ndim && status == PN_OK; i++) {
    status = pni_source_read(s, size, 4);
    if (status == PN_OK)
      a->shape[i] = (int64_t)size[0] << 24 | (int64_t)size[1] << 16 | (int64_t)size[2] << 8 | size[3];
  }
  a->begin = s->at;
  return status;
}

pn_status pni_idx_find(pni_source *s, pni_array_place *a) {
  pn_status status = read_header(s, a);
  if (status != PN_OK) return status;
  int64_t n = pni_source_count(s, a->type, a->ndim, a->shape);
  if (n < 0) return s->c->status;
  if (n * a->type->size != s->room) return pni_source_fail(s, PN_FORMAT, "is damaged: more bytes follow the data");
  return PN_OK;
}

/* as < 0: the dtype that the elements widen to. */
static pn_tensor *read_idx(pni_source *s, int as) {
  pni_array_place a;
  if (read_header(s, &a) != PN_OK) return NULL;
  pn_tensor *t = pni_source_tensor_as(s, a.type, true, a.ndim, a.shape, as < 0 ? a.type->dtype : as);
  if (t && pni_source_finish(s) == PN_OK) return t;
  pn_tensor_unref(t);
  return NULL;
}

static pn_tensor *load(pn_context *c, const char *path, int as) {
  pni_source s;
  if (pni_source_open(c, "load_idx", path, &s) != PN_OK) return NULL;
  pn_tensor *t = read_idx(&s, as);
  pni_source_close(&s);
  return pni_scoped(c, t);
}

pn_tensor *pn_load_idx(pn_context *c, const char *path) { return load(c, path, -1); }

pn_tensor *pn_load_idx_as(pn_context *c, const char *path, pn_dtype dtype) {
  if (pni_failed(c)) return NULL;
  if ((unsigned)dtype <= PN_BOOL) return load(c, path, (int)dtype);
  pni_fail(c, PN_DTYPE, "load_idx: unknown dtype number %d", (int)dtype);
  return NULL;
}

/* ---- writing ---- */

/* The type byte for t: floats as they are, integers in one byte if they fit, else in four; 0: none. */
static int code_of(const pn_tensor *t) {
  if (t->dtype == PN_FLOAT64) return 0x0e;
  if (t->dtype == PN_FLOAT32) return 0x0d;
  if (t->dtype == PN_BOOL) return 0x08;
  const int64_t *p = pni_data(t);
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < t->numel; i++) {
    low = p[i] < low ? p[i] : low;
    high = p[i] > high ? p[i] : high;
  }
  return low >= 0 && high <= 255 ? 0x08 : low >= INT32_MIN && high <= INT32_MAX ? 0x0c : 0;
}

static void big32(unsigned char out[4], int64_t v) {
  for (int k = 0; k < 4; k++) out[k] = (unsigned char)((uint64_t)v >> (24 - 8 * k));
}

/* int64 elements as one or four bytes. */
static pn_status write_integers(pni_sink *s, const pn_tensor *t, int code) {
  const int64_t *p = pni_data(t);
  unsigned char chunk[4096];
  size_t n = 0, size = code == 0x08 ? 1 : 4;
  pn_status status = PN_OK;
  for (int64_t i = 0; i < t->numel && status == PN_OK; i++) {
    if (size == 1)
      chunk[n] = (unsigned char)p[i];
    else
      big32(chunk + n, p[i]);
    n += size;
    if (n < sizeof chunk && i + 1 < t->numel) continue;
    status = pni_sink_write(s, chunk, n);
    n = 0;
  }
  return status;
}

static pn_status write_idx(pn_context *c, const char *path, const pn_tensor *t) {
  int code = code_of(t);
  if (!code) return pni_fail(c, PN_DOMAIN, "save_idx: integers must fit into 32 bits");
  unsigned char head[4 + 4 * PN_MAX_DIMS] = {0, 0, (unsigned char)code, (unsigned char)t->ndim};
  for (int i = 0; i < t->ndim; i++) {
    if (t->shape[i] > UINT32_MAX)
      return pni_fail(c, PN_SHAPE, "save_idx: sizes must fit into 32 bits, got %lld", (long long)t->shape[i]);
    big32(head + 4 + 4 * i, t->shape[i]);
  }
  pni_sink s;
  pn_status status = pni_sink_open(c, "save_idx", path, path && pni_is_gz(path), &s);
  if (status != PN_OK) return status;
  status = pni_sink_write(&s, head, 4 + 4 * (size_t)t->ndim);
  if (status == PN_OK) status = t->dtype == PN_INT64 ? write_integers(&s, t, code) : pni_sink_tensor(&s, t, true);
  return pni_sink_close(&s, status);
}

pn_status pn_save_idx(pn_context *c, const char *path, const pn_tensor *t) {
  if (pni_failed(c)) return c->status;
  if (!t) return pni_fail(c, PN_STATE, "save_idx: tensor must not be NULL");
  if (pni_check_read(c, t, "save_idx")) return c->status;
  pn_tensor *d = pni_contiguous(c, t);
  if (!d) return c->status;
  pn_status status = write_idx(c, path, d);
  pn_tensor_unref(d);
  return status;
}
