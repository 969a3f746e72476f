/*
** op_live_mean.c: the mean of log-weights. Weights of zero make it -inf, but no gradient flows to them: what they
** were computed from has none that is finite.
*/
#include <math.h>
#include "infer_op.h"

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  if (call->in[0]->numel == 0) return pni_fail(c, PN_SHAPE, "live_mean: tensor must not be empty");
  *out = (pni_spec){.dtype = call->in[0]->dtype};
  return PN_OK;
}

/* Sums by halves, so that errors grow with log n. */
#define SUM(N, suffix)                                                                                                 \
  static double sum_##suffix(const N *x, int64_t n) {                                                                  \
    double s[8] = {0};                                                                                                 \
    int64_t i = 0;                                                                                                     \
    if (n > 512) return sum_##suffix(x, n / 2) + sum_##suffix(x + n / 2, n - n / 2);                                   \
    for (; i + 8 <= n; i += 8)                                                                                         \
      for (int j = 0; j < 8; j++) s[j] += (double)x[i + j];                                                            \
    for (; i < n; i++) s[i & 7] += (double)x[i];                                                                       \
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));                                          \
  }
SUM(double, f64)
SUM(float, f32)

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  if (!x) return c->status;
  double n = (double)x->numel;
  if (x->dtype == PN_FLOAT64)
    *(double *)pni_data(out) = sum_f64(pni_data(x), x->numel) / n;
  else
    *(float *)pni_data(out) = (float)(sum_f32(pni_data(x), x->numel) / n);
  pn_tensor_unref(x);
  return PN_OK;
}

static pn_tensor *vjp(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *x = pni_in(y, 0), *zero = pni_like(c, x, 0);
  pn_tensor *share = pn_mul(c, g, pni_like(c, g, 1 / (double)x->numel));
  return (void)k, pn_where(c, pn_eq(c, x, pni_like(c, x, -INFINITY)), zero, share);
}

/* The same in one pass, without a graph: inputs x, g. */
static pn_status infer_slope(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  return pni_require_axes(c, call, "* 0");
}

#define SLOPE(N, suffix)                                                                                               \
  static void slope_##suffix(const N *restrict x, N g, int64_t n, N *restrict out) {                                   \
    for (int64_t i = 0; i < n; i++) out[i] = x[i] == -(N)INFINITY ? 0 : g;                                             \
  }
SLOPE(double, f64)
SLOPE(float, f32)

static pn_status eval_slope(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  if (!x) return c->status;
  double g = pni_weight(call->in[1], 0);
  if (x->dtype == PN_FLOAT64)
    slope_f64(pni_data(x), g * (1 / (double)x->numel), x->numel, pni_data(out));
  else
    slope_f32(pni_data(x), (float)g * (float)(1 / (double)x->numel), x->numel, pni_data(out));
  pn_tensor_unref(x);
  return PN_OK;
}

static const pni_op slope = {
    .name = "live_mean_slope", .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = infer_slope, .eval = eval_slope};

static pn_status vjps(pn_context *c, pn_tensor *y, pn_tensor *g, const bool *wanted, pn_tensor **out) {
  (void)wanted;
  pn_tensor *x = pni_in(y, 0);
  bool alive = !c->recorder && isfinite(pni_weight(y, 0)); /* then no element is -inf */
  if (alive)
    out[0] = pn_broadcast_to(c, pn_mul(c, g, pni_like(c, g, 1 / (double)x->numel)), x->ndim, x->shape);
  else
    out[0] = pni_apply2(c, &slope, x, g, NULL);
  return c->status;
}

pn_tensor *pni_live_mean(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_infer_op_live_mean, x, NULL); }

const pni_op pni_infer_op_live_mean = {.name = "live_mean",
                                       .args = "x:t",
                                       .doc = "mean of log-weights; one of -inf gets gradient 0",
                                       .flags = PNI_OP_HIDDEN,
                                       .infer = infer,
                                       .eval = eval,
                                       .vjp = vjp,
                                       .vjps = vjps};
