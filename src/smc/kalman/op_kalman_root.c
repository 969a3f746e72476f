/*
** op_kalman_root.c: the Kalman filter on square roots of the covariances: two sums of covariances, each of them the
** triangle (op_tria.c) of roots beside each other. Särkkä (2013), "Bayesian Filtering and Smoothing", and Anderson and
** Moore (1979), "Optimal Filtering", section 6.5.
*/
#include <string.h>
#include "kalman.h"
#include "kalman_op.h"

typedef pn_tensor T;
typedef pn_context C;

static T *column(C *c, T *x) { return pn_unsqueeze(c, x, -1); }
#define LAST ((pn_axes){1, {-1}})
static int64_t side(const T *x, int back) { return x->shape[x->ndim - back]; }

/* Roots beside each other, their leading axes broadcast. */
static T *beside(C *c, T *x, T *y, int axis) {
  pni_spec lead;
  if (!x || !y) return NULL;
  T a = *x, b = *y, *both[2] = {x, y};
  a.ndim -= 2;
  b.ndim -= 2;
  if (a.ndim < 0 || b.ndim < 0 || pni_broadcast(c, "concatenate", &a, &b, &lead)) {
    char s[PNI_SHAPE_TEXT];
    if (!pni_failed(c))
      pni_fail(c, PN_SHAPE, "tria: roots must have at least 2 axes, got %s",
               pni_shape_text(a.ndim < 0 ? x->ndim : y->ndim, a.ndim < 0 ? x->shape : y->shape, s));
    return NULL;
  }
  for (int k = 0; k < 2; k++) {
    T *z = both[k];
    int n = lead.ndim;
    int64_t shape[PN_MAX_DIMS + 2];
    for (int i = 0; i < n; i++) shape[i] = lead.shape[i];
    shape[n] = side(z, 2);
    shape[n + 1] = side(z, 1);
    if (z->ndim != n + 2 || pni_count(z->ndim, z->shape) != pni_count(n + 2, shape))
      both[k] = pn_broadcast_to(c, z, n + 2, shape);
  }
  return both[0] && both[1] ? pn_concatenate(c, 2, both, axis) : NULL;
}

T *pn_cholesky_update(C *c, T *l, T *x) { return pn_tria(c, beside(c, l, x, -1)); }

/* ---- the Kalman filter on roots ---- */

/* Is x [..., rows, cols] (cols 0: [..., rows])? */
static bool check(C *c, const char *where, const char *name, const T *x, int64_t rows, int64_t cols) {
  char s[PNI_SHAPE_TEXT];
  int rank = cols ? 2 : 1;
  if (!x) {
    pni_fail(c, PN_STATE, "%s: %s must be a tensor, got NULL", where, name);
    return false;
  }
  if (x->ndim >= rank && side(x, rank) == rows && (rank == 1 || side(x, 1) == cols)) return true;
  pni_shape_text(x->ndim, x->shape, s);
  if (cols)
    pni_fail(c, PN_SHAPE, "%s: %s must be [..., %lld, %lld], got %s", where, name, (long long)rows, (long long)cols, s);
  else
    pni_fail(c, PN_SHAPE, "%s: %s must be [..., %lld], got %s", where, name, (long long)rows, s);
  return false;
}

/* The order that the last axis of a root or the rows of an emission give; 0 with a failure. */
static int64_t order(C *c, const char *where, const char *name, const T *x, int back) {
  char s[PNI_SHAPE_TEXT];
  if (x && x->ndim >= 2 && side(x, back) >= 1) return side(x, back);
  if (!x)
    pni_fail(c, PN_STATE, "%s: %s must be a tensor, got NULL", where, name);
  else
    pni_fail(c, PN_SHAPE, "%s: %s must have at least 2 axes and no empty one, got %s", where, name,
             pni_shape_text(x->ndim, x->shape, s));
  return 0;
}

static T *vector(C *c, T *x) { return pn_squeeze(c, x, -1); }

/* ---- one kernel for a step that needs no gradient; with gradients a step is composed of rows ---- */

