/*
** arrow_export.c: tensors as columns by Arrow's C data interface. Each struct owns a node, and the node what the struct
** points to: a block with its texts, its children's structs and their list. A child may be moved out of its parent, so
** it shares nothing with it. Source: Arrow's C data interface, release callback semantics.
*/
#include <stdio.h>
#include <string.h>
#include "../base/given.h"
#include "../base/size.h"
#include "file.h"

static const char where[] = "arrow_export";

/* What a struct of n children owns: the node, n structs, n pointers to them, and `extra` bytes. */
typedef struct {
  pn_context *c;
  pn_tensor *t; /* whose elements are a buffer, NULL: none */
  void *bits;   /* a buffer of truth values */
  const void *buffers[2];
} arrow_node;

static arrow_node *new_node(pn_context *c, int64_t n, size_t each, size_t extra) {
  int64_t children = pni_times(n, (int64_t)(each + sizeof(void *)));
  size_t size = (size_t)pni_plus(children, (int64_t)(sizeof(arrow_node) + extra));
  arrow_node *node = pni_calloc(c, size);
  if (!node) return NULL;
  node->c = c;
  pni_object_born(c);
  return node;
}

static void free_node(arrow_node *node) {
  pn_context *c = node->c;
  pn_tensor_unref(node->t);
  pni_free(c, node->bits);
  pni_free(c, node);
  pni_object_died(c);
}

/* ---- schemas ---- */

static void release_schema(struct ArrowSchema *s) {
  for (int64_t k = 0; k < s->n_children; k++)
    if (s->children[k]->release) s->children[k]->release(s->children[k]);
  s->release = NULL;
  free_node(s->private_data);
}

/* A schema of n children, to be filled; false on failure, when it is as it was. */
static bool begin_schema(pn_context *c, struct ArrowSchema *s, const char *format, const char *name, int64_t n,
                         int64_t flags) {
  size_t format_size = strlen(format) + 1, name_size = strlen(name) + 1;
  arrow_node *node = new_node(c, n, sizeof *s, format_size + name_size);
  if (!node) return false;
  struct ArrowSchema *child = (struct ArrowSchema *)(node + 1);
  struct ArrowSchema **children = (struct ArrowSchema **)(child + n);
  char *text = (char *)(children + n);
  memcpy(text, format, format_size);
  memcpy(text + format_size, name, name_size);
  for (int64_t k = 0; k < n; k++) children[k] = child + k;
  *s = (struct ArrowSchema){.format = text,
                            .name = text + format_size,
                            .flags = flags,
                            .n_children = n,
                            .children = n ? children : NULL,
                            .release = release_schema,
                            .private_data = node};
  return true;
}

/* The schema of the axes of t from `axis` on. */
static bool put_schema(pn_context *c, struct ArrowSchema *s, const pn_tensor *t, int axis, const char *name) {
  static const char *const formats[] = {"g", "f", "l", "b"};
  static const int dtypes[] = {PN_FLOAT64, PN_FLOAT32, PN_INT64, PN_BOOL};
  char text[32];
  if (axis + 1 < t->ndim) {
    snprintf(text, sizeof text, "+w:%lld", (long long)t->shape[axis + 1]);
    return begin_schema(c, s, text, name, 1, 0) && put_schema(c, s->children[0], t, axis + 1, "item");
  }
  int k = 0;
  while (dtypes[k] != t->dtype) k++;
  return begin_schema(c, s, formats[k], name, 0, 0);
}

/* ---- arrays ---- */

static void release_array(struct ArrowArray *a) {
  for (int64_t k = 0; k < a->n_children; k++)
    if (a->children[k]->release) a->children[k]->release(a->children[k]);
  a->release = NULL;
  free_node(a->private_data);
}

