/*
** op_resample.c: ancestors of all filters of a batch, each with random numbers of its own. Whether a filter is due is
** decided here, so that a captured step decides anew.
** attr: key, position, scheme, conditional; threshold.
*/
#include <stdatomic.h>
#include <string.h>
#include "../../autodiff/random_source.h"
#include "smc_op.h"

enum { KEY, POSITION, SCHEME, CONDITIONAL, INTS };

static bool alike(const pn_tensor *x, const pn_tensor *y) {
  return x->ndim == y->ndim && memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) == 0;
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0];
  int64_t n = pni_weighed_particles(x);
  bool fits = n > 0 && x->shape[0] == 2 * n + PNI_WEIGHED_ROWS && (call->nin < 2 || alike(x, call->in[1]));
  if (!fits || !pni_resampler_at((int)call->attr->i[SCHEME])) {
    char got[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_SHAPE, "resample: weights must be [2 N + %d, B...], got %s", PNI_WEIGHED_ROWS,
                    pni_shape_text(x->ndim, x->shape, got));
  }
  if (n >= INT32_MAX)
    return pni_fail(c, PN_LIMIT, "resample: at most %d particles are possible, got %lld", INT32_MAX - 1, (long long)n);
  *out = pni_spec_of(x);
  out->dtype = PN_INT64;
  out->shape[0] = n;
  return PN_OK;
}

typedef struct {
  pn_context *c; /* NULL: filters are shared out, blocks are not */
  const pni_resampler *scheme;
  pni_philox at;
  uint64_t each; /* positions of a filter */
  int64_t n, filters, room;
  const pn_tensor *weighed, *decider; /* contiguous */
  double threshold;
  bool conditional;
  double *w, *scratch; /* of each filter n and `room` numbers */
  int64_t *ancestor;   /* of each filter n */
  atomic_bool refused; /* weights of a filter are none */
} job;

static void widen(void *data, int64_t first, int64_t end) {
  const job *j = data;
  const float *x = (const float *)pni_data(j->weighed) + j->n;
  for (int64_t i = first; i < end; i++) j->w[i] = (double)x[i];
}

/* Weights of filter f, in float64, adjacent. */
static const double *weights(job *j, int64_t f) {
  const pn_tensor *t = j->weighed;
  if (t->dtype == PN_FLOAT64 && j->filters == 1) return (const double *)pni_data(t) + j->n;
  double *w = j->w + f * j->n;
  if (t->dtype == PN_FLOAT64) {
    const double *x = (const double *)pni_data(t) + j->n * j->filters + f;
    for (int64_t i = 0; i < j->n; i++) w[i] = x[i * j->filters];
  } else if (j->c) { /* of one filter */
    pni_parallel(j->c, j->n, 16384, widen, j);
  } else {
    const float *x = (const float *)pni_data(t) + j->n * j->filters + f;
    for (int64_t i = 0; i < j->n; i++) w[i] = (double)x[i * j->filters];
  }
  return w;
}

