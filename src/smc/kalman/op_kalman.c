/*
** op_kalman.c: the two steps of the Kalman filter over batches of small states, and both in one pass, each a hidden row
** that packs its results; the public builders slice it. Gradients are closed forms: with the optimal gain the
** covariance after an observation is P - K S K^T, whose differential, as that of K, is short in K itself.
*/
#include "kalman.h"
#include "kalman_op.h"

typedef pn_tensor T;
typedef pn_context C;

/* vjps: the gradients of all inputs at once. */
_Static_assert((int)PNI_KALMAN_INPUTS <= (int)PNI_OP_INPUTS, "backward has room for the inputs of a step");

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }
static T *column(C *c, T *x) { return pn_unsqueeze(c, x, -1); }
static T *symmetric(C *c, T *x) { return x ? pn_mul(c, pn_add(c, x, mt(c, x)), pni_like(c, x, 0.5)) : NULL; }
/* x y z */
static T *triple(C *c, T *x, T *y, T *z) { return pn_matmul(c, pn_matmul(c, x, y), z); }

/* ---- shapes ---- */

pn_status pni_kalman_infer(C *c, const pni_call *call, const char *where, const pni_kalman_input *o, int y,
                           pni_spec *out) {
  char s[PNI_SHAPE_TEXT];
  T sum = {.ndim = 0};
  for (int k = 0; k < call->nin; k++) {
    const T *x = call->in[k];
    bool fits = x->ndim >= o[k].rank;
    for (int i = 0; fits && i < o[k].rank; i++) fits = x->shape[x->ndim - o[k].rank + i] == o[k].size[i];
    if (!fits)
      return pni_fail(c, PN_SHAPE, "%s: %s must be %s with n = %lld, p = %lld, got %s", where, o[k].name, o[k].shape,
                      (long long)o[1].size[0], (long long)(y ? o[y].size[0] : 0), pni_shape_text(x->ndim, x->shape, s));
    T lead = *x;
    lead.ndim -= o[k].rank;
    if (pni_broadcast(c, where, &sum, &lead, out)) return c->status;
    sum.ndim = out->ndim;
    for (int i = 0; i < out->ndim; i++) sum.shape[i] = out->shape[i];
  }
  out->dtype = call->in[0]->dtype;
  if (out->ndim + 3 > PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "%s: a batch must have at most %d axes, got %d", where, PN_MAX_DIMS - 3, out->ndim);
  return PN_OK;
}

int64_t pni_kalman_order(C *c, const char *where, const char *name, const T *x, int back) {
  char s[PNI_SHAPE_TEXT];
  if (x->ndim < 2) {
    pni_fail(c, PN_SHAPE, "%s: %s must have at least 2 axes, got %s", where, name,
             pni_shape_text(x->ndim, x->shape, s));
    return 0;
  }
  int64_t n = x->shape[x->ndim - back];
  if (n >= 1 && n <= PNI_KALMAN_MAX) return n;
  pni_fail(c, PN_SHAPE, "%s: order of the %s must be from 1 to %d, got %lld", where,
           back == 2 ? "observation" : "state", PNI_KALMAN_MAX, (long long)n);
  return 0;
}

/* Elements from `start` of each packed row as [..., rows, cols], [..., cols] for rows = 0, [...] for cols = 0. */
static T *part(C *c, T *packed, int64_t start, int64_t rows, int64_t cols) {
  if (!packed) return NULL;
  int64_t shape[PN_MAX_DIMS + 1];
  int n = packed->ndim - 1;
  if (cols == 0) return pn_select(c, packed, -1, start);
  for (int i = 0; i < n; i++) shape[i] = packed->shape[i];
  T *flat = pn_slice(c, packed, -1, start, rows ? rows * cols : cols, 1);
  if (!rows) return flat;
  shape[n++] = rows;
  shape[n++] = cols;
  return pn_reshape(c, flat, n, shape);
}

/* A gradient as the operand is: a vector out of its column, summed over what was broadcast. */
static T *as_operand(C *c, T *g, const T *x, bool vector) {
  return pni_sum_to(c, vector ? pn_squeeze(c, g, -1) : g, x);
}

/* ---- gradients by one kernel: attr: kind, wanted (bit k for input k, input 0 is the packed rows' gradient) ---- */

