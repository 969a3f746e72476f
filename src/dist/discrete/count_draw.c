/*
** count_draw.c: fills by a scalar sampler, dealt to threads; an element depends on its position alone.
*/
#include "count_draw.h"
#include "../../base/rng.h"

typedef struct {
  pni_philox at;
  pni_count_sampler f;
  const double *a, *b;
  double *out;
} work;

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  for (int64_t i = begin; i < end; i++)
    w->out[i] = w->f(w->at.key, w->at.position + (uint64_t)i, w->a[i], w->b ? w->b[i] : 0);
}

/* t as contiguous float64 of the shape of out */
static pn_tensor *plain(pn_context *c, pn_tensor *t, const pni_spec *out) {
  return pn_contiguous(c, pni_dist_expand_to(c, pn_cast(c, t, PN_FLOAT64), out->ndim, out->shape));
}

pn_tensor *pni_count_draw(pn_context *c, pn_rng *rng, const pni_spec *out, pni_count_sampler f, pn_tensor *a,
                          pn_tensor *b) {
  pni_spec wide = *out;
  wide.dtype = PN_FLOAT64;
  pn_tensor *x = plain(c, a, out), *y = b ? plain(c, b, out) : NULL;
  if (!x || (b && !y)) return NULL;
  pn_tensor *t = pni_scoped(c, pni_tensor_new(c, &wide));
  if (!t) return NULL;
  work w = {.f = f, .a = pni_data(x), .b = y ? pni_data(y) : NULL, .out = pni_data(t)};
  w.at = pni_rng_reserve(c, rng, pni_fill_positions(PNI_FILL_SCALAR, (uint64_t)t->numel));
  if (pni_parallel(c, t->numel, 512, shard, &w)) return NULL;
  return pn_cast(c, t, (pn_dtype)out->dtype);
}