static double size_of(const job *j, int64_t f) {
  int64_t i = (2 * j->n + PNI_WEIGHED_SIZE) * j->filters + f;
  const void *data = pni_data(j->decider);
  return j->decider->dtype == PN_FLOAT64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void filters(void *data, int64_t first, int64_t end) {
  job *j = data;
  for (int64_t f = first; f < end; f++) {
    int64_t *out = j->ancestor + f * j->n;
    if (pni_is_due(size_of(j, f), j->threshold, j->n)) {
      pni_philox at = {j->at.key, j->at.position + (uint64_t)f * j->each};
      int64_t kept = j->conditional; /* the last particle keeps its place */
      pni_resampling r = {j->c, weights(j, f), j->n, j->n - kept, at, j->scratch + f * j->room, out};
      if (!pni_resampler_run(j->scheme, &r)) atomic_store(&j->refused, true);
      if (kept) out[j->n - 1] = j->n - 1;
    } else
      for (int64_t i = 0; i < j->n; i++) out[i] = i;
  }
}

static void turn(const job *j, int64_t *out) {
  for (int64_t i = 0; i < j->n; i++)
    for (int64_t f = 0; f < j->filters; f++) out[i * j->filters + f] = j->ancestor[f * j->n + i];
}

static pn_status run(pn_context *c, job *j, pn_tensor *out) {
  bool copied = j->weighed->dtype != PN_FLOAT64 || j->filters > 1, turned = j->filters > 1;
  int64_t all = out->numel, room = pni_times(j->room, j->filters);
  j->scratch = pni_alloc_array(c, room, sizeof *j->scratch);
  if (j->scratch && copied) j->w = pni_alloc_array(c, all, sizeof *j->w);
  if (!pni_failed(c)) j->ancestor = turned ? pni_alloc_array(c, all, sizeof *j->ancestor) : pni_data(out);
  if (!pni_failed(c) && !turned) {
    j->c = c;
    filters(j, 0, 1);
  } else if (!pni_failed(c) && pni_parallel(c, j->filters, 1 + 4096 / (j->n + 1), filters, j) == PN_OK)
    turn(j, pni_data(out));
  if (!pni_failed(c) && atomic_load(&j->refused))
    pni_fail(c, PN_DOMAIN, "resample: weights of each filter must be finite, not negative and not all 0");
  if (turned) pni_free(c, j->ancestor);
  pni_free(c, j->w);
  pni_free(c, j->scratch);
  return c->status;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  pn_tensor *decider = x && call->nin > 1 ? pni_contiguous(c, call->in[1]) : pn_tensor_ref(x);
  if (x && decider && out->numel) {
    const pni_resampler *scheme = pni_resampler_at((int)call->attr->i[SCHEME]);
    int64_t n = out->shape[0];
    job j = {.scheme = scheme,
             .at = {(uint64_t)call->attr->i[KEY], (uint64_t)call->attr->i[POSITION]},
             .each = scheme->positions(n),
             .n = n,
             .filters = out->numel / n,
             .room = scheme->scratch(n),
             .weighed = x,
             .decider = decider,
             .threshold = call->attr->r[0],
             .conditional = call->attr->i[CONDITIONAL] != 0};
    run(c, &j, out);
  }
  pn_tensor_unref(x);
  pn_tensor_unref(decider);
  return c->status;
}

static int64_t place_of(const pni_resampler *scheme) {
  int i = 0;
  while (pni_resampler_at(i) != scheme) i++;
  return i;
}

pn_tensor *pni_resample(pn_context *c, const pni_resampling_rule *rule, pn_rng *rng, pn_tensor *weighed,
                        pn_tensor *decider) {
  if (!weighed || pni_failed(c)) return NULL;
  int64_t n = pni_weighed_particles(weighed);
  if (n >= INT32_MAX) { /* the positions are counted before */
    pni_fail(c, PN_LIMIT, "resample: at most %d particles are possible, got %lld", INT32_MAX - 1, (long long)n);
    return NULL;
  }
  pni_attr a = {
      .ni = INTS, .i = {[SCHEME] = place_of(rule->scheme), [CONDITIONAL] = rule->conditional}, .r = {rule->threshold}};
  uint64_t positions = rule->scheme->positions(n) * (uint64_t)(weighed->numel / weighed->shape[0]);
  return pni_draw_apply(c, &pni_smc_op_resample, rng, positions, decider ? 2 : 1, (pn_tensor *[]){weighed, decider},
                        &a);
}

const pni_op pni_smc_op_resample = {.name = "resample",
                                    .args = "weighed:t decider:t",
                                    .doc = "ancestors by weights, 0-based: [2 N + 3, B...] -> [N, B...] int64",
                                    .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_DRAW,
                                    .infer = infer,
                                    .eval = eval};
