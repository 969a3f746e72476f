/*
** ancestry.c: a tree whose leaves are the particles of now. A step first takes off the branches that end in particles
** without descendants, then grows leaves in the places that became free. The expected number of nodes is O(T + N log
** N): Jacob, Murray & Rubenthaler 2015, algorithms 3 to 7.
*/
#include <string.h>
#include "ancestry.h"
#include "op/smc_op.h"

enum { PARTS = 64 };

/* A part of the state: rows of `bytes`, one a node. */
typedef struct {
  pni_spec spec; /* of a step: [n, B..., event...] */
  size_t bytes;
  char *row;
} column;

struct pni_ancestry {
  int64_t n, filters, leaves, length, nodes, room;
  int64_t *parent;   /* by node; -1: none */
  int32_t *children; /* by node */
  int64_t *free;     /* nodes that are not in use, `room - nodes` of them */
  int64_t *leaf;     /* by particle */
  int64_t *before;   /* scratch: the leaves of the step before */
  int parts;
  column part[PARTS];
};

/* ---- life ---- */

static void free_nodes(pn_context *c, pni_ancestry *a) {
  pni_free(c, a->parent);
  pni_free(c, a->children);
  pni_free(c, a->free);
  for (int k = 0; k < a->parts; k++) pni_free(c, a->part[k].row);
}

void pni_ancestry_free(pn_context *c, pni_ancestry *a) {
  if (!a) return;
  free_nodes(c, a);
  pni_free(c, a->leaf);
  pni_free(c, a->before);
  pni_free(c, a);
}

pni_ancestry *pni_ancestry_new(pn_context *c, int64_t n, int64_t filters) {
  pni_ancestry *a = pni_calloc(c, sizeof *a);
  if (!a) return NULL;
  a->n = n;
  a->filters = filters;
  a->leaves = pni_times(n, filters);
  a->leaf = pni_alloc_array(c, a->leaves, sizeof *a->leaf);
  if (a->leaf) a->before = pni_alloc_array(c, a->leaves, sizeof *a->before);
  if (a->before) return a;
  pni_ancestry_free(c, a);
  return NULL;
}

int64_t pni_ancestry_length(const pni_ancestry *a) { return a->length; }
int64_t pni_ancestry_nodes(const pni_ancestry *a) { return a->nodes; }

size_t pni_ancestry_bytes(const pni_ancestry *a) {
  size_t node = sizeof *a->parent + sizeof *a->children + sizeof *a->free;
  for (int k = 0; k < a->parts; k++) node += a->part[k].bytes;
  return (size_t)a->room * node + 2 * (size_t)a->leaves * sizeof *a->leaf + sizeof *a;
}

/* ---- growing ---- */

/* Moves all nodes to arrays of `room` nodes. */
static pn_status enlarge(pn_context *c, pni_ancestry *a, int64_t room) {
  pni_ancestry b = *a;
  b.room = room;
  b.parent = NULL, b.children = NULL, b.free = NULL;
  for (int k = 0; k < b.parts; k++) b.part[k].row = NULL;
  b.parent = pni_alloc_array(c, room, sizeof *b.parent);
  if (b.parent) b.children = pni_alloc_array(c, room, sizeof *b.children);
  if (b.children) b.free = pni_alloc_array(c, room, sizeof *b.free);
  for (int k = 0; b.free && k < b.parts && !pni_failed(c); k++)
    b.part[k].row = pni_alloc_array(c, room, b.part[k].bytes);
  if (pni_failed(c)) {
    free_nodes(c, &b);
    return c->status;
  }
  size_t old = (size_t)a->room;
  if (old) {
    memcpy(b.parent, a->parent, old * sizeof *b.parent);
    memcpy(b.children, a->children, old * sizeof *b.children);
    memcpy(b.free, a->free, (old - (size_t)a->nodes) * sizeof *b.free);
    for (int k = 0; k < b.parts; k++) memcpy(b.part[k].row, a->part[k].row, old * b.part[k].bytes);
  }
  for (int64_t i = a->room; i < room; i++) b.free[i - a->nodes] = i;
  free_nodes(c, a);
  *a = b;
  return PN_OK;
}

static void set_parts(pni_ancestry *a, int parts, pn_tensor *const *part) {
  a->parts = parts;
  for (int k = 0; k < parts; k++) {
    a->part[k] = (column){.spec = pni_spec_of(part[k])};
    a->part[k].bytes = (size_t)(part[k]->numel / a->leaves) * pni_itemsize(part[k]);
  }
}

static pn_status check_parts(pn_context *c, const pni_ancestry *a, int parts, pn_tensor *const *part) {
  if (parts > PARTS) return pni_fail(c, PN_LIMIT, "keep: a state may have at most %d parts, got %d", PARTS, parts);
  if (a->length && parts != a->parts)
    return pni_fail(c, PN_SHAPE, "keep: state must have the parts that it had first, %d, got %d", a->parts, parts);
  for (int k = 0; k < parts; k++) {
    const pn_tensor *t = part[k];
    pni_spec spec = pni_spec_of(t);
    const pni_spec *first = a->length ? &a->part[k].spec : &spec;
    char s[PNI_SHAPE_TEXT], u[PNI_SHAPE_TEXT];
    bool fits = t->ndim >= 1 && t->shape[0] == a->n && t->numel % a->leaves == 0 && t->numel > 0;
    fits = fits && spec.dtype == first->dtype && spec.ndim == first->ndim &&
           memcmp(spec.shape, first->shape, (size_t)spec.ndim * sizeof *spec.shape) == 0;
    if (!fits)
      return pni_fail(c, PN_SHAPE, "keep: state must be [%lld, B..., event...] as it was first, %s, got %s",
                      (long long)a->n, pni_shape_text(first->ndim, first->shape, s),
                      pni_shape_text(t->ndim, t->shape, u));
  }
  return PN_OK;
}

