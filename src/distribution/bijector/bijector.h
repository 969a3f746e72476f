/*
** bijector.h: a kind of bijector is one const descriptor, a bijector a kind with values for its parameters and,
** for chain and inverse, with bijectors as its parts. Constructors, messages, help, manual and test
** battery read the descriptor; nothing else names a bijector. To add one: a descriptor at the bottom of its
** file, a line in bijector.def, an entry in spec/golden/distribution/bijector.lua.
**
** Shapes: x is lead + in axes, y lead + out axes, log |det dy/dx| is lead. Parameters are kept as given; their
** shapes without the axes of the row broadcast with lead. Determinants count free coordinates: all but the last
** entry of a simplex vector, the lower triangle of a triangular or symmetric matrix.
*/
#ifndef PN_DISTRIBUTION_BIJECTOR_BIJECTOR_H
#define PN_DISTRIBUTION_BIJECTOR_BIJECTOR_H

#include "../distribution.h"

enum { PNI_BIJECTOR_PARAMS = 8, PNI_BIJECTOR_KEPT = 4 };

enum {
  PNI_BIJECTOR_AFFINE = 1,        /* y is affine in x */
  PNI_BIJECTOR_MOVES = 2,         /* ... and each y_i is an x_j */
  PNI_BIJECTOR_EVEN = 4,          /* log |det| does not depend on x */
  PNI_BIJECTOR_LINEAR_DET = 8,    /* log |det| is affine in x */
  PNI_BIJECTOR_SLOW_FORWARD = 16, /* takes a pass of a network for each number */
  PNI_BIJECTOR_SLOW_INVERSE = 32,
};

typedef struct pni_bijector {
  const char *name;
  const char *doc;
  const char *source;
  /* Up to the first without name. An optional one with absent = NaN stays NULL. Sets of whole numbers take int64. */
  pni_parameter param[PNI_BIJECTOR_PARAMS];
  const pni_constraint *domain, *codomain;
  const char *in, *out; /* axes of one x, of one y, by the letters of the parameters; others bind nothing */
  int parts;            /* bijectors it is made of: 0, 1, or -1 for any number */
  int flags;            /* PNI_BIJECTOR_... */
  /* What no single parameter shows: "<kind>: <role> must be ..., got ...". May be NULL. */
  pn_status (*check)(pn_context *c, pn_bijector *b);
  pn_tensor *(*forward)(pn_context *c, pn_bijector *b, pn_tensor *x);
  pn_tensor *(*inverse)(pn_context *c, pn_bijector *b, pn_tensor *y);
  /* Anything that broadcasts to lead; y is forward(x). */
  pn_tensor *(*log_abs_det)(pn_context *c, pn_bijector *b, pn_tensor *x, pn_tensor *y);
  /* One direction and log |det dy/dx| where they share work; NULL: one after the other. */
  pn_tensor *(*forward_with)(pn_context *c, pn_bijector *b, pn_tensor *x, pn_tensor **log_det);
  pn_tensor *(*inverse_with)(pn_context *c, pn_bijector *b, pn_tensor *y, pn_tensor **log_det);
  /* Affine maps of vectors: variances of y out of those of uncorrelated x. */
  pn_tensor *(*variance)(pn_context *c, pn_bijector *b, pn_tensor *v);
  /* Positive where the map of numbers rises, negative where it falls; NULL: it rises everywhere. */
  pn_tensor *(*sign)(pn_context *c, pn_bijector *b);
} pni_bijector;

/* The last pair that was computed without a graph: how much of y's rounding is undone, and what an inverse of many
 * passes costs. It is read only where no gradient would be lost. */
typedef struct pni_bijector_cache {
  pn_tensor *x, *y;
  uint64_t version; /* of parameters, x and y */
} pni_bijector_cache;

struct pn_bijector {
  int32_t refs;
  pn_context *ctx;
  const pni_bijector *kind;
  pn_tensor *param[PNI_BIJECTOR_PARAMS]; /* NULL: absent */
  pn_tensor *kept[PNI_BIJECTOR_KEPT];    /* constants that check made; NULL beyond */
  uint32_t given;                        /* bit k: param[k] came from the caller */
  int dtype;                             /* of the parameters; -1: takes any */
  int64_t shape[PN_MAX_DIMS];            /* batch: broadcast of the parameters without their axes */
  int batch_ndim;
  pn_bijector **part;
  int uses; /* of parts, and of parts in these */
  int nparts;
  int depth;         /* levels of parts below it */
  pn_bijector *next; /* when it is freed: another one that is */
  const pni_constraint *domain, *codomain;
  int in_rank, out_rank;
  pni_bijector_cache last;
  int64_t serial; /* no other bijector of the context has it */
};

/* Of the results of a fast direction whose inverse is slow that have a graph the other half is kept in the graph
 * (cached_inverse.c): y, computed from x, as a tensor that knows; y itself otherwise. */
pn_tensor *pni_bijector_mark(pn_context *c, const pn_bijector *b, pn_tensor *x, pn_tensor *y, bool forward,
                             uint64_t version);
/* The half that t was computed from, by b with this version of its parameters, in the other direction than `forward`;
 * NULL without a failure if t does not know. */
pn_tensor *pni_bijector_kept(pn_context *c, const pn_bijector *b, pn_tensor *t, bool forward, uint64_t version);

/* Sum of t [lead + extra] over its last `extra` axes. */
pn_tensor *pni_sum_last(pn_context *c, pn_tensor *t, int extra);
/* log |det dy/dx| where one event of x has in_rank + extra axes: summed over the extra ones. */
pn_tensor *pni_bijector_log_det(pn_context *c, pn_bijector *b, pn_tensor *x, pn_tensor *y, int extra);
/* y of t = x, or x of t = y, and log |det dy/dx| as pni_bijector_log_det gives it. */
pn_tensor *pni_bijector_with_log_det(pn_context *c, pn_bijector *b, pn_tensor *t, bool forward, int extra,
                                     pn_tensor **log_det);
/* The sign of the slope of a map of numbers, which is the same everywhere; `like` gives the dtype. */
pn_tensor *pni_bijector_sign(pn_context *c, pn_bijector *b, const pn_tensor *like);
/* Extra axes of part i when a chain maps an event of b->in_rank axes. */
int pni_chain_extra(const pn_bijector *b, int i);
/* Sets ranks, sets, batch and dtype of a bijector with parts. */
pn_status pni_compose(pn_context *c, pn_bijector *b);

int pni_bijector_count(void);
const pni_bijector *pni_bijector_at(int i);
const pni_bijector *pni_bijector_find(const char *name);

#define X(name) extern const pni_bijector pni_bijector_##name;
#include "bijector.def"
#undef X

#endif
