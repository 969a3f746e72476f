/*
** op_gaussian_sequence.c: whole sequences of Kalman steps as operations: the packed rows of all steps, the densities
** alone, and the gradients of either by one pass back in time. A gradient that needs a graph of its own is made of the
** rows of single steps (smc/kalman/op_kalman.c). attr: kind, reverse, steps, axes of the batch.
*/
#include <string.h>
#include "../kalman/kalman_op.h"
#include "gaussian_op.h"

typedef pn_tensor T;
typedef pn_context C;

enum { KIND, REVERSE, STEPS, BATCH, WANTED, ATTRS = WANTED };
enum { MEAN, COV, Y = PNI_SEQUENCE_Y };

static pni_sequence sequence_of(const pni_attr *a) {
  static const char *const where[] = {"kalman_filter", "kalman_propagate", "kalman_root_filter"};
  return (pni_sequence){where[a->i[KIND]], (pni_sequence_kind)a->i[KIND], a->i[REVERSE] != 0, a->i[STEPS],
                        (int)a->i[BATCH]};
}

/* ---- shapes ---- */

/* The order that the last axis but `back` of a matrix gives; 0 with PN_SHAPE. */
static int64_t order(C *c, const char *where, const char *name, const T *x, int back) {
  char s[PNI_SHAPE_TEXT];
  if (x->ndim < 2)
    pni_fail(c, PN_SHAPE, "%s: %s must have at least 2 axes, got %s", where, name,
             pni_shape_text(x->ndim, x->shape, s));
  else if (x->shape[x->ndim - back] < 1 || x->shape[x->ndim - back] > PNI_KALMAN_MAX)
    pni_fail(c, PN_SHAPE, "%s: order of the %s must be from 1 to %d, got %lld", where,
             back == 2 ? "observation" : "state", PNI_KALMAN_MAX, (long long)x->shape[x->ndim - back]);
  else
    return x->shape[x->ndim - back];
  return 0;
}

static const char *const names[] = {"mean", "cov", "a", "b", "q", "y", "c", "d", "r", "observed"};

/* Operand k ends as it must, and its leading axes broadcast to those of the others, which are in `out`. */
static pn_status infer_operand(C *c, const pni_sequence *q, const T *x, int k, int64_t n, int64_t p, pni_spec *out) {
  static const char *const shape[] = {"[n]", "[n, n]", "[n, n]", "[n]",    "[n, n]",
                                      "[p]", "[p, n]", "[p]",    "[p, p]", "[p]"};
  const int64_t last[] = {n, n, n, n, n, p, n, p, p, p}, rows[] = {0, n, n, 0, n, 0, p, 0, p, 0};
  char s[PNI_SHAPE_TEXT];
  int rank = pni_sequence_rank(k), lead = x->ndim - rank, most = q->batch + (k > COV);
  if (lead < 0 || x->shape[x->ndim - 1] != last[k] || (rank == 2 && x->shape[x->ndim - 2] != rows[k]))
    return pni_fail(c, PN_SHAPE, "%s: %s must be [..., %s with n = %lld, p = %lld, got %s", q->where, names[k],
                    shape[k] + 1, (long long)n, (long long)p, pni_shape_text(x->ndim, x->shape, s));
  if (lead > most)
    return pni_fail(c, PN_SHAPE, "%s: %s must have at most %d axes before its own %d (%s), got %s", q->where, names[k],
                    most, rank, k > COV ? "time, batch" : "batch", pni_shape_text(x->ndim, x->shape, s));
  T sum = {.ndim = out->ndim}, own = {.ndim = lead};
  memcpy(sum.shape, out->shape, sizeof sum.shape);
  memcpy(own.shape, x->shape, (size_t)lead * sizeof *own.shape);
  int64_t steps = out->shape[0];
  if (pni_broadcast(c, q->where, &sum, &own, out)) return c->status;
  if (out->shape[0] == steps) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: %s must have a time axis of %lld or 1, got %s", q->where, names[k],
                  (long long)steps, pni_shape_text(x->ndim, x->shape, s));
}

static pn_status infer_packed(C *c, const pni_call *call, pni_spec *out) {
  pni_sequence q = sequence_of(call->attr);
  int64_t n = order(c, q.where, "cov", call->in[COV], 1), p = 0;
  if (n && call->nin > 6) p = order(c, q.where, "c", call->in[6], 2);
  if (!n || (call->nin > 6 && !p)) return c->status;
  *out = (pni_spec){.dtype = call->in[MEAN]->dtype, .ndim = q.batch + 1};
  for (int i = 0; i < out->ndim; i++) out->shape[i] = i ? 1 : q.steps;
  for (int k = 0; k < call->nin; k++)
    if (infer_operand(c, &q, call->in[k], k, n, p, out)) return c->status;
  out->shape[out->ndim++] = n + n * n + (p > 0);
  return PN_OK;
}