static int adjoint_rank(int kind, int k) {
  static const int predict[] = {1, 1, 2, 2}, update[] = {1, 1, 2, 1, 2, 1, 2, 1};
  static const int both[] = {1, 1, 2, 2, 1, 2, 1, 2, 1, 2, 1};
  return kind == PNI_KALMAN_PREDICT_ADJOINT ? predict[k] : kind == PNI_KALMAN_UPDATE_ADJOINT ? update[k] : both[k];
}

/* Elements of input k's gradient, and its shape before it is summed to the input's. */
static int64_t piece(const T *g, const T *x, int rank, int *ndim, int64_t *shape) {
  *ndim = 0;
  if (!pni_kalman_shared(x, rank))
    while (*ndim < g->ndim - 1) shape[*ndim] = g->shape[*ndim], ++*ndim;
  for (int i = x->ndim - rank; i < x->ndim; i++) shape[(*ndim)++] = x->shape[i];
  return pni_count(*ndim, shape);
}

/* The operands are those of a step (the first ones of a prediction), and g a gradient of its rows, which may be those
 * of a larger batch. */
static pn_status check_adjoint(C *c, const pni_call *call) {
  static const pni_op *const rows[] = {&pni_kalman_op_packed_kalman_predict, &pni_kalman_op_packed_kalman_update,
                                       &pni_kalman_op_packed_kalman_step};
  const T *g = call->in[0];
  pni_spec y;
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  if (pni_infer_as(c, call, rows[call->attr->i[0] - PNI_KALMAN_PREDICT_ADJOINT], call->nin - 1, call->in + 1,
                   &(pni_attr){.ni = 1}, &y))
    return c->status;
  int more = g->ndim - y.ndim;
  bool fits = more >= 0 && g->shape[g->ndim - 1] == y.shape[y.ndim - 1];
  for (int i = 0; fits && i < y.ndim; i++) fits = y.shape[i] == 1 || y.shape[i] == g->shape[more + i];
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "kalman_adjoint: g must be as the packed rows, %s, got %s",
                  pni_shape_text(y.ndim, y.shape, s), pni_shape_text(g->ndim, g->shape, t));
}

static pn_status infer_adjoint(C *c, const pni_call *call, pni_spec *out) {
  int64_t shape[PN_MAX_DIMS], total = 0;
  int ndim;
  if (check_adjoint(c, call)) return c->status;
  for (int k = 1; k < call->nin; k++)
    if (call->attr->i[1] >> k & 1)
      total += piece(call->in[0], call->in[k], adjoint_rank((int)call->attr->i[0], k), &ndim, shape);
  *out = (pni_spec){.dtype = call->in[0]->dtype, .ndim = 1, .shape = {total}};
  return PN_OK;
}

static pn_status eval_adjoint(C *c, const pni_call *call, T *out) {
  int kind = (int)call->attr->i[0];
  const char *where = kind == PNI_KALMAN_PREDICT_ADJOINT  ? "kalman_predict"
                      : kind == PNI_KALMAN_UPDATE_ADJOINT ? "kalman_update"
                                                          : "kalman_step";
  return pni_kalman_adjoint(c, where, PNI_LANE_BEST, kind, (int)call->attr->i[1], call->nin, call->in, out);
}

/* The gradients of y's inputs k < nin with wanted[k]; y's input k is the adjoint's k + 1. */
static pn_status by_kernel(C *c, T *y, T *g, int kind, int nin, const bool *wanted, T **out) {
  T *in[PNI_KALMAN_INPUTS] = {pn_contiguous(c, g)};
  int64_t bits = 0, shape[PN_MAX_DIMS], at = 0;
  for (int k = 0; k < nin; k++) {
    in[k + 1] = pni_in(y, k);
    if (wanted[k]) bits |= (int64_t)2 << k;
  }
  if (!bits) return PN_OK;
  T *flat = pni_apply(c, &pni_kalman_op_kalman_adjoint, nin + 1, in, &(pni_attr){.ni = 2, .i = {kind, bits}});
  for (int k = 0; flat && k < nin; k++) {
    int ndim;
    if (!wanted[k]) continue;
    int64_t size = piece(in[0], in[k + 1], adjoint_rank(kind, k + 1), &ndim, shape);
    out[k] = pni_sum_to(c, pn_reshape(c, pn_slice(c, flat, 0, at, size, 1), ndim, shape), in[k + 1]);
    at += size;
  }
  return c->status;
}

