/*
** op_scan.c: operations along one axis that keep the shape. attr: i[0] axis.
*/
#include "op.h"
#include "../../tensor/kernel/reduce.h"
#include "../../tensor/lane/short_rows.h"

typedef void (*scan)(pni_watch *, const void *, void *, int64_t, int64_t);

typedef struct {
  pn_context *c;
  scan f;
  const char *x;
  char *y;
  int64_t n, inner, size;
} job;

static void run(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  pni_watch w = {.c = j->c};
  for (int64_t i = begin; i < end; i++) {
    int64_t at = (i / j->inner * j->n * j->inner + i % j->inner) * j->size;
    j->f(&w, j->x + at, j->y + at, j->n, j->inner);
  }
}

static const pni_scanner *scanner(const pn_tensor *x) {
  static const pni_scanner *const table[] = {&pni_scanner_f64, &pni_scanner_f32, &pni_scanner_i64};
  return table[x->dtype];
}

static pn_status along(pn_context *c, const pni_call *call, pn_tensor *out, scan f) {
  if (out->numel == 0) return PN_OK;
  int axis = (int)call->attr->i[0];
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  if (!x) return c->status;
  int64_t n = x->shape[axis], inner = pni_count(x->ndim - axis - 1, x->shape + axis + 1);
  job j = {c, f, pni_data(x), pni_data(out), n, inner, (int64_t)pni_itemsize(x)};
  pn_status s = pni_parallel(c, x->numel / n, 32768 / n + 1, run, &j);
  pn_tensor_unref(x);
  return s;
}

static pn_status infer_axis(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  (void)c;
  return PN_OK;
}

static pn_status eval_cumsum(pn_context *c, const pni_call *call, pn_tensor *out) {
  return along(c, call, out, scanner(out)->cumsum);
}

/* Elements from one row of the last axis to the next where all rows lie evenly, else 0. */
static int64_t even_rows(const pn_tensor *x) {
  int last = x->ndim - 1;
  int64_t step = last > 0 && x->stride[last] == 1 ? x->stride[last - 1] : 0;
  for (int k = last - 2; k >= 0 && step; k--)
    if (x->stride[k] != x->stride[k + 1] * x->shape[k + 1]) step = 0;
  return step;
}

/* Short rows along the axis of the node or call, many at a time; y may be NULL. */
static pn_status short_rows(pn_context *c, pni_short_rows_problem kind, int axis, pn_tensor *x_, pn_tensor *y_,
                            pn_tensor *out) {
  int64_t step = axis == x_->ndim - 1 ? even_rows(x_) : 0;
  pn_tensor *x = step ? pn_tensor_ref(x_) : pni_contiguous(c, x_), *y = x && y_ ? pni_contiguous(c, y_) : NULL;
  int64_t n = out->shape[axis], inner = pni_count(out->ndim - axis - 1, out->shape + axis + 1);
  if (x && (y || !y_) && out->numel) {
    pni_short_rows r = {
        .kind = kind, .n = (int)n, .inner = inner, .x_row = step, .x = pni_data(x), .out = pni_data(out)};
    if (y) r.y = pni_data(y);
    pni_short_rows_run(c, out->dtype, &r, out->numel / n);
  }
  pn_tensor_unref(x);
  pn_tensor_unref(y);
  return c->status;
}

static pn_status eval_softmax(pn_context *c, const pni_call *call, pn_tensor *out) {
  int axis = (int)call->attr->i[0];
  if (out->shape[axis] > PNI_SHORT_ROWS_LONGEST) return along(c, call, out, scanner(out)->softmax);
  return short_rows(c, PNI_SHORT_ROWS_SOFTMAX, axis, call->in[0], NULL, out);
}
static pn_status eval_log_softmax(pn_context *c, const pni_call *call, pn_tensor *out) {
  int axis = (int)call->attr->i[0];
  if (out->shape[axis] > PNI_SHORT_ROWS_LONGEST) return along(c, call, out, scanner(out)->log_softmax);
  return short_rows(c, PNI_SHORT_ROWS_LOG_SOFTMAX, axis, call->in[0], NULL, out);
}

