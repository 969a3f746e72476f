/*
** trace.h: what happened at each step of a machine, and which particle of the first step each one descends from.
*/
#ifndef PN_SMC_TRACE_H
#define PN_SMC_TRACE_H

#include "../tensor/tensor.h"

enum {
  PNI_TRACE_SIZE,      /* effective sample size, after the step's observation */
  PNI_TRACE_UNIQUE,    /* how many particles of the step before have descendants */
  PNI_TRACE_LARGEST,   /* the largest weight */
  PNI_TRACE_INCREMENT, /* of the log-evidence */
  PNI_TRACE_RESAMPLED, /* 1: ancestors were chosen at the beginning of the step */
  PNI_TRACE_VARIANCE,  /* of the log-evidence so far */
  PNI_TRACE_ROWS
};

/* What a block of particles of a filter tells, by itself: their ancestors, and the weights of those in it that descend
 * from one particle of the first step, where these come in ascending order. */
typedef struct pni_trace_part {
  int64_t unique;            /* ancestors that differ from the one before */
  bool ascending, wrong;     /* as long as the one before is not above; one is no place */
  int64_t head, tail;        /* the first and the last particle descended from */
  double first, last, inner; /* sums of weights of these, and of squares of such sums of those between */
} pni_trace_part;

typedef struct pni_trace {
  int64_t n, filters;
  int64_t *eve, *spare; /* [n, filters]: the ancestor in the first step */
  int64_t *seen;        /* [n]: the round in which a particle was last met */
  int64_t round;
  double *sum;     /* [n]: weights of those who descend from one */
  int64_t *rounds; /* [filters]: how often it was resampled */
  double *now;     /* [PNI_TRACE_ROWS, filters]: the step that goes on */
  double *rows;    /* [length, PNI_TRACE_ROWS, filters] */
  int64_t length, room;
  pni_trace_part *part; /* [filters, blocks] */
  int64_t blocks;
} pni_trace;

/* NULL with the reason in c. */
pni_trace *pni_trace_new(pn_context *c, int64_t n, int64_t filters);
void pni_trace_free(pn_context *c, pni_trace *t);
void pni_trace_reset(pni_trace *t);
/* Room for a step more. */
pn_status pni_trace_reserve(pn_context *c, pni_trace *t);
/* Ancestors, int64 [n, filters...], were chosen in filters with due[f]. PN_DOMAIN outside 0 .. n - 1: nothing has
 * changed then. */
pn_status pni_trace_resampled(pn_context *c, pni_trace *t, const pn_tensor *ancestors, const uint8_t *due);
/* weighed, contiguous: what weigh gave. step: it ends the step, for which room was reserved. */
void pni_trace_weighed(pn_context *c, pni_trace *t, const pn_tensor *weighed, bool step);

#endif