/* Takes off what no particle of now descends from. children of the old leaves are counted. */
static void prune(pni_ancestry *a, const int64_t *old) {
  for (int64_t i = 0; i < a->leaves; i++)
    for (int64_t node = old[i]; node >= 0 && a->children[node] == 0;) {
      int64_t up = a->parent[node];
      a->free[a->room - a->nodes--] = node;
      if (up >= 0) a->children[up]--;
      node = up;
    }
}

static void grow(pni_ancestry *a, const int64_t *ancestors, int parts, pn_tensor *const *part) {
  int64_t *old = a->before;
  memcpy(old, a->leaf, (size_t)a->leaves * sizeof *old);
  if (a->length) {
    for (int64_t i = 0; i < a->leaves; i++) a->children[old[i]] = 0;
    for (int64_t i = 0; i < a->leaves; i++) {
      int64_t from = ancestors ? ancestors[i] * a->filters + i % a->filters : i;
      a->leaf[i] = old[from];
      a->children[old[from]]++;
    }
    prune(a, old);
  }
  for (int64_t i = 0; i < a->leaves; i++) {
    int64_t node = a->free[a->room - ++a->nodes];
    a->parent[node] = a->length ? a->leaf[i] : -1;
    a->children[node] = 0;
    a->leaf[i] = node;
  }
  for (int k = 0; k < parts; k++) {
    size_t bytes = a->part[k].bytes;
    const char *from = pni_data(part[k]);
    for (int64_t i = 0; i < a->leaves; i++)
      memcpy(a->part[k].row + (size_t)a->leaf[i] * bytes, from + (size_t)i * bytes, bytes);
  }
  a->length++;
}

pn_status pni_ancestry_add(pn_context *c, pni_ancestry *a, const pn_tensor *ancestors, int parts,
                           pn_tensor *const *part) {
  pn_tensor *flat[PARTS] = {0}, *from = NULL;
  if (check_parts(c, a, parts, part)) return c->status;
  if (ancestors) from = pni_contiguous(c, ancestors);
  if (from) pni_check_places(c, "keep: ancestors", from, a->leaves, a->n);
  for (int k = 0; k < parts && !pni_failed(c); k++) flat[k] = pni_contiguous(c, part[k]);
  if (!pni_failed(c)) {
    if (!a->length) set_parts(a, parts, part);
    int64_t least = pni_plus(a->nodes, a->leaves), twice = pni_times(2, a->room);
    if (a->room >= least || enlarge(c, a, least > twice ? least : twice) == PN_OK)
      grow(a, from ? pni_data(from) : NULL, parts, flat);
  }
  for (int k = 0; k < parts; k++) pn_tensor_unref(flat[k]);
  pn_tensor_unref(from);
  return c->status;
}

/* ---- reading ---- */

/* Rows of part k on the way up from `count` nodes, whose places are in `node`. */
static void climb(const pni_ancestry *a, int k, int64_t count, int64_t *node, char *out) {
  size_t bytes = a->part[k].bytes;
  for (int64_t t = a->length - 1; t >= 0; t--)
    for (int64_t i = 0; i < count; i++) {
      memcpy(out + (size_t)(t * count + i) * bytes, a->part[k].row + (size_t)node[i] * bytes, bytes);
      node[i] = a->parent[node[i]];
    }
}

static pn_status check_which(pn_context *c, const pni_ancestry *a, const pn_tensor *which) {
  pn_tensor *own = pni_contiguous(c, which);
  if (own) pni_check_places(c, "paths: particles", own, a->filters, a->n);
  pn_tensor_unref(own);
  return c->status;
}

pn_tensor *pni_ancestry_paths(pn_context *c, const pni_ancestry *a, int k, const pn_tensor *which) {
  if (k >= a->parts) {
    pni_fail(c, PN_DOMAIN, "paths: part must be from 1 to %d, got %d", a->parts, k + 1);
    return NULL;
  }
  if (which && check_which(c, a, which)) return NULL;
  const pni_spec *own = &a->part[k].spec;
  pni_spec spec = {.dtype = own->dtype, .ndim = 1, .shape = {a->length}};
  int first = which ? 1 : 0;
  if (own->ndim - first + 1 > PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "paths: a state may have at most %d axes, got %d", PN_MAX_DIMS - 1, own->ndim);
    return NULL;
  }
  for (int i = first; i < own->ndim; i++) spec.shape[spec.ndim++] = own->shape[i];
  int64_t count = which ? a->filters : a->leaves;
  pn_tensor *out = pni_tensor_new(c, &spec);
  int64_t *node = out ? pni_alloc_array(c, count, sizeof *node) : NULL;
  for (int64_t i = 0; node && i < count; i++)
    node[i] = a->leaf[which ? (int64_t)pni_element(which, i) * a->filters + i : i];
  if (!node) {
    pn_tensor_unref(out);
    return NULL;
  }
  climb(a, k, count, node, pni_data(out));
  pni_free(c, node);
  return pni_scoped(c, out);
}
