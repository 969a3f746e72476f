/*
** graph.h: lists of graph nodes.
*/
#ifndef PN_AUTODIFF_GRAPH_H
#define PN_AUTODIFF_GRAPH_H

#include "op/op.h"

/* A growing list of borrowed nodes. */
typedef struct pni_nodes {
  pn_tensor **v;
  int64_t n, cap;
} pni_nodes;

/* Appends to the empty `order` the nodes below y that gradients pass, inputs before results, y last. A
 * node's mark is then its place, counted from 1, until pni_nodes_unmark; also after a failure. */
pn_status pni_topological(pn_context *c, pn_tensor *y, pni_nodes *order);
void pni_nodes_unmark(const pni_nodes *order);
void pni_nodes_free(pn_context *c, pni_nodes *l);
/* pn_backward that lets go of the graph below y on its way, which is data afterwards, also after a failure. */
pn_status pni_backward_spend(pn_context *c, pn_tensor *y);
/* *leaf: the first parameter below y that is none of the n known ones, or NULL. Borrowed. */
pn_status pni_leaf_beyond(pn_context *c, pn_tensor *y, int n, pn_tensor *const *known, pn_tensor **leaf);

#endif
