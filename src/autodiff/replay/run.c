/*
** run.c: replaying a plan. Large inputs and results are bound (bind.c), the others copied to their places and out of
** them; in between the steps run in order. Nothing is allocated but the results and contiguous copies of large
** inputs that are strided; what an operation needs for itself comes from the context's pool, which a loop that has
** warmed up leaves as it is.
*/
#include <string.h>
#include "bind.h"
#include "turn.h"

static bool same_shape(const pn_tensor *a, const pn_tensor *b) {
  if (a->dtype != b->dtype || a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

int pn_plan_fits(const pn_plan *p, int n, pn_tensor *const *in) {
  if (!p || n != p->tape->ninput || (n && !in)) return 0;
  for (int k = 0; k < n; k++)
    if (!in[k] || !pni_is_data(in[k]) || !same_shape(in[k], &p->tensor[k])) return 0;
  return 1;
}

static pn_status refuse(pn_context *c, const pn_plan *p, int n, pn_tensor *const *in) {
  if (n != p->tape->ninput)
    return pni_fail(c, PN_SHAPE, "plan: number of inputs must be %d, got %d", p->tape->ninput, n);
  for (int k = 0; k < n; k++) {
    const pn_tensor *t = &p->tensor[k];
    char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
    if (!in[k]) return pni_fail(c, PN_STATE, "plan: input %d must be a tensor, got NULL", k + 1);
    if (!pni_is_data(in[k]))
      return pni_fail(c, PN_STATE, "plan: input %d must be data, got a tensor that depends on parameters", k + 1);
    if (!same_shape(in[k], t))
      return pni_fail(c, PN_SHAPE, "plan: input %d must be %s %s, got %s %s", k + 1, pn_dtype_name((pn_dtype)t->dtype),
                      pni_shape_text(t->ndim, t->shape, a), pn_dtype_name((pn_dtype)in[k]->dtype),
                      pni_shape_text(in[k]->ndim, in[k]->shape, b));
  }
  return c->status;
}

static pn_status draw(pn_context *c, const pn_plan *p, const pni_step *s) {
  const pni_event *e = pni_event_of(p->tape, &p->tape->note.v[s->note]);
  return pni_draw_into(c, e->rng, &e->draw, s->u.draw.out);
}

static pn_status eval(pn_context *c, const pn_plan *p, const pni_step *s) {
  if (s->u.eval.drawn) {
    const pni_event *e = pni_event_of(p->tape, &p->tape->note.v[s->note]);
    pni_philox at = pni_rng_reserve(c, e->rng, e->positions);
    s->u.eval.drawn->i[0] = (int64_t)at.key;
    s->u.eval.drawn->i[1] = (int64_t)at.position;
  }
  return s->u.eval.call.op->eval(c, &s->u.eval.call, s->u.eval.out);
}

static pn_status effect(pn_context *c, const pn_plan *p, const pni_step *s) {
  const pni_note *note = &p->tape->note.v[s->note];
  const pni_event *e = pni_event_of(p->tape, note);
  if (pni_check_cancel(c)) return c->status;
  return e->effect->run(c, e->object, note->nin, s->u.effect.in);
}

/* Is the run to be left? A row is as much work as it has elements of a function that takes long; of other steps, which
 * ask themselves, each is worth a look. Lean ones are looked at together. */
static bool leaves(pn_plan *p, const pni_step *s, int64_t n) {
  enum { STEP = 64, ELEMENT = 256 };
  pn_context *c = p->watch.c;
  if (pni_is_cancelled(c)) return pni_check_cancel(c) != PN_OK;
  if (!pni_deadline(c) || s->kind == PNI_STEP_ROLL) return false;
  int64_t work = s->kind == PNI_STEP_RUN ? STEP + ELEMENT * s->u.run.n : PNI_LOOK;
  for (int64_t i = 0; i < n && s->lean; i++, s++) work = (i ? work : 0) + STEP + ELEMENT * s->elements;
  return pni_watch_check(&p->watch, work) != PN_OK;
}

static void fold(const pni_step *s) {
  s->u.fold.fold(s->u.fold.p[1], s->u.fold.rows, s->u.fold.n, s->u.fold.p[0]);
  pni_scale_fold(s->u.fold.dtype, s->u.fold.scale, s->u.fold.p[0], s->u.fold.rows);
}

/* n lean steps; *done: those that have not failed. */
static pn_status run_lean(pn_context *c, const pni_step *s, int64_t n, int64_t *done) {
  pn_status status = PN_OK;
  const pni_step *first = s, *end = s + n;
  for (; s < end; s++)
    if (s->kind == PNI_STEP_RUN)
      s->u.run.row(s->u.run.data, s->u.run.n, s->u.run.p, s->u.run.stride);
    else if (s->kind == PNI_STEP_FOLD)
      fold(s);
    else if ((status = s->u.prepared.run(c, s->u.prepared.p)) != PN_OK)
      break;
  *done += s - first;
  return status;
}

static pn_status one(pn_context *c, const pn_plan *p, const pni_step *s) {
  switch (s->kind) {
  case PNI_STEP_RUN: s->u.run.row(s->u.run.data, s->u.run.n, s->u.run.p, s->u.run.stride); return PN_OK;
  case PNI_STEP_FOLD: fold(s); return PN_OK;
  case PNI_STEP_LOOP: return pni_loop_run(c, s->u.loop.nest, s->u.loop.row, s->u.loop.data);
  case PNI_STEP_GROUP: return pni_group_run(c, &s->u.group);
  case PNI_STEP_PREPARED: return s->u.prepared.run(c, s->u.prepared.p);
  case PNI_STEP_DRAW: return draw(c, p, s);
  case PNI_STEP_EVAL: return eval(c, p, s);
  default: return effect(c, p, s);
  }
}

/* Steps begin .. end - 1, done `times`, are undone as far as generators are concerned. (Not after an effect, which is
 * not undone.) */
static void rewind_draws(const pn_plan *p, int64_t begin, int64_t end, int64_t times) {
  for (int64_t i = begin; i < end; i++) {
    const pni_step *s = &p->step[i];
    if (s->kind == PNI_STEP_ROLL) {
      rewind_draws(p, i + 1, i + 1 + s->u.roll.n, times * s->u.roll.turns);
      i += s->u.roll.n;
      continue;
    }
    const pni_event *e = pni_event_of(p->tape, &p->tape->note.v[s->note]);
    if (e->rng) e->rng->state.position -= (uint64_t)times * e->positions;
  }
}

static pn_status run_steps(pn_context *c, pn_plan *p, int64_t begin, int64_t end);

/* One turn. A step that only computes needs no scope of its own. */
static pn_status run_turn(pn_context *c, pn_plan *p, int64_t begin, int64_t end) {
  if (end - begin != 1 || p->step[begin].kind > PNI_STEP_GROUP) return run_steps(c, p, begin, end);
  if (leaves(p, &p->step[begin], 1)) return c->status;
  return one(c, p, &p->step[begin]);
}

/* All turns of a roll, after which everything stands where it stood. */
static pn_status run_roll(pn_context *c, pn_plan *p, int64_t at) {
  const pni_step *roll = &p->step[at];
  int64_t begin = at + 1, end = begin + roll->u.roll.n, turn = 0, last = roll->u.roll.turns - 1;
  pn_status status;
  while ((status = run_turn(c, p, begin, end)) == PN_OK && turn < last) {
    pni_turn(p, roll, 1);
    turn++;
  }
  if (status && !p->changed) rewind_draws(p, begin, end, turn);
  pni_turn(p, roll, -turn);
  return status;
}

static pn_status run_steps(pn_context *c, pn_plan *p, int64_t begin, int64_t end) {
  size_t mark = pn_scope_open(c);
  p->watch.c = c;
  p->watch.left = false;
  int64_t i = begin;
  pn_status status = PN_OK;
  while (i < end && status == PN_OK) {
    const pni_step *s = &p->step[i];
    int64_t lean = s->lean < end - i ? s->lean : end - i;
    if (leaves(p, s, lean ? lean : 1)) {
      status = c->status;
      break;
    }
    if (lean) {
      status = run_lean(c, s, lean, &i);
      continue;
    }
    if (s->kind == PNI_STEP_ROLL) {
      if ((status = run_roll(c, p, i)) == PN_OK) i += 1 + s->u.roll.n;
      continue;
    }
    status = one(c, p, s);
    p->changed |= s->kind == PNI_STEP_EFFECT && status == PN_OK;
    i++;
  }
  if (status && !p->changed) rewind_draws(p, begin, i, 1); /* the last one reserves before it can fail */
  pn_scope_close(c, mark);
  return status;
}

/* The results are c->scope[first] and on. */
static pn_status take_inputs(pn_context *c, pn_plan *p, pn_tensor *const *in, size_t first) {
  pni_value *v = p->tape->value.v;
  for (int k = 0; k < p->tape->ninput; k++)
    if (v[k].bound == PNI_PLACED && pni_copy(c, &p->tensor[k], in[k])) return c->status;
  return p->nbound ? pni_bind(c, p, in, first) : PN_OK;
}

/* Has result k been computed in place? A value that is given back twice is bound to the first result. */
static bool is_bound_result(const pn_plan *p, int k) {
  int bound = p->tape->value.v[p->out[k]].bound;
  return bound >= 0 && p->bound[bound].out == k;
}

/* The results stand in the scope, from `first` on. */
static pn_status run_between(pn_context *c, pn_plan *p, pn_tensor *const *in, size_t first) {
  size_t mark = pn_scope_open(c);
  pn_status s = take_inputs(c, p, in, first);
  if (s == PN_OK) s = run_steps(c, p, 0, p->nstep);
  for (int k = 0; k < p->nout && s == PN_OK; k++)
    if (!is_bound_result(p, k)) s = pni_copy(c, c->scope[first + (size_t)k], &p->tensor[p->out[k]]);
  pn_scope_close(c, mark); /* copies of inputs, which results may show */
  return s;
}

static pn_status replay(pn_context *c, pn_plan *p, int nin, pn_tensor *const *in, pn_tensor **out) {
  p->changed = false;
  if (!pn_plan_fits(p, nin, in)) return refuse(c, p, nin, in);
  size_t first = c->scope_len;
  for (int k = 0; k < p->nout; k++) { /* before anything takes effect */
    pni_spec spec = pni_spec_of(&p->tensor[p->out[k]]);
    if (!pni_scoped(c, pni_tensor_new(c, &spec))) return c->status;
  }
  pn_status s = run_between(c, p, in, first);
  for (int k = 0; k < p->nout && s == PN_OK; k++) out[k] = c->scope[first + (size_t)k];
  return s;
}

pn_status pni_plan_run_into(pn_context *c, pn_plan *p, pn_tensor *const *in, pn_tensor *const *out) {
  size_t mark = pn_scope_open(c), first = c->scope_len;
  pn_status s = PN_OK;
  p->changed = false;
  for (int k = 0; k < p->nout && s == PN_OK; k++)
    if (!pni_scoped(c, pn_tensor_ref(out[k]))) s = c->status;
  if (s == PN_OK) s = run_between(c, p, in, first);
  pn_scope_close(c, mark);
  return s;
}

pn_status pn_plan_run(pn_context *c, pn_plan *p, int nin, pn_tensor *const *in, pn_tensor **out) {
  if (!PNI_GIVEN(c, "plan_run", p) || !PNI_LISTED(c, "plan_run", nin, in) || !PNI_LISTED(c, "plan_run", p->nout, out) ||
      pni_check_cancel(c))
    return c->status;
  if (pni_refuse_capture(c, "replaying a plan", "call the function itself")) return c->status;
  return replay(c, p, nin, in, out);
}

bool pni_plan_is_plain(const pn_plan *p, int64_t n, int nout, const int64_t *n_out) {
  const pn_tensor *v = p->tensor;
  if (p->tape->ninput != 1 || p->nout != nout || p->effects) return false;
  if (v[0].numel != n || v[0].dtype != PN_FLOAT64) return false;
  for (int k = 0; k < nout; k++)
    if (v[p->out[k]].numel != n_out[k] || v[p->out[k]].dtype != PN_FLOAT64) return false;
  return true;
}

/* By way of tensors: for inputs and results that are bound. */
static pn_status call_with_tensors(pn_context *c, pn_plan *p, const double *const *in, double *const *out) {
  enum { MOST = 64 };
  pn_tensor *x[MOST], *result[MOST];
  int n = p->tape->ninput;
  if (n > MOST || p->nout > MOST)
    return pni_fail(c, PN_DOMAIN, "plan: at most %d inputs and results are possible", MOST);
  size_t mark = pn_scope_open(c);
  for (int k = 0; k < n; k++) {
    const pn_tensor *t = &p->tensor[k];
    x[k] = pn_from_data(c, PN_FLOAT64, t->ndim, t->shape, in[k]);
  }
  pn_status s = c->status ? c->status : replay(c, p, n, x, result);
  for (int k = 0; k < p->nout && s == PN_OK; k++) {
    pn_tensor *y = pni_contiguous(c, result[k]);
    if (y) memcpy(out[k], pni_data(y), (size_t)y->numel * sizeof *out[k]);
    pn_tensor_unref(y);
    s = c->status;
  }
  pn_scope_close(c, mark);
  return s;
}

pn_status pni_plan_call_each(pn_context *c, pn_plan *p, const double *const *in, double *const *out) {
  pni_value *v = p->tape->value.v;
  if (!p->direct) return call_with_tensors(c, p, in, out);
  p->changed = false;
  for (int k = 0; k < p->tape->ninput; k++)
    if (v[k].bound == PNI_PLACED) memcpy(pni_data(&p->tensor[k]), in[k], (size_t)p->tensor[k].numel * sizeof(double));
  pn_status s = run_steps(c, p, 0, p->nstep);
  for (int k = 0; k < p->nout && s == PN_OK; k++) {
    const pn_tensor *t = &p->tensor[p->out[k]];
    memcpy(out[k], pni_data(t), (size_t)t->numel * sizeof *out[k]);
  }
  return s;
}

pn_status pni_plan_call(pn_context *c, pn_plan *p, const double *in, double *const *out) {
  return pni_plan_call_each(c, p, &in, out);
}

pn_tensor *pn_plan_map(pn_context *c, pn_plan *p, pn_tensor *rows) {
  if (!PNI_GIVEN(c, "plan_map", p, rows) || pni_refuse_capture(c, "replaying a plan", "call the function itself"))
    return NULL;
  const pn_tensor *v = p->tensor;
  int64_t n = p->tape->ninput == 1 ? v[0].numel : -1, m = p->nout == 1 ? v[p->out[0]].numel : -1;
  if (n < 0 || m < 0 || !pni_plan_is_plain(p, n, 1, &m) || rows->dtype != PN_FLOAT64 || rows->ndim != 2 ||
      rows->shape[1] != n) {
    char got[PNI_SHAPE_TEXT];
    pni_fail(c, PN_SHAPE, "plan_map: needs rows [.., %lld] and a plan of one input and one result, all float64, got %s",
             (long long)n, pni_shape_text(rows->ndim, rows->shape, got));
    return NULL;
  }
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {rows->shape[0], m}};
  pn_tensor *y = pni_scoped(c, pni_tensor_new(c, &spec)), *x = y ? pni_contiguous(c, rows) : NULL;
  for (int64_t i = 0; x && i < rows->shape[0]; i++)
    if (pni_check_cancel(c) ||
        pni_plan_call(c, p, (const double *)pni_data(x) + i * n, (double *[]){(double *)pni_data(y) + i * m}))
      break;
  pn_tensor_unref(x);
  return pni_failed(c) ? NULL : y;
}
