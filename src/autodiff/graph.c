/*
** graph.c: the nodes below a result in an order where inputs come first: an explicit stack, no recursion.
*/
#include <string.h>
#include "graph.h"

static pn_status push(pn_context *c, pni_nodes *l, pn_tensor *t) {
  if (l->n == l->cap) {
    int64_t cap = l->cap ? 2 * l->cap : 64;
    pn_tensor **v = pni_alloc_array(c, cap, sizeof *v);
    if (!v) return c->status;
    if (l->n) memcpy(v, l->v, (size_t)l->n * sizeof *v);
    pni_free(c, l->v);
    l->v = v;
    l->cap = cap;
  }
  l->v[l->n++] = t;
  return PN_OK;
}

void pni_nodes_free(pn_context *c, pni_nodes *l) { pni_free(c, l->v); }

/* While on the stack a node is marked -1. */
pn_status pni_topological(pn_context *c, pn_tensor *y, pni_nodes *order) {
  pni_nodes stack = {0};
  push(c, &stack, y);
  while (stack.n && !pni_failed(c)) {
    pn_tensor *t = stack.v[stack.n - 1];
    if (t->mark > 0) { /* reached twice before it was entered */
      stack.n--;
      continue;
    }
    if (t->mark == -1) { /* inputs are done */
      stack.n--;
      t->mark = push(c, order, t) == PN_OK ? (int32_t)order->n : 0;
      continue;
    }
    t->mark = -1;
    for (int k = 0; k < t->nin; k++) {
      pn_tensor *in = t->in[k].t;
      if (in->flags & PNI_REQUIRES_GRAD && in->mark == 0 && push(c, &stack, in)) break;
    }
  }
  for (int64_t i = 0; i < stack.n; i++) stack.v[i]->mark = 0;
  pni_nodes_free(c, &stack);
  return c->status;
}

void pni_nodes_unmark(const pni_nodes *order) {
  for (int64_t i = 0; i < order->n; i++) order->v[i]->mark = 0;
}

static bool is_known(const pn_tensor *t, int n, pn_tensor *const *known) {
  for (int k = 0; k < n; k++)
    if (known[k] == t) return true;
  return false;
}

pn_status pni_leaf_beyond(pn_context *c, pn_tensor *y, int n, pn_tensor *const *known, pn_tensor **leaf) {
  pni_nodes order = {0};
  *leaf = NULL;
  pni_topological(c, y, &order);
  pni_nodes_unmark(&order);
  for (int64_t i = 0; i < order.n && !*leaf; i++)
    if (order.v[i]->flags & PNI_PARAM && !is_known(order.v[i], n, known)) *leaf = order.v[i];
  pni_nodes_free(c, &order);
  return c->status;
}
