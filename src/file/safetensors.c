/*
** safetensors.c: safetensors: the header's length (8 bytes, little-endian), a JSON object
**   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"key": "text"}}
** and the elements, little-endian. Source: github.com/huggingface/safetensors, "Format". As there, the
** tensors must cover the data without holes or overlaps.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../base/sort.h"
#include "json_reader.h"

enum { HEADER_LIMIT = 100000000, STRIDE = 4096 };

typedef struct {
  const char *name;
  const pni_element_type *type;
  int ndim;
  int64_t shape[PN_MAX_DIMS];
  int64_t begin, end;
  int64_t order; /* in the header */
} entry;

/* ---- the header ---- */

static bool is_utf8(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n;) {
    unsigned ch = p[i++];
    int more = ch < 0x80                 ? 0
               : ch >= 0xc2 && ch < 0xe0 ? 1
               : ch >= 0xe0 && ch < 0xf0 ? 2
               : ch >= 0xf0 && ch < 0xf5 ? 3
                                         : -1;
    if (more < 0 || (size_t)more > n - i) return false;
    if (more && ((ch == 0xe0 && p[i] < 0xa0) || (ch == 0xed && p[i] > 0x9f) || (ch == 0xf0 && p[i] < 0x90) ||
                 (ch == 0xf4 && p[i] > 0x8f)))
      return false;
    for (; more; more--)
      if ((p[i++] & 0xc0) != 0x80) return false;
  }
  return true;
}

/* What the header says. Names are in `names`, in the same order. */
typedef struct {
  pni_source *s;
  pni_json json;
  pn_names *names;
  entry *list;
  int64_t n, cap;
} header;

static pn_status no_object(const header *h) {
  return pni_source_fail(h->s, PN_FORMAT, "is damaged: its header is no JSON object");
}

static pn_status bad_entry(const pni_source *s, const char *name, const char *what) {
  char buf[64];
  return pni_source_fail(s, PN_FORMAT, "is damaged: tensor '%s' %s", pni_printable(name, strlen(name), buf), what);
}

/* Is the key or text that came last a C string of UTF-8? */
static pn_status check_text(header *h) {
  const pni_json *j = &h->json;
  if (!is_utf8((const unsigned char *)j->text, j->length))
    return pni_source_fail(h->s, PN_FORMAT, "is damaged: its header is not UTF-8");
  if (strlen(j->text) != j->length)
    return pni_source_fail(h->s, PN_FORMAT, "is damaged: a text in its header holds a zero byte");
  return PN_OK;
}

/* A list of at most `most` whole numbers from 0 to 2^53, the next value; how many, or -1 if it is none. */
static int whole_numbers(header *h, int64_t *v, int most) {
  pni_json_kind kind = pni_json_next(&h->json);
  if (kind != PNI_JSON_LIST) return -1;
  int n = 0;
  while ((kind = pni_json_next(&h->json)) == PNI_JSON_NUMBER) {
    double x = h->json.number;
    if (!(x >= 0 && x <= 0x1p53 && x == floor(x))) return -1;
    if (n < most) v[n] = (int64_t)x;
    n += n <= most;
  }
  return kind == PNI_JSON_CLOSE ? n : -1;
}

static pn_status read_dtype(header *h, entry *e) {
  char buf[64], name[64];
  if (e->type) return bad_entry(h->s, e->name, "has two dtypes");
  if (pni_json_next(&h->json) != PNI_JSON_TEXT) return bad_entry(h->s, e->name, "has no dtype");
  e->type = pni_element_safetensors(h->json.text);
  if (e->type) return PN_OK;
  return pni_source_fail(h->s, PN_DTYPE, "has elements of type '%s' in tensor '%s', which cannot be read",
                         pni_printable(h->json.text, h->json.length, buf),
                         pni_printable(e->name, strlen(e->name), name));
}

