/*
** op_sde.c: the solution of a stochastic differential equation as an operation of y0, times, the key of the Brownian
** motions, the system (an object that rides on a tensor) and parameters; and its gradient as another.
*/
#include <math.h>
#include <string.h>
#include "op_sde.h"

typedef pn_tensor T;
typedef pn_context C;

enum { Y0, TIMES, KEY, SYSTEM, SHARED, OF_PATH, INPUTS };

/* ---- the system ---- */

static void release(C *c, void *object) { pni_sde_close(c, object); }

static pn_status copy(C *c, const void *old, void *object) {
  const pni_sde *o = old;
  pn_plan *step = pn_plan_copy(c, o->step), *pullback = step && o->pullback ? pn_plan_copy(c, o->pullback) : NULL;
  if (!pni_failed(c) && pni_sde_open(c, object, step, pullback, &o->set, o->own, o->num_times))
    pni_sde_close(c, object);
  pn_plan_unref(step);
  pn_plan_unref(pullback);
  return c->status;
}

static const pni_cargo cargo = {release, copy};

static pni_sde *system_of(const T *t) { return t->storage->data; }

/* The inputs of a solution: those that the system was made for. */
static pn_status check_problem(C *c, const char *where, int n, T *const *in) {
  const pni_sde *o = n == INPUTS && in[SYSTEM]->storage->cargo == &cargo ? system_of(in[SYSTEM]) : NULL;
  bool fits = o && in[TIMES]->ndim == 1 && in[TIMES]->dtype == PN_FLOAT64 && in[TIMES]->numel == o->num_times &&
              in[KEY]->dtype == PN_INT64 && in[KEY]->numel == 1 && in[Y0]->dtype == o->dtype &&
              in[SHARED]->dtype == o->dtype && in[OF_PATH]->dtype == o->dtype && in[Y0]->numel == o->set.paths * o->n &&
              in[Y0]->ndim < PN_MAX_DIMS && in[SHARED]->numel == o->shared &&
              in[OF_PATH]->numel == o->set.paths * o->of_path;
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: y0, times, key and parameters must be as the system was made for", where);
}

static T *new_system(C *c, pn_plan *step, pn_plan *pullback, const pni_sde_config *set, const bool *own,
                     int64_t num_times) {
  pni_spec bytes = {.dtype = PN_BOOL, .ndim = 1, .shape = {(int64_t)sizeof(pni_sde)}};
  T *t = pni_scoped(c, pni_tensor_new(c, &bytes));
  if (!t) return NULL;
  if (pni_sde_open(c, system_of(t), step, pullback, set, own, num_times)) {
    pni_sde_close(c, system_of(t));
    return NULL;
  }
  t->storage->cargo = &cargo;
  return t;
}

static const int flat[] = {Y0, SHARED, OF_PATH}; /* those of whose numbers the problem consists */

/* The problem as numbers, into o->in, o->times and o->key. */
static pn_status gather(C *c, pni_sde *o, T *const *in) {
  char *to = o->in;
  for (int k = 0; k < 3; k++) {
    T *t = pni_contiguous(c, in[flat[k]]);
    if (!t) return c->status;
    size_t bytes = (size_t)t->numel * pni_itemsize(t);
    memcpy(to, pni_data(t), bytes);
    to += bytes;
    pn_tensor_unref(t);
  }
  T *times = pni_contiguous(c, in[TIMES]), *key = times ? pni_contiguous(c, in[KEY]) : NULL;
  if (key) {
    memcpy(o->times, pni_data(times), (size_t)times->numel * sizeof *o->times);
    o->key = pni_seed_key(*(uint64_t *)pni_data(key));
  }
  pn_tensor_unref(times);
  pn_tensor_unref(key);
  return c->status;
}

/* ---- the solution ---- */

static pn_status infer(C *c, const pni_call *call, pni_spec *out) {
  const T *y = call->in[Y0];
  if (check_problem(c, "sde", call->nin, call->in)) return c->status;
  *out = (pni_spec){.dtype = y->dtype, .ndim = y->ndim + 1, .shape = {call->in[TIMES]->numel}};
  memcpy(out->shape + 1, y->shape, (size_t)y->ndim * sizeof *out->shape);
  return PN_OK;
}