/* Axes of a filter's own; which operands decide the leading axes of the root, and which those of the mean. */
typedef struct {
  int kind, nin, rank[7];
  unsigned root, mean;
} step;
static const step predict_step = {PNI_KALMAN_ROOT_PREDICT, 5, {1, 2, 2, 1, 2}, 0x16, 0x0d};
static const step update_step = {PNI_KALMAN_ROOT_UPDATE, 7, {1, 2, 1, 2, 1, 2, 1}, 0x6a, 0x7f};

static pn_status lead_of(C *c, const step *s, T *const *in, int nin, unsigned which, pni_spec *out) {
  T sum = {.ndim = 0};
  *out = (pni_spec){.ndim = 0};
  for (int k = 0; k < nin; k++) {
    if (!(which >> k & 1)) continue;
    T lead = *in[k];
    lead.ndim -= s->rank[k];
    if (pni_broadcast(c, "kalman_root", &sum, &lead, out)) return c->status;
    sum.ndim = out->ndim;
    for (int i = 0; i < out->ndim; i++) sum.shape[i] = out->shape[i];
  }
  return PN_OK;
}

/* A kernel has one root for each filter: it is for roots that do not serve several. */
static bool by_kernel(C *c, const step *s, T *const *in, int nin) {
  pni_spec root, mean;
  for (int k = 0; k < nin; k++)
    if (!in[k] || (!c->no_grad && in[k]->flags & PNI_REQUIRES_GRAD)) return false;
  if (side(in[1], 1) > PNI_KALMAN_MAX || (nin > 5 && side(in[3], 2) > PNI_KALMAN_MAX)) return false;
  if (lead_of(c, s, in, nin, s->root, &root) || lead_of(c, s, in, nin, s->mean, &mean)) return false;
  return root.ndim == mean.ndim && root.ndim + 3 <= PN_MAX_DIMS &&
         memcmp(root.shape, mean.shape, (size_t)root.ndim * sizeof *root.shape) == 0;
}

static pn_status check_operands(C *c, const pni_call *call, int64_t n, int64_t p, pni_spec *out) {
  const pni_kalman_input predict[] = {{"mean", "[..., n]", 1, {n}},
                                      {"l", "[..., n, n]", 2, {n, n}},
                                      {"a", "[..., n, n]", 2, {n, n}},
                                      {"b", "[..., n]", 1, {n}},
                                      {"q", "[..., n, n]", 2, {n, n}}};
  const pni_kalman_input observe[] = {{"mean", "[..., n]", 1, {n}},    {"l", "[..., n, n]", 2, {n, n}},
                                      {"y", "[..., p]", 1, {p}},       {"c", "[..., p, n]", 2, {p, n}},
                                      {"d", "[..., p]", 1, {p}},       {"r", "[..., p, p]", 2, {p, p}},
                                      {"observed", "[..., p]", 1, {p}}};
  return pni_kalman_infer(c, call, p ? "kalman_root_update" : "kalman_root_predict", p ? observe : predict, p ? 2 : 0,
                          out);
}

/* Operands have been found to be so by the builder; a plan may have others. */
static pn_status infer_step(C *c, const pni_call *call, pni_spec *out) {
  const step *s = call->nin > 5 ? &update_step : &predict_step;
  pni_spec root;
  int dtype;
  int64_t n = pni_kalman_order(c, "kalman_root", "l", call->in[1], 1), p = 0;
  if (n && s == &update_step) p = pni_kalman_order(c, "kalman_root", "c", call->in[3], 2);
  if (pni_failed(c) || pni_same_float(c, call, &dtype) || check_operands(c, call, n, p, out)) return c->status;
  if (lead_of(c, s, call->in, call->nin, s->root, &root)) return c->status;
  if (root.ndim != out->ndim || memcmp(root.shape, out->shape, (size_t)root.ndim * sizeof *root.shape) != 0)
    return pni_fail(c, PN_SHAPE, "kalman_root: a kernel has a root for each filter of the batch");
  out->dtype = dtype;
  out->shape[out->ndim++] = pni_kalman_size(s->kind, false, n, 0);
  return PN_OK;
}

