/*
** arrow_test.c: tensors as Arrow's columns and back: values, types, lists, bits, offsets, missing numbers; children
** that are moved out; who releases what, whatever fails; damaged structs. `make formats` asks pyarrow.
*/
#include <math.h>
#include <stdlib.h>
#include "alloc_sweep.h"

static pn_archive *columns(pn_context *c) {
  static const double d[] = {1.5, -2, 3e300, 0.25, 5, -0.0};
  static const float f[] = {1.25f, -3.5f, 7};
  static const int64_t i[] = {INT64_MAX, INT64_MIN, 0};
  static const unsigned char b[] = {1, 0, 1};
  static const int64_t three[] = {3}, wide[] = {3, 2}, deep[] = {3, 1, 2};
  pn_archive *a = pn_archive_new(c);
  pn_tensor *t[] = {pn_from_data(c, PN_FLOAT64, 1, three, d), pn_from_data(c, PN_FLOAT32, 1, three, f),
                    pn_from_data(c, PN_INT64, 1, three, i),   pn_from_data(c, PN_BOOL, 1, three, b),
                    pn_from_data(c, PN_FLOAT64, 2, wide, d),  pn_from_data(c, PN_FLOAT64, 3, deep, d)};
  static const char *const names[] = {"d", "f", "i", "b", "wide", "deep"};
  for (int k = 0; a && k < 6; k++)
    if (!t[k] || pn_archive_add(c, a, names[k], t[k]) != PN_OK) {
      pn_archive_free(a);
      return NULL;
    }
  return a;
}

static bool same(const pn_tensor *a, const pn_tensor *b) {
  bool good = a && b && pn_tensor_dtype(a) == pn_tensor_dtype(b) && pn_tensor_ndim(a) == pn_tensor_ndim(b);
  for (int k = 0; good && k < pn_tensor_ndim(a); k++) good = pn_tensor_shape(a)[k] == pn_tensor_shape(b)[k];
  size_t n = good ? (size_t)pn_tensor_numel(a) * pn_dtype_size(pn_tensor_dtype(a)) : 0;
  return good && memcmp(pn_tensor_data(a), pn_tensor_data(b), n) == 0;
}

static void there_and_back(pn_context *c) {
  struct ArrowSchema schema;
  struct ArrowArray array;
  pn_archive *a = columns(c);
  CHECK_INT(pn_arrow_export(c, a, &schema, &array), PN_OK);
  CHECK_STR(schema.format, "+s");
  static const char *const formats[] = {"g", "f", "l", "b", "+w:2", "+w:1"};
  CHECK(schema.n_children == 6 && array.n_children == 6 && array.length == 3);
  for (int k = 0; k < 6; k++) {
    CHECK_STR(schema.children[k]->format, formats[k]);
    CHECK_STR(schema.children[k]->name, pn_archive_name(a, k));
    CHECK_INT(array.children[k]->null_count, 0);
  }
  CHECK(array.children[0]->buffers[1] == pn_tensor_data(pn_archive_tensor(a, 0))); /* no copy */
  CHECK_INT(((const unsigned char *)array.children[3]->buffers[1])[0], 5);
  CHECK_STR(schema.children[5]->children[0]->format, "+w:2");
  CHECK_INT(array.children[5]->children[0]->children[0]->length, 6);
  pn_archive *b = pn_arrow_import(c, &schema, &array);
  CHECK(!schema.release && !array.release);
  CHECK_INT(pn_archive_count(b), 6);
  for (int k = 0; k < 6; k++) CHECK(same(pn_archive_tensor(a, k), pn_archive_find(b, pn_archive_name(a, k))));
  pn_archive_free(a);
  pn_archive_free(b);
}

/* A child that is taken out outlives its parent, and the tensors their archive and scope. */
static void moved_out(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  struct ArrowSchema schema, name;
  struct ArrowArray array, child;
  pn_archive *a = columns(c);
  CHECK_INT(pn_arrow_export(c, a, &schema, &array), PN_OK);
  pn_archive_free(a);
  pn_scope_close(c, mark);
  child = *array.children[1];
  array.children[1]->release = NULL;
  name = *schema.children[1];
  schema.children[1]->release = NULL;
  array.release(&array);
  schema.release(&schema);
  pn_context_close(c); /* lives on until the last struct is released */
  CHECK(((const float *)child.buffers[1])[1] == -3.5f);
  CHECK_STR(name.name, "f");
  child.release(&child);
  name.release(&name);
  CHECK(!child.release && !name.release);
}

/* ---- structs of another maker ---- */

static int released;

static void release_schema(struct ArrowSchema *s) {
  s->release = NULL;
  released++;
}