static pn_status eval_packed(C *c, const pni_call *call, T *out) {
  pni_sequence q = sequence_of(call->attr);
  return pni_sequence_run(c, &q, call->nin, call->in, out);
}

/* ---- gradients by the kernel: inputs g, packed rows, operands ---- */

static int64_t piece(const pni_sequence *q, const T *packed, int k, const T *x, int *ndim, int64_t *shape) {
  pni_sequence_extent extent = pni_sequence_extent_of(q, k, x);
  *ndim = 0;
  if (extent == PNI_SEQUENCE_VARYING) shape[(*ndim)++] = packed->shape[0];
  for (int i = 1; i <= q->batch && extent != PNI_SEQUENCE_SHARED; i++) shape[(*ndim)++] = packed->shape[i];
  for (int i = x->ndim - pni_sequence_rank(k); i < x->ndim; i++) shape[(*ndim)++] = x->shape[i];
  return pni_count(*ndim, shape);
}

static pn_status infer_adjoint(C *c, const pni_call *call, pni_spec *out) {
  pni_sequence q = sequence_of(call->attr);
  int64_t shape[PN_MAX_DIMS], total = 0;
  int ndim;
  pni_spec rows;
  if (pni_infer_as(c, call, &pni_gaussian_op_packed_kalman_sequence, call->nin - 2, call->in + 2, NULL, &rows) ||
      pni_require_like(c, call, 1, &rows))
    return c->status;
  rows.ndim -= q.kind == PNI_SEQUENCE_FILTER && call->in[0]->ndim < rows.ndim;
  if (pni_require_like(c, call, 0, &rows)) return c->status;
  for (int k = 0; k < call->nin - 2; k++)
    if (call->attr->i[WANTED] >> k & 1) total += piece(&q, call->in[1], k, call->in[k + 2], &ndim, shape);
  *out = (pni_spec){.dtype = call->in[1]->dtype, .ndim = 1, .shape = {total}};
  return PN_OK;
}

static pn_status eval_adjoint(C *c, const pni_call *call, T *out) {
  pni_sequence q = sequence_of(call->attr);
  T *in[PNI_SEQUENCE_ADJOINT], *g = pni_contiguous(c, call->in[0]), *packed = g ? pni_contiguous(c, call->in[1]) : NULL;
  memcpy(in, call->in, (size_t)call->nin * sizeof *in);
  in[0] = g;
  in[1] = packed;
  if (packed) pni_sequence_adjoint(c, &q, (int)call->attr->i[WANTED], call->nin, in, out);
  pn_tensor_unref(g);
  pn_tensor_unref(packed);
  return c->status;
}

static pn_status missing_gradient(C *c, const char *where) {
  return pni_fail(c, PN_MISSING, "%s: has no gradient: differentiate the filter on covariances", where);
}

/* Gradients of n operands; `wanted` and `out` begin with the first of them. */
static pn_status by_kernel(C *c, const pni_attr *attr, T *g, T *packed, int n, T *const *operand, const bool *wanted,
                           T **out) {
  T *in[PNI_SEQUENCE_ADJOINT] = {pn_contiguous(c, g), packed};
  pni_attr a = {.ni = ATTRS + 1}; /* a node's own holds no more numbers than it needs */
  pni_sequence q = sequence_of(attr);
  int64_t shape[PN_MAX_DIMS], at = 0;
  if (q.kind == PNI_SEQUENCE_ROOT) return missing_gradient(c, q.where);
  memcpy(a.i, attr->i, ATTRS * sizeof *a.i);
  for (int k = 0; k < n; k++) {
    in[k + 2] = operand[k];
    if (wanted[k]) a.i[WANTED] |= (int64_t)1 << k;
  }
  if (!a.i[WANTED]) return PN_OK;
  T *flat = pni_apply(c, &pni_gaussian_op_kalman_sequence_adjoint, n + 2, in, &a);
  for (int k = 0; flat && k < n; k++) {
    int ndim;
    if (!wanted[k]) continue;
    int64_t size = piece(&q, packed, k, operand[k], &ndim, shape);
    out[k] = pni_sum_to(c, pn_reshape(c, pn_slice(c, flat, 0, at, size, 1), ndim, shape), operand[k]);
    at += size;
  }
  return c->status;
}