/* ---- predict: mean, cov, a, b, q ---- */

static pn_status infer_predict(C *c, const pni_call *call, pni_spec *out) {
  const char *where = "kalman_predict";
  int64_t n = pni_kalman_order(c, where, "cov", call->in[1], 1);
  int64_t p = n ? pni_kalman_order(c, where, "a", call->in[2], 2) : 0;
  pni_kalman_input o[] = {{"mean", "[..., n]", 1, {n}},
                          {"cov", "[..., n, n]", 2, {n, n}},
                          {"a", "[..., p, n]", 2, {p, n}},
                          {"b", "[..., p]", 1, {p}},
                          {"q", "[..., p, p]", 2, {p, p}}};
  if (!p || pni_kalman_infer(c, call, where, o, 3, out)) return c->status;
  out->shape[out->ndim++] = pni_kalman_size(PNI_KALMAN_PREDICT, false, p, 0);
  return PN_OK;
}

static pn_status eval_predict(C *c, const pni_call *call, T *out) {
  return pni_kalman_step(c, "kalman_predict", PNI_LANE_BEST, PNI_KALMAN_PREDICT, false, call->nin, call->in, out);
}

/* a [p, n]. With gm = dm', gp = G, the symmetric part of dcov', and P that of cov: dm = a^T dm', dP = a^T G a, da =
 * dm' m^T + 2 G a P, db = dm', dq = G. */
static T *of_predict(C *c, T *y, T *gm, T *gp, int k) {
  T *m = pni_in(y, 0), *p = pni_in(y, 1), *a = pni_in(y, 2), *d = NULL;
  if (k == 3) return as_operand(c, gm, pni_in(y, k), true);
  if (k == 0) return as_operand(c, pn_matmul(c, mt(c, a), gm), m, true);
  if (k == 1) d = triple(c, mt(c, a), gp, a);
  if (k == 2) {
    T *twice = gp ? pn_mul(c, gp, pni_like(c, gp, 2)) : NULL;
    d = pn_add(c, pn_matmul(c, gm, mt(c, column(c, m))), triple(c, twice, a, symmetric(c, p)));
  }
  return as_operand(c, k == 4 ? gp : d, pni_in(y, k), false);
}

static T *vjp_predict(C *c, T *y, T *g, int k) {
  int64_t n = pni_in(y, 2)->shape[pni_in(y, 2)->ndim - 2];
  return of_predict(c, y, column(c, part(c, g, 0, 0, n)), symmetric(c, part(c, g, n, n, n)), k);
}

static pn_status vjps_predict(C *c, T *y, T *g, const bool *wanted, T **out) {
  for (int k = g->numel ? 3 : 0; k < 5; k++)
    if (wanted[k]) out[k] = vjp_predict(c, y, g, k);
  return g->numel ? by_kernel(c, y, g, PNI_KALMAN_PREDICT_ADJOINT, 3, wanted, out) : c->status;
}

pn_status pn_kalman_predict(C *c, T *mean, T *cov, T *a, T *b, T *q, T **mean_out, T **cov_out) {
  if (!PNI_GIVEN(c, "kalman_predict", mean_out, cov_out)) return c->status;
  if (!cov) return pni_fail(c, PN_STATE, "kalman_predict: cov must be a tensor, got NULL");
  int64_t n = a && a->ndim > 1 ? a->shape[a->ndim - 2] : 0;
  if (!b) b = pn_zeros(c, (pn_dtype)cov->dtype, 1, &n);
  T *packed = pni_apply(c, &pni_kalman_op_packed_kalman_predict, 5, (T *[]){mean, cov, a, b, q}, NULL);
  if (!packed) return c->status;
  T *first = part(c, packed, 0, 0, n), *second = part(c, packed, n, n, n);
  if (!first || !second) return c->status;
  *mean_out = first;
  *cov_out = second;
  return PN_OK;
}

/* ---- update: mean, cov, y, c, d, r and what was observed; attr: details ---- */

