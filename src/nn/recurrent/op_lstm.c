/*
** op_lstm.c: the recurrence of an LSTM over a whole sequence as one node; see recurrent.h for the equations. Inputs: gi
** [T, B, 4 H] (the projected input of all steps with both biases), W [4 H, H], h0 and c0 [B, H]; result: h and c of all
** steps and the gates, which the adjoint needs, [6, T, B, H]; nothing else reads the gates. Gradients as in op_gru.c.
*/
#include "recurrent_op.h"

typedef pn_tensor T;
typedef pn_context C;
enum { GI, W, H0, C0, INPUTS, Y = INPUTS, G };
enum { PLANES = 2 + PNI_LSTM_GATES };

static pn_status infer_scan(C *c, const pni_call *call, pni_spec *out) {
  if (pni_recurrent_check(c, call, "lstm", PNI_LSTM_GATES, H0)) return c->status;
  const T *gi = call->in[GI];
  *out = (pni_spec){gi->dtype, 4, {PLANES, gi->shape[0], gi->shape[1], call->in[W]->shape[1]}};
  return PN_OK;
}

/* Sizes and what forward and adjoint have in common; y holds h, c and the gates. */
static pni_recurrence job(T *const *in, const T *y) {
  pni_recurrence j = {.steps = in[GI]->shape[0], .batch = in[GI]->shape[1], .hidden = in[W]->shape[1]};
  j.gi = pni_data(in[GI]);
  j.h0 = pni_data(in[H0]);
  j.c0 = pni_data(in[C0]);
  j.h = pni_data(y);
  size_t plane = (size_t)(y->numel / PLANES) * pni_itemsize(y);
  j.c = (char *)j.h + plane;
  j.gates = (char *)j.h + 2 * plane;
  return j;
}

static pn_status run_scan(C *c, T *const *in, T *out) {
  T *turned = pni_recurrent_turned(c, in[W]);
  if (!turned) return c->status;
  pni_recurrence j = job(in, out);
  j.w = pni_data(turned);
  pni_recurrent_run(c, &j, PNI_LSTM_GATES, out->dtype, pni_recurrent_kernels_of(out)->lstm);
  pn_tensor_unref(turned);
  return c->status;
}

static pn_status eval_scan(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, run_scan);
}

/* ---- the adjoint: [dgi, dh0, dc0] as one row of numbers from GI .. C0, the result and its gradient ---- */

static pn_status infer_adjoint(C *c, const pni_call *call, pni_spec *out) {
  if (pni_require_result(c, call, &pni_nn_op_lstm_scan, INPUTS, NULL)) return c->status;
  const T *gi = call->in[GI], *h0 = call->in[H0];
  *out = (pni_spec){.dtype = gi->dtype, .ndim = 1, .shape = {gi->numel + 2 * h0->numel}};
  return PN_OK;
}

static pn_status run_adjoint(C *c, T *const *in, T *out) {
  if (in[G]->numel == 0) return pni_recurrent_nothing(out); /* of no steps */
  pni_recurrence j = job(in, in[Y]);
  int64_t n = in[GI]->numel, size = (int64_t)pni_itemsize(out);
  char *p = pni_data(out), *g = pni_data(in[G]);
  j.w = pni_data(in[W]);
  j.dh_in = g;
  j.dc_in = g + in[G]->numel / PLANES * size;
  j.dgi = p;
  j.dh0 = p + n * size;
  j.dc0 = p + (n + in[H0]->numel) * size;
  return pni_recurrent_run(c, &j, PNI_LSTM_GATES, out->dtype, pni_recurrent_kernels_of(out)->lstm_adjoint);
}

static pn_status eval_adjoint(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, run_adjoint);
}

/* Gradients of all inputs from those of gi (which are those of h W^T), h0 and c0. */
static void share(C *c, T *y, T *const d[3], const bool *wanted, T **out) {
  if (wanted[GI]) out[GI] = d[0];
  if (wanted[W]) out[W] = pni_recurrent_weight(c, d[0], pni_recurrent_before(c, pni_in(y, H0), pn_select(c, y, 0, 0)));
  if (wanted[H0]) out[H0] = d[1];
  if (wanted[C0]) out[C0] = d[2];
}