static void release_array(struct ArrowArray *a) {
  a->release = NULL;
  released++;
}

typedef struct {
  struct ArrowSchema schema, *fields[1], field;
  struct ArrowArray array, *parts[1], part;
  const void *none[1], *buffers[2];
} foreign;

/* A record batch of one column "x" of `n` elements in `data` after `offset`. */
static foreign *make(foreign *f, const char *format, const void *data, const void *valid, int64_t offset, int64_t n) {
  *f = (foreign){
      .field = {.format = format, .name = "x", .release = release_schema},
      .schema = {.format = "+s", .name = "", .n_children = 1, .release = release_schema},
      .part = {.length = n, .null_count = valid ? -1 : 0, .offset = offset, .n_buffers = 2, .release = release_array},
      .array = {.length = n, .n_buffers = 1, .n_children = 1, .release = release_array},
      .buffers = {valid, data}};
  f->fields[0] = &f->field;
  f->parts[0] = &f->part;
  f->schema.children = f->fields;
  f->array.children = f->parts;
  f->array.buffers = f->none;
  f->part.buffers = f->buffers;
  return f;
}

static pn_tensor *taken(pn_context *c, foreign *f) {
  released = 0;
  pn_archive *a = pn_arrow_import(c, &f->schema, &f->array);
  CHECK_INT(released, 2); /* a parent answers for its children, which these do not have to release */
  pn_tensor *t = a ? pn_detach(c, pn_archive_find(a, "x")) : NULL;
  pn_archive_free(a);
  return t;
}

static void refused(pn_context *c, foreign *f, pn_status want) {
  CHECK(taken(c, f) == NULL);
  CHECK_STATUS(c, pn_context_status(c), want);
  pn_context_clear_error(c);
}

static double at(const pn_tensor *t, int i) {
  const void *p = pn_tensor_data(t);
  return pn_tensor_dtype(t) == PN_FLOAT64   ? ((const double *)p)[i]
         : pn_tensor_dtype(t) == PN_FLOAT32 ? (double)((const float *)p)[i]
         : pn_tensor_dtype(t) == PN_INT64   ? (double)((const int64_t *)p)[i]
                                            : ((const unsigned char *)p)[i];
}

static void types(pn_context *c) {
  static const union {
    int8_t c[8];
    uint8_t C[8];
    int16_t s[4];
    uint16_t S[4];
    int32_t i[2];
  } bytes = {.C = {0x01, 0xff, 0x80, 0x7f, 0x00, 0x3c, 0x00, 0xc0}};
  static const struct {
    const char *format;
    int64_t n;
    double want[8];
  } table[] = {{"c", 8, {1, -1, -128, 127, 0, 60, 0, -64}}, {"C", 8, {1, 255, 128, 127, 0, 60, 0, 192}},
               {"s", 4, {-255, 32640, 15360, -16384}},      {"S", 4, {65281, 32640, 15360, 49152}},
               {"i", 2, {2139160321, -1073726464}},         {"I", 2, {2139160321, 3221240832}},
               {"b", 8, {1, 0, 0, 0, 0, 0, 0, 0}}};
  foreign f;
  for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
    pn_tensor *t = taken(c, make(&f, table[k].format, &bytes, NULL, 0, table[k].n));
    for (int i = 0; t && i < table[k].n; i++) CHECK(at(t, i) == table[k].want[i]);
    CHECK(t != NULL);
  }
  pn_tensor *t = taken(c, make(&f, "e", &bytes, NULL, 2, 2)); /* 1 and -2 in half precision, after an offset */
  CHECK(t && pn_tensor_dtype(t) == PN_FLOAT32 && at(t, 0) == 1 && at(t, 1) == -2);
  static const uint64_t large[] = {7, (uint64_t)1 << 63};
  t = taken(c, make(&f, "L", large, NULL, 0, 1));
  CHECK(t && at(t, 0) == 7);
  refused(c, make(&f, "L", large, NULL, 0, 2), PN_DOMAIN);
}

static void missing(pn_context *c) {
  static const double d[] = {1, 2, 3, 4, 5};
  static const unsigned char valid = 0x1b; /* the third is missing */
  foreign f;
  pn_tensor *t = taken(c, make(&f, "g", d, &valid, 1, 3));
  CHECK(t && at(t, 0) == 2 && isnan(at(t, 1)) && at(t, 2) == 4);
  refused(c, make(&f, "l", d, &valid, 1, 3), PN_DOMAIN);
  t = taken(c, make(&f, "l", d, &valid, 3, 2));
  CHECK(t && pn_tensor_numel(t) == 2);
  make(&f, "g", d, NULL, 0, 3);
  f.array.offset = 1; /* of the batch: added to the column's */
  f.part.offset = 1;
  f.array.length = 2;
  t = taken(c, &f);
  CHECK(t && pn_tensor_numel(t) == 2 && at(t, 0) == 3 && at(t, 1) == 4);
  t = taken(c, make(&f, "g", NULL, NULL, 0, 0));
  CHECK(t && pn_tensor_numel(t) == 0);
}

