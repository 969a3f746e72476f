/*
** sde.h: a stochastic differential equation whose step is a plan, as an object that rides on a tensor (pni_cargo):
** nodes, tapes and plans that hold the tensor hold the object. The scheme is in the plan: t, h, the increments w of the
** Brownian motions over the step (and their space-time Levy areas), y and parameters -> y one step later. Where the
** scheme carries more than y from step to step, `states` arrays of y's shape do, y the first.
*/
#ifndef PN_AUTODIFF_SDE_SDE_H
#define PN_AUTODIFF_SDE_SDE_H

#include "../replay/plan.h"
#include "brownian.h"

/* How a gradient comes by the states of all steps: they are kept; some are, and those in between made again; none is,
 * each is made from the one after it, by the step with t + h, -h and -w. */
enum { PNI_SDE_GRAPH, PNI_SDE_CHECKPOINTS, PNI_SDE_REVERSIBLE };

typedef struct pni_sde_config {
  double step;       /* the longest one; 0: one from time to time */
  int64_t max_steps; /* of a path, 1 .. 2^40 */
  int gradient;      /* PNI_SDE_... */
  int64_t paths;     /* B */
  int64_t rows;      /* paths of a chunk: those of the plans */
  int64_t motions;   /* Brownian motions of a path */
  int states;
  bool area;                /* the step takes areas */
  bool tree;                /* w is that of a path with cells (brownian.h), from `start` on, else of normals */
  double start, tolerance;  /* of the path; with adaptive steps the start is the first time */
  bool adaptive;            /* `step` is then the longest one, 0: without limit */
  bool own_start;           /* the path begins at the first time, with cells as they fit */
  double rtol, atol;        /* the error of an adaptive step is held below atol + rtol |y| (see sde_adapt.c) */
  double first_step, order; /* of adaptive steps: 0: found; strong order of the scheme */
} pni_sde_config;

typedef struct pni_sde_worker pni_sde_worker; /* sde.c */

/* A chunk's steps where they are not the same for all. */
typedef struct pni_sde_grid {
  double *t;      /* [room + 1] */
  int64_t *given; /* the step that ends at each time [num_times] */
  int64_t room, steps;
  pn_context *c; /* whose memory it is */
} pni_sde_grid;

typedef struct pni_sde {
  pn_plan *step;     /* t, h, w, [area,] y, parameters -> y */
  pn_plan *pullback; /* the same and v -> v^T dstep/dy and v^T dstep/dparameter each; or NULL */
  pni_sde_config set;
  bool *own; /* of each parameter: a row for each path, else one for all */
  int parameters;
  int dtype;
  int64_t n, num_times;           /* numbers of a path's y */
  int64_t shared, of_path, total; /* numbers of parameters; of the problem [y0, shared, those of each path] */
  int64_t chunks, steps, kept_slots;
  char *in, *from; /* the problem, that of the trajectory */
  double *times, *from_times;
  uint64_t key, from_key;
  int64_t *given; /* the number of steps before each time */
  bool known, probed;
  char *kept; /* states [chunks, kept_slots, states, rows, n] */
  int64_t kept_bytes;
  double *partial;    /* gradients of shared parameters, by chunk */
  pni_sde_grid *grid; /* by chunk, or NULL */
  pni_sde_worker *worker;
  int workers;
  pn_context *c;
} pni_sde;

/* Fills *o, whose plans come to hold a reference each; own [parameters]. */
pn_status pni_sde_open(pn_context *c, pni_sde *o, pn_plan *step, pn_plan *pullback, const pni_sde_config *set,
                       const bool *own, int64_t num_times);
void pni_sde_close(pn_context *c, pni_sde *o);
/* Fails where a step of length h at t is too short for the path. */
pn_status pni_sde_check_length(pn_context *c, const pni_sde *o, double t, double h);
/* The solution at the times, out [num_times, paths, n], of the problem in o->in, o->times and o->key. */
pn_status pni_sde_solve(pn_context *c, pni_sde *o, void *out);
/* d(loss)/d(problem in o->in), out [total], from g like the solution. */
pn_status pni_sde_adjoint(pn_context *c, pni_sde *o, const void *g, void *out);

#endif
