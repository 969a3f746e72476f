/*
** op_odeint.c: the solution of a system of differential equations as an operation of y0, times, the system (an object
** that rides on a tensor) and parameters; and its gradient as another.
*/
#include <math.h>
#include <string.h>
#include "ode.h"

typedef pn_tensor T;
typedef pn_context C;

enum { Y0, TIMES, SYSTEM, PARAMETERS };

/* ---- the system ---- */

static void release(C *c, void *object) { pni_ode_close(c, object); }

static pn_status copy(C *c, const void *old, void *object) {
  const pni_ode *o = old;
  pn_plan *plan[PNI_ODE_PLANS] = {NULL};
  for (int k = 0; k < PNI_ODE_PLANS && !pni_failed(c); k++)
    if (o->plan[k]) plan[k] = pn_plan_copy(c, o->plan[k]);
  if (!pni_failed(c)) pni_ode_open(c, object, plan, &o->set, o->n, o->num_times, o->total);
  for (int k = 0; k < PNI_ODE_PLANS; k++) pn_plan_unref(plan[k]);
  return c->status;
}

static const pni_cargo cargo = {release, copy};

static pni_ode *system_of(const T *t) { return t->storage->data; }

/* Is value k of the plan float64 of this shape? */
static bool is_of(const pn_plan *p, int k, int ndim, const int64_t *shape) {
  const T *v = &p->tensor[k];
  return v->dtype == PN_FLOAT64 && v->ndim == ndim && memcmp(v->shape, shape, (size_t)ndim * sizeof *shape) == 0;
}

/* Do value k of the plan and t have one shape, and are both float64? */
static bool is_like(const pn_plan *p, int k, const T *t) {
  return t->dtype == PN_FLOAT64 && is_of(p, k, t->ndim, t->shape);
}

/* The inputs of a solution: those that the system was made for. */
static pn_status check_problem(C *c, const char *where, int n, T *const *in) {
  const pni_ode *o = n > SYSTEM && in[SYSTEM]->storage->cargo == &cargo ? system_of(in[SYSTEM]) : NULL;
  const pn_plan *rhs = o ? o->plan[PNI_ODE_RHS] : NULL;
  bool fits = o && n - PARAMETERS == rhs->tape->ninput - 2 && in[TIMES]->ndim == 1 && in[TIMES]->dtype == PN_FLOAT64 &&
              in[TIMES]->numel == o->num_times && is_like(rhs, 1, in[Y0]);
  for (int k = PARAMETERS; fits && k < n; k++) fits = is_like(rhs, 2 + k - PARAMETERS, in[k]);
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE,
                  "%s: y0, times and parameters must be float64 of the shapes that the system was made for", where);
}

static T *new_system(C *c, pn_plan *const *plan, const pn_ode_config *set, int64_t n, int64_t num_times,
                     int64_t total) {
  pni_spec bytes = {.dtype = PN_BOOL, .ndim = 1, .shape = {(int64_t)sizeof(pni_ode)}};
  T *t = pni_scoped(c, pni_tensor_new(c, &bytes));
  if (!t || pni_ode_open(c, system_of(t), plan, set, n, num_times, total)) return NULL;
  t->storage->cargo = &cargo;
  return t;
}

/* Numbers of input k of the operations within the problem: the system has none. */
static int64_t count_of(const T *t, int k) { return k == SYSTEM ? 0 : t->numel; }

/* The problem as numbers, into o->in. */
static pn_status gather(C *c, pni_ode *o, int n, T *const *in) {
  double *to = o->in;
  for (int k = 0; k < n; k++) {
    T *t = count_of(in[k], k) ? pni_contiguous(c, in[k]) : NULL;
    if (!t) continue;
    memcpy(to, pni_data(t), (size_t)t->numel * sizeof *to);
    to += t->numel;
    pn_tensor_unref(t);
  }
  return c->status;
}

/* ---- the solution ---- */

