/* transport.c: see transport.h. */
#include <math.h>
#include <string.h>
#include "transport.h"

size_t pni_transport_room(int64_t n, int64_t m) {
  size_t nodes = (size_t)(n + m + 1);
  return (2 * nodes + (size_t)m) * sizeof(double) + (5 * nodes + 1) / 2 * 2 * sizeof(int32_t);
}

void pni_transport_place(pni_transport *p, int64_t n, int64_t m, void *room) {
  int64_t nodes = n + m + 1;
  p->n = n;
  p->m = m;
  p->flow = room;
  p->potential = p->flow + nodes;
  p->row = p->potential + nodes;
  p->parent = (int32_t *)(p->row + m);
  p->depth = p->parent + nodes;
  p->child = p->depth + nodes;
  p->next = p->child + nodes;
  p->before = p->next + nodes;
}

/* ---- costs ---- */

static double apart(const pni_cost *k, int32_t a, int32_t b) {
  int64_t rows = a / k->columns - b / k->columns, columns = a % k->columns - b % k->columns;
  return k->distance[(rows < 0 ? -rows : rows) * k->columns + (columns < 0 ? -columns : columns)];
}

double pni_transport_cost(const pni_transport *p, int64_t i, int64_t j) {
  const pni_cost *k = &p->cost;
  return k->matrix ? k->matrix[i * p->m + j] : apart(k, k->source[i], k->sink[j]);
}

/* The costs from source i. */
static const double *row_of(pni_watch *w, const pni_transport *p, int64_t i) {
  if (p->cost.matrix) return p->cost.matrix + i * p->m;
  PNI_LOOKING(w, j, 0, p->m) p->row[j] = apart(&p->cost, p->cost.source[i], p->cost.sink[j]);
  return p->row;
}

/* ---- the tree ---- */

enum { NONE = -1 };

static void attach(pni_transport *p, int32_t x, int32_t parent) {
  int32_t first = p->child[parent];
  p->parent[x] = parent;
  p->before[x] = NONE;
  p->next[x] = first;
  if (first != NONE) p->before[first] = x;
  p->child[parent] = x;
}

static void detach(pni_transport *p, int32_t x) {
  if (p->before[x] != NONE)
    p->next[p->before[x]] = p->next[x];
  else
    p->child[p->parent[x]] = p->next[x];
  if (p->next[x] != NONE) p->before[p->next[x]] = p->before[x];
}

/* Depth and potential of x from its parent's: along an arc the potential grows by its cost. */
static void settle(pni_transport *p, int32_t x) {
  int32_t up = p->parent[x], root = (int32_t)(p->n + p->m);
  bool source = x < p->n;
  double cost = up == root ? p->scale * (double)root
                : source   ? pni_transport_cost(p, x, up - p->n)
                           : pni_transport_cost(p, up, x - p->n);
  p->depth[x] = p->depth[up] + 1;
  p->potential[x] = p->potential[up] + (source ? -cost : cost);
}

/* The same for all of x's subtree. */
static void settle_all(pni_watch *w, pni_transport *p, int32_t top) {
  int32_t x = top;
  for (;;) {
    settle(p, x);
    if (pni_watch_leaves(w, 1)) return;
    if (p->child[x] != NONE) {
      x = p->child[x];
      continue;
    }
    while (x != top && p->next[x] == NONE) x = p->parent[x];
    if (x == top) return;
    x = p->next[x];
  }
}

/* All mass goes over the root, at a price that no way between sources and sinks has. */
static void plant(pni_watch *w, pni_transport *p, const double *a, const double *b) {
  int64_t n = p->n, nodes = n + p->m;
  int32_t root = (int32_t)nodes;
  PNI_LOOKING(w, x, 0, nodes + 1) p->child[x] = NONE;
  p->parent[root] = p->next[root] = p->before[root] = NONE;
  p->depth[root] = 0;
  p->potential[root] = p->flow[root] = 0;
  PNI_LOOKING(w, x, 0, root) {
    attach(p, (int32_t)x, root);
    p->flow[x] = x < n ? a[x] : b[x - n];
    settle(p, (int32_t)x);
  }
}

