/*
** npy.c: NumPy's array files, versions 1, 2 and 3: the magic, the version, the length of the header,
** a Python dict literal {'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }, then the elements.
** Source: NEP 1 and numpy.lib.format. Structured, string and object arrays are refused by name.
*/
#include <stdio.h>
#include <string.h>
#include "file.h"

enum { HEADER_LIMIT = 65536, MAX_AXES = 32 };

typedef struct {
  char descr[32];
  bool has_descr, has_order, has_shape, fortran;
  int ndim;
  int64_t shape[MAX_AXES];
} header;

/* ---- the dict literal: each function takes one piece at *p and moves on; false: it is something else ---- */

static void blanks(const char **p) { *p += strspn(*p, " \t\r\n"); }

static bool mark(const char **p, char ch) {
  blanks(p);
  if (**p != ch) return false;
  ++*p;
  return true;
}

/* A string without escapes, cut to `size`. */
static bool string(const char **p, char *out, size_t size) {
  blanks(p);
  char quote = **p;
  if (quote != '\'' && quote != '"') return false;
  const char *begin = ++*p;
  while (**p && **p != quote && **p != '\\') ++*p;
  if (**p != quote) return false;
  size_t n = (size_t)(*p - begin);
  if (n >= size) n = size - 1;
  memcpy(out, begin, n);
  out[n] = '\0';
  ++*p;
  return true;
}

static bool truth(const char **p, bool *out) {
  blanks(p);
  *out = strncmp(*p, "True", 4) == 0;
  if (!*out && strncmp(*p, "False", 5) != 0) return false;
  *p += *out ? 4 : 5;
  return true;
}

static bool sizes(const char **p, header *h) {
  if (!mark(p, '(')) return false;
  while (!mark(p, ')')) {
    int64_t v = 0;
    int digits = 0;
    blanks(p);
    for (; **p >= '0' && **p <= '9' && digits < 18; ++*p, digits++) v = v * 10 + (**p - '0');
    if (!digits || (**p >= '0' && **p <= '9') || h->ndim == MAX_AXES) return false;
    if (**p == 'L') ++*p; /* Python 2 */
    h->shape[h->ndim++] = v;
    if (mark(p, ',')) continue;
    if (!mark(p, ')')) return false;
    break;
  }
  return true;
}

static bool entry(const char **p, header *h) {
  char key[24];
  if (!string(p, key, sizeof key) || !mark(p, ':')) return false;
  if (strcmp(key, "descr") == 0 && !h->has_descr) {
    blanks(p);
    if (**p == '[') {
      strcpy(h->descr, "structured");
      return h->has_descr = false; /* its grammar is of no interest: refused by the caller */
    }
    return h->has_descr = string(p, h->descr, sizeof h->descr);
  }
  if (strcmp(key, "fortran_order") == 0 && !h->has_order) return h->has_order = truth(p, &h->fortran);
  if (strcmp(key, "shape") == 0 && !h->has_shape) return h->has_shape = sizes(p, h);
  return false;
}

static bool dictionary(const char *p, header *h) {
  if (!mark(&p, '{')) return false;
  while (!mark(&p, '}')) {
    if (!entry(&p, h)) return false;
    if (mark(&p, ',')) continue;
    if (!mark(&p, '}')) return false;
    break;
  }
  blanks(&p);
  return *p == '\0' && h->has_descr && h->has_order && h->has_shape;
}

/* ---- reading ---- */

static pn_status read_header(pni_source *s, header *h) {
  unsigned char lead[8], length[4] = {0};
  pn_status status = pni_source_read(s, lead, 8);
  if (status != PN_OK) return status;
  if (memcmp(lead, "\x93NUMPY", 6) != 0) return pni_source_fail(s, PN_FORMAT, "is no .npy file");
  if (lead[6] < 1 || lead[6] > 3 || lead[7] != 0)
    return pni_source_fail(s, PN_FORMAT, "has the .npy version %d.%d; 1.0, 2.0 and 3.0 are known", lead[6], lead[7]);
  if ((status = pni_source_read(s, length, lead[6] == 1 ? 2 : 4)) != PN_OK) return status;
  size_t n = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
  if (n > HEADER_LIMIT || (int64_t)n > s->room)
    return pni_source_fail(s, PN_FORMAT, "is damaged: it claims a header of %zu bytes", n);
  char *text = pni_alloc(s->c, n + 1);
  if (!text) return s->c->status;
  status = pni_source_read(s, text, n);
  text[n] = '\0';
  if (status == PN_OK && (strlen(text) != n || !dictionary(text, h))) {
    if (strcmp(h->descr, "structured") == 0)
      status = pni_source_fail(s, PN_DTYPE, "holds a structured array; only plain numbers are read");
    else
      status = pni_source_fail(s, PN_FORMAT, "is damaged: its header is no array description");
  }
  pni_free(s->c, text);
  return status;
}

/* The element type and byte order of a descr such as "<f8". */
static const pni_element_type *element_of(const pni_source *s, const header *h, bool *big) {
  char order = h->descr[0], buf[64];
  const uint16_t one = 1;
  const pni_element_type *e = order && strchr("<>=|", order) ? pni_element_npy(h->descr + 1) : NULL;
  *big = order == '>' || (order == '=' && *(const uint8_t *)&one == 0);
  if (!e)
    pni_source_fail(s, PN_DTYPE, "has elements of NumPy's type '%s'; floats, integers and booleans are read",
                    pni_printable(h->descr, sizeof h->descr, buf));
  return e;
}

