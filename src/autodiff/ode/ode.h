/*
** ode.h: a system dy/dt = f(t, y, parameters) whose right-hand side is a plan, as an object that rides on a tensor
** (pni_cargo): nodes, tapes and plans that hold the tensor hold the object. Methods of one step, events and calls of
** the plans have files of their own.
*/
#ifndef PN_AUTODIFF_ODE_ODE_H
#define PN_AUTODIFF_ODE_ODE_H

#include <math.h>
#include "../replay/plan.h"

enum {
  PNI_ODE_EXTRA = 3,                      /* inputs of a plan besides t, y and the parameters, at most */
  PNI_ODE_PARAMETERS = PNI_OP_INPUTS - 4, /* beside y0, times, the object and a gradient */
  PNI_ODE_STAGES = 7                      /* gradients in slopes of one step */
};

/* t, y and the parameters are the first inputs of each. */
enum {
  PNI_ODE_RHS,             /* -> dy/dt */
  PNI_ODE_PULLBACK,        /* v -> v^T df/dy and v^T df/dparameter each; or NULL */
  PNI_ODE_JACOBIAN,        /* -> df/dy [n, n], df/dt; of implicit methods */
  PNI_ODE_CURVATURE,       /* v, u, tau -> gradients of v^T (df/dy u + tau df/dt) in y and each parameter; or NULL */
  PNI_ODE_EVENTS,          /* -> values [events]; or NULL */
  PNI_ODE_EVENTS_PULLBACK, /* w -> gradients of w^T values in y, each parameter and t; or NULL */
  PNI_ODE_PLANS
};

/* One step from (t, y) of length h with what its method keeps of it, [kept, n]. */
typedef struct pni_ode_step {
  double *t, *h, *y, *slope;
} pni_ode_step;

/* Where a solution stands: step `at`, which `tried` steps led to, with so many times `given`; the length of the next
 * one; the error of the last one that was taken, and of the last one. */
typedef struct pni_ode_control {
  int64_t at, given;
  int tried;
  double h, before, last;
  bool rejected;
} pni_ode_control;

struct pni_ode_method;

/* Numbers lie one after another: y0 [n], times [num_times], then the parameters. */
typedef struct pni_ode {
  pn_plan *plan[PNI_ODE_PLANS];
  const struct pni_ode_method *method;
  pn_ode_config set; /* (its plans and list of events are not used: the object has its own) */
  int64_t n, num_times, total, results;
  double *work; /* see pni_ode_open */
  int64_t work_size;
  int *pivot;                       /* [n], of implicit methods */
  pn_ode_event *event;              /* [num_events] */
  int *occurred;                    /* [num_events] in the solution, and how many a gradient still has to see */
  int64_t *occurred_step;           /* [sum of counts] */
  int64_t occurrences;              /* that sum */
  double *trajectory;               /* room for `room` steps from `base` on; where `rolling` the last two are kept */
  int64_t room, base, steps, given; /* given: times that lie before the end */
  bool rolling;
  double *mark; /* with checkpoints, each `interval` steps: see save_mark */
  int64_t marks, mark_room, interval;
  bool known; /* steps, marks, events and trajectory are those of the numbers in `from` */
  double *in, *from, *y, *slope, *start_slope, *value_bar, *next_bar, *slope_bar, *back;
  double *jacobian, *factor, *in_time, *row; /* of implicit methods */
  int64_t jacobian_of;                       /* the step whose Jacobian is there, or -1 */
  double *occurred_time, *event_value, *event_end, *event_try, *event_weight, *event_y, *event_slope;
} pni_ode;