static pn_status infer_update(C *c, const pni_call *call, pni_spec *out) {
  const char *where = "kalman_update";
  int64_t n = pni_kalman_order(c, where, "cov", call->in[1], 1),
          p = n ? pni_kalman_order(c, where, "c", call->in[3], 2) : 0;
  pni_kalman_input o[] = {{"mean", "[..., n]", 1, {n}},    {"cov", "[..., n, n]", 2, {n, n}},
                          {"y", "[..., p]", 1, {p}},       {"c", "[..., p, n]", 2, {p, n}},
                          {"d", "[..., p]", 1, {p}},       {"r", "[..., p, p]", 2, {p, p}},
                          {"observed", "[..., p]", 1, {p}}};
  if (!p || pni_kalman_infer(c, call, where, o, 2, out)) return c->status;
  out->shape[out->ndim++] = pni_kalman_size(PNI_KALMAN_UPDATE, call->attr->i[0] != 0, n, p);
  return PN_OK;
}

static pn_status eval_update(C *c, const pni_call *call, T *out) {
  return pni_kalman_step(c, "kalman_update", PNI_LANE_BEST, PNI_KALMAN_UPDATE, call->attr->i[0] != 0, call->nin,
                         call->in, out);
}

/* What the gradients of an update are made of; names as in the formulas of vjp_update. */
typedef struct {
  T *m, *p, *after, *c, *on, *both; /* P, P', c without what is missing, 1 where observed: column [p, 1], [p, p] */
  T *v, *w, *winv, *u, *gt;         /* w = S^-1 v, S^-1, c P, K^T */
  T *a, *g, *l, *e, *f, *h;         /* gradients of m', P', log density, v, S, K; NULL without details */
} update;

static T *constant(C *c, const T *like, T *mask) {
  return mask && like ? pn_cast(c, mask, (pn_dtype)like->dtype) : NULL;
}

static void missing(C *c, update *x, T *observed, T **r) {
  T *there = pn_ne(c, observed, pni_like(c, observed, 0)), *one = pni_like(c, observed, 1);
  x->on = column(c, constant(c, observed, there));
  x->both = pn_matmul(c, x->on, mt(c, x->on));
  x->c = pn_mul(c, x->c, x->on);
  *r = pn_add(c, pn_mul(c, *r, x->both), pn_diag_embed(c, pn_sub(c, one, observed)));
  T *gone = x->v ? pn_logical_not(c, column(c, there)) : NULL;
  x->v = x->v ? pn_where(c, gone, pni_like(c, x->v, 0), x->v) : NULL;
}

static bool prepare(C *c, T *y, T *g, update *x) {
  T *r = symmetric(c, pni_in(y, 5));
  *x = (update){.m = column(c, pni_in(y, 0)), .p = symmetric(c, pni_in(y, 1)), .c = pni_in(y, 3)};
  int64_t n = x->c->shape[x->c->ndim - 1], p = x->c->shape[x->c->ndim - 2], at = n + n * n;
  x->v = pn_sub(c, column(c, pn_sub(c, pni_in(y, 2), pni_in(y, 4))), pn_matmul(c, x->c, x->m));
  if (y->nin > 6) missing(c, x, pni_in(y, 6), &r);
  x->u = pn_matmul(c, x->c, x->p);
  T *s = pn_add(c, pn_matmul(c, x->u, mt(c, x->c)), r), *factor = pn_cholesky(c, s);
  x->w = pn_cholesky_solve(c, factor, x->v);
  x->winv = pn_cholesky_solve(c, factor, pn_eye(c, (pn_dtype)y->dtype, p, p));
  x->gt = pn_cholesky_solve(c, factor, x->u);
  x->after = part(c, y, n, n, n);
  x->a = column(c, part(c, g, 0, 0, n));
  x->g = symmetric(c, part(c, g, n, n, n));
  x->l = column(c, column(c, part(c, g, at++, 0, 0)));
  if (y->attr->i[0]) {
    x->e = column(c, part(c, g, at, 0, p));
    x->f = symmetric(c, part(c, g, at + p, p, p));
    x->h = part(c, g, at + p + p * p, n, p);
  }
  return !pni_failed(c);
}

/* dv + K^T dm' - dl w, the whole gradient of v. */
static T *of_innovation(C *c, const update *x) {
  T *e = pn_sub(c, pn_matmul(c, x->gt, x->a), pn_mul(c, x->l, x->w));
  return x->e ? pn_add(c, e, x->e) : e;
}

