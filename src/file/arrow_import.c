/*
** arrow_import.c: columns by Arrow's C data interface as tensors, by copy. What the structs say of themselves is looked
** at before it is used; how long their buffers are they do not say, and their maker answers for it.
*/
#include <math.h>
#include <string.h>
#include "../base/given.h"
#include "file.h"

static const char where[] = "arrow_import";

enum { MOST_ROWS = INT32_MAX }; /* of a column, elements of its lists among them */

/* A column: where its numbers stand, below its lists of fixed size. */
typedef struct {
  pn_context *c;
  const char *name;
  const char *format;             /* of the numbers */
  const struct ArrowArray *array; /* of the numbers */
  int64_t offset, count;          /* of the numbers that are taken */
  int ndim;
  int64_t shape[PN_MAX_DIMS];
} arrow_column;

static pn_status refuse(const arrow_column *k, pn_status status, const char *what) {
  char buf[64];
  return pni_fail(k->c, status, "%s: column '%s' %s", where, pni_printable(k->name, strlen(k->name), buf), what);
}

static bool bit(const void *bits, int64_t i) { return ((const uint8_t *)bits)[i / 8] >> i % 8 & 1; }

static bool is_sound(const struct ArrowArray *a) {
  return a && a->release && a->length >= 0 && a->offset >= 0 && a->length <= MOST_ROWS && a->offset <= MOST_ROWS &&
         a->n_buffers >= 0 && a->n_children >= 0 && (a->n_buffers == 0 || a->buffers) &&
         (a->n_children == 0 || a->children);
}

/* The validity bits of an array in which something may be missing, else NULL. */
static const void *validity(const struct ArrowArray *a) {
  return a->null_count != 0 && a->n_buffers > 0 ? a->buffers[0] : NULL;
}

/* Are places `first` to first + n of the array all there? */
static bool all_valid(const struct ArrowArray *a, int64_t first, int64_t n) {
  const void *bits = validity(a);
  for (int64_t i = first; bits && i < first + n; i++)
    if (!bit(bits, i)) return false;
  return true;
}

/* ---- elements ---- */

typedef enum { AS_NONE, AS_FLOAT64, AS_FLOAT32, AS_HALF, AS_BOOL, AS_WHOLE } arrow_kind;

/* What the format is: a kind, and of whole numbers and halves their bytes, negative if unsigned. */
static arrow_kind kind_of(const char *format, int *bytes) {
  static const char whole[] = "cCsSiIlL";
  *bytes = 0;
  if (!format[0] || format[1]) return AS_NONE;
  const char *at = strchr(whole, format[0]);
  if (at) {
    int size = 1 << (at - whole) / 2;
    *bytes = (at - whole) % 2 ? -size : size;
    return AS_WHOLE;
  }
  return *format == 'g'   ? AS_FLOAT64
         : *format == 'f' ? AS_FLOAT32
         : *format == 'e' ? AS_HALF
         : *format == 'b' ? AS_BOOL
                          : AS_NONE;
}

/* Element i as int64; false if it cannot be one. */
static bool whole_at(const void *data, int64_t i, int bytes, int64_t *v) {
  uint64_t u;
  switch (bytes) {
  case 1: *v = ((const int8_t *)data)[i]; return true;
  case -1: *v = ((const uint8_t *)data)[i]; return true;
  case 2: *v = ((const int16_t *)data)[i]; return true;
  case -2: *v = ((const uint16_t *)data)[i]; return true;
  case 4: *v = ((const int32_t *)data)[i]; return true;
  case -4: *v = ((const uint32_t *)data)[i]; return true;
  case 8: *v = ((const int64_t *)data)[i]; return true;
  default:
    u = ((const uint64_t *)data)[i];
    *v = (int64_t)u;
    return u <= INT64_MAX;
  }
}

static pn_status copy_whole(const arrow_column *k, int bytes, int64_t *out) {
  for (int64_t i = 0; i < k->count; i++)
    if (!whole_at(k->array->buffers[1], k->offset + i, bytes, out + i))
      return refuse(k, PN_DOMAIN, "holds a number that int64 cannot");
  return PN_OK;
}

static void copy_half(const arrow_column *k, float *out) {
  const uint16_t *p = k->array->buffers[1];
  for (int64_t i = 0; i < k->count; i++) out[i] = pni_half(p[k->offset + i]);
}

/* NaN where a number is missing. */
static void copy_float(const arrow_column *k, arrow_kind kind, void *out) {
  const void *data = k->array->buffers[1], *bits = validity(k->array);
  size_t n = (size_t)k->count, at = (size_t)k->offset;
  if (kind == AS_FLOAT64)
    memcpy(out, (const double *)data + at, n * sizeof(double));
  else if (kind == AS_FLOAT32)
    memcpy(out, (const float *)data + at, n * sizeof(float));
  else
    copy_half(k, out);
  for (int64_t i = 0; bits && i < k->count; i++) {
    if (bit(bits, k->offset + i)) continue;
    if (kind == AS_FLOAT64)
      ((double *)out)[i] = NAN;
    else
      ((float *)out)[i] = NAN;
  }
}