static pn_status vjps_packed(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[PNI_SEQUENCE_INPUTS];
  for (int k = 0; k < y->nin; k++) in[k] = pni_in(y, k);
  return by_kernel(c, y->attr, g, y, y->nin, in, wanted, out);
}

/* ---- gradients with a graph: single steps ---- */

/* Elements from `start` of packed rows as [..., rows, cols], [..., cols] for rows = 0, [...] for cols = 0. */
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

/* Operand x at place t of the time axis, if it has one. */
static T *at_time(C *c, const pni_sequence *q, T *x, int k, int64_t t) {
  if (k <= COV || x->ndim - pni_sequence_rank(k) <= q->batch) return x;
  return pn_select(c, x, 0, x->shape[0] == 1 ? 0 : t);
}

/* The step of row s as a node of its own. */
static T *step_node(C *c, const pni_sequence *q, T *y, int64_t n, int64_t s) {
  T *in[PNI_SEQUENCE_INPUTS];
  int64_t t = q->reverse ? q->steps - 1 - s : s;
  for (int k = 0; k < y->nin; k++) in[k] = at_time(c, q, pni_in(y, k), k, t);
  if (s > 0) {
    T *before = pn_select(c, y, 0, q->reverse ? t + 1 : t - 1);
    in[MEAN] = part(c, before, 0, 0, n);
    in[COV] = part(c, before, n, n, n);
  }
  const pni_op *row =
      q->kind == PNI_SEQUENCE_PREDICT ? &pni_kalman_op_packed_kalman_predict : &pni_kalman_op_packed_kalman_step;
  return pni_apply(c, row, y->nin, in, NULL);
}

/* The gradient of the row before from those of its mean and cov. */
static T *carried(C *c, const T *y, T *mean, T *cov) {
  if (!mean || !cov) return NULL;
  int64_t shape[PN_MAX_DIMS];
  int lead = mean->ndim - 1;
  for (int i = 0; i < lead; i++) shape[i] = mean->shape[i];
  shape[lead] = mean->shape[lead] * mean->shape[lead];
  T *list[] = {mean, pn_reshape(c, cov, lead + 1, shape), NULL};
  shape[lead] = 1;
  bool density = y->shape[y->ndim - 1] > mean->shape[lead] * (1 + mean->shape[lead]);
  if (density) list[2] = pn_zeros(c, (pn_dtype)y->dtype, lead + 1, shape);
  return pn_concatenate(c, density ? 3 : 2, list, -1);
}

/* Backwards; `each` receives the gradients of operand k by place, if it has a time axis of its own. */
static T *walk_back(C *c, T *y, T *g, int k, T **each) {
  pni_sequence q = sequence_of(y->attr);
  int64_t n = pni_in(y, COV)->shape[pni_in(y, COV)->ndim - 1];
  T *carry = NULL, *sum = NULL;
  for (int64_t s = q.steps - 1; s >= 0; s--) {
    int64_t t = q.reverse ? q.steps - 1 - s : s;
    T *node = step_node(c, &q, y, n, s), *own = pn_select(c, g, 0, t), *total = carry ? pn_add(c, own, carry) : own;
    if (!node || !total) return NULL;
    if (k > COV || s == 0) {
      T *d = node->op->vjp(c, node, total, k);
      if (each) each[t] = d;
      sum = sum ? pn_add(c, sum, d) : d;
      if (!d || s == 0) return sum;
    }
    carry = carried(c, y, node->op->vjp(c, node, total, MEAN), node->op->vjp(c, node, total, COV));
    if (!carry) return NULL;
  }
  return sum;
}

static T *vjp_packed(C *c, T *y, T *g, int k) {
  pni_sequence q = sequence_of(y->attr);
  T *x = pni_in(y, k);
  if (q.kind == PNI_SEQUENCE_ROOT) return missing_gradient(c, q.where), NULL;
  if (y->numel == 0) return pni_sum_to(c, pni_like(c, x, 0), x);
  bool timed = k > COV && x->ndim - pni_sequence_rank(k) > q.batch;
  if (!timed) return walk_back(c, y, g, k, NULL);
  if (x->shape[0] == 1) return pn_unsqueeze(c, walk_back(c, y, g, k, NULL), 0);
  T **each = pni_alloc_array(c, q.steps, sizeof *each), *d = NULL;
  if (each && walk_back(c, y, g, k, each)) d = pn_stack(c, (int)q.steps, each, 0);
  pni_free(c, each);
  return d;
}

/* ---- densities alone: inputs packed rows, which carry no gradient, and operands ---- */

