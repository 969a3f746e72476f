/*
** op_others_log_mean.c: for each draw, the bound that the other draws alone give: what VIMCO compares with. One pass
** over a column, in float64; only a draw that holds more than half of the sum makes its remainder be summed anew, and
** a column has at most one.
** attr: i[0] the geometric mean of the others stands in for the draw.
*/
#include <math.h>
#include "../../math/vector/vector.h"
#include "infer_op.h"

/* Steps that one weight takes, about. */
enum { WEIGHT = 16 };

typedef struct {
  pn_context *c;
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

/* Columns are taken a block at a time, so that rows of a block are arrays for the vector functions. */
enum { BLOCK = 64 };
typedef struct {
  int64_t first, n;                            /* columns */
  double top[BLOCK], total[BLOCK], sum[BLOCK]; /* largest log-weight; sum e^(x - top); sum of the finite x */
  int64_t dead[BLOCK];                         /* how many are -inf */
  double own[BLOCK], rest[BLOCK], mean[BLOCK], scratch[BLOCK]; /* of a row */
} block;

/* own = e^(x - top) of row k. */
static void exponents(const job *j, block *s, int64_t k) {
  const int64_t at = k * j->x->shape[1] + s->first;
  for (int64_t i = 0; i < s->n; i++) s->scratch[i] = pni_weight(j->x, at + i) - s->top[i];
  pni_vector_f64(PNI_VECTOR_exp, s->scratch, 1, s->own, s->n);
}

static void prepare(const job *j, block *s, pni_watch *w) {
  const int64_t draws = j->x->shape[0], batch = j->x->shape[1];
  for (int64_t i = 0; i < s->n; i++) {
    s->top[i] = -INFINITY;
    s->total[i] = s->sum[i] = 0;
    s->dead[i] = 0;
  }
  for (int64_t k = 0; k < draws && !pni_watch_leaves(w, s->n); k++)
    for (int64_t i = 0; i < s->n; i++) {
      double v = pni_weight(j->x, k * batch + s->first + i);
      s->top[i] = v > s->top[i] ? v : s->top[i];
      s->dead[i] += v == -INFINITY;
      s->sum[i] += v == -INFINITY ? 0 : v;
    }
  for (int64_t i = 0; i < s->n; i++)
    if (s->top[i] == -INFINITY) s->top[i] = 0;
  for (int64_t k = 0; k < draws && !pni_watch_leaves(w, WEIGHT * s->n); k++) {
    exponents(j, s, k);
    for (int64_t i = 0; i < s->n; i++) s->total[i] += s->own[i];
  }
}

/* rest = log of the sum over the others, mean = their mean log-weight: -inf once one of them is. */
static void others(const job *j, block *s, int64_t k) {
  const int64_t draws = j->x->shape[0], at = k * j->x->shape[1] + s->first;
  exponents(j, s, k);
  for (int64_t i = 0; i < s->n; i++) s->scratch[i] = s->total[i] - s->own[i];
  pni_vector_f64(PNI_VECTOR_log, s->scratch, 1, s->rest, s->n);
  for (int64_t i = 0; i < s->n; i++) {
    double v = pni_weight(j->x, at + i);
    bool dead = v == -INFINITY;
    s->rest[i] = 2 * s->own[i] > s->total[i] ? log_sum_others(j, k, s->first + i) : s->top[i] + s->rest[i];
    s->mean[i] = s->dead[i] - dead > 0 ? -INFINITY : (s->sum[i] - (dead ? 0 : v)) / (double)(draws - 1);
  }
}

/* rest = log(e^rest + e^mean). */
static void add_mean(block *s) {
  for (int64_t i = 0; i < s->n; i++) {
    double high = fmax(s->rest[i], s->mean[i]), low = fmin(s->rest[i], s->mean[i]);
    s->scratch[i] = high == -INFINITY ? -INFINITY : low - high;
    s->rest[i] = high;
  }
  pni_vector_f64(PNI_VECTOR_exp, s->scratch, 1, s->own, s->n);
  pni_vector_f64(PNI_VECTOR_log1p, s->own, 1, s->scratch, s->n);
  for (int64_t i = 0; i < s->n; i++) s->rest[i] += s->scratch[i];
}

/* Blocks begin .. end - 1. */
static void blocks(void *data, int64_t first, int64_t end) {
  const job *j = data;
  const int64_t draws = j->x->shape[0], batch = j->x->shape[1];
  const double count = log((double)(j->geometric ? draws : draws - 1));
  for (int64_t b = first; b < end; b++) {
    pni_watch w = {.c = j->c};
    block s;
    s.first = b * BLOCK;
    s.n = batch - s.first < BLOCK ? batch - s.first : BLOCK;
    prepare(j, &s, &w);
    for (int64_t k = 0; k < draws && !pni_watch_leaves(&w, WEIGHT * s.n); k++) {
      others(j, &s, k);
      if (j->geometric) add_mean(&s);
      for (int64_t i = 0; i < s.n; i++) pni_set_weight(j->out, k * batch + s.first + i, s.rest[i] - count);
    }
  }
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  return pni_require_axes(c, call, "KB");
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  if (!x) return c->status;
  job j = {c, x, out, call->attr->i[0] != 0};
  pni_parallel(c, (x->shape[1] + BLOCK - 1) / BLOCK, 64 / (x->shape[0] + 1) + 1, blocks, &j);
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
                                             .infer = infer,
                                             .eval = eval};
