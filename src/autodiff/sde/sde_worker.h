/*
** sde_worker.h: who takes chunks of paths through their steps: a context, plans and tensors of its own.
*/
#ifndef PN_AUTODIFF_SDE_SDE_WORKER_H
#define PN_AUTODIFF_SDE_SDE_WORKER_H

#include "sde.h"

struct pni_sde_worker {
  pn_context *c;
  bool child; /* c is one, for this worker alone */
  pn_plan *step, *pullback;
  int nin, y, p;      /* inputs of the step; the places of y and of the first parameter among them */
  pn_tensor **tensor; /* in [nin + 1] (the last one v), result, back [1 + parameters] */
  pn_tensor **in, *result, **back;
  void *normal;         /* of `ahead` steps */
  int64_t ahead, block; /* the steps in `normal` are those of this block, -1: none */
  bool open;            /* path */
  bool backwards;       /* steps are asked for from the last one on */
  pni_brownian path;
  double *w, *h; /* of the path, [rows, motions] */
  double *sum;   /* gradients of parameters, [shared + rows * of_path] */
  char *between; /* states between two checkpoints */
  size_t between_bytes;
  pn_status status;
};

/* A chunk: paths first .. first + paths - 1. */
typedef struct pni_sde_part {
  int64_t number, first, paths;
  const int64_t *given; /* the number of steps before each time */
  const double *grid;   /* times of the steps, or NULL: as the times and `given` have it */
  int64_t steps, span;  /* span: steps from kept state to kept state; 0: the last one is kept */
} pni_sde_part;

pni_sde_part pni_sde_part_of(const pni_sde *o, int64_t chunk);
/* The span for so many steps, and how many states are kept. */
int64_t pni_sde_span(const pni_sde *o, int64_t steps);
int64_t pni_sde_slots(const pni_sde *o, int64_t steps);

/* Numbers of a state of a chunk, and its bytes. */
int64_t pni_sde_state_size(const pni_sde *o);
int64_t pni_sde_state_bytes(const pni_sde *o);

/* Fills *w, for context c. */
pn_status pni_sde_worker_open(pn_context *c, const pni_sde *o, pni_sde_worker *w);
void pni_sde_worker_close(const pni_sde *o, pni_sde_worker *w);
/* Takes the parameters that all paths share. */
void pni_sde_worker_begin(const pni_sde *o, pni_sde_worker *w);
/* The solution of a chunk; kept [kept_slots] gets states, or NULL. */
pn_status pni_sde_forward(pni_sde *o, pni_sde_worker *w, int64_t chunk, char *kept, char *out);
/* The gradients of a chunk; partial [shared] gets those of shared parameters. */
pn_status pni_sde_backward(pni_sde *o, pni_sde_worker *w, int64_t chunk, const char *kept, const char *g, char *out,
                           double *partial);

/* ---- of a step: what adaptive steps are made of ---- */

/* Takes the parameters that each path has. */
void pni_sde_begin_chunk(const pni_sde *o, pni_sde_worker *w, const pni_sde_part *p);
pn_status pni_sde_open_path(const pni_sde *o, pni_sde_worker *w, const pni_sde_part *p);
/* The state at hand. */
void *pni_sde_state_of(const pni_sde_worker *w);
void pni_sde_first_state(const pni_sde *o, pni_sde_worker *w, const pni_sde_part *p);
/* Its y is the solution at a time. */
void pni_sde_give(const pni_sde *o, const pni_sde_worker *w, const pni_sde_part *p, int64_t time, char *out);
/* w and areas of step k, from t to `end`, come to hand. */
void pni_sde_motions(const pni_sde *o, pni_sde_worker *w, const pni_sde_part *p, int64_t k, double t, double end);
/* One step from the state and the motions at hand, into w->result. */
pn_status pni_sde_advance(const pni_sde *o, pni_sde_worker *w, double t, double h);

/* sde_adapt.c: the solution of a chunk by steps that are found on the way, into o->grid. */
pn_status pni_sde_adapt(pni_sde *o, pni_sde_worker *w, const pni_sde_part *p, char *out);

/* Fails unless the step treats each path by itself. */
pn_status pni_sde_probe(pni_sde *o, pni_sde_worker *w);

#endif