static pn_status infer_density(C *c, const pni_call *call, pni_spec *out) {
  if (pni_infer_as(c, call, &pni_gaussian_op_packed_kalman_sequence, call->nin - 1, call->in + 1, NULL, out) ||
      pni_require_like(c, call, 0, out))
    return c->status;
  out->ndim--;
  return PN_OK;
}

static pn_status eval_density(C *c, const pni_call *call, T *out) {
  const T *packed = call->in[0];
  size_t size = pni_itemsize(out);
  int64_t row = packed->shape[packed->ndim - 1];
  T *rows = pni_contiguous(c, packed);
  if (!rows) return c->status;
  const char *from = (const char *)pni_data(rows) + (size_t)(row - 1) * size;
  for (int64_t i = 0; i < out->numel; i++, from += (size_t)row * size)
    memcpy((char *)pni_data(out) + (size_t)i * size, from, size);
  pn_tensor_unref(rows);
  return PN_OK;
}

static pn_status vjps_density(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[PNI_SEQUENCE_INPUTS];
  if (wanted[0]) return PN_OK; /* there is none */
  for (int k = 1; k < y->nin; k++) in[k - 1] = pni_in(y, k);
  return by_kernel(c, y->attr, g, pni_in(y, 0), y->nin - 1, in, wanted + 1, out + 1);
}

/* By the packed rows with a graph. */
static T *vjp_density(C *c, T *y, T *g, int k) {
  T *in[PNI_SEQUENCE_INPUTS];
  for (int i = 1; i < y->nin; i++) in[i - 1] = pni_in(y, i);
  T *packed = pni_apply(c, &pni_gaussian_op_packed_kalman_sequence, y->nin - 1, in, y->attr);
  if (!packed || k == 0) return NULL;
  int64_t shape[PN_MAX_DIMS];
  memcpy(shape, packed->shape, sizeof shape);
  shape[packed->ndim - 1]--;
  T *list[] = {pn_zeros(c, (pn_dtype)y->dtype, packed->ndim, shape), pn_unsqueeze(c, g, -1)};
  T *rows = pn_concatenate(c, 2, list, -1);
  return rows ? vjp_packed(c, packed, rows, k - 1) : NULL;
}

/* ---- builders ---- */

static pn_status check_operands(C *c, const char *where, int n, T *const *in) {
  for (int k = 0; k < n; k++)
    if (!in[k]) return pni_fail(c, PN_STATE, "%s: %s must be a tensor, got NULL", where, names[k]);
  return c->status;
}

/* Operands in order, zeros for offsets that are not given; their number, 0 for a failure. */
static int filter_operands(C *c, const char *where, const pn_kalman_system *s, T *y, T *observed, T **in) {
  T *given[] = {s->mean, s->cov, s->a, s->b, s->q, y, s->c, s->d, s->r, observed};
  if (observed && observed->dtype != PN_BOOL)
    pni_fail(c, PN_DTYPE, "%s: observed must be bool, got %s", where, pn_dtype_name((pn_dtype)observed->dtype));
  memcpy(in, given, sizeof given);
  const T *cov = s->cov, *cm = s->c;
  if (!s->b && cov && cov->ndim) in[3] = pn_zeros(c, (pn_dtype)cov->dtype, 1, &cov->shape[cov->ndim - 1]);
  if (!s->d && cm && cm->ndim > 1) in[7] = pn_zeros(c, (pn_dtype)cm->dtype, 1, &cm->shape[cm->ndim - 2]);
  if (check_operands(c, where, 9, in)) return 0;
  if (y->ndim < 2) {
    pni_fail(c, PN_SHAPE, "%s: y must have at least 2 axes, [T, ..., p], got %d", where, y->ndim);
    return 0;
  }
  if (observed) in[9] = pn_cast(c, observed, (pn_dtype)cov->dtype);
  return pni_failed(c) ? 0 : observed ? 10 : 9;
}

static pni_attr filter_attr(int kind, const T *y) {
  return (pni_attr){.ni = ATTRS, .i = {kind, 0, y->shape[0], y->ndim - 2}};
}

static pn_status filter(C *c, int kind, const pn_kalman_system *s, T *y, T *observed, pn_kalman *out) {
  T *in[PNI_SEQUENCE_INPUTS];
  int nin = filter_operands(c, kind == PNI_SEQUENCE_ROOT ? "kalman_root_filter" : "kalman_filter", s, y, observed, in);
  if (!nin) return c->status;
  pni_attr attr = filter_attr(kind, y);
  T *packed = pni_apply(c, &pni_gaussian_op_packed_kalman_sequence, nin, in, &attr);
  int64_t n = s->cov->shape[s->cov->ndim - 1];
  pn_kalman x = {
      .mean = part(c, packed, 0, 0, n), .cov = part(c, packed, n, n, n), .log_prob = part(c, packed, n + n * n, 0, 0)};
  if (!pni_failed(c)) *out = x;
  return c->status;
}

