/*
** ode_call.c: the plans of a system called with plain numbers: the right-hand side, its gradients, what its events
** give.
*/
#include "ode.h"

typedef pn_context C;

/* Fills arg with t, y and the parameters; returns how many. */
static int arguments(const pni_ode *o, const double *t, const double *y, const double **arg) {
  const pn_plan *rhs = o->plan[PNI_ODE_RHS];
  int k = 2;
  arg[0] = t;
  arg[1] = y;
  for (const double *p = o->in + o->n + o->num_times; k < rhs->tape->ninput; k++) {
    arg[k] = p;
    p += rhs->tensor[k].numel;
  }
  return k;
}

/* Fills result with the places of the gradients in y and each parameter, one after another in o->back; returns how
 * many. */
static int gradients(const pni_ode *o, double **result) {
  const pn_plan *rhs = o->plan[PNI_ODE_RHS];
  double *at = o->back;
  for (int k = 1; k < rhs->tape->ninput; k++) {
    result[k - 1] = at;
    at += rhs->tensor[k].numel;
  }
  return rhs->tape->ninput - 1;
}

static void add_gradients(const pni_ode *o, double *bar, double *out) {
  int64_t m = o->total - o->num_times;
  for (int64_t i = 0; i < o->n; i++) bar[i] += o->back[i];
  for (int64_t i = o->n; i < m; i++) out[o->num_times + i] += o->back[i];
}

pn_status pni_ode_slope(C *c, const pni_ode *o, double t, const double *y, double *slope) {
  const double *arg[PNI_OP_INPUTS];
  arguments(o, &t, y, arg);
  return pni_plan_call_each(c, o->plan[PNI_ODE_RHS], arg, &slope);
}

pn_status pni_ode_pull_back(C *c, const pni_ode *o, double t, const double *y, const double *v, double *bar,
                            double *out) {
  const double *arg[PNI_OP_INPUTS];
  double *result[PNI_OP_INPUTS];
  arg[arguments(o, &t, y, arg)] = v;
  gradients(o, result);
  if (pni_plan_call_each(c, o->plan[PNI_ODE_PULLBACK], arg, result)) return c->status;
  add_gradients(o, bar, out);
  return PN_OK;
}

pn_status pni_ode_jacobian(C *c, const pni_ode *o, double t, const double *y) {
  const double *arg[PNI_OP_INPUTS];
  double *result[] = {o->jacobian, o->in_time};
  arguments(o, &t, y, arg);
  return pni_plan_call_each(c, o->plan[PNI_ODE_JACOBIAN], arg, result);
}

pn_status pni_ode_curvature(C *c, const pni_ode *o, double t, const double *y, const double *v, const double *u,
                            double tau, double *bar, double *out) {
  const double *arg[PNI_OP_INPUTS];
  double *result[PNI_OP_INPUTS];
  int n = arguments(o, &t, y, arg);
  arg[n] = v;
  arg[n + 1] = u;
  arg[n + 2] = &tau;
  gradients(o, result);
  if (pni_plan_call_each(c, o->plan[PNI_ODE_CURVATURE], arg, result)) return c->status;
  add_gradients(o, bar, out);
  return PN_OK;
}

pn_status pni_ode_event_values(C *c, const pni_ode *o, double t, const double *y, double *value) {
  const double *arg[PNI_OP_INPUTS];
  arguments(o, &t, y, arg);
  return pni_plan_call_each(c, o->plan[PNI_ODE_EVENTS], arg, &value);
}

pn_status pni_ode_event_pull_back(C *c, const pni_ode *o, double t, const double *y, const double *weight,
                                  double *in_time) {
  const double *arg[PNI_OP_INPUTS];
  double *result[PNI_OP_INPUTS];
  arg[arguments(o, &t, y, arg)] = weight;
  result[gradients(o, result)] = in_time;
  return pni_plan_call_each(c, o->plan[PNI_ODE_EVENTS_PULLBACK], arg, result);
}
