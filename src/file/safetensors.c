/*
** safetensors.c: safetensors: the header's length (8 bytes, little-endian), a JSON object
**   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"key": "text"}}
** and the elements, little-endian. Source: github.com/huggingface/safetensors, "Format". As there, the
** tensors must cover the data without holes or overlaps. libcjson reads and writes the header; it takes
** its memory from malloc, so the header's size is held against the context's limit beforehand.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>
#include "file.h"

/* Memory that libcjson needs at worst for each byte of JSON: a node of 64 bytes for "1,". */
enum { JSON_COST = 48, HEADER_LIMIT = 100000000 };
/* And nanoseconds, in one piece: a header that the time left does not suffice for is refused beforehand. */
enum { JSON_TIME = 40 };

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

/* A whole number from 0 to 2^53, or -1. */
static int64_t whole(const cJSON *item) {
  if (!cJSON_IsNumber(item)) return -1;
  double v = item->valuedouble;
  return v >= 0 && v <= 0x1p53 && v == floor(v) ? (int64_t)v : -1;
}

static pn_status bad_entry(const pni_source *s, const char *name, const char *what) {
  char buf[64];
  return pni_source_fail(s, PN_FORMAT, "is damaged: tensor '%s' %s", pni_printable(name, strlen(name), buf), what);
}

static pn_status read_shape(const pni_source *s, const cJSON *list, entry *e) {
  const cJSON *item;
  if (!cJSON_IsArray(list)) return bad_entry(s, e->name, "has no shape");
  cJSON_ArrayForEach(item, list) {
    int64_t size = whole(item);
    if (size < 0) return bad_entry(s, e->name, "has a shape that is no list of sizes");
    if (e->ndim == PN_MAX_DIMS) return pni_source_fail(s, PN_SHAPE, "holds a tensor of more than %d axes", PN_MAX_DIMS);
    e->shape[e->ndim++] = size;
  }
  return PN_OK;
}

static pn_status read_entry(const pni_source *s, const cJSON *item, entry *e) {
  char buf[64], name[64];
  e->name = item->string;
  e->ndim = 0;
  if (!cJSON_IsObject(item)) return bad_entry(s, e->name, "has no description");
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
  const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
  if (!cJSON_IsString(dtype)) return bad_entry(s, e->name, "has no dtype");
  e->type = pni_element_safetensors(dtype->valuestring);
  if (!e->type)
    return pni_source_fail(s, PN_DTYPE, "has elements of type '%s' in tensor '%s', which cannot be read",
                           pni_printable(dtype->valuestring, strlen(dtype->valuestring), buf),
                           pni_printable(e->name, strlen(e->name), name));
  pn_status status = read_shape(s, cJSON_GetObjectItemCaseSensitive(item, "shape"), e);
  if (status != PN_OK) return status;
  if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2) return bad_entry(s, e->name, "has no data_offsets");
  e->begin = whole(cJSON_GetArrayItem(offsets, 0));
  e->end = whole(cJSON_GetArrayItem(offsets, 1));
  if (e->begin < 0 || e->end < e->begin) return bad_entry(s, e->name, "has impossible data_offsets");
  int64_t n = pni_source_count(s, e->type, e->ndim, e->shape);
  if (n < 0) return s->c->status;
  if (n * e->type->size != e->end - e->begin)
    return bad_entry(s, e->name, "has data_offsets that do not fit its shape");
  return PN_OK;
}