pn_status pn_kalman_filter(C *c, const pn_kalman_system *s, T *y, T *observed, pn_kalman *out) {
  if (!PNI_GIVEN(c, "kalman_filter", s, out)) return c->status;
  return filter(c, PNI_SEQUENCE_FILTER, s, y, observed, out);
}

pn_status pn_kalman_root_filter(C *c, const pn_kalman_system *s, T *y, T *observed, pn_kalman *out) {
  if (!PNI_GIVEN(c, "kalman_root_filter", s, out)) return c->status;
  return filter(c, PNI_SEQUENCE_ROOT, s, y, observed, out);
}

T *pn_kalman_log_prob(C *c, const pn_kalman_system *s, T *y, T *observed) {
  if (!PNI_GIVEN(c, "kalman_log_prob", s)) return NULL;
  T *in[PNI_SEQUENCE_INPUTS + 1];
  int nin = filter_operands(c, "kalman_log_prob", s, y, observed, in + 1);
  if (!nin) return NULL;
  pni_attr attr = filter_attr(PNI_SEQUENCE_FILTER, y);
  int old = pn_set_no_grad(c, 1);
  in[0] = pni_apply(c, &pni_gaussian_op_packed_kalman_sequence, nin, in + 1, &attr);
  pn_set_no_grad(c, old);
  return in[0] ? pni_apply(c, &pni_gaussian_op_kalman_sequence_density, nin + 1, in, &attr) : NULL;
}

pn_status pn_kalman_propagate(C *c, int64_t steps, int reverse, T *mean, T *cov, T *a, T *b, T *q, T **mean_out,
                              T **cov_out) {
  if (!PNI_GIVEN(c, "kalman_propagate", mean_out, cov_out)) return c->status;
  T *in[] = {mean, cov, a, b, q};
  if (!b && cov && cov->ndim) in[3] = pn_zeros(c, (pn_dtype)cov->dtype, 1, &cov->shape[cov->ndim - 1]);
  if (check_operands(c, "kalman_propagate", 5, in)) return c->status;
  if (steps < 0) return pni_fail(c, PN_DOMAIN, "kalman_propagate: steps must be 0 or more, got %lld", (long long)steps);
  int batch = mean->ndim - 1 > cov->ndim - 2 ? mean->ndim - 1 : cov->ndim - 2;
  pni_attr attr = {.ni = ATTRS, .i = {PNI_SEQUENCE_PREDICT, reverse != 0, steps, batch < 0 ? 0 : batch}};
  T *packed = pni_apply(c, &pni_gaussian_op_packed_kalman_sequence, 5, in, &attr);
  int64_t n = cov->ndim ? cov->shape[cov->ndim - 1] : 0;
  T *first = part(c, packed, 0, 0, n), *second = part(c, packed, n, n, n);
  if (!first || !second) return c->status;
  *mean_out = first;
  *cov_out = second;
  return PN_OK;
}

/* ---- rows ---- */

const pni_op pni_gaussian_op_packed_kalman_sequence = {
    .name = "packed_kalman_sequence",
    .args = "list:T kind:i reverse:b steps:i batch:i",
    .doc = "mean [n], cov [n, n] and, of filters, log density [1] of each step in one row [T, batch..., row]",
    .flags = PNI_OP_HIDDEN,
    .infer = infer_packed,
    .eval = eval_packed,
    .vjp = vjp_packed,
    .vjps = vjps_packed};

const pni_op pni_gaussian_op_kalman_sequence_density = {
    .name = "kalman_sequence_density",
    .args = "list:T kind:i reverse:b steps:i batch:i",
    .doc = "log densities [T, batch...] of packed rows that were filtered without a graph, differentiable in what they "
           "were filtered from",
    .flags = PNI_OP_HIDDEN,
    .infer = infer_density,
    .eval = eval_density,
    .vjp = vjp_density,
    .vjps = vjps_density};

const pni_op pni_gaussian_op_kalman_sequence_adjoint = {
    .name = "kalman_sequence_adjoint",
    .args = "list:T kind:i reverse:b steps:i batch:i wanted:i",
    .doc = "gradients of the wanted operands of a sequence, beside each other",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_adjoint,
    .eval = eval_adjoint};
