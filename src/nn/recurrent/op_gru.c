/*
** op_gru.c: the recurrence of a GRU over a whole sequence as one node; see recurrent.h for the equations. Inputs: gi
** [T, B, 3 H] (the projected input of all steps), W [3 H, H], b [3 H], h0 [B, H]; result: h of all steps and the gates
** r, z and n with gh_n, which the adjoint needs, [5, T, B, H]; nothing else reads the gates. A gradient without graph
** comes from one kernel; one with graph from the same formulas in operations.
*/
#include "recurrent_op.h"

typedef pn_tensor T;
typedef pn_context C;
enum { GI, W, B, H0, INPUTS, Y = INPUTS, G };
enum { PLANES = 2 + PNI_GRU_GATES };

static pn_status infer_scan(C *c, const pni_call *call, pni_spec *out) {
  const T *w = call->in[W], *b = call->in[B];
  char s[PNI_SHAPE_TEXT];
  if (pni_recurrent_check(c, call, "gru", PNI_GRU_GATES, H0)) return c->status;
  if (b->ndim != 1 || b->shape[0] != w->shape[0])
    return pni_fail(c, PN_SHAPE, "gru: bias_hh must have shape [%lld], got %s", (long long)w->shape[0],
                    pni_shape_text(b->ndim, b->shape, s));
  const T *gi = call->in[GI];
  *out = (pni_spec){gi->dtype, 4, {PLANES, gi->shape[0], gi->shape[1], w->shape[1]}};
  return PN_OK;
}

/* Sizes and what forward and adjoint have in common; y holds h and the gates. */
static pni_recurrence job(T *const *in, const T *y) {
  pni_recurrence j = {.steps = in[GI]->shape[0], .batch = in[GI]->shape[1], .hidden = in[W]->shape[1]};
  j.gi = pni_data(in[GI]);
  j.h0 = pni_data(in[H0]);
  j.h = pni_data(y);
  j.gates = (char *)j.h + (size_t)(y->numel / PLANES) * pni_itemsize(y);
  return j;
}

static pn_status run_scan(C *c, T *const *in, T *out) {
  T *turned = pni_recurrent_turned(c, in[W]);
  if (!turned) return c->status;
  pni_recurrence j = job(in, out);
  j.w = pni_data(turned);
  j.b = pni_data(in[B]);
  pni_recurrent_run(c, &j, PNI_GRU_GATES, out->dtype, pni_recurrent_kernels_of(out)->gru);
  pn_tensor_unref(turned);
  return c->status;
}

static pn_status eval_scan(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, run_scan);
}

/* ---- the adjoint: [dgi, dgh, dh0] as one row of numbers from GI .. H0, the result and its gradient ---- */

static pn_status infer_adjoint(C *c, const pni_call *call, pni_spec *out) {
  if (pni_require_result(c, call, &pni_nn_op_gru_scan, INPUTS, NULL)) return c->status;
  const T *gi = call->in[GI], *h0 = call->in[H0];
  *out = (pni_spec){.dtype = gi->dtype, .ndim = 1, .shape = {2 * gi->numel + h0->numel}};
  return PN_OK;
}

static pn_status run_adjoint(C *c, T *const *in, T *out) {
  if (in[G]->numel == 0) return pni_recurrent_nothing(out); /* of no steps */
  pni_recurrence j = job(in, in[Y]);
  int64_t n = in[GI]->numel, size = (int64_t)pni_itemsize(out);
  char *p = pni_data(out);
  j.w = pni_data(in[W]);
  j.dh_in = pni_data(in[G]);
  j.dgi = p;
  j.dgh = p + n * size;
  j.dh0 = p + 2 * n * size;
  return pni_recurrent_run(c, &j, PNI_GRU_GATES, out->dtype, pni_recurrent_kernels_of(out)->gru_adjoint);
}

static pn_status eval_adjoint(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, run_adjoint);
}

/* Gradients of all inputs from those of gi, gh (all steps) and h0. */
static void share(C *c, T *y, T *const d[3], const bool *wanted, T **out) {
  if (wanted[GI]) out[GI] = d[0];
  if (wanted[W]) out[W] = pni_recurrent_weight(c, d[1], pni_recurrent_before(c, pni_in(y, H0), pn_select(c, y, 0, 0)));
  if (wanted[B]) out[B] = pn_sum(c, d[1], (pn_axes){2, {0, 1}}, 0);
  if (wanted[H0]) out[H0] = d[2];
}