static pn_status eval(C *c, const pni_call *call, T *out) {
  pni_sde *o = system_of(call->in[SYSTEM]);
  return gather(c, o, call->in) ? c->status : pni_sde_solve(c, o, pni_data(out));
}

/* ---- the gradient: of the solution's gradient and the inputs above, [total] ---- */

static pn_status infer_adjoint(C *c, const pni_call *call, pni_spec *out) {
  pni_spec y;
  if (check_problem(c, "sde_adjoint", call->nin - 1, call->in + 1) ||
      pni_infer_as(c, call, &pni_op_sde, call->nin - 1, call->in + 1, NULL, &y) || pni_require_like(c, call, 0, &y))
    return c->status;
  *out = (pni_spec){.dtype = y.dtype, .ndim = 1, .shape = {system_of(call->in[1 + SYSTEM])->total}};
  return PN_OK;
}

static pn_status eval_adjoint(C *c, const pni_call *call, T *out) {
  pni_sde *o = system_of(call->in[1 + SYSTEM]);
  T *g = gather(c, o, call->in + 1) ? NULL : pni_contiguous(c, call->in[0]);
  if (g) pni_sde_adjoint(c, o, pni_data(g), pni_data(out));
  pn_tensor_unref(g);
  return c->status;
}

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[INPUTS + 1] = {g};
  int64_t at = 0;
  for (int k = 0; k < INPUTS; k++) in[k + 1] = pni_in(y, k);
  if (wanted[TIMES])
    return pni_fail(c, PN_MISSING,
                    "sde: a gradient in times does not exist: Brownian motion has no slope (detach them)");
  T *all = pni_apply(c, &pni_op_sde_adjoint, INPUTS + 1, in, NULL);
  for (int k = 0; all && k < 3; k++) {
    T *x = pni_in(y, flat[k]);
    if (wanted[flat[k]]) out[flat[k]] = pn_reshape(c, pn_slice(c, all, 0, at, x->numel, 1), x->ndim, x->shape);
    at += x->numel;
  }
  return c->status;
}

static T *vjp(C *c, T *y, T *g, int k) {
  (void)y, (void)g, (void)k;
  pni_fail(c, PN_MISSING, "sde: a gradient of its gradient does not exist (create_graph)");
  return NULL;
}

/* ---- checks ---- */

static pn_status check_config(C *c, const pni_sde_config *s) {
  bool fits = s->step >= 0 && isfinite(s->step) && s->max_steps >= 1 && s->max_steps <= (int64_t)1 << 40 &&
              s->gradient >= PNI_SDE_GRAPH && s->gradient <= PNI_SDE_REVERSIBLE && s->paths >= 1 && s->rows >= 1 &&
              s->rows <= s->paths && s->motions >= 1 && s->states >= 1 &&
              (!s->adaptive || (s->tree && s->rtol > 0 && s->atol > 0 && s->order > 0 && s->first_step >= 0)) &&
              (!s->tree || (s->tolerance > 0 && isfinite(s->tolerance) && isfinite(s->start)));
  if (fits) return PN_OK;
  return pni_fail(c, PN_DOMAIN,
                  "sde: step, max_steps, paths, motions, the path's tolerance or those of adaptive steps lie "
                  "outside their range");
}

static pn_status check_like(C *c, const pn_plan *p, int k, int dtype, int64_t numel, const char *role) {
  const T *t = &p->tensor[k];
  if (t->dtype == dtype && (numel < 0 || t->numel == numel)) return PN_OK;
  return pni_fail(c, PN_SHAPE, "sde: %s of the step has %lld numbers of %s, which do not fit y0", role,
                  (long long)t->numel, pn_dtype_name((pn_dtype)t->dtype));
}