static pn_status infer(C *c, const pni_call *call, pni_spec *out) {
  const T *y = call->in[Y0];
  if (check_problem(c, "odeint", call->nin, call->in)) return c->status;
  const pni_ode *o = system_of(call->in[SYSTEM]);
  if (o->set.num_events) {
    *out = (pni_spec){.dtype = PN_FLOAT64, .ndim = 1, .shape = {o->results}};
    return PN_OK;
  }
  *out = (pni_spec){.dtype = PN_FLOAT64, .ndim = y->ndim + 1, .shape = {call->in[TIMES]->numel}};
  memcpy(out->shape + 1, y->shape, (size_t)y->ndim * sizeof *out->shape);
  return PN_OK;
}

static pn_status eval(C *c, const pni_call *call, T *out) {
  pni_ode *o = system_of(call->in[SYSTEM]);
  return gather(c, o, call->nin, call->in) ? c->status : pni_ode_solve(c, o, pni_data(out));
}

/* ---- the gradient: of the solution's gradient and the inputs above, [total] ---- */

static pn_status infer_adjoint(C *c, const pni_call *call, pni_spec *out) {
  pni_spec y;
  if (check_problem(c, "odeint_adjoint", call->nin - 1, call->in + 1) ||
      pni_infer_as(c, call, &pni_op_odeint, call->nin - 1, call->in + 1, NULL, &y) || pni_require_like(c, call, 0, &y))
    return c->status;
  *out = (pni_spec){.dtype = PN_FLOAT64, .ndim = 1, .shape = {system_of(call->in[1 + SYSTEM])->total}};
  return PN_OK;
}

static pn_status eval_adjoint(C *c, const pni_call *call, T *out) {
  pni_ode *o = system_of(call->in[1 + SYSTEM]);
  T *g = gather(c, o, call->nin - 1, call->in + 1) ? NULL : pni_contiguous(c, call->in[0]);
  if (g) pni_ode_adjoint(c, o, pni_data(g), pni_data(out));
  pn_tensor_unref(g);
  return c->status;
}

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[PNI_OP_INPUTS + 1] = {g};
  int64_t at = 0;
  for (int k = 0; k < y->nin; k++) in[k + 1] = pni_in(y, k);
  T *flat = pni_apply(c, &pni_op_odeint_adjoint, y->nin + 1, in, NULL);
  for (int k = 0; flat && k < y->nin; k++) {
    T *x = pni_in(y, k);
    int64_t n = count_of(x, k);
    if (wanted[k]) out[k] = pn_reshape(c, pn_slice(c, flat, 0, at, n, 1), x->ndim, x->shape);
    at += n;
  }
  return c->status;
}

static T *vjp(C *c, T *y, T *g, int k) {
  (void)y, (void)g, (void)k;
  pni_fail(c, PN_MISSING, "odeint: a gradient of its gradient does not exist (create_graph)");
  return NULL;
}

/* ---- checks ---- */

static pn_status read_events(C *c, const pn_ode_config *set) {
  if (set->num_events < 0 || set->num_events > PNI_OP_INPUTS || (set->num_events && !set->event))
    return pni_fail(c, PN_DOMAIN, "odeint: there may be %d events at most, in a list, got %d", PNI_OP_INPUTS,
                    set->num_events);
  for (int e = 0; e < set->num_events; e++) {
    const pn_ode_event *event = &set->event[e];
    if (!memchr(event->name, 0, sizeof event->name))
      return pni_fail(c, PN_DOMAIN, "odeint: name of event %d must end within its %zu characters", e + 1,
                      sizeof event->name);
    if (event->count < 1 || event->count > 1000000 || event->direction < -1 || event->direction > 1)
      return pni_fail(c, PN_DOMAIN, "odeint: event '%s' needs a count from 1 to 1000000 and a direction -1, 0 or 1",
                      event->name);
  }
  return PN_OK;
}

