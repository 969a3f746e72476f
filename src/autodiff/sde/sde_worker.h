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
  void *normal;       /* of `ahead` steps */
  int64_t ahead, block; /* the steps in `normal` are those of this block, -1: none */
  bool open;          /* path */
  pni_brownian path;
  double *w, *h;      /* of the path, [rows, motions] */
  double *sum;        /* gradients of parameters, [shared + rows * of_path] */
  char *between;      /* states between two checkpoints */
  char *whole;        /* y after a whole step, of two halves */
  pn_status status;
};

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
/* Fails unless the step treats each path by itself. */
pn_status pni_sde_probe(pni_sde *o, pni_sde_worker *w);

#endif