static pn_status check_step(C *c, const pn_plan *p, const pni_sde_config *s, const T *y0, int parameters,
                            const bool *own) {
  int y = s->area ? 4 : 3, dtype = y0->dtype;
  if (p->tape->ninput != y + 1 + parameters || p->nout != 1)
    return pni_fail(c, PN_SHAPE, "sde: the step must have %d inputs and one result, got %d and %d", y + 1 + parameters,
                    p->tape->ninput, p->nout);
  int64_t state = pni_times(pni_times(s->rows, y0->numel / s->paths), s->states);
  if (check_like(c, p, 0, dtype, 1, "t") || check_like(c, p, 1, dtype, 1, "h") ||
      check_like(c, p, y, dtype, state, "y") || check_like(c, p, p->out[0], dtype, state, "the result"))
    return c->status;
  for (int k = 2; k < y; k++)
    if (check_like(c, p, k, dtype, pni_times(s->rows, s->motions), "w")) return c->status;
  for (int k = 0; k < parameters; k++) {
    const T *t = &p->tensor[y + 1 + k];
    if (check_like(c, p, y + 1 + k, dtype, -1, "a parameter")) return c->status;
    if (own[k] && t->numel % s->rows) return pni_fail(c, PN_SHAPE, "sde: parameter %d has no row for each path", k + 1);
  }
  if (p->tape->event.n)
    return pni_fail(c, PN_STATE, "sde: drift and diffusion must not draw random numbers or update parameters");
  return PN_OK;
}

static pn_status check_pullback(C *c, const pn_plan *p, const pn_plan *step, int y) {
  const T *v = p->tensor, *w = step->tensor;
  int n = step->tape->ninput;
  bool fits = p->tape->ninput == n + 1 && p->nout == n - y && v[n].numel == w[y].numel;
  for (int k = 0; fits && k < n; k++) fits = v[k].numel == w[k].numel && v[k].dtype == w[k].dtype;
  for (int k = 0; fits && k < p->nout; k++)
    fits = v[p->out[k]].numel == w[y + k].numel && v[p->out[k]].dtype == w[y + k].dtype;
  return fits ? PN_OK : pni_fail(c, PN_SHAPE, "sde: the pullback does not fit the step");
}

T *pni_sde_apply(C *c, pn_plan *step, pn_plan *pullback, const pni_sde_config *set, int parameters, const bool *own,
                 T *y0, T *times, T *key, T *shared, T *of_path) {
  T *in[INPUTS] = {[Y0] = y0, [TIMES] = times, [KEY] = key, [SHARED] = shared, [OF_PATH] = of_path};
  if (!PNI_GIVEN(c, "sde", step, y0, times, key, shared, of_path) || check_config(c, set)) return NULL;
  if (!pni_is_float(y0) || y0->numel == 0 || y0->ndim == PN_MAX_DIMS || y0->numel % set->paths || times->ndim != 1 ||
      times->numel == 0) {
    pni_fail(c, PN_SHAPE, "sde: y0 must be float with an element and at most %d axes, times a vector [T]",
             PN_MAX_DIMS - 1);
    return NULL;
  }
  if (check_step(c, step, set, y0, parameters, own)) return NULL;
  if (pullback && check_pullback(c, pullback, step, set->area ? 4 : 3)) return NULL;
  in[SYSTEM] = new_system(c, step, pullback, set, own, times->numel);
  return in[SYSTEM] ? pni_apply(c, &pni_op_sde, INPUTS, in, NULL) : NULL;
}

/* ---- rows ---- */

const pni_op pni_op_sde = {.name = "sde",
                           .args = "list:T",
                           .doc = "solution [T, ...] of dy = f(t, y) dt + g(t, y) dW, from y0, times, key, step and "
                                  "parameters",
                           .flags = PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE | PNI_OP_ONCE,
                           .infer = infer,
                           .eval = eval,
                           .vjp = vjp,
                           .vjps = vjps};

const pni_op pni_op_sde_adjoint = {.name = "sde_adjoint",
                                   .args = "list:T",
                                   .doc = "gradients of sde in its inputs, one after another",
                                   .flags = PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE | PNI_OP_NODIFF,
                                   .infer = infer_adjoint,
                                   .eval = eval_adjoint};