static pn_status read_shape(header *h, entry *e) {
  if (e->ndim >= 0) return bad_entry(h->s, e->name, "has two shapes");
  e->ndim = whole_numbers(h, e->shape, PN_MAX_DIMS);
  if (e->ndim < 0) return bad_entry(h->s, e->name, "has a shape that is no list of sizes");
  if (e->ndim <= PN_MAX_DIMS) return PN_OK;
  return pni_source_fail(h->s, PN_SHAPE, "holds a tensor of more than %d axes", PN_MAX_DIMS);
}

static pn_status read_offsets(header *h, entry *e) {
  int64_t at[2] = {0, 0};
  if (e->begin >= 0) return bad_entry(h->s, e->name, "has data_offsets twice");
  if (whole_numbers(h, at, 2) != 2) return bad_entry(h->s, e->name, "has no data_offsets");
  if (at[1] < at[0]) return bad_entry(h->s, e->name, "has impossible data_offsets");
  e->begin = at[0];
  e->end = at[1];
  return PN_OK;
}

/* Is everything said, and does it fit? */
static pn_status check_entry(const header *h, const entry *e) {
  if (!e->type) return bad_entry(h->s, e->name, "has no dtype");
  if (e->ndim < 0) return bad_entry(h->s, e->name, "has no shape");
  if (e->begin < 0) return bad_entry(h->s, e->name, "has no data_offsets");
  int64_t n = pni_source_count(h->s, e->type, e->ndim, e->shape);
  if (n < 0) return h->s->c->status;
  if (n * e->type->size == e->end - e->begin) return PN_OK;
  return bad_entry(h->s, e->name, "has data_offsets that do not fit its shape");
}

/* What is said of the tensor e->name. */
static pn_status read_entry(header *h, entry *e) {
  pni_json_kind kind = pni_json_next(&h->json);
  e->type = NULL;
  e->ndim = -1;
  e->begin = -1;
  if (kind != PNI_JSON_OBJECT) return bad_entry(h->s, e->name, "has no description");
  while ((kind = pni_json_next(&h->json)) == PNI_JSON_KEY) {
    const char *key = h->json.text;
    pn_status s = strcmp(key, "dtype") == 0          ? read_dtype(h, e)
                  : strcmp(key, "shape") == 0        ? read_shape(h, e)
                  : strcmp(key, "data_offsets") == 0 ? read_offsets(h, e)
                                                     : pni_json_skip(&h->json);
    if (s != PN_OK) return s;
  }
  return kind == PNI_JSON_CLOSE ? check_entry(h, e) : h->s->c->status;
}

static entry *new_entry(header *h) {
  pn_context *c = h->s->c;
  if (pni_names_add(c, h->names, h->json.text, h->json.length)) return NULL;
  if (h->n == h->cap) {
    int64_t cap = h->cap ? 2 * h->cap : 16;
    entry *larger = pni_alloc_array(c, cap, sizeof *larger);
    if (!larger) return NULL;
    if (h->n) memcpy(larger, h->list, (size_t)h->n * sizeof *larger);
    pni_free(c, h->list);
    h->list = larger;
    h->cap = cap;
  }
  entry *e = &h->list[h->n];
  e->name = pn_names_at(h->names, h->n);
  e->order = h->n++;
  return e;
}