static pn_axes axis_of(const pn_tensor *y) { return (pn_axes){1, {(int)y->attr->i[0]}}; }

/* The adjoint of a running sum is the running sum from the other end. */
static pn_tensor *vjp_cumsum(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  int axis = (int)y->attr->i[0];
  return pn_flip(c, pn_cumsum(c, pn_flip(c, g, axis), axis), axis);
}
static pn_tensor *vjp_softmax(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_mul(c, y, pn_sub(c, g, pn_sum(c, pn_mul(c, g, y), axis_of(y), 1)));
}
static pn_tensor *vjp_log_softmax(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_sub(c, g, pn_mul(c, pn_exp(c, y), pn_sum(c, g, axis_of(y), 1)));
}

/* ---- gradients without a graph: one pass over y and g ---- */

static pn_status infer_slope(pn_context *c, const pni_call *call, pni_spec *out) {
  int64_t n = call->in[0]->shape[call->attr->i[0]];
  *out = pni_spec_of(call->in[0]);
  if (n > PNI_SHORT_ROWS_LONGEST)
    return pni_fail(c, PN_SHAPE, "%s: rows must be of at most %d numbers, got %lld", call->op->name,
                    PNI_SHORT_ROWS_LONGEST, (long long)n);
  return pni_require_like(c, call, 1, out);
}

static pn_status eval_softmax_slope(pn_context *c, const pni_call *call, pn_tensor *out) {
  return short_rows(c, PNI_SHORT_ROWS_SOFTMAX_SLOPE, (int)call->attr->i[0], call->in[0], call->in[1], out);
}
static pn_status eval_log_softmax_slope(pn_context *c, const pni_call *call, pn_tensor *out) {
  return short_rows(c, PNI_SHORT_ROWS_LOG_SOFTMAX_SLOPE, (int)call->attr->i[0], call->in[0], call->in[1], out);
}

#define SLOPE(id, eval_fn)                                                                                             \
  static const pni_op id = {                                                                                           \
      .name = #id, .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF | PNI_OP_AXIS, .infer = infer_slope, .eval = eval_fn};
SLOPE(softmax_slope, eval_softmax_slope)
SLOPE(log_softmax_slope, eval_log_softmax_slope)

/* Gradients of long rows are made of builders. */
static bool is_short(const pn_tensor *y) { return y->shape[y->attr->i[0]] <= PNI_SHORT_ROWS_LONGEST; }
static pn_status vjps_softmax(pn_context *c, pn_tensor *y, pn_tensor *g, const bool *wanted, pn_tensor **out) {
  (void)wanted;
  out[0] = is_short(y) ? pni_apply2(c, &softmax_slope, y, g, y->attr) : vjp_softmax(c, y, g, 0);
  return c->status;
}
static pn_status vjps_log_softmax(pn_context *c, pn_tensor *y, pn_tensor *g, const bool *wanted, pn_tensor **out) {
  (void)wanted;
  out[0] = is_short(y) ? pni_apply2(c, &log_softmax_slope, y, g, y->attr) : vjp_log_softmax(c, y, g, 0);
  return c->status;
}
#define vjps_cumsum NULL

#define ROW(id, default_axis, extra, text)                                                                             \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x, int axis) {                                                          \
    if (!PNI_GIVEN(c, #id, x) || (axis = pni_axis(c, #id, axis, x->ndim)) < 0) return NULL;                            \
    return pni_apply1(c, &pni_op_##id, x, &(pni_attr){.ni = 1, .i = {axis}});                                          \
  }                                                                                                                    \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t axis:a=" default_axis,                                                      \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_AXIS | (extra),                                                          \
                              .infer = infer_axis,                                                                     \
                              .eval = eval_##id,                                                                       \
                              .vjp = vjp_##id,                                                                         \
                              .vjps = vjps_##id};

ROW(cumsum, "-1", PNI_OP_INTEGER, "running sum along axis")
ROW(softmax, "-1", 0, "e^x / sum e^x along axis")
ROW(log_softmax, "-1", 0, "x - logsumexp(x) along axis")
