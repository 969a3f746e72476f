/*
** op_hmm_filter.c: the filter of a hidden Markov model as one node, forward or backward in time. Inputs: initial,
** transition, emission (hidden_markov.h); attr: i[0] backward. Backward the pass runs from the last step on with
** transitions turned round and without initial state: "predicted" is the message from later observations, "filtered"
** the same with that of the step itself. A gradient without graph comes from one kernel, one with graph from the same
** formulas in operations.
*/
#include <math.h>
#include "hidden_markov.h"

typedef pn_tensor T;
typedef pn_context C;
enum { INITIAL, TRANSITION, EMISSION, INPUTS, Y = INPUTS, G };

/* ---- shapes ---- */

pn_status pni_markov_check_transition(C *c, const char *where, const T *x, int64_t steps, int64_t batch,
                                      int64_t states) {
  char s[PNI_SHAPE_TEXT];
  bool fits = x->ndim == 4 && (x->shape[0] == 1 || x->shape[0] == steps) &&
              (x->shape[1] == 1 || x->shape[1] == batch) && x->shape[2] == states && x->shape[3] == states;
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: transition must have shape [1 or %lld, 1 or %lld, %lld, %lld], got %s", where,
                  (long long)steps, (long long)batch, (long long)states, (long long)states,
                  pni_shape_text(x->ndim, x->shape, s));
}

pn_status pni_markov_check(C *c, const char *where, const pni_call *call) {
  const T *e = call->in[EMISSION], *x = call->in[INITIAL];
  char s[PNI_SHAPE_TEXT];
  if (e->ndim != 3 || e->shape[0] < 1 || e->shape[2] < 1)
    return pni_fail(c, PN_SHAPE, "%s: emission must have shape [T, B, K] with at least one step and state, got %s",
                    where, pni_shape_text(e->ndim, e->shape, s));
  if (x->ndim != 2 || (x->shape[0] != 1 && x->shape[0] != e->shape[1]) || x->shape[1] != e->shape[2])
    return pni_fail(c, PN_SHAPE, "%s: initial must have shape [1 or %lld, %lld], got %s", where, (long long)e->shape[1],
                    (long long)e->shape[2], pni_shape_text(x->ndim, x->shape, s));
  return pni_markov_check_transition(c, where, call->in[TRANSITION], e->shape[0], e->shape[1], e->shape[2]);
}

pni_markov pni_markov_of(C *c, T *const *in, bool backward) {
  const int64_t *n = in[EMISSION]->shape;
  return (pni_markov){.initial = in[INITIAL],
                      .transition = in[TRANSITION],
                      .emission = in[EMISSION],
                      .steps = n[0],
                      .batch = n[1],
                      .states = n[2],
                      .context = c,
                      .backward = backward};
}

static pn_status infer_filter(C *c, const pni_call *call, pni_spec *out) {
  if (pni_markov_check(c, "hmm_filter", call)) return c->status;
  *out = pni_spec_of(call->in[EMISSION]);
  out->shape[2] = 2 * out->shape[2] + 1;
  return PN_OK;
}

static pn_status run_forward(C *c, T *const *in, T *out) {
  pni_markov m = pni_markov_of(c, in, false);
  return pni_markov_filter(c, &m, out);
}
static pn_status run_backward(C *c, T *const *in, T *out) {
  pni_markov m = pni_markov_of(c, in, true);
  return pni_markov_filter(c, &m, out);
}

static pn_status eval_filter(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, call->attr->i[0] ? run_backward : run_forward);
}

/* ---- the adjoint: gradients of initial, transition, emission as one row of numbers ---- */

static pn_status infer_adjoint(C *c, const pni_call *call, pni_spec *out) {
  if (pni_require_result(c, call, &pni_hidden_op_hmm_filter, INPUTS, NULL)) return c->status;
  int64_t n = call->in[INITIAL]->numel + call->in[TRANSITION]->numel + call->in[EMISSION]->numel;
  *out = (pni_spec){.dtype = call->in[0]->dtype, .ndim = 1, .shape = {n}};
  return PN_OK;
}

