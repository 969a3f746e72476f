/*
** op_running.c: recurrences along one axis that keep the shape, in one pass. attr: i[0] axis.
*/
#include <math.h>
#include "op.h"
#include "../../tensor/kernel/reduce.h"

static const pni_runner *runner(const pn_tensor *x) {
  static const pni_runner *const table[] = {&pni_runner_f64, &pni_runner_f32, &pni_runner_i64};
  return table[x->dtype];
}

/* ---- lines along the axis: x and the result contiguous, the factor of a recurrence with any strides ---- */

typedef struct {
  pn_context *c;
  const pn_tensor *x, *a, *out;
  int axis;
  int64_t a_stride[PN_MAX_DIMS];
  pni_run_line *line;
} job;

/* Where line i of `out` begins in a. */
static int64_t place_in_a(const job *j, int64_t i) {
  int64_t at = 0;
  for (int k = j->out->ndim - 1; k >= 0; k--) {
    if (k == j->axis) continue;
    at += i % j->out->shape[k] * j->a_stride[k];
    i /= j->out->shape[k];
  }
  return at;
}

static void run(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  const pn_tensor *out = j->out;
  int64_t n = out->shape[j->axis], inner = pni_count(out->ndim - j->axis - 1, out->shape + j->axis + 1);
  int64_t size = (int64_t)pni_itemsize(j->x), out_size = (int64_t)pni_itemsize(out);
  pni_watch w = {.c = j->c};
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i / inner * n * inner + i % inner;
    pni_run r = {.x = (const char *)pni_data(j->x) + at * size,
                 .y = (char *)pni_data(out) + at * out_size,
                 .n = n,
                 .step = inner};
    if (j->a) {
      r.a = (const char *)pni_data(j->a) + place_in_a(j, i) * size;
      r.a_step = j->a_stride[j->axis];
    }
    j->line(&w, &r);
  }
}

static pn_status along(pn_context *c, const pni_call *call, pn_tensor *out, pni_run_line *line) {
  if (out->numel == 0) return PN_OK;
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  if (!x) return c->status;
  job j = {
      .c = c, .x = x, .a = call->nin > 1 ? call->in[1] : NULL, .out = out, .axis = (int)call->attr->i[0], .line = line};
  if (j.a) pni_broadcast_strides(j.a, out->ndim, j.a_stride);
  int64_t n = out->shape[j.axis];
  pn_status s = pni_parallel(c, out->numel / n, 16384 / n + 1, run, &j);
  pn_tensor_unref(x);
  return s;
}

/* ---- parts of gradients ---- */

static int axis_of(const pn_tensor *y) { return (int)y->attr->i[0]; }
static int64_t length(const pn_tensor *y) { return y->shape[axis_of(y)]; }

/* t_(i-1), `first` at the beginning; t_(i+1), 0 at the end. */
static pn_tensor *before(pn_context *c, pn_tensor *t, int axis, int64_t n, double first) {
  return pn_pad(c, pn_slice(c, t, axis, 0, n - 1, 1), axis, 1, 0, first);
}
static pn_tensor *after(pn_context *c, pn_tensor *t, int axis, int64_t n) {
  return pn_pad(c, pn_slice(c, t, axis, 1, n - 1, 1), axis, 0, 1, 0);
}

/* l_i = g_i + w_i l_(i+1), from the end on. */
static pn_tensor *backwards(pn_context *c, pn_tensor *g, pn_tensor *w, int axis) {
  return pn_flip(c, pn_linear_recurrence(c, pn_flip(c, g, axis), pn_flip(c, w, axis), axis), axis);
}

/* ---- linear_recurrence ---- */

static pn_status infer_recurrence(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *a = call->in[1];
  *out = pni_spec_of(x);
  if (a->dtype != x->dtype)
    return pni_fail(c, PN_DTYPE, "linear_recurrence: x and a must have one dtype, got %s and %s (convert with :to)",
                    pn_dtype_name((pn_dtype)x->dtype), pn_dtype_name((pn_dtype)a->dtype));
  bool fits = a->ndim <= x->ndim;
  for (int k = 1; fits && k <= a->ndim; k++) {
    int64_t size = a->shape[a->ndim - k];
    fits = size == 1 || size == x->shape[x->ndim - k];
  }
  char want[PNI_SHAPE_TEXT], got[PNI_SHAPE_TEXT];
  if (!fits)
    return pni_fail(c, PN_SHAPE, "linear_recurrence: a must broadcast to the shape of x, %s, got %s",
                    pni_shape_text(x->ndim, x->shape, want), pni_shape_text(a->ndim, a->shape, got));
  return PN_OK;
}

static pn_status eval_recurrence(pn_context *c, const pni_call *call, pn_tensor *out) {
  return along(c, call, out, runner(out)->recurrence);
}

/* With l_i = g_i + a_(i+1) l_(i+1): dx = l, da_i = l_i y_(i-1). */
static pn_tensor *adjoint(pn_context *c, pn_tensor *y, pn_tensor *g) {
  pn_tensor *a = pn_broadcast_to(c, pni_in(y, 1), y->ndim, y->shape);
  return backwards(c, g, after(c, a, axis_of(y), length(y)), axis_of(y));
}
static pn_tensor *of_factor(pn_context *c, pn_tensor *y, pn_tensor *l) {
  return pni_sum_to(c, pn_mul(c, l, before(c, y, axis_of(y), length(y), 0)), pni_in(y, 1));
}