/* ---- a pivot ---- */

/* The node where the ways from x and y to the root meet. */
static int32_t join(const pni_transport *p, int32_t x, int32_t y) {
  while (x != y)
    if (p->depth[x] >= p->depth[y])
      x = p->parent[x];
    else
      y = p->parent[y];
  return x;
}

/* Sends along source -> sink what the cycle that this arc closes allows, and takes the arc of the tree that has run dry
 * out for it. Of several that one which comes last on the cycle, followed in the direction of the new arc from where it
 * leaves the way to the root: the tree stays strongly feasible. */
static void pivot(pni_watch *w, pni_transport *p, int32_t source, int32_t sink) {
  int32_t top = join(p, source, sink), leaves = NONE;
  bool on_source_side = true;
  double most = INFINITY;
  for (int32_t x = source; x != top; x = p->parent[x])
    if (x < p->n && p->flow[x] < most) {
      most = p->flow[x];
      leaves = x;
    }
  for (int32_t x = sink; x != top; x = p->parent[x])
    if (x >= p->n && p->flow[x] <= most) {
      most = p->flow[x];
      leaves = x;
      on_source_side = false;
    }
  for (int32_t x = source; x != top; x = p->parent[x]) p->flow[x] += x < p->n ? -most : most;
  for (int32_t x = sink; x != top; x = p->parent[x]) p->flow[x] += x < p->n ? most : -most;
  int32_t x = on_source_side ? source : sink, up = on_source_side ? sink : source, moved = x;
  double flow = most;
  for (;;) {
    int32_t old = p->parent[x];
    double carried = p->flow[x];
    detach(p, x);
    attach(p, x, up);
    p->flow[x] = flow;
    if (x == leaves) break;
    up = x;
    flow = carried;
    x = old;
  }
  settle_all(w, p, moved);
}

/* ---- the search ---- */

/* The sink of the arc from source i with the lowest reduced cost, if that lies below *least. */
static int32_t cheapest(pni_watch *w, const pni_transport *p, int64_t i, double *least) {
  const double *cost = row_of(w, p, i), *sink = p->potential + p->n;
  int32_t found = NONE;
  double best = *least - p->potential[i];
  PNI_LOOKING(w, j, 0, p->m) {
    double reduced = cost[j] - sink[j];
    if (reduced < best) {
      best = reduced;
      found = (int32_t)j;
    }
  }
  if (found != NONE) *least = best + p->potential[i];
  return found;
}

/* Where the search for arcs stands. */
typedef struct {
  int64_t i, idle; /* the next source, and how many before it had no arc in a row */
  int64_t block;   /* sources that are looked through at once */
  double low;      /* reduced costs above it count as 0 */
  int32_t source, sink;
} search;

/* An arc that makes it cheaper, of a block of sources or as many more as it takes. */
static bool find_arc(pni_watch *w, const pni_transport *p, search *s) {
  double least = s->low;
  s->sink = s->source = NONE;
  for (int64_t k = 0; s->idle < p->n && (k < s->block || s->sink == NONE) && !w->left; k++) {
    int32_t j = cheapest(w, p, s->i, &least);
    if (j != NONE) {
      s->sink = j;
      s->source = (int32_t)s->i;
    }
    s->idle = s->sink != NONE ? 0 : s->idle + 1;
    s->i = s->i + 1 < p->n ? s->i + 1 : 0;
  }
  return s->sink != NONE && !w->left;
}

bool pni_transport_solve(pni_watch *w, pni_transport *p, const double *a, const double *b) {
  int64_t most = 1000 * (p->n + p->m) + 100000;
  search s = {.block = 1 + (int64_t)sqrt((double)p->n * (double)p->m) / p->m, .low = -1e-12 * p->scale};
  if (p->scale == 0) p->scale = 1;
  plant(w, p, a, b);
  for (int64_t pivots = 0; !w->left && find_arc(w, p, &s); pivots++) {
    if (pivots > most) return false;
    pivot(w, p, s.source, s.sink + (int32_t)p->n);
  }
  return !w->left;
}
