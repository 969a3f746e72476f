/*
** random.c: tensors of random numbers. A call reserves its positions of the generator first; element i
** then depends on key, position and i alone, so shards may run on any thread.
*/
#include "../base/span.h"
#include "tensor.h"

typedef struct {
  pni_philox at;
  void *out;
  int64_t low, high;
  pni_fill_kind kind;
} fill;

static void fill_shard(void *data, int64_t begin, int64_t end) {
  const fill *f = data;
  uint64_t b = (uint64_t)begin, e = (uint64_t)end, k = f->at.key, p = f->at.position;
  switch (f->kind) {
  case PNI_FILL_UNIFORM_F64: pni_fill_uniform_f64(k, p, b, e, (double *)f->out + begin); break;
  case PNI_FILL_UNIFORM_F32: pni_fill_uniform_f32(k, p, b, e, (float *)f->out + begin); break;
  case PNI_FILL_NORMAL_F64: pni_fill_normal_f64(k, p, b, e, (double *)f->out + begin); break;
  case PNI_FILL_NORMAL_F32: pni_fill_normal_f32(k, p, b, e, (float *)f->out + begin); break;
  default: pni_fill_int64(k, p, b, e, f->low, f->high, (int64_t *)f->out + begin);
  }
}

pn_status pni_draw_into(pn_context *c, pn_rng *rng, const pni_draw *d, pn_tensor *t) {
  fill f = {.kind = d->kind, .low = d->low, .high = d->high, .out = pni_data(t)};
  f.at = pni_rng_reserve(c, rng, pni_fill_positions(d->kind, (uint64_t)t->numel));
  if (!d->permutation) return pni_parallel(c, t->numel, 16384, fill_shard, &f);
  enum { PIECE = 1 << 15 }; /* of numbers that lie far apart */
  int64_t *out = pni_data(t), n = t->numel;
  for (pni_span s = {0}; pni_next_span(c, n, &s);)
    for (int64_t i = s.begin; i < s.end; i++) out[i] = i;
  for (int64_t end = n; end > 1 && !pni_check_cancel(c); end = end > PIECE ? end - PIECE : 1)
    pni_permute(f.at.key, f.at.position, end > PIECE ? end - PIECE : 1, end, out);
  return c->status;
}

static pn_tensor *filled(pn_context *c, pn_rng *rng, int dtype, int ndim, const int64_t *shape, pni_draw d) {
  if (!pni_shape_given(c, "tensor", ndim, shape)) return NULL;
  pni_spec s = {.dtype = dtype, .ndim = ndim};
  for (int i = 0; i < ndim; i++) s.shape[i] = shape[i];
  pn_tensor *t = pni_scoped(c, pni_tensor_new(c, &s));
  if (!t || pni_draw_into(c, rng, &d, t)) return NULL;
  if (c->recorder && c->recorder->drawn(c, t, pni_rng_or_default(c, rng), &d)) return NULL;
  return t;
}

static bool float_only(pn_context *c, const char *where, pn_dtype dtype) {
  if (dtype <= PN_FLOAT32) return true;
  pni_fail(c, PN_DTYPE, "%s: dtype must be float64 or float32, got %s", where, pn_dtype_name(dtype));
  return false;
}

pn_tensor *pn_rand(pn_context *c, pn_rng *rng, pn_dtype dtype, int ndim, const int64_t *shape) {
  if (!float_only(c, "rand", dtype)) return NULL;
  pni_draw d = {.kind = dtype == PN_FLOAT64 ? PNI_FILL_UNIFORM_F64 : PNI_FILL_UNIFORM_F32};
  return filled(c, rng, (int)dtype, ndim, shape, d);
}

pn_tensor *pn_randn(pn_context *c, pn_rng *rng, pn_dtype dtype, int ndim, const int64_t *shape) {
  if (!float_only(c, "randn", dtype)) return NULL;
  pni_draw d = {.kind = dtype == PN_FLOAT64 ? PNI_FILL_NORMAL_F64 : PNI_FILL_NORMAL_F32};
  return filled(c, rng, (int)dtype, ndim, shape, d);
}

pn_tensor *pn_randint(pn_context *c, pn_rng *rng, int64_t low, int64_t high, int ndim, const int64_t *shape) {
  if (high <= low) {
    pni_fail(c, PN_DOMAIN, "randint: high must be above low, got %lld and %lld", (long long)high, (long long)low);
    return NULL;
  }
  return filled(c, rng, PN_INT64, ndim, shape, (pni_draw){.kind = PNI_FILL_INT64, .low = low, .high = high});
}

pn_tensor *pn_randperm(pn_context *c, pn_rng *rng, int64_t n) {
  if (n < 0) {
    pni_fail(c, PN_DOMAIN, "randperm: n must not be negative, got %lld", (long long)n);
    return NULL;
  }
  return filled(c, rng, PN_INT64, 1, &n, (pni_draw){.kind = PNI_FILL_SCALAR, .permutation = true});
}