static int by_offset(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

/* Names that appear twice are found when the archive is filled. */
static pn_status read_metadata(header *h, pn_archive *a) {
  pni_json_kind kind = pni_json_next(&h->json);
  pn_names *key = kind == PNI_JSON_OBJECT ? pni_names_new(h->s->c) : NULL;
  if (kind != PNI_JSON_OBJECT) return pni_source_fail(h->s, PN_FORMAT, "is damaged: its metadata is no object");
  for (int64_t n = 0; key && (kind = pni_json_next(&h->json)) == PNI_JSON_KEY; n++) {
    if (check_text(h) || pni_names_add(h->s->c, key, h->json.text, h->json.length)) break;
    if (pni_json_next(&h->json) != PNI_JSON_TEXT) {
      pni_source_fail(h->s, PN_FORMAT, "is damaged: its metadata holds more than texts");
      break;
    }
    if (check_text(h) || pn_archive_set_text(h->s->c, a, pn_names_at(key, n), h->json.text)) break;
  }
  pn_names_free(key);
  return h->s->c->status;
}

static pn_status read_entries(header *h, pn_archive *a) {
  bool metadata = false;
  pni_json_kind kind = pni_json_next(&h->json);
  if (kind != PNI_JSON_OBJECT || pni_json_place(&h->json) != 1) return no_object(h);
  while ((kind = pni_json_next(&h->json)) == PNI_JSON_KEY) {
    pn_status status = check_text(h);
    if (status == PN_OK && strcmp(h->json.text, "__metadata__") == 0) {
      if (metadata) return pni_source_fail(h->s, PN_FORMAT, "is damaged: it has metadata twice");
      metadata = true;
      status = read_metadata(h, a);
    } else if (status == PN_OK) {
      entry *e = new_entry(h);
      status = e ? read_entry(h, e) : h->s->c->status;
    }
    if (status != PN_OK) return status;
  }
  if (kind == PNI_JSON_CLOSE) pni_json_next(&h->json); /* fails unless nothing follows */
  return h->s->c->status;
}

/* Puts the tensors in the order of their data, all of which they must cover. */
static pn_status check_cover(header *h) {
  const pni_source *s = h->s;
  if (pni_sort(s->c, h->list, h->n, sizeof *h->list, by_offset)) return s->c->status;
  int64_t at = 0;
  for (int64_t i = 0; i < h->n; at = h->list[i++].end)
    if (h->list[i].begin != at) return bad_entry(s, h->list[i].name, "does not begin where the one before it ends");
  if (at == s->room) return PN_OK;
  return pni_source_fail(s, PN_FORMAT, "is damaged: %lld bytes of data belong to no tensor", (long long)(s->room - at));
}

/* ---- reading ---- */

static pn_status read_tensors(pni_source *s, const entry *list, int64_t n, pn_archive *a) {
  for (int64_t i = 0; i < n; i++) {
    char buf[64];
    if (i % STRIDE == 0 && pni_check_cancel(s->c)) return s->c->status;
    if (pn_archive_find(a, list[i].name))
      return pni_source_fail(s, PN_FORMAT, "is damaged: the name '%s' appears twice",
                             pni_printable(list[i].name, strlen(list[i].name), buf));
    pn_tensor *t = pni_source_tensor(s, list[i].type, false, list[i].ndim, list[i].shape);
    if (!t) return s->c->status;
    pn_status status = pn_archive_add(s->c, a, list[i].name, t);
    pn_tensor_unref(t);
    if (status != PN_OK) return status;
  }
  return PN_OK;
}

/* What is looked for in the file, in place of all. */
typedef struct {
  const char *name; /* NULL: the only tensor */
  pni_array_place *place;
} wanted;

static pn_status find_tensor(pni_source *s, const entry *list, int64_t n, const wanted *w) {
  char buf[64];
  if (!w->name && n != 1)
    return pni_source_fail(s, PN_DOMAIN, "holds %lld tensors: one must be named, as '%s'", (long long)n,
                           n ? pni_printable(list->name, strlen(list->name), buf) : "");
  for (int64_t i = 0; i < n; i++) {
    const entry *e = &list[i];
    if (w->name && strcmp(e->name, w->name) != 0) continue;
    *w->place = (pni_array_place){.type = e->type, .ndim = e->ndim, .begin = s->at + e->begin};
    memcpy(w->place->shape, e->shape, sizeof e->shape);
    return PN_OK;
  }
  return pni_source_fail(s, PN_DOMAIN, "holds no tensor '%s'", pni_printable(w->name, strlen(w->name), buf));
}

/* The header is the next n bytes. */
static pn_status read_body(pni_source *s, int64_t n, pn_archive *a, const wanted *w) {
  header h = {.s = s, .names = pni_names_new(s->c)};
  if (h.names && pni_json_open(s, n, false, "is damaged: its header is no JSON object", &h.json) == PN_OK &&
      read_entries(&h, a) == PN_OK && check_cover(&h) == PN_OK) {
    if (w)
      find_tensor(s, h.list, h.n, w);
    else
      read_tensors(s, h.list, h.n, a);
  }
  pni_json_close(&h.json);
  pni_free(s->c, h.list);
  pn_names_free(h.names);
  return s->c->status;
}

static pn_status read_file(pni_source *s, pn_archive *a, const wanted *w) {
  unsigned char lead[8];
  pn_status status = pni_source_read(s, lead, 8);
  if (status != PN_OK) return status;
  uint64_t n = 0;
  for (int k = 7; k >= 0; k--) n = n << 8 | lead[k];
  if (n < 2 || n > HEADER_LIMIT || (int64_t)n > s->room)
    return pni_source_fail(s, PN_FORMAT, "is no safetensors file: it claims a header of %llu bytes",
                           (unsigned long long)n);
  return read_body(s, (int64_t)n, a, w);
}

pn_archive *pn_load_safetensors(pn_context *c, const char *path) {
  pni_source s;
  if (pni_source_open(c, "load_safetensors", path, &s) != PN_OK) return NULL;
  pn_archive *a = pn_archive_new(c);
  if (a && s.packed) pni_source_fail(&s, PN_FORMAT, "is gzipped; safetensors files are not");
  if (a && !pni_failed(c)) read_file(&s, a, NULL);
  pni_source_close(&s);
  if (!pni_failed(c)) return a;
  pn_archive_free(a);
  return NULL;
}

pn_status pni_safetensors_find(pni_source *s, const char *name, pni_array_place *place) {
  wanted w = {name, place};
  pn_archive *texts = pn_archive_new(s->c);
  if (texts) read_file(s, texts, &w);
  pn_archive_free(texts);
  return s->c->status;
}

/* ---- writing: wide elements first and names in order, as the safetensors package does, so that every
 * element is aligned in the file and equal content gives equal files ---- */

typedef struct {
  const char *name;
  pn_tensor *t;
} item;

/* The package's order of dtypes from wide to narrow: I64, F64, F32, BOOL. */
static int rank(const item *x) {
  static const int order[] = {1, 2, 0, 3};
  return order[x->t->dtype];
}

static int by_width(const void *a, const void *b) {
  int d = rank(a) - rank(b);
  return d ? d : strcmp(((const item *)a)->name, ((const item *)b)->name);
}

/* Where the header's text goes: to a sink, or nowhere to learn its length. */
typedef struct {
  pn_context *c;
  pni_sink *sink; /* NULL: bytes are counted alone */
  size_t n;
  int pieces;
} writer;

static void put(writer *w, const char *text, size_t n) {
  if (pni_failed(w->c) || (++w->pieces % STRIDE == 0 && pni_check_cancel(w->c))) return;
  w->n += n;
  if (w->sink) pni_sink_write(w->sink, text, n);
}

static void put_number(writer *w, const char *before, int64_t v) {
  char text[48];
  put(w, text, (size_t)snprintf(text, sizeof text, "%s%lld", before, (long long)v));
}

/* The text in quotes, with as few escapes as JSON allows. */
static void put_text(writer *w, const char *text) {
  static const char meant[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
  put(w, "\"", 1);
  for (size_t k; *text; text += k) {
    for (k = 0; (unsigned char)text[k] >= ' ' && text[k] != '"' && text[k] != '\\';) k++;
    if (k) put(w, text, k);
    if (k || !*text) continue;
    const char *at = strchr(meant, *text);
    char code[8];
    int n = at ? snprintf(code, sizeof code, "\\%c", letter[at - meant])
               : snprintf(code, sizeof code, "\\u%04x", (unsigned)(unsigned char)*text);
    put(w, code, (size_t)n);
    k = 1;
  }
  put(w, "\"", 1);
}

#define PUT(w, literal) put(w, literal, sizeof literal - 1)

static void put_metadata(writer *w, const pn_archive *a) {
  PUT(w, "\"__metadata__\":");
  for (int64_t i = 0; i < pn_archive_text_count(a) && !pni_failed(w->c); i++) {
    const char *key = pn_archive_text_key(a, i);
    put(w, i ? "," : "{", 1);
    put_text(w, key);
    PUT(w, ":");
    put_text(w, pn_archive_text(a, key));
  }
  PUT(w, "}");
}

static void put_header(writer *w, const pn_archive *a, const item *list, int64_t n) {
  int64_t at = 0;
  PUT(w, "{");
  if (pn_archive_text_count(a)) put_metadata(w, a);
  for (int64_t i = 0; i < n && !pni_failed(w->c); i++) {
    const pn_tensor *t = list[i].t;
    if (i || pn_archive_text_count(a)) PUT(w, ",");
    put_text(w, list[i].name);
    PUT(w, ":{\"dtype\":");
    put_text(w, pni_element_of(t->dtype)->safetensors);
    PUT(w, ",\"shape\":[");
    for (int k = 0; k < t->ndim; k++) put_number(w, k ? "," : "", t->shape[k]);
    put_number(w, "],\"data_offsets\":[", at);
    at += t->numel * (int64_t)pni_itemsize(t);
    put_number(w, ",", at);
    PUT(w, "]}");
  }
  PUT(w, "}");
}

#undef PUT

/* `length`: of the header's text. */
static pn_status write_file(pni_sink *s, size_t length, const pn_archive *a, const item *list, int64_t n) {
  size_t padded = (length + 7) / 8 * 8;
  unsigned char lead[8];
  for (int k = 0; k < 8; k++) lead[k] = (unsigned char)((uint64_t)padded >> (8 * k));
  pn_status status = pni_sink_write(s, lead, 8);
  if (status == PN_OK) put_header(&(writer){.c = s->c, .sink = s}, a, list, n);
  status = s->c->status;
  if (status == PN_OK) status = pni_sink_write(s, "        ", padded - length);
  for (int64_t i = 0; status == PN_OK && i < n; i++) status = pni_sink_tensor(s, list[i].t, false);
  return status;
}

static pn_status check_names(pn_context *c, const pn_archive *a) {
  char buf[64];
  for (int64_t i = 0; i < pn_archive_count(a); i++) {
    const char *name = pn_archive_name(a, i);
    if (strcmp(name, "__metadata__") == 0 || !is_utf8((const unsigned char *)name, strlen(name)))
      return pni_fail(c, PN_DOMAIN, "save_safetensors: a name must be UTF-8 and not __metadata__, got '%s'",
                      pni_printable(name, strlen(name), buf));
  }
  for (int64_t i = 0; i < pn_archive_text_count(a); i++) {
    const char *key = pn_archive_text_key(a, i), *text = pn_archive_text(a, key);
    if (!is_utf8((const unsigned char *)key, strlen(key)) || !is_utf8((const unsigned char *)text, strlen(text)))
      return pni_fail(c, PN_DOMAIN, "save_safetensors: metadata must be UTF-8, got '%s'",
                      pni_printable(key, strlen(key), buf));
  }
  return PN_OK;
}

pn_status pn_save_safetensors(pn_context *c, const char *path, const pn_archive *a) {
  if (pni_failed(c)) return c->status;
  if (!a) return pni_fail(c, PN_STATE, "save_safetensors: archive must not be NULL");
  if (check_names(c, a) != PN_OK) return c->status;
  int64_t n = pn_archive_count(a);
  item *list = pni_alloc_array(c, n, sizeof *list);
  if (!list) return c->status;
  for (int64_t i = 0; i < n; i++) list[i] = (item){pn_archive_name(a, i), pn_archive_tensor(a, i)};
  writer w = {.c = c};
  pni_sink s;
  if (pni_sort(c, list, n, sizeof *list, by_width) == PN_OK) put_header(&w, a, list, n);
  if (w.n > HEADER_LIMIT)
    pni_fail(c, PN_DOMAIN, "save_safetensors: names, shapes and texts must take at most %d bytes, got %zu",
             HEADER_LIMIT, w.n);
  if (!pni_failed(c) && pni_sink_open(c, "save_safetensors", path, false, &s) == PN_OK)
    pni_sink_close(&s, write_file(&s, w.n, a, list, n));
  pni_free(c, list);
  return c->status;
}