static pn_status vjps_scan(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[] = {pni_in(y, GI), pni_in(y, W), pni_in(y, H0), pni_in(y, C0), y, g};
  int64_t n = in[GI]->numel, m = in[H0]->numel;
  T *all = pni_apply(c, &pni_nn_op_lstm_adjoint, G + 1, in, NULL), *d[3];
  d[0] = pni_recurrent_cut(c, all, 0, 3, in[GI]->shape);
  d[1] = pni_recurrent_cut(c, all, n, 2, in[H0]->shape);
  d[2] = pni_recurrent_cut(c, all, n + m, 2, in[C0]->shape);
  share(c, y, d, wanted, out);
  return c->status;
}

/* ---- the same in operations ---- */

/* Of all steps: what the gradient of c' is multiplied with in those of a_i, a_f, a_g (side by side) and c, and that of
 * h' in those of c' and a_o. */
typedef struct {
  T *ifg, *f, *c_of_h, *o;
} slopes;

static slopes gates(C *c, T *y, int64_t hidden) {
  T *h = pni_recurrent_before(c, pni_in(y, H0), pn_select(c, y, 0, 0)), *cell = pn_select(c, y, 0, 1);
  T *before = pni_recurrent_before(c, pni_in(y, C0), cell), *one = pni_like(c, y, 1), *th = pn_tanh(c, cell);
  T *a = pn_add(c, pni_in(y, GI), pni_recurrent_project(c, h, pni_in(y, W), NULL));
  T *i = pn_sigmoid(c, pni_recurrent_part(c, a, 0, hidden)), *f = pn_sigmoid(c, pni_recurrent_part(c, a, 1, hidden));
  T *g = pn_tanh(c, pni_recurrent_part(c, a, 2, hidden)), *o = pn_sigmoid(c, pni_recurrent_part(c, a, 3, hidden));
  T *di = pn_mul(c, g, pn_mul(c, i, pn_sub(c, one, i))), *df = pn_mul(c, before, pn_mul(c, f, pn_sub(c, one, f)));
  T *dg = pn_mul(c, i, pn_sub(c, one, pn_square(c, g)));
  slopes s = {.f = f};
  s.ifg = pn_concatenate(c, 3, (T *[]){di, df, dg}, -1);
  s.c_of_h = pn_mul(c, o, pn_sub(c, one, pn_square(c, th)));
  s.o = pn_mul(c, th, pn_mul(c, o, pn_sub(c, one, o)));
  return s;
}

/* step receives the gradient of gi of every step; d[1] and d[2] are those of h0 and c0. */
static void walk(C *c, T *y, T *g, T **step, T *d[3]) {
  slopes s = gates(c, y, y->shape[y->ndim - 1]);
  T *of_h = pn_select(c, g, 0, 0), *of_c = pn_select(c, g, 0, 1);
  d[1] = d[2] = NULL;
  for (int64_t t = y->shape[1] - 1; t >= 0; t--) {
    T *dh = pn_select(c, of_h, 0, t), *dc = pn_select(c, of_c, 0, t);
    if (d[1]) dh = pn_add(c, dh, d[1]);
    if (d[2]) dc = pn_add(c, dc, d[2]);
    dc = pn_add(c, dc, pn_mul(c, dh, pn_select(c, s.c_of_h, 0, t)));
    T *three = pn_mul(c, pn_concatenate(c, 3, (T *[]){dc, dc, dc}, -1), pn_select(c, s.ifg, 0, t));
    step[t] = pn_concatenate(c, 2, (T *[]){three, pn_mul(c, dh, pn_select(c, s.o, 0, t))}, -1);
    d[1] = pn_matmul(c, step[t], pni_in(y, W));
    d[2] = pn_mul(c, dc, pn_select(c, s.f, 0, t));
  }
  d[0] = pni_recurrent_stack(c, y->shape[1], step);
}

static T *vjp_scan(C *c, T *y, T *g, int k) { return pni_recurrent_vjp(c, y, g, k, walk, share); }

const pni_op pni_nn_op_lstm_scan = {
    .name = "lstm_scan",
    .args = "gi:t weight_hh:t h0:t c0:t",
    .doc = "states of an LSTM: [T, B, 4 H], [4 H, H], [B, H], [B, H] -> h, c, gates [6, T, B, H]",
    .flags = PNI_OP_HIDDEN,
    .infer = infer_scan,
    .eval = eval_scan,
    .vjp = vjp_scan,
    .vjps = vjps_scan};

const pni_op pni_nn_op_lstm_adjoint = {
    .name = "lstm_adjoint",
    .args = "gi:t weight_hh:t h0:t c0:t hc:t gradient:t",
    .doc = "gradients of gi, h0 and c0 of lstm_scan, one after the other, from that of its result",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_adjoint,
    .eval = eval_adjoint};
