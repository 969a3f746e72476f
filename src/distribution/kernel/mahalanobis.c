/*
** mahalanobis.c: |L^-1 (x - m)|^2 of vectors x, m [..., n] under one triangle L [n, n] as an operation of L, x and
** perhaps m (tensor/lane/distance.h). A difference that is not finite is at distance inf, or NaN, and has no gradient.
*/
#include <string.h>
#include "density.h"
#include "../formula.h"
#include "../../tensor/lane/distance.h"

enum { MATRIX, X, M, INPUTS };

/* Is there a vector of t for each of `rows`, or one for all? */
static bool goes(const T *t, int64_t rows, int64_t n) { return t->numel == rows * n || t->numel == n; }

/* Of `nin` operands; l is a matrix [n, n], vectors end in n. */
static pn_status infer_rows(C *c, const pni_call *call, int nin, pni_spec *out) {
  const T *l = call->in[MATRIX], *x = call->in[X];
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  *out = pni_spec_of(x);
  bool fits = pni_distance_fits(l) && l->shape[1] == l->shape[0];
  for (int k = X; fits && k < nin; k++)
    fits = call->in[k]->ndim >= 1 && call->in[k]->shape[call->in[k]->ndim - 1] == l->shape[0];
  if (fits && nin > M && pni_broadcast(c, "distance", x, call->in[M], out)) return c->status;
  for (int k = X; fits && k < nin; k++) fits = goes(call->in[k], pni_count(out->ndim - 1, out->shape), l->shape[0]);
  if (!fits)
    return pni_fail(c, PN_SHAPE, "distance: l must be [n, n] and x [..., n], got %s and %s",
                    pni_shape_text(l->ndim, l->shape, s), pni_shape_text(x->ndim, x->shape, t));
  out->ndim--;
  out->dtype = x->dtype;
  return PN_OK;
}

static pn_status infer(C *c, const pni_call *call, pni_spec *out) { return infer_rows(c, call, call->nin, out); }

/* Contiguous operands; [0 .. nin - 1] are references of the caller's to give back. */
static pn_status open_operands(C *c, const pni_call *call, int nin, int64_t rows, T **in, pni_distance *d) {
  for (int k = 0; k < nin; k++)
    if (!(in[k] = pni_contiguous(c, call->in[k]))) return c->status;
  int64_t n = in[MATRIX]->shape[0];
  *d = (pni_distance){.n = (int)n, .l = pni_data(in[MATRIX]), .x = pni_data(in[X])};
  d->x_one = in[X]->numel != rows * n;
  if (nin > M) {
    d->m = pni_data(in[M]);
    d->m_one = in[M]->numel != rows * n;
  }
  return PN_OK;
}

static pn_status eval(C *c, const pni_call *call, T *out) {
  T *in[INPUTS] = {NULL};
  pni_distance d;
  if (out->numel == 0) return PN_OK;
  if (open_operands(c, call, call->nin, out->numel, in, &d) == PN_OK) {
    d.out = pni_data(out);
    pni_distance_run(c, out->dtype, &d, out->numel);
  }
  for (int k = 0; k < call->nin; k++) pn_tensor_unref(in[k]);
  return c->status;
}

/* ---- the gradients that are wanted (attr: bit k of input k), one after the other; the last input is g ---- */

static pn_status infer_scores(C *c, const pni_call *call, pni_spec *out) {
  pni_spec rows;
  int nin = call->nin - 1;
  if (infer_rows(c, call, nin, &rows) || pni_require_like(c, call, nin, &rows)) return c->status;
  *out = (pni_spec){.dtype = call->in[X]->dtype, .ndim = 1};
  for (int k = 0; k < call->nin - 1; k++)
    if (call->attr->i[0] >> k & 1) out->shape[0] += call->in[k]->numel;
  return PN_OK;
}

