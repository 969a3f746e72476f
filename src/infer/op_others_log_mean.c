/*
** op_others_log_mean.c: for each draw, the bound that the other draws alone give: what VIMCO compares with. One pass
** over a column, in float64; only a draw that holds more than half of the sum makes its remainder be summed anew, and
** a column has at most one.
** attr: i[0] the geometric mean of the others stands in for the draw.
*/
#include <math.h>
#include "operation.h"

typedef struct {
  const pn_tensor *x; /* contiguous [K, B] */
  pn_tensor *out;
  bool geometric;
} job;

/* log of the sum of e^x over the draws but k of column b. */
static double log_sum_others(const job *j, int64_t k, int64_t b) {
  int64_t draws = j->x->shape[0], batch = j->x->shape[1];
  double top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < draws; i++)
    if (i != k) top = fmax(top, pni_weight(j->x, i * batch + b));
  if (!isfinite(top)) return top;
  for (int64_t i = 0; i < draws; i++)
    if (i != k) sum += exp(pni_weight(j->x, i * batch + b) - top);
  return top + log(sum);
}

/* Sum of the others' logarithms; -inf ones are counted apart, so that their own absence shows. */
static double mean_others(double sum, int64_t dead, double own, int64_t draws) {
  if (dead - (own == -INFINITY) > 0) return -INFINITY;
  return (isfinite(own) ? sum - own : sum) / (double)(draws - 1);
}

static void column(const job *j, int64_t b) {
  int64_t draws = j->x->shape[0], batch = j->x->shape[1], dead = 0;
  double top = -INFINITY, sum = 0, total = 0;
  for (int64_t k = 0; k < draws; k++) {
    double v = pni_weight(j->x, k * batch + b);
    top = fmax(top, v);
    dead += v == -INFINITY;
    if (isfinite(v)) sum += v;
  }
  for (int64_t k = 0; k < draws && isfinite(top); k++) total += exp(pni_weight(j->x, k * batch + b) - top);
  for (int64_t k = 0; k < draws; k++) {
    double v = pni_weight(j->x, k * batch + b), own = isfinite(top) ? exp(v - top) : 0, rest;
    rest = 2 * own > total || !isfinite(top) ? log_sum_others(j, k, b) : top + log(total - own);
    double other = mean_others(sum, dead, v, draws), high = fmax(rest, other);
    if (j->geometric && isfinite(high)) rest = high + log1p(exp(fmin(rest, other) - high));
    pni_set_weight(j->out, k * batch + b, rest - log((double)(j->geometric ? draws : draws - 1)));
  }
}

static void columns(void *data, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; b++) column(data, b);
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  if (!x) return c->status;
  job j = {x, out, call->attr->i[0] != 0};
  pni_parallel(c, x->shape[1], 4096 / (x->shape[0] + 1) + 1, columns, &j);
  pn_tensor_unref(x);
  return c->status;
}

pn_tensor *pni_others_log_mean(pn_context *c, pn_tensor *x, bool geometric) {
  return pni_apply1(c, &pni_infer_op_others_log_mean, x, &(pni_attr){.ni = 1, .i = {geometric}});
}

const pni_op pni_infer_op_others_log_mean = {.name = "others_log_mean",
                                             .args = "x:t geometric:b",
                                             .doc = "log of the mean weight with each draw replaced by the others",
                                             .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
                                             .eval = eval};
