/*
** bernoulli_rows.c: log masses of rows of Bernoulli variables x under logits, summed in one pass that takes a logarithm
** for many factors 1 + e^-|logit| (math/vector); the gradient in the logits is one pass, too.
*/
#include "../formula.h"
#include "../kernel/density.h"
#include "../kernel/distribution_op.h"
#include "../../math/vector/vector.h"

enum { X, LOGITS, G };

/* The rows of x, logits and out; of a gradient also a factor g for each. */
typedef struct {
  const T *in[3];
  T *out;
  int64_t n, stride[2][PN_MAX_DIMS]; /* of a row; from row to row along the axes before the last */
} job;

static const char *row_of(const job *j, int which, int64_t row) {
  const T *t = j->in[which];
  int64_t at = 0;
  for (int a = t->ndim - 2; a >= 0; row /= t->shape[a], a--) at += row % t->shape[a] * j->stride[which][a];
  return (const char *)pni_data(t) + at * (int64_t)pni_itemsize(t);
}

#define EACH(name, T_, call)                                                                                           \
  static void name(void *data, int64_t begin, int64_t end) {                                                           \
    const job *j = data;                                                                                               \
    for (int64_t i = begin; i < end; i++) {                                                                            \
      const T_ *x = (const T_ *)(const void *)row_of(j, X, i), *l = (const T_ *)(const void *)row_of(j, LOGITS, i);    \
      T_ *out = pni_data(j->out);                                                                                      \
      call;                                                                                                            \
    }                                                                                                                  \
  }
EACH(sums_f64, double, out[i] = pni_log_masses_f64(x, l, j->n))
EACH(sums_f32, float, out[i] = (float)pni_log_masses_f32(x, l, j->n))
#define SLOPE(T_) ((const T_ *)pni_data(j->in[G]))[i]
EACH(slopes_f64, double, pni_mass_slopes_f64(x, l, SLOPE(double), out + i * j->n, j->n))
EACH(slopes_f32, float, pni_mass_slopes_f32(x, l, SLOPE(float), out + i * j->n, j->n))
#undef SLOPE
#undef EACH

static pn_status run(C *c, const pni_call *call, T *out, const pni_shard by_type[2]) {
  enum { GRAIN = 16384 };
  job j = {.out = out, .n = call->in[X]->shape[call->in[X]->ndim - 1]};
  T *held[3] = {NULL};
  int64_t rows = j.n ? call->in[X]->numel / j.n : out->numel;
  bool ready = true;
  for (int k = 0; k < call->nin && ready; k++) {
    T *t = call->in[k];
    bool place = k < G && t->ndim > 0 && t->stride[t->ndim - 1] == 1;
    held[k] = place ? pn_tensor_ref(t) : pni_contiguous(c, t);
    ready = held[k] != NULL;
    j.in[k] = held[k];
    if (ready && k < G) memcpy(j.stride[k], held[k]->stride, sizeof j.stride[k]);
  }
  if (ready) pni_parallel(c, rows, GRAIN / (j.n + 1) + 1, by_type[out->dtype], &j);
  for (int k = 0; k < call->nin; k++) pn_tensor_unref(held[k]);
  return c->status;
}

static pn_status eval_sums(C *c, const pni_call *call, T *out) {
  return run(c, call, out, (const pni_shard[]){sums_f64, sums_f32});
}
static pn_status eval_slopes(C *c, const pni_call *call, T *out) {
  return run(c, call, out, (const pni_shard[]){slopes_f64, slopes_f32});
}

static pn_status infer_sums(C *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[LOGITS]);
  out->ndim--;
  return pni_require_axes(c, call, "...n:f ...n:f");
}
static pn_status infer_slopes(C *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[LOGITS]);
  return pni_require_axes(c, call, "...n:f ...n:f ...:f");
}

static const pni_op bernoulli_row_slopes = {
    .name = "bernoulli_row_slopes", .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = infer_slopes, .eval = eval_slopes};

/* Without slope in x: between 0 and 1 there is no mass. */
static T *vjp_sums(C *c, T *y, T *g, int k) {
  if (k == X) return pni_like(c, g, 0);
  return pn_mul(c, pn_unsqueeze(c, g, -1),
                pni_apply2(c, &pni_distribution_op_bernoulli_score, pni_in(y, X), pni_in(y, LOGITS), NULL));
}

static pn_status vjps_sums(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[] = {pni_in(y, X), pni_in(y, LOGITS), g};
  if (wanted[X]) out[X] = vjp_sums(c, y, g, X);
  if (wanted[LOGITS]) out[LOGITS] = pni_apply(c, &bernoulli_row_slopes, 3, in, NULL);
  return c->status;
}

static const pni_op bernoulli_row_masses = {.name = "bernoulli_row_masses",
                                            .advice = PNI_BERNOULLI_ADVICE,
                                            .flags = PNI_OP_HIDDEN,
                                            .infer = infer_sums,
                                            .eval = eval_sums,
                                            .vjp = vjp_sums,
                                            .vjps = vjps_sums};

T *pni_bernoulli_row_masses(C *c, T *x, T *logits) {
  pni_spec s;
  if (!x || !logits || pni_broadcast(c, "bernoulli", x, logits, &s)) return NULL;
  return pni_apply2(c, &bernoulli_row_masses, pni_dist_expand_to(c, x, s.ndim, s.shape),
                    pni_dist_expand_to(c, logits, s.ndim, s.shape), NULL);
}
