/*
** transport.h: the cheapest way to move mass from n sources to m sinks, exactly: the primal network simplex method on
** the complete bipartite graph (Ahuja, Magnanti & Orlin 1993, chapter 11), with strongly feasible trees (Cunningham
** 1976), which cannot cycle.
*/
#ifndef PN_INFER_TRANSPORT_TRANSPORT_H
#define PN_INFER_TRANSPORT_TRANSPORT_H

#include "../../tensor/tensor.h"

/* What moving a unit costs: a matrix, or the distance of points on a grid. */
typedef struct pni_cost {
  const double *matrix;         /* [n, m], or NULL */
  const double *distance;       /* [rows, columns]: of points so far apart */
  const int32_t *source, *sink; /* place of each in the grid, row * columns + column */
  int64_t columns;
} pni_cost;

/* A problem and its solution: a tree over sources 0 .. n - 1, sinks n .. n + m - 1 and a root n + m. A node's flow is
 * that on the arc to its parent, from sources and to sinks. */
typedef struct pni_transport {
  pni_cost cost;
  int64_t n, m;
  double scale;                                    /* at least the largest cost; 0: all are 0 */
  double *flow, *potential, *row;                  /* of n + m + 1 nodes; m costs */
  int32_t *parent, *depth, *child, *next, *before; /* the tree */
} pni_transport;

/* Bytes of room for a problem of this size. */
size_t pni_transport_room(int64_t n, int64_t m);
/* Divides the room, a multiple of 8 bytes at its start. */
void pni_transport_place(pni_transport *p, int64_t n, int64_t m, void *room);
/* Solves for masses a[n], b[m], all above 0, of the same sum up to rounding. False if that was left half-way, or (never
 * seen) if rounding kept it from an end. */
bool pni_transport_solve(pni_watch *w, pni_transport *p, const double *a, const double *b);
/* Cost of moving a unit from source i to sink j. */
double pni_transport_cost(const pni_transport *p, int64_t i, int64_t j);
/* Calls for each arc between a source and a sink in the tree: flow from source i to sink j. */
#define PNI_TRANSPORT_EACH(p, x, i, j)                                                                                 \
  for (int64_t x = 0, i, j; x < (p)->n + (p)->m; x++)                                                                  \
    if ((p)->parent[x] < (p)->n + (p)->m &&                                                                            \
        (i = x < (p)->n ? x : (p)->parent[x], j = (x < (p)->n ? (p)->parent[x] : x) - (p)->n, true))

#endif