/* dS + dl (w w^T - S^-1) / 2 */
static T *of_covariance(C *c, const update *x) {
  T *half = x->l ? pn_mul(c, x->l, pni_like(c, x->l, 0.5)) : NULL;
  T *f = pn_mul(c, half, pn_sub(c, pn_matmul(c, x->w, mt(c, x->w)), x->winv));
  return x->f ? pn_add(c, f, x->f) : f;
}

/* dK S^-1 with dK that of the gain and of m' = m + K v: dm' w^T + dK S^-1. */
static T *of_gain(C *c, const update *x) {
  T *h = pn_matmul(c, x->a, mt(c, x->w));
  return x->h ? pn_add(c, h, pn_matmul(c, x->h, x->winv)) : h;
}

/* M = I - K c */
static T *remainder_of(C *c, const update *x) {
  int64_t n = x->m ? x->m->shape[x->m->ndim - 2] : 0;
  return pn_sub(c, x->m ? pn_eye(c, (pn_dtype)x->m->dtype, n, n) : NULL, pn_matmul(c, mt(c, x->gt), x->c));
}

static T *of_cov(C *c, const update *x) {
  T *m = remainder_of(c, x), *mtr = mt(c, m);
  T *first = triple(c, mtr, of_gain(c, x), x->c), *second = triple(c, mtr, x->g, m);
  return pn_add(c, pn_add(c, first, second), triple(c, mt(c, x->c), of_covariance(c, x), x->c));
}

static T *of_c(C *c, const update *x, T *e) {
  T *gain = mt(c, x->gt), *d = pn_matmul(c, mt(c, of_gain(c, x)), x->after);
  T *kv = pn_matmul(c, gain, x->v), *ka = pn_matmul(c, x->gt, x->a);
  d = pn_sub(c, d, pn_matmul(c, ka, mt(c, kv)));
  if (x->h) d = pn_sub(c, d, triple(c, x->gt, x->h, x->gt));
  T *twice = pn_sub(c, pn_matmul(c, of_covariance(c, x), x->u), triple(c, x->gt, x->g, x->after));
  d = pn_add(c, d, twice ? pn_mul(c, twice, pni_like(c, twice, 2)) : NULL);
  return pn_sub(c, d, pn_matmul(c, e, mt(c, x->m)));
}

static T *of_r(C *c, const update *x) {
  T *inner = pn_sub(c, triple(c, x->gt, x->g, mt(c, x->gt)), pn_matmul(c, x->gt, of_gain(c, x)));
  return pn_add(c, of_covariance(c, x), inner);
}

/* With M = I - K c, dv, dS and dK summed over all results as above, H = dK S^-1, G = dP', P' and u = c P:
 *   dm = dm' - c^T dv              dy = dv, dd = -dv
 *   dP = M^T H c + M^T G M + c^T dS c
 *   dc = H^T P' - K^T dK K^T - 2 K^T G P' + 2 dS u - dv m^T
 *   dr = dS - K^T H + K^T G K
 * symmetric where the operand is read so. Of what is missing c, v and r are constants. */
static T *vjp_update(C *c, T *y, T *g, int k) {
  update x;
  if (!prepare(c, y, g, &x)) return NULL;
  T *e = k == 1 || k == 5 ? NULL : of_innovation(c, &x), *d = NULL;
  if (k == 0) d = pn_sub(c, x.a, pn_matmul(c, mt(c, x.c), e));
  if (k == 1) d = symmetric(c, of_cov(c, &x));
  if (k == 2) d = e;
  if (k == 3) d = of_c(c, &x, e);
  if (k == 4) d = pn_neg(c, e);
  if (k == 5) d = symmetric(c, of_r(c, &x));
  if (x.on && k >= 2) d = pn_mul(c, d, k == 5 ? x.both : x.on);
  return as_operand(c, d, pni_in(y, k), k == 0 || k == 2 || k == 4);
}

static pn_status vjps_update(C *c, T *y, T *g, const bool *wanted, T **out) {
  if (g->numel && !y->attr->i[0]) return by_kernel(c, y, g, PNI_KALMAN_UPDATE_ADJOINT, y->nin, wanted, out);
  for (int k = 0; k < 6; k++)
    if (wanted[k]) out[k] = vjp_update(c, y, g, k);
  return c->status;
}