static pn_status adjoint_forward(C *c, T *const *in, T *out) {
  pni_markov m = pni_markov_of(c, in, false);
  return pni_markov_adjoint(c, &m, in[Y], in[G], out);
}
static pn_status adjoint_backward(C *c, T *const *in, T *out) {
  pni_markov m = pni_markov_of(c, in, true);
  return pni_markov_adjoint(c, &m, in[Y], in[G], out);
}

static pn_status eval_adjoint(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, call->attr->i[0] ? adjoint_backward : adjoint_forward);
}

static pn_status vjps_filter(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[] = {pni_in(y, INITIAL), pni_in(y, TRANSITION), pni_in(y, EMISSION), y, g};
  T *all = pni_apply(c, &pni_hidden_op_hmm_adjoint, G + 1, in, &(pni_attr){.ni = 1, .i = {y->attr->i[0]}});
  int64_t at = 0;
  for (int k = 0; k < INPUTS; k++) {
    if (wanted[k]) out[k] = pni_recurrent_cut(c, all, at, in[k]->ndim, in[k]->shape);
    at += in[k]->numel;
  }
  return c->status;
}

/* ---- the same in operations ---- */

typedef struct {
  T *weight;                  /* of steps 1 ..: probability of the state before given the one after, [T - 1, B, K, K] */
  T *probability;             /* e^filtered, [T, B, K] */
  T *dead, *possible;         /* filtered, predicted = -inf; is not */
  T *of_predicted, *of_state; /* g */
  T *of_increment;            /* [T, B, 1] */
} formula;

/* The pass's steps in the order of time, or back: its own inverse. */
static T *in_order(C *c, T *x, bool backward) { return backward ? pn_flip(c, x, 0) : x; }

static T *steps(C *c, T *x, int64_t first, int64_t n) { return pn_slice(c, x, 0, first, n, 1); }

static formula formula_of(C *c, T *y, T *g, bool backward) {
  int64_t n = pni_in(y, EMISSION)->shape[2], later = y->shape[0] - 1;
  T *a = pni_in(y, TRANSITION), *all = in_order(c, y, backward), *zero = pni_like(c, y, 0);
  T *low = pni_like(c, y, -INFINITY);
  g = in_order(c, g, backward);
  T *f = pn_slice(c, all, -1, n, n, 1), *predicted = pn_slice(c, all, -1, 0, n, 1);
  formula r = {.probability = pn_exp(c, f), .dead = pn_eq(c, f, low), .possible = pn_ne(c, predicted, low)};
  r.of_predicted = pn_slice(c, g, -1, 0, n, 1);
  r.of_state = pn_slice(c, g, -1, n, n, 1);
  r.of_increment = pn_slice(c, g, -1, 2 * n, 1, 1);
  if (later == 0) return r;
  if (a && a->shape[0] > 1) a = in_order(c, steps(c, a, 1, later), backward);
  if (backward) a = pn_transpose(c, a, 2, 3);
  T *sum = pn_where(c, steps(c, r.possible, 1, later), steps(c, predicted, 1, later), zero);
  T *joint = pn_add(c, pn_unsqueeze(c, steps(c, f, 0, later), -1), a);
  r.weight = pn_exp(c, pn_sub(c, joint, pn_unsqueeze(c, sum, 2)));
  return r;
}

