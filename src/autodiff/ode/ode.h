/*
** ode.h: a system dy/dt = f(t, y, parameters) whose right-hand side is a plan, as an object that rides on a tensor
** (pni_cargo): nodes, tapes and plans that hold the tensor hold the object.
*/
#ifndef PN_AUTODIFF_ODE_ODE_H
#define PN_AUTODIFF_ODE_ODE_H

#include "../replay/plan.h"

/* y0, times and the object ride along with the parameters as inputs of one operation. */
enum { PNI_ODE_PARAMETERS = PNI_OP_INPUTS - 4 };

/* One step from (t, y) of length h with its six slopes [6, n]. The last one of a trajectory has only t, y and the first
 * slope. */
typedef struct pni_ode_step {
  double *t, *h, *y, *slope;
} pni_ode_step;

/* Numbers lie one after another: y0 [n], times [num_times], then the parameters. */
typedef struct pni_ode {
  pn_plan *rhs;      /* t, y, parameters -> dy/dt */
  pn_plan *pullback; /* t, y, parameters, v -> v^T df/dy and v^T df/dparameter each; or NULL */
  pn_ode_config set;
  int64_t n, num_times, total;
  double *work;       /* see pni_ode_open */
  double *trajectory; /* room for `room` steps; without pullback the last two are kept */
  int64_t room, steps;
  bool known; /* the trajectory is that of the numbers in `from` */
  double *in, *from, *y, *slope, *value_bar, *next_bar, *slope_bar, *back;
} pni_ode;

/* Fills *o, whose plans come to hold a reference each. The plans fit n, num_times and total. */
pn_status pni_ode_open(pn_context *c, pni_ode *o, pn_plan *rhs, pn_plan *pullback, const pn_ode_config *set, int64_t n,
                       int64_t num_times, int64_t total);
void pni_ode_close(pn_context *c, pni_ode *o);
/* The solution at the times, out [num_times, n], of the problem in o->in. */
pn_status pni_ode_solve(pn_context *c, pni_ode *o, double *out);
/* d(loss)/d(problem in o->in), out [total], from g [num_times, n], that of the solution. */
pn_status pni_ode_adjoint(pn_context *c, pni_ode *o, const double *g, double *out);

#endif