static arrow_node *begin_array(pn_context *c, struct ArrowArray *a, int64_t length, int64_t n_buffers, int64_t n) {
  arrow_node *node = new_node(c, n, sizeof *a, 0);
  if (!node) return NULL;
  struct ArrowArray *child = (struct ArrowArray *)(node + 1);
  struct ArrowArray **children = (struct ArrowArray **)(child + n);
  for (int64_t k = 0; k < n; k++) children[k] = child + k;
  *a = (struct ArrowArray){.length = length,
                           .n_buffers = n_buffers,
                           .n_children = n,
                           .buffers = node->buffers,
                           .children = n ? children : NULL,
                           .release = release_array,
                           .private_data = node};
  return node;
}

/* Truth values, eight to a byte, the first in the lowest bit. */
static bool pack_bits(arrow_node *node, const pn_tensor *t) {
  const uint8_t *p = pni_data(t);
  uint8_t *bits = node->bits = pni_calloc(node->c, (size_t)(t->numel / 8 + 1));
  for (int64_t i = 0; bits && i < t->numel; i++) bits[i / 8] = (uint8_t)(bits[i / 8] | (p[i] != 0) << i % 8);
  node->buffers[1] = bits;
  return bits != NULL;
}

/* The axes of t, which is contiguous, from `axis` on, below `rows` places before it. */
static bool put_array(pn_context *c, struct ArrowArray *a, pn_tensor *t, int axis, int64_t rows) {
  int64_t length = rows * t->shape[axis];
  if (axis + 1 < t->ndim) return begin_array(c, a, length, 1, 1) && put_array(c, a->children[0], t, axis + 1, length);
  arrow_node *node = begin_array(c, a, length, 2, 0);
  if (!node) return false;
  if (t->dtype == PN_BOOL) return pack_bits(node, t);
  node->t = pn_tensor_ref(t);
  node->buffers[1] = pni_data(t);
  return true;
}

/* ---- record batches ---- */

static pn_status check_columns(pn_context *c, const pn_archive *columns) {
  char buf[64];
  int64_t n = pn_archive_count(columns);
  if (n == 0) return pni_fail(c, PN_DOMAIN, "%s: columns must hold a tensor at least", where);
  for (int64_t k = 0; k < n; k++) {
    const pn_tensor *t = pn_archive_tensor(columns, k), *first = pn_archive_tensor(columns, 0);
    const char *name = pn_archive_name(columns, k);
    if (pni_check_read(c, t, where)) return c->status;
    if (t->ndim == 0 || first->ndim == 0 || t->shape[0] != first->shape[0])
      return pni_fail(c, PN_SHAPE, "%s: all columns must have as many rows as the first, '%s' has not", where,
                      pni_printable(name, strlen(name), buf));
  }
  return PN_OK;
}

static bool put_column(pn_context *c, struct ArrowSchema *schema, struct ArrowArray *array, const pn_tensor *t,
                       const char *name) {
  pn_tensor *whole = pni_contiguous(c, t);
  bool good = whole && put_schema(c, schema, whole, 0, name) && put_array(c, array, whole, 0, 1);
  pn_tensor_unref(whole);
  return good;
}

pn_status pn_arrow_export(pn_context *c, const pn_archive *columns, struct ArrowSchema *schema,
                          struct ArrowArray *array) {
  if (schema) memset(schema, 0, sizeof *schema);
  if (array) memset(array, 0, sizeof *array);
  if (!PNI_GIVEN(c, where, columns) || !PNI_GIVEN(c, where, schema) || !PNI_GIVEN(c, where, array)) return c->status;
  int64_t n = pn_archive_count(columns);
  if (check_columns(c, columns) != PN_OK) return c->status;
  bool good =
      begin_schema(c, schema, "+s", "", n, 0) && begin_array(c, array, pn_archive_tensor(columns, 0)->shape[0], 1, n);
  for (int64_t k = 0; k < n && good; k++)
    good = put_column(c, schema->children[k], array->children[k], pn_archive_tensor(columns, k),
                      pn_archive_name(columns, k));
  if (good) return PN_OK;
  if (schema->release) schema->release(schema);
  if (array->release) array->release(array);
  return c->status;
}
