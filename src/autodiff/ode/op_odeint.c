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
  pn_plan *rhs = pn_plan_copy(c, o->rhs), *pullback = rhs && o->pullback ? pn_plan_copy(c, o->pullback) : NULL;
  if (!pni_failed(c)) pni_ode_open(c, object, rhs, pullback, &o->set, o->n, o->num_times, o->total);
  pn_plan_unref(rhs);
  pn_plan_unref(pullback);
  return c->status;
}

static const pni_cargo cargo = {release, copy};

static pni_ode *system_of(const T *t) { return t->storage->data; }

/* Do value k of the plan and t have one shape (0-d for t NULL), and are both float64? */
static bool is_like(const pn_plan *p, int k, const T *t) {
  const T *v = &p->tape->value.v[k].t;
  if (v->dtype != PN_FLOAT64 || v->ndim != (t ? t->ndim : 0)) return false;
  return !t || (t->dtype == PN_FLOAT64 && memcmp(v->shape, t->shape, (size_t)v->ndim * sizeof *v->shape) == 0);
}

/* The inputs of a solution: those that the system was made for. */
static pn_status check_problem(C *c, const char *where, int n, T *const *in) {
  const pni_ode *o = n > SYSTEM && in[SYSTEM]->storage->cargo == &cargo ? system_of(in[SYSTEM]) : NULL;
  const pn_plan *rhs = o ? o->rhs : NULL;
  bool fits = o && n - PARAMETERS == rhs->tape->ninput - 2 && in[TIMES]->ndim == 1 && in[TIMES]->dtype == PN_FLOAT64 &&
              in[TIMES]->numel == o->num_times && is_like(rhs, 1, in[Y0]);
  for (int k = PARAMETERS; fits && k < n; k++) fits = is_like(rhs, 2 + k - PARAMETERS, in[k]);
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE,
                  "%s: y0, times and parameters must be float64 of the shapes that the system was made for", where);
}

static T *new_system(C *c, pn_plan *rhs, pn_plan *pullback, const pn_ode_config *set, int64_t n, int64_t num_times,
                     int64_t total) {
  pni_spec bytes = {.dtype = PN_BOOL, .ndim = 1, .shape = {(int64_t)sizeof(pni_ode)}};
  T *t = pni_scoped(c, pni_tensor_new(c, &bytes));
  if (!t || pni_ode_open(c, system_of(t), rhs, pullback, set, n, num_times, total)) return NULL;
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
  return PN_OK;
}

static pn_status check_float(C *c, const char *role, int k, const T *t) {
  if (t->dtype == PN_FLOAT64) return PN_OK;
  return pni_fail(c, PN_DTYPE, "odeint: %s%.0d must be float64, got %s (convert with :to)", role, k,
                  pn_dtype_name((pn_dtype)t->dtype));
}

static pn_status check_inputs(C *c, const T *y0, const T *times, int n, T *const *params) {
  char got[160];
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

static pn_status check_plan(C *c, const char *role, const pn_plan *p, bool pullback, T *y0, int n, T *const *params) {
  char want[160];
  bool fits = p->tape->ninput == 2 + n + pullback && p->nout == (pullback ? 1 + n : 1) && is_like(p, 0, NULL) &&
              is_like(p, 1, y0) && is_like(p, p->out[0], y0);
  for (int k = 0; fits && k < n; k++)
    fits = is_like(p, 2 + k, params[k]) && (!pullback || is_like(p, p->out[1 + k], params[k]));
  if (!fits || (pullback && !is_like(p, 2 + n, y0)))
    return pni_fail(c, PN_SHAPE, "odeint: %s must be a plan of t, y %s and %d parameters%s, float64", role,
                    pni_shape_text(y0->ndim, y0->shape, want), n,
                    pullback ? ", v that gives the gradients in y and each parameter"
                             : " that gives dy/dt of y's shape");
  for (int64_t i = 0; i < p->tape->note.n; i++)
    if (p->tape->note.v[i].rng || p->tape->note.v[i].effect)
      return pni_fail(c, PN_STATE, "odeint: f must not draw random numbers or update parameters");
  return PN_OK;
}

T *pn_odeint(C *c, pn_plan *f, pn_plan *pullback, const pn_ode_config *config, T *y0, T *times, int n,
             T *const *params) {
  pn_ode_config set;
  T *in[PNI_OP_INPUTS] = {y0, times};
  if (pni_failed(c) || check_inputs(c, y0, times, n, params) || read_config(c, config, &set)) return NULL;
  if (!f) {
    pni_fail(c, PN_STATE, "odeint: f must be a plan, got NULL");
    return NULL;
  }
  if (check_plan(c, "f", f, false, y0, n, params)) return NULL;
  if (pullback && check_plan(c, "pullback", pullback, true, y0, n, params)) return NULL;
  int64_t total = y0->numel + times->numel;
  for (int k = 0; k < n; k++) {
    total += params[k]->numel;
    in[PARAMETERS + k] = params[k];
  }
  in[SYSTEM] = new_system(c, f, pullback, &set, y0->numel, times->numel, total);
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