static pn_status eval_predict(C *c, const pni_call *call, T *out) {
  return pni_kalman_step(c, "kalman_root_predict", PNI_LANE_BEST, PNI_KALMAN_ROOT_PREDICT, false, call->nin, call->in,
                         out);
}
static pn_status eval_update(C *c, const pni_call *call, T *out) {
  return pni_kalman_step(c, "kalman_root_update", PNI_LANE_BEST, PNI_KALMAN_ROOT_UPDATE, false, call->nin, call->in,
                         out);
}

/* mean, root and, of an update, the log density out of packed rows. */
static pn_status unpack(C *c, T *packed, int64_t n, pn_kalman *out) {
  if (!packed) return c->status;
  int64_t shape[PN_MAX_DIMS + 1];
  int ndim = packed->ndim - 1;
  for (int i = 0; i < ndim; i++) shape[i] = packed->shape[i];
  shape[ndim] = shape[ndim + 1] = n;
  pn_kalman x = {.mean = pn_slice(c, packed, -1, 0, n, 1),
                 .cov = pn_reshape(c, pn_slice(c, packed, -1, n, n * n, 1), ndim + 2, shape)};
  if (side(packed, 1) > n + n * n) x.log_prob = pn_select(c, packed, -1, n + n * n);
  if (!pni_failed(c)) *out = x;
  return c->status;
}

pn_status pn_kalman_root_predict(C *c, T *mean, T *l, T *a, T *b, T *q, T **mean_out, T **l_out) {
  static const char *where = "kalman_root_predict";
  if (!PNI_GIVEN(c, "kalman_root_predict", mean_out, l_out)) return c->status;
  int64_t n = order(c, where, "l", l, 1);
  if (!n || !check(c, where, "l", l, n, n) || !check(c, where, "mean", mean, n, 0) || !check(c, where, "a", a, n, n) ||
      !check(c, where, "q", q, n, n) || (b && !check(c, where, "b", b, n, 0)))
    return c->status;
  T *in[] = {mean, l, a, b ? b : pn_zeros(c, (pn_dtype)l->dtype, 1, &n), q};
  if (by_kernel(c, &predict_step, in, 5)) {
    pn_kalman x;
    if (unpack(c, pni_apply(c, &pni_kalman_op_packed_kalman_root_predict, 5, in, NULL), n, &x)) return c->status;
    *mean_out = x.mean;
    *l_out = x.cov;
    return PN_OK;
  }
  T *m = vector(c, pn_matmul(c, a, column(c, mean))), *root = pn_cholesky_update(c, pn_matmul(c, a, l), q);
  if (b) m = pn_add(c, m, b);
  if (pni_failed(c)) return c->status;
  *mean_out = m;
  *l_out = root;
  return PN_OK;
}

/* Of what is missing the row of c and v are 0, and that of r is a unit of its own: [r beside diag(1 - observed)]. */
static void leave_out(C *c, T *observed, T **cm, T **v, T **r) {
  T *on = *v ? pn_cast(c, observed, (pn_dtype)(*v)->dtype) : NULL;
  *cm = pn_mul(c, *cm, column(c, on));
  *v = pn_where(c, column(c, observed), *v, *v ? pni_like(c, *v, 0) : NULL);
  T *none = on ? pn_sub(c, pni_like(c, on, 1), on) : NULL;
  *r = beside(c, pn_mul(c, *r, column(c, on)), pn_diag_embed(c, none), -1);
}

/* log N(v; 0, s s^T) from e = s^-1 v: -(e^T e) / 2 - sum log s[i, i] - count log(2 pi) / 2. */
static T *log_density(C *c, T *e, T *s, T *count) {
  if (!e || !s || !count) return NULL;
  T *squares = pn_sum(c, pn_square(c, vector(c, e)), LAST, 0), *d = pn_log(c, pn_diagonal(c, s));
  T *half = pn_add(c, pn_mul(c, squares, pni_like(c, e, 0.5)), pn_sum(c, d, LAST, 0));
  return pn_neg(c, pn_add(c, half, pn_mul(c, count, pni_like(c, e, 0.91893853320467274178))));
}