static pn_status read_config(C *c, const pn_ode_config *given, pn_ode_config *set) {
  *set = given ? *given : (pn_ode_config){0};
  if (set->rtol == 0) set->rtol = 1e-6;
  if (set->atol == 0) set->atol = 1e-8;
  if (set->max_steps == 0) set->max_steps = 10000;
  const struct {
    const char *name;
    double value;
    bool zero;
  } all[] = {{"rtol", set->rtol, false},
             {"atol", set->atol, false},
             {"max_steps", set->max_steps, false},
             {"first_step", set->first_step, true},
             {"max_step", set->max_step, true}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    if (!(all[i].value > 0 || (all[i].zero && all[i].value == 0)) || !isfinite(all[i].value))
      return pni_fail(c, PN_DOMAIN, "odeint: %s must be positive and finite, got %g", all[i].name, all[i].value);
  if (set->method != PN_DORMAND_PRINCE && set->method != PN_ROSENBROCK)
    return pni_fail(c, PN_DOMAIN, "odeint: method must be PN_DORMAND_PRINCE or PN_ROSENBROCK, got %d",
                    (int)set->method);
  return read_events(c, set);
}

static pn_status check_float(C *c, const char *role, int k, const T *t) {
  if (t->dtype == PN_FLOAT64) return PN_OK;
  return pni_fail(c, PN_DTYPE, "odeint: %s%.0d must be float64, got %s (convert with :to)", role, k,
                  pn_dtype_name((pn_dtype)t->dtype));
}

static pn_status check_inputs(C *c, const T *y0, const T *times, int n, T *const *params) {
  char got[PNI_SHAPE_TEXT];
  if (!PNI_GIVEN(c, "odeint", y0, times) || !PNI_LISTED(c, "odeint", n, params)) return c->status;
  if (n > PNI_ODE_PARAMETERS)
    return pni_fail(c, PN_DOMAIN, "odeint: at most %d parameters are possible, got %d", PNI_ODE_PARAMETERS, n);
  if (check_float(c, "y0", 0, y0) || check_float(c, "times", 0, times)) return c->status;
  for (int k = 0; k < n; k++) {
    if (!params[k]) return pni_fail(c, PN_STATE, "odeint: parameter %d must be a tensor, got NULL", k + 1);
    if (check_float(c, "parameter ", k + 1, params[k])) return c->status;
  }
  if (y0->numel == 0 || y0->ndim == PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "odeint: y0 must have an element and at most %d axes, got shape %s", PN_MAX_DIMS - 1,
                    pni_shape_text(y0->ndim, y0->shape, got));
  if (times->ndim != 1 || times->numel == 0)
    return pni_fail(c, PN_SHAPE, "odeint: times must be a vector [T], got shape %s",
                    pni_shape_text(times->ndim, times->shape, got));
  return PN_OK;
}

/* What a plan takes besides t, y and the parameters, and gives: shapes in axes of y0 (-1), one number (0) or that many.
 */
typedef struct {
  const char *name, *gives;
  int nin, in[PNI_ODE_EXTRA];
  int nout, out[2];
  bool gradients; /* in y and each parameter, before those of out */
} signature;

enum { LIKE_Y = -1, ONE = 0, BY_EVENT = -2, SQUARE = -3, FLAT = -4 };

static const signature signatures[PNI_ODE_PLANS] = {
    {"f", "dy/dt of y's shape", 0, {0}, 1, {LIKE_Y}, false},
    {"pullback", "the gradients in y and each parameter", 1, {LIKE_Y}, 0, {0}, true},
    {"jacobian", "df/dy [n, n] and df/dt [n]", 0, {0}, 2, {SQUARE, FLAT}, false},
    {"curvature", "the gradients in y and each parameter", 3, {LIKE_Y, LIKE_Y, ONE}, 0, {0}, true},
    {"events", "a vector with a value for each event", 0, {0}, 1, {BY_EVENT}, false},
    {"events_pullback", "the gradients in y, each parameter and t", 1, {BY_EVENT}, 1, {ONE}, true}};

static bool is_sized(const pn_plan *p, int k, int size, const T *y0, int num_events) {
  const int64_t n[2] = {size == BY_EVENT ? num_events : y0->numel, y0->numel};
  if (size == LIKE_Y) return is_like(p, k, y0);
  return is_of(p, k, size == ONE ? 0 : size == SQUARE ? 2 : 1, n);
}

static pn_status check_plan(C *c, const signature *s, const pn_plan *p, int num_events, const T *y0, int n,
                            T *const *params) {
  char want[PNI_SHAPE_TEXT];
  int first = s->gradients ? 1 + n : 0;
  const int64_t one = 1;
  bool fits = p->tape->ninput == 2 + n + s->nin && p->nout == first + s->nout && is_of(p, 0, 0, &one) &&
              is_like(p, 1, y0) && (!first || is_like(p, p->out[0], y0));
  for (int k = 0; fits && k < n; k++)
    fits = is_like(p, 2 + k, params[k]) && (!first || is_like(p, p->out[1 + k], params[k]));
  for (int k = 0; fits && k < s->nin; k++) fits = is_sized(p, 2 + n + k, s->in[k], y0, num_events);
  for (int k = 0; fits && k < s->nout; k++) fits = is_sized(p, p->out[first + k], s->out[k], y0, num_events);
  if (!fits)
    return pni_fail(c, PN_SHAPE,
                    "odeint: %s must be a plan of t, y %s, %d parameters and %d more that gives %s, float64", s->name,
                    pni_shape_text(y0->ndim, y0->shape, want), n, s->nin, s->gives);
  if (p->tape->event.n)
    return pni_fail(c, PN_STATE, "odeint: %s must not draw random numbers or update parameters", s->name);
  return PN_OK;
}

static pn_status check_plans(C *c, pn_plan *const *plan, const pn_ode_config *set, const T *y0, int n,
                             T *const *params) {
  bool gradient = plan[PNI_ODE_PULLBACK] != NULL, implicit = set->method == PN_ROSENBROCK;
  const bool needed[PNI_ODE_PLANS] = {
      true, false, implicit, implicit && gradient, set->num_events > 0, set->num_events > 0 && gradient};
  for (int k = 0; k < PNI_ODE_PLANS; k++) {
    if (!plan[k] && needed[k]) return pni_fail(c, PN_STATE, "odeint: %s must be a plan, got NULL", signatures[k].name);
    if (plan[k] && check_plan(c, &signatures[k], plan[k], set->num_events, y0, n, params)) return c->status;
  }
  if (implicit && y0->numel > 30000)
    return pni_fail(c, PN_SHAPE, "odeint: y0 may have at most 30000 elements with method 'rosenbrock', got %lld",
                    (long long)y0->numel);
  return PN_OK;
}

T *pn_odeint(C *c, pn_plan *f, pn_plan *pullback, const pn_ode_config *config, T *y0, T *times, int n,
             T *const *params) {
  pn_ode_config set;
  T *in[PNI_OP_INPUTS] = {y0, times};
  if (pni_failed(c) || check_inputs(c, y0, times, n, params) || read_config(c, config, &set)) return NULL;
  pn_plan *plan[PNI_ODE_PLANS] = {f, pullback, set.jacobian, set.curvature, set.events, set.events_pullback};
  int most = PNI_OP_INPUTS - 2 - PNI_ODE_EXTRA;
  if ((set.method == PN_ROSENBROCK || set.num_events) && n > most) {
    pni_fail(c, PN_DOMAIN, "odeint: at most %d parameters are possible with this method or events, got %d", most, n);
    return NULL;
  }
  if (check_plans(c, plan, &set, y0, n, params)) return NULL;
  if (set.method != PN_ROSENBROCK) plan[PNI_ODE_JACOBIAN] = plan[PNI_ODE_CURVATURE] = NULL;
  if (!set.num_events) plan[PNI_ODE_EVENTS] = plan[PNI_ODE_EVENTS_PULLBACK] = NULL;
  int64_t total = y0->numel + times->numel;
  for (int k = 0; k < n; k++) {
    total += params[k]->numel;
    in[PARAMETERS + k] = params[k];
  }
  in[SYSTEM] = new_system(c, plan, &set, y0->numel, times->numel, total);
  return in[SYSTEM] ? pni_apply(c, &pni_op_odeint, PARAMETERS + n, in, NULL) : NULL;
}

/* ---- rows ---- */

const pni_op pni_op_odeint = {.name = "odeint",
                              .args = "list:T",
                              .doc =
                                  "solution [T, ...] of dy/dt = f(t, y, parameters), from y0, times, f and parameters",
                              .flags = PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE | PNI_OP_ONCE,
                              .infer = infer,
                              .eval = eval,
                              .vjp = vjp,
                              .vjps = vjps};

const pni_op pni_op_odeint_adjoint = {.name = "odeint_adjoint",
                                      .args = "list:T",
                                      .doc = "gradients of odeint in its inputs, one after another",
                                      .flags = PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE | PNI_OP_NODIFF,
                                      .infer = infer_adjoint,
                                      .eval = eval_adjoint};