/* Gradients of emission (step) and predicted (v) of every step, in the order of the pass; `slope` has room for both. */
static void walk(C *c, const formula *r, int64_t n, T **slope) {
  T *future = NULL, *zero = pni_like(c, r->probability, 0);
  for (int64_t s = n - 1; s >= 0; s--) {
    T *p = pn_select(c, r->probability, 0, s), *g = pn_select(c, r->of_state, 0, s);
    g = pn_where(c, pn_select(c, r->dead, 0, s), zero, future ? pn_add(c, g, future) : g);
    T *rest = pn_sub(c, pn_select(c, r->of_increment, 0, s), pn_sum(c, g, (pn_axes){1, {1}}, 1));
    slope[s] = pn_add(c, g, pn_mul(c, p, rest));
    T *v = pn_add(c, slope[s], pn_select(c, r->of_predicted, 0, s));
    slope[n + s] = pn_where(c, pn_select(c, r->possible, 0, s), v, zero);
    if (s > 0)
      future = pn_squeeze(c, pn_matmul(c, pn_select(c, r->weight, 0, s - 1), pn_unsqueeze(c, slope[n + s], -1)), -1);
  }
}

/* The gradient of the transition from v of all steps. */
static T *of_transition(C *c, T *y, const formula *r, T *v, bool backward) {
  T *a = pni_in(y, TRANSITION);
  int64_t later = y->shape[0] - 1;
  if (later == 0) return pn_zeros(c, (pn_dtype)y->dtype, a->ndim, a->shape);
  T *d = pn_mul(c, r->weight, pn_unsqueeze(c, steps(c, v, 1, later), 2));
  if (backward) d = pn_transpose(c, d, 2, 3);
  if (a->shape[0] > 1) d = pn_pad(c, in_order(c, d, backward), 0, 1, 0, 0);
  return pni_sum_to(c, d, a);
}

static T *vjp_filter(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, k), **slope;
  int64_t n = y->shape[0];
  bool backward = y->attr->i[0] != 0;
  if (y->numel == 0 || (k == INITIAL && backward)) return pn_zeros(c, (pn_dtype)y->dtype, x->ndim, x->shape);
  if (!(slope = pni_alloc_array(c, pni_times(2, n), sizeof *slope))) return NULL;
  formula r = formula_of(c, y, g, backward);
  T *d = NULL;
  walk(c, &r, n, slope);
  if (k == INITIAL) d = pni_sum_to(c, slope[n], x);
  if (k == EMISSION) d = in_order(c, pni_recurrent_stack(c, n, slope), backward);
  if (k == TRANSITION) d = of_transition(c, y, &r, pni_recurrent_stack(c, n, slope + n), backward);
  pni_free(c, slope);
  return d;
}

/* ---- for programs ---- */

pn_status pn_hmm_filter(C *c, T *initial, T *transition, T *emission, int backward, pn_hmm *out) {
  if (!PNI_GIVEN(c, "hmm_filter", out)) return c->status;
  T *y = pni_apply(c, &pni_hidden_op_hmm_filter, INPUTS, (T *[]){initial, transition, emission},
                   &(pni_attr){.ni = 1, .i = {backward != 0}});
  int64_t n = y ? emission->shape[2] : 0;
  out->predicted = pn_slice(c, y, -1, 0, n, 1);
  out->filtered = pn_slice(c, y, -1, n, n, 1);
  out->increment = pn_select(c, y, -1, 2 * n);
  return c->status;
}

const pni_op pni_hidden_op_hmm_filter = {
    .name = "hmm_filter",
    .args = "initial:t transition:t emission:t backward:b",
    .doc = "log p(z_t | before), log p(z_t | up to t), log p(y_t | before) of a hidden Markov model: [T, B, 2 K + 1]",
    .flags = PNI_OP_HIDDEN,
    .infer = infer_filter,
    .eval = eval_filter,
    .vjp = vjp_filter,
    .vjps = vjps_filter};

const pni_op pni_hidden_op_hmm_adjoint = {
    .name = "hmm_adjoint",
    .args = "initial:t transition:t emission:t packed:t gradient:t backward:b",
    .doc = "gradients of initial, transition and emission of hmm_filter, one after the other, from that of its result",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_adjoint,
    .eval = eval_adjoint};