static pn_tensor *read_column(const arrow_column *k) {
  int bytes;
  arrow_kind kind = kind_of(k->format, &bytes);
  pni_spec spec = {.dtype = kind == AS_FLOAT64 ? PN_FLOAT64
                            : kind == AS_BOOL  ? PN_BOOL
                            : kind == AS_WHOLE ? PN_INT64
                                               : PN_FLOAT32,
                   .ndim = k->ndim};
  for (int i = 0; i < k->ndim; i++) spec.shape[i] = k->shape[i];
  if (kind == AS_NONE)
    return refuse(k, PN_DTYPE, "has a type that no tensor holds (texts, dates and lists of any length)"), NULL;
  if (k->array->n_buffers != 2 || (k->count && !k->array->buffers[1]))
    return refuse(k, PN_FORMAT, "must have two buffers"), NULL;
  if ((kind == AS_BOOL || kind == AS_WHOLE) && !all_valid(k->array, k->offset, k->count))
    return refuse(k, PN_DOMAIN, "lacks a value, and only floats can be NaN"), NULL;
  pn_tensor *t = pni_tensor_new(k->c, &spec);
  if (!t || k->count == 0) return t;
  if (kind == AS_WHOLE && copy_whole(k, bytes, pni_data(t)) != PN_OK) {
    pn_tensor_unref(t);
    return NULL;
  }
  if (kind == AS_BOOL)
    for (int64_t i = 0; i < k->count; i++) ((uint8_t *)pni_data(t))[i] = bit(k->array->buffers[1], k->offset + i);
  if (kind == AS_FLOAT64 || kind == AS_FLOAT32 || kind == AS_HALF) copy_float(k, kind, pni_data(t));
  return t;
}

/* ---- columns ---- */

/* The size that "+w:3" says; -1 for another format. */
static int64_t list_size(const char *format) {
  int64_t n = 0;
  const char *p = format + 3;
  if (strncmp(format, "+w:", 3) != 0 || !*p) return -1;
  for (; *p >= '0' && *p <= '9' && n <= MOST_ROWS; p++) n = 10 * n + (*p - '0');
  return *p || n > MOST_ROWS ? -1 : n;
}

/* Walks down the lists of fixed size. k->offset and count are those of the array itself. */
static pn_status enter_lists(arrow_column *k, const struct ArrowSchema *s, const struct ArrowArray *a) {
  for (;;) {
    if (!s || !s->release || !s->format || !is_sound(a)) return refuse(k, PN_FORMAT, "is damaged");
    if (s->dictionary || a->dictionary) return refuse(k, PN_DTYPE, "is a dictionary, which no tensor holds");
    if (k->offset > a->offset + a->length || k->count > a->offset + a->length - k->offset)
      return refuse(k, PN_FORMAT, "is shorter than it says");
    int64_t size = list_size(s->format);
    if (size < 0) break;
    if (!all_valid(a, k->offset, k->count)) return refuse(k, PN_DOMAIN, "lacks a list");
    if (s->n_children != 1 || a->n_children != 1 || !s->children || !is_sound(a->children[0]))
      return refuse(k, PN_FORMAT, "is damaged");
    if (k->ndim == PN_MAX_DIMS) return refuse(k, PN_SHAPE, "has more axes than a tensor");
    if (size && (k->count > MOST_ROWS / size || k->offset > MOST_ROWS / size))
      return refuse(k, PN_SHAPE, "has more elements than are read");
    k->shape[k->ndim++] = size;
    k->offset = k->offset * size + a->children[0]->offset;
    k->count *= size;
    s = s->children[0];
    a = a->children[0];
  }
  k->format = s->format;
  k->array = a;
  return PN_OK;
}

static pn_status add_column(pn_context *c, pn_archive *out, const struct ArrowSchema *s, const struct ArrowArray *a,
                            int64_t offset, int64_t length) {
  arrow_column k = {.c = c, .name = s && s->name ? s->name : "", .ndim = 1, .shape = {length}, .count = length};
  if (!s || !is_sound(a)) return refuse(&k, PN_FORMAT, "is damaged");
  k.offset = offset + a->offset;
  if (enter_lists(&k, s, a) != PN_OK) return c->status;
  pn_tensor *t = read_column(&k);
  pn_status status = t ? pn_archive_add(c, out, k.name, t) : c->status;
  pn_tensor_unref(t);
  return status;
}

static pn_status add_columns(pn_context *c, pn_archive *out, const struct ArrowSchema *s, const struct ArrowArray *a) {
  if (!s->format || !is_sound(a)) return pni_fail(c, PN_FORMAT, "%s: the array is damaged or released", where);
  if (strcmp(s->format, "+s") != 0) return add_column(c, out, s, a, 0, a->length);
  if (s->n_children != a->n_children || s->n_children < 0 || (s->n_children && !s->children))
    return pni_fail(c, PN_FORMAT, "%s: schema and array must have as many columns", where);
  if (!all_valid(a, a->offset, a->length)) return pni_fail(c, PN_DOMAIN, "%s: a row is missing", where);
  for (int64_t k = 0; k < s->n_children; k++)
    if (add_column(c, out, s->children[k], a->children[k], a->offset, a->length) != PN_OK) break;
  return c->status;
}

pn_archive *pn_arrow_import(pn_context *c, struct ArrowSchema *schema, struct ArrowArray *array) {
  pn_archive *out = NULL;
  if (PNI_GIVEN(c, where, schema) && PNI_GIVEN(c, where, array)) {
    if (!schema->release || !array->release)
      pni_fail(c, PN_STATE, "%s: schema and array must not be released", where);
    else
      out = pn_archive_new(c);
    if (out && add_columns(c, out, schema, array) != PN_OK) {
      pn_archive_free(out);
      out = NULL;
    }
  }
  if (schema && schema->release) schema->release(schema);
  if (array && array->release) array->release(array);
  return out;
}