static pn_status check_observed(C *c, const char *where, const T *x) {
  if (!x || x->dtype == PN_BOOL) return PN_OK;
  return pni_fail(c, PN_DTYPE, "%s: observed must be bool, got %s", where, pn_dtype_name((pn_dtype)x->dtype));
}

pn_status pn_kalman_update(C *c, T *mean, T *cov, T *y, T *cm, T *d, T *r, T *observed, int details, pn_kalman *out) {
  if (!PNI_GIVEN(c, "kalman_update", out)) return c->status;
  if (!cov || !cm) return pni_fail(c, PN_STATE, "kalman_update: cov and c must be tensors, got NULL");
  if (check_observed(c, "kalman_update", observed)) return c->status;
  int64_t n = cov->ndim ? cov->shape[cov->ndim - 1] : 0, p = cm->ndim > 1 ? cm->shape[cm->ndim - 2] : 0;
  int64_t at = n + n * n;
  if (!d) d = pn_zeros(c, (pn_dtype)cm->dtype, 1, &p);
  T *in[] = {mean, cov, y, cm, d, r, observed ? pn_cast(c, observed, (pn_dtype)cov->dtype) : NULL};
  T *packed = pni_apply(c, &pni_kalman_op_packed_kalman_update, observed ? 7 : 6, in,
                        &(pni_attr){.ni = 1, .i = {details != 0}});
  pn_kalman x = {part(c, packed, 0, 0, n), part(c, packed, n, n, n), part(c, packed, at, 0, 0), NULL, NULL, NULL};
  if (details) {
    x.innovation = part(c, packed, at + 1, 0, p);
    x.innovation_cov = part(c, packed, at + 1 + p, p, p);
    x.gain = part(c, packed, at + 1 + p + p * p, n, p);
  }
  if (!pni_failed(c)) *out = x;
  return c->status;
}

/* ---- both in one pass: mean, cov, a, b, q, y, c, d, r and what was observed ---- */

enum { STEP_Y = 5 }; /* the first operand of the update but for mean and cov */

static pn_status infer_step(C *c, const pni_call *call, pni_spec *out) {
  const char *where = "kalman_step";
  int64_t n = pni_kalman_order(c, where, "cov", call->in[1], 1),
          p = n ? pni_kalman_order(c, where, "c", call->in[6], 2) : 0;
  pni_kalman_input o[] = {{"mean", "[..., n]", 1, {n}},    {"cov", "[..., n, n]", 2, {n, n}},
                          {"a", "[..., n, n]", 2, {n, n}}, {"b", "[..., n]", 1, {n}},
                          {"q", "[..., n, n]", 2, {n, n}}, {"y", "[..., p]", 1, {p}},
                          {"c", "[..., p, n]", 2, {p, n}}, {"d", "[..., p]", 1, {p}},
                          {"r", "[..., p, p]", 2, {p, p}}, {"observed", "[..., p]", 1, {p}}};
  if (!p || pni_kalman_infer(c, call, where, o, STEP_Y, out)) return c->status;
  out->shape[out->ndim++] = pni_kalman_size(PNI_KALMAN_STEP, false, n, p);
  return PN_OK;
}

static pn_status eval_step(C *c, const pni_call *call, T *out) {
  return pni_kalman_step(c, "kalman_step", PNI_LANE_BEST, PNI_KALMAN_STEP, false, call->nin, call->in, out);
}

/* By the rows of the two steps, on a predicted state computed again: nodes, so not without a graph. */
static T *vjp_step(C *c, T *y, T *g, int k) {
  T *in[PNI_KALMAN_INPUTS], *predict;
  if (y->numel == 0) return pn_zeros(c, (pn_dtype)y->dtype, pni_in(y, k)->ndim, pni_in(y, k)->shape);
  for (int i = 0; i < y->nin; i++) in[i] = pni_in(y, i);
  int64_t n = in[1]->shape[in[1]->ndim - 1];
  if (!(predict = pni_apply(c, &pni_kalman_op_packed_kalman_predict, STEP_Y, in, NULL))) return NULL;
  T *operands[] = {part(c, predict, 0, 0, n), part(c, predict, n, n, n), in[5], in[6], in[7], in[8], in[9]};
  T *after = pni_apply(c, &pni_kalman_op_packed_kalman_update, y->nin - 3, operands, &(pni_attr){.ni = 1});
  if (!after) return NULL;
  if (k >= STEP_Y) return vjp_update(c, after, g, k - 3);
  T *gm = k == 1 || k == 4 ? NULL : column(c, vjp_update(c, after, g, 0));
  T *gp = k == 0 || k == 3 ? NULL : vjp_update(c, after, g, 1);
  return pni_failed(c) ? NULL : of_predict(c, predict, gm, gp, k);
}