static pn_tensor *vjp_recurrence(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  if (length(y) == 0) return k == 0 ? g : pni_sum_to(c, g, pni_in(y, 1));
  pn_tensor *l = adjoint(c, y, g);
  return k == 0 ? l : of_factor(c, y, l);
}

static pn_status vjps_recurrence(pn_context *c, pn_tensor *y, pn_tensor *g, const bool *wanted, pn_tensor **out) {
  bool empty = length(y) == 0;
  pn_tensor *l = empty ? g : adjoint(c, y, g);
  out[0] = l;
  if (wanted[1]) out[1] = empty ? pni_sum_to(c, g, pni_in(y, 1)) : of_factor(c, y, l);
  return c->status;
}

pn_tensor *pn_linear_recurrence(pn_context *c, pn_tensor *x, pn_tensor *a, int axis) {
  if (!PNI_GIVEN(c, "linear_recurrence", x, a) || (axis = pni_axis(c, "linear_recurrence", axis, x->ndim)) < 0)
    return NULL;
  return pni_apply2(c, &pni_op_linear_recurrence, x, a, &(pni_attr){.ni = 1, .i = {axis}});
}

const pni_op pni_op_linear_recurrence = {
    .name = "linear_recurrence",
    .args = "x:t a:t axis:a=-1",
    .doc = "y_i = a_i y_(i-1) + x_i along axis, from y_1 = x_1; a broadcasts to x: exponential averages, discounted "
           "sums",
    .flags = PNI_OP_INTEGER | PNI_OP_AXIS,
    .infer = infer_recurrence,
    .eval = eval_recurrence,
    .vjp = vjp_recurrence,
    .vjps = vjps_recurrence};

/* ---- logcumsumexp ---- */

static pn_status infer_same(pn_context *c, const pni_call *call, pni_spec *out) {
  (void)c;
  *out = pni_spec_of(call->in[0]);
  return PN_OK;
}

static pn_status eval_logcumsumexp(pn_context *c, const pni_call *call, pn_tensor *out) {
  return along(c, call, out, runner(out)->logcumsumexp);
}

/* dy_i / dy_(i-1) = e^(y_(i-1) - y_i) and dy_i / dx_i = e^(x_i - y_i), 0 where y_i is -inf: neither is above 1. */
static pn_tensor *vjp_logcumsumexp(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  int axis = axis_of(y);
  int64_t n = length(y);
  if (n == 0) return g;
  pn_tensor *none = pn_eq(c, y, pni_like(c, y, -INFINITY)), *finite = pn_where(c, none, pni_like(c, y, 0), y);
  pn_tensor *share = pn_exp(c, pn_sub(c, before(c, y, axis, n, -INFINITY), finite));
  pn_tensor *l = backwards(c, g, after(c, share, axis, n), axis);
  return pn_mul(c, l, pn_exp(c, pn_sub(c, pni_in(y, 0), finite)));
}

pn_tensor *pn_logcumsumexp(pn_context *c, pn_tensor *x, int axis) {
  if (!PNI_GIVEN(c, "logcumsumexp", x) || (axis = pni_axis(c, "logcumsumexp", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_logcumsumexp, x, &(pni_attr){.ni = 1, .i = {axis}});
}

const pni_op pni_op_logcumsumexp = {.name = "logcumsumexp",
                                    .args = "x:t axis:a=-1",
                                    .doc = "log of the running sum of e^x along axis, without overflow",
                                    .flags = PNI_OP_AXIS,
                                    .infer = infer_same,
                                    .eval = eval_logcumsumexp,
                                    .vjp = vjp_logcumsumexp};

/* ---- where the largest and smallest so far stand ---- */

static pn_status infer_place(pn_context *c, const pni_call *call, pni_spec *out) {
  infer_same(c, call, out);
  out->dtype = PN_INT64;
  return PN_OK;
}

static pn_status eval_argcummax(pn_context *c, const pni_call *call, pn_tensor *out) {
  return along(c, call, out, runner(call->in[0])->argcummax);
}
static pn_status eval_argcummin(pn_context *c, const pni_call *call, pn_tensor *out) {
  return along(c, call, out, runner(call->in[0])->argcummin);
}

#define PLACE_ROW(id, text)                                                                                            \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x, int axis) {                                                          \
    if (!PNI_GIVEN(c, #id, x) || (axis = pni_axis(c, #id, axis, x->ndim)) < 0) return NULL;                            \
    return pni_apply1(c, &pni_op_##id, x, &(pni_attr){.ni = 1, .i = {axis}});                                          \
  }                                                                                                                    \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t axis:a=-1",                                                                 \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_INTEGER | PNI_OP_NODIFF | PNI_OP_AXIS,                                   \
                              .infer = infer_place,                                                                    \
                              .eval = eval_##id};

PLACE_ROW(argcummax, "0-based position of the largest element so far along axis, of equals the latest; int64")
PLACE_ROW(argcummin, "0-based position of the smallest element so far along axis, of equals the latest; int64")
#undef PLACE_ROW
