/*
** bind.h: large inputs and results where they lie, for the files that make and run plans (bind.c).
*/
#ifndef PN_AUTODIFF_REPLAY_BIND_H
#define PN_AUTODIFF_REPLAY_BIND_H

#include "plan.h"

/* A value without a place in the arena: an input that is read where the caller has it, or a result that is computed
 * in the tensor that the caller gets. */
typedef struct pni_bound {
  int value;
  int out;        /* number of the result, -1: an input, with the value's number */
  char *at;       /* its memory in the last run; of no meaning between runs */
  ptrdiff_t move; /* from there to its memory in this run */
} pni_bound;

/* A place that holds an address within a bound value's memory, or a step that was prepared with such addresses. */
typedef struct pni_patch {
  int bound;
  char **at; /* NULL: step */
  pni_step *step;
} pni_patch;

/* Chooses the values that are bound. */
pn_status pni_bind_choose(pn_context *c, pn_plan *p, const pni_schedule *s);
/* Notes where the steps, which are complete, hold addresses of bound values. */
pn_status pni_bind_steps(pn_context *c, pn_plan *p);
/* Before a run: bound values get the memory of in and of the results, which stand in the scope from `first` on.
 * Copies that are made are scoped. */
pn_status pni_bind(pn_context *c, pn_plan *p, pn_tensor *const *in, size_t first);

#endif