/* t was read as the transpose (axes reversed): the row-major copy. Takes the reference to t. */
static pn_tensor *untranspose(pn_context *c, pn_tensor *t) {
  pn_tensor *v = pni_tensor_alias(c, t), *d = NULL;
  if (v) {
    for (int i = 0; i < t->ndim; i++) {
      v->shape[i] = t->shape[t->ndim - 1 - i];
      v->stride[i] = t->stride[t->ndim - 1 - i];
    }
    d = pni_contiguous(c, v);
  }
  pn_tensor_unref(v);
  pn_tensor_unref(t);
  return d;
}

/* The header, as far as it can be a tensor's. NULL is a failure. */
static const pni_element_type *read_description(pni_source *s, header *h, bool *big) {
  if (read_header(s, h) != PN_OK) return NULL;
  const pni_element_type *e = element_of(s, h, big);
  if (!e || h->ndim <= PN_MAX_DIMS) return e;
  pni_source_fail(s, PN_SHAPE, "holds an array of %d axes; at most %d are possible", h->ndim, PN_MAX_DIMS);
  return NULL;
}

pn_tensor *pni_npy_read(pni_source *s) {
  header h = {.ndim = 0};
  bool big;
  const pni_element_type *e = read_description(s, &h, &big);
  if (!e) return NULL;
  if (!h.fortran) return pni_source_tensor(s, e, big, h.ndim, h.shape);
  int64_t reversed[PN_MAX_DIMS];
  for (int i = 0; i < h.ndim; i++) reversed[i] = h.shape[h.ndim - 1 - i];
  pn_tensor *t = pni_source_tensor(s, e, big, h.ndim, reversed);
  return t ? untranspose(s->c, t) : NULL;
}

pn_status pni_npy_find(pni_source *s, pni_array_place *a) {
  header h = {.ndim = 0};
  a->type = read_description(s, &h, &a->big_endian);
  if (!a->type) return s->c->status;
  if (h.fortran && h.ndim > 1)
    return pni_source_fail(s, PN_FORMAT, "holds an array in Fortran's order, whose rows do not stand together");
  a->ndim = h.ndim;
  for (int i = 0; i < h.ndim; i++) a->shape[i] = h.shape[i];
  a->begin = s->at;
  int64_t n = pni_source_count(s, a->type, a->ndim, a->shape);
  if (n < 0) return s->c->status;
  if (n * a->type->size != s->room) return pni_source_fail(s, PN_FORMAT, "is damaged: more bytes follow the data");
  return PN_OK;
}

pn_tensor *pn_load_npy(pn_context *c, const char *path) {
  pni_source s;
  if (pni_source_open(c, "load_npy", path, &s) != PN_OK) return NULL;
  pn_tensor *t = pni_npy_read(&s);
  if (t && pni_source_finish(&s) != PN_OK) {
    pn_tensor_unref(t);
    t = NULL;
  }
  pni_source_close(&s);
  return pni_scoped(c, t);
}

/* ---- writing ---- */

size_t pni_npy_header(const pn_tensor *t, char buf[PNI_NPY_HEADER]) {
  static const char *const descr[] = {"<f8", "<f4", "<i8", "|b1"};
  enum { LEAD = 10, ALIGN = 64, GROWTH = 21 }; /* numpy leaves room for a longer first axis */
  char *text = buf + LEAD;
  int room = PNI_NPY_HEADER - LEAD, digits = 0;
  int n = snprintf(text, (size_t)room, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[t->dtype]);
  for (int i = 0; i < t->ndim; i++) {
    int k = snprintf(text + n, (size_t)(room - n), "%lld", (long long)t->shape[i]);
    if (i == 0) digits = k;
    n += k;
    if (t->ndim == 1 || i + 1 < t->ndim) n += snprintf(text + n, (size_t)(room - n), t->ndim == 1 ? "," : ", ");
  }
  n += snprintf(text + n, (size_t)(room - n), "), }");
  int pad = t->ndim ? GROWTH - digits : 0;
  pad += ALIGN - (LEAD + n + pad + 1) % ALIGN;
  memset(text + n, ' ', (size_t)pad);
  n += pad;
  text[n++] = '\n';
  memcpy(buf, "\x93NUMPY\x01", 7);
  buf[7] = 0;
  buf[8] = (char)(n & 0xff);
  buf[9] = (char)(n >> 8);
  return (size_t)(LEAD + n);
}

pn_status pn_save_npy(pn_context *c, const char *path, const pn_tensor *t) {
  pni_sink s;
  char head[PNI_NPY_HEADER];
  if (!t) return pni_failed(c) ? c->status : pni_fail(c, PN_STATE, "save_npy: tensor must not be NULL");
  if (pni_check_read(c, t, "save_npy")) return c->status;
  pn_status status = pni_sink_open(c, "save_npy", path, path && pni_is_gz(path), &s);
  if (status != PN_OK) return status;
  status = pni_sink_write(&s, head, pni_npy_header(t, head));
  if (status == PN_OK) status = pni_sink_tensor(&s, t, false);
  return pni_sink_close(&s, status);
}