/* What a solution asks of a method that makes one step. */
typedef struct pni_ode_method {
  const char *failure; /* what too many steps may mean */
  double exponent;     /* 1 / (order of the error + 1) */
  int kept;            /* vectors that a step keeps */
  bool implicit;
  /* Fills what *s keeps where no step leads to it, from the slope there. */
  void (*begin)(const pni_ode *o, const pni_ode_step *s, const double *slope);
  /* The step from *s, which is number `at`, of length h into *next, and its error in units of the tolerance; NaN where
   * it is not finite. */
  pn_status (*step)(pn_context *c, pni_ode *o, int64_t at, const pni_ode_step *s, double h, const pni_ode_step *next,
                    double *error);
  /* The error between the ends of a step that was just made, *s.h its length, in the same units; or NULL: it follows
   * from that at the end. */
  pn_status (*error_between)(pn_context *c, pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double *error);
  /* The solution at a place in [0, 1] of the step, or its derivative in t. */
  void (*between)(const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double place, bool slope,
                  double *out);
  /* What the solution at a place, whose gradient is g, hands on: to value_bar and next_bar, of the ends of the step,
   * and slope_bar. */
  void (*between_adjoint)(pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double place, const double *g);
  /* Through the step: from next_bar and slope_bar to value_bar, and slope_bar of the step before. */
  pn_status (*adjoint)(pn_context *c, pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double *out);
  /* What is left in slope_bar at the first time goes to next_bar. */
  pn_status (*finish)(pn_context *c, pni_ode *o, double *out);
} pni_ode_method;

extern const pni_ode_method pni_dormand_prince, pni_rosenbrock;

/* ---- ode.c ---- */

/* Fills *o, whose plans come to hold a reference each. The plans fit n, num_times and total. */
pn_status pni_ode_open(pn_context *c, pni_ode *o, pn_plan *const *plan, const pn_ode_config *set, int64_t n,
                       int64_t num_times, int64_t total);
void pni_ode_close(pn_context *c, pni_ode *o);
/* The solution at the times, then of each event its number, times and states, out [results], of the problem in o->in.
 */
pn_status pni_ode_solve(pn_context *c, pni_ode *o, double *out);
/* d(loss)/d(problem in o->in), out [total], from g [results], that of the solution. */
pn_status pni_ode_adjoint(pn_context *c, pni_ode *o, const double *g, double *out);
/* Numbers of a result: see pni_ode_solve; -1: too many. */
int64_t pni_ode_results(const pn_ode_config *set, int64_t n, int64_t num_times);

/* The error that is let pass between values a and b. */
static inline double pni_ode_scale(const pni_ode *o, double a, double b) {
  return o->set.atol + o->set.rtol * fmax(fabs(a), fabs(b));
}

/* ---- ode_call.c: the plans ---- */

pn_status pni_ode_slope(pn_context *c, const pni_ode *o, double t, const double *y, double *slope);
/* Adds v^T df/dy to `bar` and v^T df/dparameters to `out`. */
pn_status pni_ode_pull_back(pn_context *c, const pni_ode *o, double t, const double *y, const double *v, double *bar,
                            double *out);
/* df/dy and df/dt into o->jacobian [n, n] and o->in_time. */
pn_status pni_ode_jacobian(pn_context *c, const pni_ode *o, double t, const double *y);
/* Adds the gradients of v^T (df/dy u + tau df/dt) to `bar` and `out`. */
pn_status pni_ode_curvature(pn_context *c, const pni_ode *o, double t, const double *y, const double *v,
                            const double *u, double tau, double *bar, double *out);
pn_status pni_ode_event_values(pn_context *c, const pni_ode *o, double t, const double *y, double *value);
/* The gradient of weight^T values into o->back, that in y [n] and the parameters; and in t. */
pn_status pni_ode_event_pull_back(pn_context *c, const pni_ode *o, double t, const double *y, const double *weight,
                                  double *in_time);

/* ---- ode_event.c ---- */

/* Before the first step, from y there. */
pn_status pni_ode_events_begin(pn_context *c, pni_ode *o, double t, const double *y, double *out);
/* Finds the events within step `at`, from *s to *next; *end becomes the time of one that is terminal, if there is. */
pn_status pni_ode_events_find(pn_context *c, pni_ode *o, int64_t at, const pni_ode_step *s, const pni_ode_step *next,
                              double *end, bool *over, double *out);
/* What events within step `at`, whose gradients are in g, hand on. */
pn_status pni_ode_events_adjoint(pn_context *c, pni_ode *o, int64_t at, const pni_ode_step *s, const pni_ode_step *next,
                                 const double *g, double *out);

#endif