static void damaged(pn_context *c) {
  static const double d[] = {1, 2, 3};
  static const char *const formats[] = {"u", "tdD", "", "gg", "+l", "+w:x", "+w:", "+w:99999999999", "+w:-1"};
  foreign f;
  for (size_t k = 0; k < sizeof formats / sizeof *formats; k++)
    refused(c, make(&f, formats[k], d, NULL, 0, 1), PN_DTYPE);
  refused(c, make(&f, "+w:2", d, NULL, 0, 1), PN_FORMAT);
  refused(c, make(&f, "g", NULL, NULL, 0, 1), PN_FORMAT);
  refused(c, make(&f, "g", d, NULL, -1, 1), PN_FORMAT);
  refused(c, make(&f, "g", d, NULL, 0, -1), PN_FORMAT);
  refused(c, make(&f, "g", d, NULL, INT64_MAX, 1), PN_FORMAT);
  refused(c, make(&f, "g", d, NULL, 0, INT64_MAX), PN_FORMAT);
#define CHANGED(field, status) (make(&f, "g", d, NULL, 0, 3), f.field, refused(c, &f, status))
  CHANGED(part.n_buffers = 1, PN_FORMAT);
  CHANGED(part.buffers = NULL, PN_FORMAT);
  CHANGED(part.length = 2, PN_FORMAT);
  CHANGED(array.offset = 1, PN_FORMAT);
  CHANGED(field.format = NULL, PN_FORMAT);
  CHANGED(field.dictionary = &f.field, PN_DTYPE);
  CHANGED(array.n_children = 2, PN_FORMAT);
  CHANGED(array.children = NULL, PN_FORMAT);
  CHANGED(schema.children = NULL, PN_FORMAT);
  CHANGED(schema.format = NULL, PN_FORMAT);
  CHANGED(parts[0] = NULL, PN_FORMAT);
  CHANGED(fields[0] = NULL, PN_FORMAT);
#undef CHANGED
  make(&f, "g", d, NULL, 0, 3);
  f.schema.release = NULL;
  released = 0;
  CHECK(!pn_arrow_import(c, &f.schema, &f.array) && released == 1);
  CHECK_STATUS(c, pn_context_status(c), PN_STATE);
  pn_context_clear_error(c);
  make(&f, "g", d, NULL, 0, 3); /* a single array is a column by its name */
  pn_archive *a = pn_arrow_import(c, &f.field, &f.part);
  CHECK(a && pn_tensor_numel(pn_archive_find(a, "x")) == 3);
  pn_archive_free(a);
}

static void refused_exports(pn_context *c) {
  struct ArrowSchema schema;
  struct ArrowArray array;
  pn_archive *a = pn_archive_new(c);
  CHECK_STATUS(c, pn_arrow_export(c, a, &schema, &array), PN_DOMAIN);
  pn_context_clear_error(c);
  CHECK(pn_archive_add(c, a, "x", pn_zeros(c, PN_FLOAT64, 1, (const int64_t[]){3})) == PN_OK);
  CHECK(pn_archive_add(c, a, "y", pn_zeros(c, PN_FLOAT64, 1, (const int64_t[]){2})) == PN_OK);
  CHECK_STATUS(c, pn_arrow_export(c, a, &schema, &array), PN_SHAPE);
  CHECK(!schema.release && !array.release);
  pn_context_clear_error(c);
  pn_archive_free(a);
}

static bool swept(pn_context *c, const void *data) {
  struct ArrowSchema schema;
  struct ArrowArray array;
  (void)data;
  pn_archive *a = columns(c);
  pn_status status = a ? pn_arrow_export(c, a, &schema, &array) : PN_NOMEM;
  pn_archive_free(a);
  if (status != PN_OK) return false;
  pn_archive *b = pn_arrow_import(c, &schema, &array);
  pn_archive_free(b);
  return b != NULL;
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  there_and_back(c);
  types(c);
  missing(c);
  damaged(c);
  refused_exports(c);
  pn_scope_close(c, mark);
  pn_context_close(c);
  moved_out();
  sweep("Arrow's columns", swept, NULL);
  CHECK_DONE();
}
