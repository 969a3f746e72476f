/*
** count_draw.c: draws of whole numbers as an operation on their parameters, so that a plan draws anew. Element i
** depends on the generator's key, position + i and its parameters alone.
*/
#include "count_draw.h"
#include "../../base/rng.h"

static double draw_poisson(uint64_t key, uint64_t position, double a, double b) {
  return (void)b, pni_poisson_draw(key, position, a);
}

const pni_count_sampler pni_count_poisson = {draw_poisson};
const pni_count_sampler pni_count_binomial = {pni_binomial_draw};

/* attr: key and position, then the sampler. */
enum { KEY, POSITION, SAMPLER, INTS };

typedef struct {
  pni_philox at;
  const pni_count_sampler *sampler;
  const pn_tensor *a, *b; /* contiguous; b NULL: none */
  pn_tensor *out;
} work;

static double element(const pn_tensor *t, int64_t i) {
  if (!t) return 0;
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  bool wide = w->out->dtype == PN_FLOAT64;
  void *out = pni_data(w->out);
  for (int64_t i = begin; i < end; i++) {
    double k = w->sampler->draw(w->at.key, w->at.position + (uint64_t)i, element(w->a, i), element(w->b, i));
    if (wide)
      ((double *)out)[i] = k;
    else
      ((float *)out)[i] = (float)k;
  }
}

static pn_status eval_draw(pn_context *c, const pni_call *call, pn_tensor *out) {
  const int64_t *i = call->attr->i;
  work w = {.sampler = (const pni_count_sampler *)(intptr_t)i[SAMPLER], .out = out};
  w.at = (pni_philox){(uint64_t)i[KEY], (uint64_t)i[POSITION]};
  w.a = pni_contiguous(c, call->in[0]);
  w.b = call->nin > 1 ? pni_contiguous(c, call->in[1]) : NULL;
  if (w.a && (w.b || call->nin == 1)) pni_parallel(c, out->numel, 512, shard, &w);
  pn_tensor_unref((pn_tensor *)(uintptr_t)w.a);
  pn_tensor_unref((pn_tensor *)(uintptr_t)w.b);
  return c->status;
}

static const pni_op draw_counts = {
    .name = "draw_counts", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_DRAW, .eval = eval_draw};

pn_tensor *pni_count_draw(pn_context *c, pn_rng *rng, const pni_spec *out, const pni_count_sampler *sampler,
                          pn_tensor *a, pn_tensor *b) {
  pn_tensor *in[2] = {pni_dist_expand_to(c, a, out->ndim, out->shape),
                      b ? pni_dist_expand_to(c, b, out->ndim, out->shape) : NULL};
  if (!in[0] || (b && !in[1])) return NULL;
  uint64_t n = (uint64_t)pni_count(out->ndim, out->shape);
  pni_philox at = pni_rng_reserve(c, rng, pni_fill_positions(PNI_FILL_SCALAR, n));
  pni_attr attr = {.ni = INTS, .i = {(int64_t)at.key, (int64_t)at.position, (int64_t)(intptr_t)sampler}};
  return pni_apply(c, &draw_counts, b ? 2 : 1, in, &attr);
}
