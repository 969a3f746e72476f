/*
** raw.c: a file without a header: elements of one type, row-major, and nothing else (CIFAR's binary files, what
** NumPy's tofile writes, chunks of Zarr's arrays).
*/
#include <string.h>
#include "../base/given.h"
#include "file.h"

static const pni_element_type *element_of_name(const char *name) {
  static const char *const npy[] = {"f8", "f4", "i8", "b1", "f2", "i4", "i2", "i1", "u8", "u4", "u2", "u1"};
  for (size_t k = 0; k < sizeof npy / sizeof *npy; k++) {
    const pni_element_type *e = pni_element_npy(npy[k]);
    if (strcmp(pni_element_name(e), name) == 0) return e;
  }
  return NULL;
}

/* Is the file that long? (Of a packed one it is known when it has been read.) */
static bool fits(pni_source *s, const pni_element_type *e, int ndim, const int64_t *shape) {
  int64_t bytes = e->size;
  bool beyond = false;
  for (int k = 0; k < ndim; k++) beyond = __builtin_mul_overflow(bytes, shape[k], &bytes) || beyond;
  if (s->packed || (!beyond && bytes == s->room)) return true;
  char buf[PNI_SHAPE_TEXT];
  pni_source_fail(s, PN_SHAPE, "holds %lld bytes, which is not shape %s of %d bytes each", (long long)s->room,
                  pni_shape_text(ndim, shape, buf), e->size);
  return false;
}

static pn_status check_shape(pn_context *c, const char *where, int ndim, const int64_t *shape) {
  if (ndim > PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "%s: a shape of 0 to %d sizes is needed, got %d", where, PN_MAX_DIMS, ndim);
  for (int k = 0; k < ndim; k++)
    if (shape[k] < 0)
      return pni_fail(c, PN_SHAPE, "%s: shape.%d must not be negative, got %lld", where, k + 1, (long long)shape[k]);
  return PN_OK;
}

static pn_tensor *read_raw(pni_source *s, const pni_element_type *e, int ndim, const int64_t *shape, pn_dtype dtype) {
  if (!fits(s, e, ndim, shape) || pni_source_count(s, e, ndim, shape) < 0) return NULL;
  pn_tensor *t = pni_source_tensor_as(s, e, false, ndim, shape, (int)dtype);
  if (t && pni_source_finish(s) == PN_OK) return t;
  pn_tensor_unref(t);
  return NULL;
}

/* The type and byte order of NumPy's text "<f8"; NULL if there is none. */
static const pni_element_type *element_of_text(const char *text, bool *big_endian) {
  *big_endian = *text == '>';
  return *text && strchr("<>|=", *text) ? pni_element_npy(text + 1) : NULL;
}

pn_tensor *pn_load_chunk(pn_context *c, const char *path, const char *type, int ndim, const int64_t *shape) {
  if (!PNI_GIVEN(c, "load_chunk", type) || !PNI_LISTED(c, "load_chunk", ndim, shape)) return NULL;
  bool big_endian;
  char buf[64];
  const pni_element_type *e = element_of_text(type, &big_endian);
  pni_source s;
  if (!e) {
    pni_fail(c, PN_DTYPE, "load_chunk: type must be one such as <f8, <i4 or |b1, got %s",
             pni_printable(type, strlen(type), buf));
    return NULL;
  }
  if (check_shape(c, "load_chunk", ndim, shape) != PN_OK) return NULL;
  if (pni_source_open_plain(c, "load_chunk", path, &s) != PN_OK) return NULL;
  pn_tensor *t = NULL;
  if (fits(&s, e, ndim, shape)) t = pni_source_tensor_as(&s, e, big_endian, ndim, shape, e->dtype);
  pni_source_close(&s);
  return pni_scoped(c, t);
}

pn_tensor *pn_load_raw(pn_context *c, const char *path, const char *element, int ndim, const int64_t *shape,
                       pn_dtype dtype) {
  if (!PNI_GIVEN(c, "load_raw", element) || !PNI_LISTED(c, "load_raw", ndim, shape)) return NULL;
  const pni_element_type *e = element_of_name(element);
  pni_source s;
  if (!e) {
    pni_fail(c, PN_DOMAIN, "load_raw: element must be the name of a type such as uint8 or float32, got %s", element);
    return NULL;
  }
  if ((unsigned)dtype > PN_BOOL) {
    pni_fail(c, PN_DTYPE, "load_raw: unknown dtype number %d", (int)dtype);
    return NULL;
  }
  if (check_shape(c, "load_raw", ndim, shape) != PN_OK) return NULL;
  if (pni_source_open(c, "load_raw", path, &s) != PN_OK) return NULL;
  pn_tensor *t = read_raw(&s, e, ndim, shape, dtype);
  pni_source_close(&s);
  return pni_scoped(c, t);
}