static pn_status vjps_scan(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[] = {pni_in(y, GI), pni_in(y, W), pni_in(y, B), pni_in(y, H0), y, g};
  int64_t n = in[GI]->numel;
  T *all = pni_apply(c, &pni_nn_op_gru_adjoint, G + 1, in, NULL), *d[3];
  d[0] = pni_recurrent_cut(c, all, 0, 3, in[GI]->shape);
  d[1] = pni_recurrent_cut(c, all, n, 3, in[GI]->shape);
  d[2] = pni_recurrent_cut(c, all, 2 * n, 2, in[H0]->shape);
  share(c, y, d, wanted, out);
  return c->status;
}

/* ---- the same in operations ---- */

/* gates[k] of all steps: r, z, n, gh_n; coefficients: what d, the gradient of h', is multiplied with in those of the
 * arguments a_r, a_z, a_n and of gh_n. */
typedef struct {
  T *z, *r_arg, *z_arg, *n_arg, *n_of_h;
} slopes;

static slopes gates(C *c, T *y, int64_t hidden) {
  T *gi = pni_in(y, GI), *h = pni_recurrent_before(c, pni_in(y, H0), pn_select(c, y, 0, 0)), *one = pni_like(c, y, 1);
  T *gh = pni_recurrent_project(c, h, pni_in(y, W), pni_in(y, B)), *a = pn_add(c, gi, gh);
  T *r = pn_sigmoid(c, pni_recurrent_part(c, a, 0, hidden)), *z = pn_sigmoid(c, pni_recurrent_part(c, a, 1, hidden));
  T *q = pni_recurrent_part(c, gh, 2, hidden);
  T *n = pn_tanh(c, pn_add(c, pni_recurrent_part(c, gi, 2, hidden), pn_mul(c, r, q)));
  slopes s = {.z = z};
  s.n_arg = pn_mul(c, pn_sub(c, one, z), pn_sub(c, one, pn_square(c, n)));
  s.z_arg = pn_mul(c, pn_sub(c, h, n), pn_mul(c, z, pn_sub(c, one, z)));
  s.r_arg = pn_mul(c, pn_mul(c, s.n_arg, q), pn_mul(c, r, pn_sub(c, one, r)));
  s.n_of_h = pn_mul(c, s.n_arg, r);
  return s;
}

static T *beside(C *c, T *a, T *b, T *d) { return pn_concatenate(c, 3, (T *[]){a, b, d}, -1); }

/* The gradients of h of every step, last first; d[2] is that of h0. */
static void walk(C *c, T *y, T *g, T **step, T *d[3]) {
  slopes s = gates(c, y, y->shape[y->ndim - 1]);
  T *given = pn_select(c, g, 0, 0), *of_h = beside(c, s.r_arg, s.z_arg, s.n_of_h), *carry = NULL;
  for (int64_t t = y->shape[1] - 1; t >= 0; t--) {
    T *now = pn_select(c, given, 0, t);
    step[t] = carry ? pn_add(c, now, carry) : now;
    T *dgh = pn_mul(c, beside(c, step[t], step[t], step[t]), pn_select(c, of_h, 0, t));
    carry = pn_add(c, pn_mul(c, step[t], pn_select(c, s.z, 0, t)), pn_matmul(c, dgh, pni_in(y, W)));
  }
  T *all = pni_recurrent_stack(c, y->shape[1], step);
  T *r = pn_mul(c, all, s.r_arg), *z = pn_mul(c, all, s.z_arg);
  d[0] = beside(c, r, z, pn_mul(c, all, s.n_arg));
  d[1] = beside(c, r, z, pn_mul(c, all, s.n_of_h));
  d[2] = carry;
}

static T *vjp_scan(C *c, T *y, T *g, int k) { return pni_recurrent_vjp(c, y, g, k, walk, share); }

const pni_op pni_nn_op_gru_scan = {.name = "gru_scan",
                                   .args = "gi:t weight_hh:t bias_hh:t h0:t",
                                   .doc =
                                       "states of a GRU: [T, B, 3 H], [3 H, H], [3 H], [B, H] -> h, gates [5, T, B, H]",
                                   .flags = PNI_OP_HIDDEN,
                                   .infer = infer_scan,
                                   .eval = eval_scan,
                                   .vjp = vjp_scan,
                                   .vjps = vjps_scan};

const pni_op pni_nn_op_gru_adjoint = {
    .name = "gru_adjoint",
    .args = "gi:t weight_hh:t bias_hh:t h0:t hg:t gradient:t",
    .doc = "gradients of gi, h W^T + b and h0 of gru_scan, one after the other, from that of its result",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_adjoint,
    .eval = eval_adjoint};