static pn_status eval_scores(C *c, const pni_call *call, T *out) {
  int nin = call->nin - 1;
  int64_t rows = call->in[nin]->numel;
  T *in[INPUTS] = {NULL}, *g = pni_contiguous(c, call->in[nin]);
  char *at = pni_data(out);
  void *piece[INPUTS] = {NULL};
  pni_distance d;
  for (int k = 0; k < nin; k++) {
    if (!(call->attr->i[0] >> k & 1)) continue;
    piece[k] = at;
    at += (size_t)call->in[k]->numel * pni_itemsize(out);
  }
  if (rows == 0 && out->numel) memset(pni_data(out), 0, (size_t)out->numel * pni_itemsize(out));
  if (g && rows && open_operands(c, call, nin, rows, in, &d) == PN_OK) {
    d.g = pni_data(g);
    d.gl = piece[MATRIX];
    d.gx = piece[X];
    d.gm = piece[M];
    pni_distance_adjoint(c, out->dtype, &d, rows);
  }
  for (int k = 0; k < nin; k++) pn_tensor_unref(in[k]);
  pn_tensor_unref(g);
  return c->status;
}

static const pni_op distance_scores = {
    .name = "distance_scores", .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = infer_scores, .eval = eval_scores};

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[INPUTS + 1];
  pni_attr a = {.ni = 1};
  for (int k = 0; k < y->nin; k++) {
    in[k] = pni_in(y, k);
    if (wanted[k]) a.i[0] |= (int64_t)1 << k;
  }
  in[y->nin] = g;
  T *all = pni_apply(c, &distance_scores, y->nin + 1, in, &a);
  int64_t at = 0;
  for (int k = 0; k < y->nin && all; k++) {
    if (!wanted[k]) continue;
    out[k] = pn_reshape(c, pn_slice(c, all, 0, at, in[k]->numel, 1), in[k]->ndim, in[k]->shape);
    at += in[k]->numel;
  }
  return c->status;
}

/* With columns z = L^-1 (x - m), w = L^-T z:  d/dx = 2 w, d/dm = -2 w, d/dL = -2 tril(w z^T). */
static T *vjp(C *c, T *y, T *g, int k) {
  T *l = pni_in(y, MATRIX), *d = pni_in(y, X), *finite = pn_unsqueeze(c, pn_isfinite(c, y), -1);
  if (y->nin > M) d = pn_sub(c, d, pni_in(y, M));
  if (!(d = only(c, finite, d, 0))) return NULL;
  int64_t n = l->shape[0], rows[2] = {y->numel, n}, row[2] = {1, y->numel};
  T *z = pn_solve_triangular(c, l, pn_transpose(c, pn_reshape(c, d, 2, rows), 0, 1), 0, 0);
  T *w = pn_solve_triangular(c, l, z, 0, 1), *u = pn_mul(c, w, times(c, pn_reshape(c, g, 2, row), k == X ? 2 : -2));
  if (k == MATRIX) return pn_tril(c, pn_matmul(c, u, pn_transpose(c, z, 0, 1)), 0);
  return pni_sum_to(c, pn_reshape(c, pn_transpose(c, u, 0, 1), d->ndim, d->shape), pni_in(y, k));
}

static const pni_op distance = {
    .name = "distance", .flags = PNI_OP_HIDDEN, .infer = infer, .eval = eval, .vjp = vjp, .vjps = vjps};

bool pni_distance_fits(const T *l) {
  return l && l->ndim == 2 && l->shape[0] >= 1 && l->shape[0] <= PNI_DISTANCE_LONGEST;
}

T *pni_distance_from(C *c, T *l, T *x, T *m) {
  if (!x || !pni_distance_fits(l)) return NULL;
  int64_t n = l->shape[0], rows = 1;
  pni_spec both;
  if (m && pni_broadcast(c, "distance", x, m, &both)) return NULL;
  if (m) rows = pni_count(both.ndim - 1, both.shape);
  if (m && !(goes(x, rows, n) && goes(m, rows, n))) {
    x = pn_sub(c, x, m);
    m = NULL;
  }
  return pni_apply(c, &distance, m ? 3 : 2, (T *[]){l, x, m}, NULL);
}