/* tria of [r, c l; 0, l] is [s, 0; k, l'] with S = s s^T, K = k s^-1 and l' the root of the covariance given y. */
static pn_status update(C *c, T *mean, T *l, T *v, T *cm, T *r, T *count, pn_kalman *out) {
  T *top = beside(c, r, pn_matmul(c, cm, l), -1);
  if (!top || !v || !count) return c->status;
  int64_t n = side(l, 1), p = side(cm, 2), noise = side(r, 1);
  T *low = beside(c, pn_zeros(c, (pn_dtype)l->dtype, 2, (int64_t[]){n, noise}), l, -1);
  T *all = pn_tria(c, beside(c, top, low, -2)), *left = all ? pn_slice(c, all, -1, 0, p, 1) : NULL;
  T *s = pn_slice(c, left, -2, 0, p, 1), *gain = pn_slice(c, left, -2, p, n, 1);
  T *root = pn_slice(c, pn_slice(c, all, -2, p, n, 1), -1, p, n, 1), *e = pn_solve_triangular(c, s, v, 0, 0);
  T *m = pn_add(c, mean, vector(c, pn_matmul(c, gain, e))), *density = log_density(c, e, s, count);
  if (!pni_failed(c)) *out = (pn_kalman){.mean = m, .cov = root, .log_prob = density};
  return c->status;
}

pn_status pn_kalman_root_update(C *c, T *mean, T *l, T *y, T *cm, T *d, T *r, T *observed, pn_kalman *out) {
  static const char *where = "kalman_root_update";
  if (!PNI_GIVEN(c, "kalman_root_update", out)) return c->status;
  int64_t n = order(c, where, "l", l, 1), p = n ? order(c, where, "c", cm, 2) : 0;
  if (!p || !check(c, where, "l", l, n, n) || !check(c, where, "mean", mean, n, 0) || !check(c, where, "c", cm, p, n) ||
      !check(c, where, "y", y, p, 0) || !check(c, where, "r", r, p, p) || (d && !check(c, where, "d", d, p, 0)) ||
      (observed && !check(c, where, "observed", observed, p, 0)))
    return c->status;
  if (observed && observed->dtype != PN_BOOL)
    return pni_fail(c, PN_DTYPE, "%s: observed must be bool, got %s", where, pn_dtype_name((pn_dtype)observed->dtype));
  T *in[] = {mean,
             l,
             y,
             cm,
             d ? d : pn_zeros(c, (pn_dtype)cm->dtype, 1, &p),
             r,
             observed ? pn_cast(c, observed, (pn_dtype)l->dtype) : NULL};
  int nin = observed ? 7 : 6;
  if (by_kernel(c, &update_step, in, nin))
    return unpack(c, pni_apply(c, &pni_kalman_op_packed_kalman_root_update, nin, in, NULL), n, out);
  if (pni_failed(c)) return c->status;
  T *v = pn_sub(c, column(c, d ? pn_sub(c, y, d) : y), pn_matmul(c, cm, column(c, mean)));
  T *count = pni_like(c, l, (double)p);
  if (observed) {
    count = pn_sum(c, pn_cast(c, observed, (pn_dtype)l->dtype), LAST, 0);
    leave_out(c, observed, &cm, &v, &r);
  }
  return pni_failed(c) ? c->status : update(c, mean, l, v, cm, r, count, out);
}

/* ---- rows ---- */

const pni_op pni_kalman_op_packed_kalman_root_predict = {
    .name = "packed_kalman_root_predict",
    .args = "mean:t l:t a:t b:t q:t",
    .doc = "kalman_root_predict: mean [n] and root [n, n] in one row [..., n + n n]",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_step,
    .eval = eval_predict};

const pni_op pni_kalman_op_packed_kalman_root_update = {
    .name = "packed_kalman_root_update",
    .args = "mean:t l:t y:t c:t d:t r:t observed:t",
    .doc = "kalman_root_update: mean [n], root [n, n] and log density [1] in one row",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_step,
    .eval = eval_update};