static int by_offset(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

/* Names that appear twice are found when the archive is filled. */
static pn_status read_metadata(const pni_source *s, const cJSON *item, pn_archive *a) {
  const cJSON *text;
  if (!cJSON_IsObject(item)) return pni_source_fail(s, PN_FORMAT, "is damaged: its metadata is no object");
  cJSON_ArrayForEach(text, item) {
    if (!cJSON_IsString(text)) return pni_source_fail(s, PN_FORMAT, "is damaged: its metadata holds more than texts");
    if (pn_archive_set_text(s->c, a, text->string, text->valuestring) != PN_OK) return s->c->status;
    if (pn_archive_text_count(a) % 4096 == 0 && pni_check_cancel(s->c) != PN_OK) return s->c->status;
  }
  return PN_OK;
}

static pn_status read_entries(const pni_source *s, const cJSON *root, pn_archive *a, entry *list, int64_t *count) {
  const cJSON *item;
  bool metadata = false;
  int64_t n = 0;
  cJSON_ArrayForEach(item, root) {
    pn_status status = PN_OK;
    if (strcmp(item->string, "__metadata__") == 0) {
      if (metadata) return pni_source_fail(s, PN_FORMAT, "is damaged: it has metadata twice");
      metadata = true;
      status = read_metadata(s, item, a);
    } else {
      list[n].order = n;
      status = read_entry(s, item, &list[n++]);
      if (status == PN_OK && n % 4096 == 0) status = pni_check_cancel(s->c);
    }
    if (status != PN_OK) return status;
  }
  qsort(list, (size_t)n, sizeof *list, by_offset);
  int64_t at = 0;
  for (int64_t i = 0; i < n; at = list[i++].end)
    if (list[i].begin != at) return bad_entry(s, list[i].name, "does not begin where the one before it ends");
  if (at != s->room)
    return pni_source_fail(s, PN_FORMAT, "is damaged: %lld bytes of data belong to no tensor",
                           (long long)(s->room - at));
  *count = n;
  return PN_OK;
}

/* ---- reading ---- */

static pn_status read_tensors(pni_source *s, const entry *list, int64_t n, pn_archive *a) {
  for (int64_t i = 0; i < n; i++) {
    char buf[64];
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

static pn_status read_body(pni_source *s, const cJSON *root, pn_archive *a, const wanted *w) {
  int64_t n = cJSON_GetArraySize(root);
  size_t bytes = (size_t)(n ? n : 1) * sizeof(entry);
  entry *list = pni_alloc(s->c, bytes);
  if (!list) return s->c->status;
  pn_status status = read_entries(s, root, a, list, &n);
  if (status == PN_OK) status = w ? find_tensor(s, list, n, w) : read_tensors(s, list, n, a);
  pni_free(s->c, list, bytes);
  return status;
}

static pn_status parse(pni_source *s, const char *text, size_t n, pn_archive *a, const wanted *w) {
  const char *end = NULL;
  if (!is_utf8((const unsigned char *)text, n))
    return pni_source_fail(s, PN_FORMAT, "is damaged: its header is not UTF-8");
  cJSON *root = *text == '{' ? cJSON_ParseWithLengthOpts(text, n, &end, 0) : NULL;
  while (root && end < text + n && strchr(" \t\r\n", *end)) end++;
  pn_status status;
  if (!root || end < text + n)
    status = pni_source_fail(s, PN_FORMAT, "is damaged: its header is no JSON object");
  else
    status = read_body(s, root, a, w);
  cJSON_Delete(root);
  return status;
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
  if (s->c->limit && n * JSON_COST > s->c->limit - (s->c->held < s->c->limit ? s->c->held : s->c->limit))
    return pni_source_fail(s, PN_NOMEM, "has a header of %llu bytes, too large for the memory limit",
                           (unsigned long long)n);
  if (s->c->deadline && (int64_t)n * JSON_TIME > s->c->deadline - pni_now())
    return pni_source_fail(s, PN_CANCELLED, "has a header of %llu bytes, too large for the time limit",
                           (unsigned long long)n);
  char *text = pni_alloc(s->c, (size_t)n);
  if (!text) return s->c->status;
  status = pni_source_read(s, text, (size_t)n);
  if (status == PN_OK) status = parse(s, text, (size_t)n, a, w);
  pni_free(s->c, text, (size_t)n);
  return status;
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

static bool describe(cJSON *root, const item *x, int64_t begin) {
  cJSON *o = cJSON_AddObjectToObject(root, x->name);
  if (!o || !cJSON_AddStringToObject(o, "dtype", pni_element_of(x->t->dtype)->safetensors)) return false;
  cJSON *shape = cJSON_AddArrayToObject(o, "shape");
  bool ok = shape != NULL;
  for (int i = 0; ok && i < x->t->ndim; i++)
    ok = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)x->t->shape[i]));
  cJSON *offsets = ok ? cJSON_AddArrayToObject(o, "data_offsets") : NULL;
  int64_t end = begin + x->t->numel * (int64_t)pni_itemsize(x->t);
  return offsets && cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)begin)) &&
         cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)end));
}

/* The header's text, to be freed with cJSON_free; NULL for lack of memory. */
static char *header_text(const pn_archive *a, const item *list, int64_t n) {
  cJSON *root = cJSON_CreateObject();
  bool ok = root != NULL;
  cJSON *texts = ok && pn_archive_text_count(a) ? cJSON_AddObjectToObject(root, "__metadata__") : NULL;
  if (ok && pn_archive_text_count(a)) ok = texts != NULL;
  for (int64_t i = 0; ok && i < pn_archive_text_count(a); i++) {
    const char *key = pn_archive_text_key(a, i);
    ok = cJSON_AddStringToObject(texts, key, pn_archive_text(a, key)) != NULL;
  }
  int64_t at = 0;
  for (int64_t i = 0; ok && i < n; i++) {
    ok = describe(root, &list[i], at);
    at += list[i].t->numel * (int64_t)pni_itemsize(list[i].t);
  }
  char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
  cJSON_Delete(root);
  return text;
}

static pn_status write_file(pni_sink *s, const char *text, const item *list, int64_t n) {
  size_t length = strlen(text), padded = (length + 7) / 8 * 8;
  unsigned char lead[8];
  for (int k = 0; k < 8; k++) lead[k] = (unsigned char)((uint64_t)padded >> (8 * k));
  pn_status status = pni_sink_write(s, lead, 8);
  if (status == PN_OK) status = pni_sink_write(s, text, length);
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
  size_t bytes = (size_t)(n ? n : 1) * sizeof(item);
  item *list = pni_alloc(c, bytes);
  if (!list) return c->status;
  for (int64_t i = 0; i < n; i++) list[i] = (item){pn_archive_name(a, i), pn_archive_tensor(a, i)};
  qsort(list, (size_t)n, sizeof *list, by_width);
  char *text = header_text(a, list, n);
  pni_sink s;
  if (!text)
    pni_fail(c, PN_NOMEM, "save_safetensors: out of memory");
  else if (pni_sink_open(c, "save_safetensors", path, false, &s) == PN_OK)
    pni_sink_close(&s, write_file(&s, text, list, n));
  cJSON_free(text);
  pni_free(c, list, bytes);
  return c->status;
}