static pn_status vjps_step(C *c, T *y, T *g, const bool *wanted, T **out) {
  if (g->numel) return by_kernel(c, y, g, PNI_KALMAN_STEP_ADJOINT, y->nin, wanted, out);
  for (int k = 0; k < 9; k++)
    if (wanted[k]) out[k] = vjp_step(c, y, g, k);
  return c->status;
}

pn_status pn_kalman_step(C *c, T *mean, T *cov, T *a, T *b, T *q, T *y, T *cm, T *d, T *r, T *observed,
                         pn_kalman *out) {
  if (!PNI_GIVEN(c, "kalman_step", out)) return c->status;
  if (!cov || !cm) return pni_fail(c, PN_STATE, "kalman_step: cov and c must be tensors, got NULL");
  if (check_observed(c, "kalman_step", observed)) return c->status;
  int64_t n = cov->ndim ? cov->shape[cov->ndim - 1] : 0, p = cm->ndim > 1 ? cm->shape[cm->ndim - 2] : 0;
  if (!b) b = pn_zeros(c, (pn_dtype)cov->dtype, 1, &n);
  if (!d) d = pn_zeros(c, (pn_dtype)cm->dtype, 1, &p);
  T *in[] = {mean, cov, a, b, q, y, cm, d, r, observed ? pn_cast(c, observed, (pn_dtype)cov->dtype) : NULL};
  T *packed = pni_apply(c, &pni_kalman_op_packed_kalman_step, observed ? 10 : 9, in, NULL);
  pn_kalman x = {
      .mean = part(c, packed, 0, 0, n), .cov = part(c, packed, n, n, n), .log_prob = part(c, packed, n + n * n, 0, 0)};
  if (!pni_failed(c)) *out = x;
  return c->status;
}

/* ---- rows ---- */

const pni_op pni_kalman_op_packed_kalman_predict = {
    .name = "packed_kalman_predict",
    .args = "mean:t cov:t a:t b:t q:t",
    .doc = "kalman_predict: mean [n] and cov [n, n] in one row [..., n + n n]",
    .flags = PNI_OP_HIDDEN,
    .infer = infer_predict,
    .eval = eval_predict,
    .vjp = vjp_predict,
    .vjps = vjps_predict};

const pni_op pni_kalman_op_packed_kalman_update = {
    .name = "packed_kalman_update",
    .args = "mean:t cov:t y:t c:t d:t r:t observed:t details:b=false",
    .doc = "kalman_update: mean [n], cov [n, n], log density [1] and with details innovation [p], its covariance "
           "[p, p] and the gain [n, p] in one row",
    .flags = PNI_OP_HIDDEN,
    .infer = infer_update,
    .eval = eval_update,
    .vjp = vjp_update,
    .vjps = vjps_update};

const pni_op pni_kalman_op_packed_kalman_step = {.name = "packed_kalman_step",
                                                 .args = "mean:t cov:t a:t b:t q:t y:t c:t d:t r:t observed:t",
                                                 .doc =
                                                     "kalman_step: mean [n], cov [n, n] and log density [1] in one row",
                                                 .flags = PNI_OP_HIDDEN,
                                                 .infer = infer_step,
                                                 .eval = eval_step,
                                                 .vjp = vjp_step,
                                                 .vjps = vjps_step};

const pni_op pni_kalman_op_kalman_adjoint = {
    .name = "kalman_adjoint",
    .args = "list:T kind:i wanted:i",
    .doc = "gradients of the wanted operands of a Kalman step, beside each other, from that of its packed rows",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_adjoint,
    .eval = eval_adjoint};
