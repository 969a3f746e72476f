/*
** slice_parts.c: joining the gradients of slices.
*/
#include "slice_parts.h"
#include "../base/sort.h"

pn_status pni_slice_parts_open(pn_context *c, pni_slice_parts *p, int64_t nodes) {
  *p = (pni_slice_parts){.last = pni_alloc_array(c, nodes, sizeof *p->last), .nodes = nodes};
  for (int64_t i = 0; p->last && i < nodes; i++) p->last[i] = -1;
  return c->status;
}

void pni_slice_parts_free(pn_context *c, pni_slice_parts *p) {
  for (int64_t i = 0; i < p->n; i++) pn_tensor_unref(p->v[i].g);
  pni_free(c, p->v);
  pni_free(c, p->last);
}

static int64_t axis_of(const pni_slice_part *x) { return x->y->attr->i[0]; }
static int64_t start_of(const pni_slice_part *x) { return x->y->attr->i[1]; }
static int64_t count_of(const pni_slice_part *x) { return x->y->attr->i[2]; }

bool pni_slice_parts_takes(const pn_tensor *y) {
  return y->op == &pni_op_slice && y->attr->i[2] > 0 && y->attr->i[3] == 1;
}

enum { LATE = 64 };

/* A late part of node `at` of the very place that y shows, or NULL. */
static pni_slice_part *same_place(const pni_slice_parts *p, int64_t at, const pn_tensor *y) {
  int64_t i = p->last[at];
  for (int k = 0; k < LATE && i >= 0; k++, i = p->v[i].before) {
    const int64_t *a = p->v[i].y->attr->i, *b = y->attr->i;
    if (a[0] == b[0] && a[1] == b[1] && a[2] == b[2]) return &p->v[i];
  }
  return NULL;
}

pn_status pni_slice_parts_add(pn_context *c, pni_slice_parts *p, int64_t at, pn_tensor *y, pn_tensor *g) {
  pni_slice_part *same = same_place(p, at, y);
  if (same) {
    pn_tensor *sum = pn_tensor_ref(pn_add(c, same->g, g));
    if (!sum) return c->status;
    pn_tensor_unref(same->g);
    same->g = sum;
    return PN_OK;
  }
  if (p->n == p->cap) {
    int64_t cap = p->cap ? 2 * p->cap : 64;
    pni_slice_part *more = pni_alloc_array(c, cap, sizeof *more);
    if (!more) return c->status;
    for (int64_t i = 0; i < p->n; i++) more[i] = p->v[i];
    pni_free(c, p->v);
    p->v = more;
    p->cap = cap;
  }
  int64_t before = p->last[at];
  p->v[p->n] = (pni_slice_part){y, pn_tensor_ref(g), before, g->numel + (before < 0 ? 0 : p->v[before].elements)};
  p->last[at] = p->n++;
  return PN_OK;
}

bool pni_slice_parts_are_many(const pni_slice_parts *p, int64_t at) {
  const pni_slice_part *x = &p->v[p->last[at]];
  return x->elements > 2 * pni_in(x->y, 0)->numel;
}

/* By axis and place; parts of one place as they came. */
static int compare(const void *a, const void *b) {
  const pni_slice_part *x = a, *y = b;
  int64_t d = axis_of(x) - axis_of(y);
  if (d == 0) d = start_of(x) - start_of(y);
  if (d == 0) d = x->before - y->before;
  return d < 0 ? -1 : d > 0;
}

/* The sorted parts, those of one place summed: how many there are, or 0 where they overlap otherwise. */
static int64_t merge(pn_context *c, pni_slice_part *v, int64_t n) {
  int64_t to = 0;
  for (int64_t i = 1; i < n; i++) {
    if (axis_of(&v[i]) != axis_of(&v[to])) return 0;
    if (start_of(&v[i]) == start_of(&v[to]) && count_of(&v[i]) == count_of(&v[to]))
      v[to].g = pn_add(c, v[to].g, v[i].g);
    else if (start_of(&v[i]) < start_of(&v[to]) + count_of(&v[to]))
      return 0;
    else
      v[++to] = v[i];
  }
  return to + 1;
}

static pn_tensor *gap(pn_context *c, const pni_slice_part *x, int64_t count) {
  const pn_tensor *of = pni_in(x->y, 0);
  pni_spec s = pni_spec_of(of);
  s.shape[axis_of(x)] = count;
  return pn_zeros(c, (pn_dtype)of->dtype, s.ndim, s.shape);
}

/* Parts side by side, zeros between them. */
static pn_tensor *joined(pn_context *c, const pni_slice_part *v, int64_t n) {
  int64_t size = pni_in(v->y, 0)->shape[axis_of(v)], at = 0;
  int pieces = 0;
  pn_tensor **piece = pni_alloc_array(c, 2 * n + 1, sizeof *piece);
  if (!piece) return NULL;
  for (int64_t i = 0; i < n; i++) {
    if (start_of(&v[i]) > at) piece[pieces++] = gap(c, v, start_of(&v[i]) - at);
    piece[pieces++] = v[i].g;
    at = start_of(&v[i]) + count_of(&v[i]);
  }
  if (at < size) piece[pieces++] = gap(c, v, size - at);
  pn_tensor *sum = pn_concatenate(c, pieces, piece, (int)axis_of(v));
  pni_free(c, piece);
  return sum;
}

/* The n parts, each among zeros, added up as they came. */
static pn_tensor *added(pn_context *c, const pni_slice_part *v, int64_t n) {
  pn_tensor *sum = NULL;
  for (int64_t i = 0; i < n && !pni_failed(c); i++) {
    pn_tensor *whole = v[i].y->op->vjp(c, v[i].y, v[i].g, 0);
    sum = i ? pn_add(c, sum, whole) : whole;
  }
  return sum;
}

/* The parts of a node as they came, from v[n - 1] to v[0]. */
static void list(const pni_slice_parts *p, int64_t last, pni_slice_part *v, int64_t n) {
  for (int64_t i = last; i >= 0; i = p->v[i].before) v[--n] = p->v[i];
}

pn_tensor *pni_slice_parts_join(pn_context *c, pni_slice_parts *p, int64_t at) {
  int64_t last = p->last[at], n = 0;
  for (int64_t i = last; i >= 0; i = p->v[i].before) n++;
  pni_slice_part *v = n ? pni_alloc_array(c, n, sizeof *v) : NULL;
  if (!v) return NULL;
  list(p, last, v, n);
  int64_t places = pni_sort(c, v, n, sizeof *v, compare) == PN_OK ? merge(c, v, n) : 0;
  if (places < 2) list(p, last, v, n);
  pn_tensor *sum = pni_failed(c) ? NULL : places < 2 ? added(c, v, n) : joined(c, v, places);
  pni_free(c, v);
  for (int64_t i = last; i >= 0; i = p->v[i].before) {
    pn_tensor_unref(p->v[i].g);
    p->v[i].g = NULL;
  }
  p->last[at] = -1;
  return sum;
}
