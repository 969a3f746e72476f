/*
** random_source.c: random sources as operations. attr: key, position, address of the source, dtype and shape of the
** result. An input is kept as small as it is: it repeats after its own items where these are the last of the
** result's.
*/
#include <string.h>
#include "random_source.h"

enum { KEY, POSITION, SOURCE, DTYPE, SHAPE };
enum { GRAIN = 512 };

static const pni_random_source *source_of(const pni_call *call) {
  return (const pni_random_source *)(uintptr_t)call->attr->i[SOURCE];
}

static int64_t product(int n, const int64_t *size) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= size[i];
  return p;
}

typedef struct {
  const pni_random_source *s;
  pni_draws d;
  int dtype;
  void *out;
} work;

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  if (w->s->rows) {
    w->s->rows(&w->d, begin, end);
    return;
  }
  uint64_t step = (uint64_t)(w->s->positions ? w->s->positions : 1);
  for (int64_t i = begin; i < end; i++) {
    double x[PNI_SOURCE_INPUTS] = {0};
    for (int k = 0; k < w->s->nin; k++) x[k] = *pni_draws_row(&w->d, k, i);
    double v = w->s->scalar(w->d.at.key, w->d.at.position + (uint64_t)i * step, x);
    if (w->dtype == PN_FLOAT64)
      ((double *)w->out)[i] = v;
    else if (w->dtype == PN_FLOAT32)
      ((float *)w->out)[i] = (float)v;
    else
      ((int64_t *)w->out)[i] = (int64_t)v;
  }
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pni_random_source *s = source_of(call);
  char text[PNI_SHAPE_TEXT];
  *out = (pni_spec){.dtype = (int)call->attr->i[DTYPE], .ndim = call->attr->ni - SHAPE};
  memcpy(out->shape, call->attr->i + SHAPE, (size_t)out->ndim * sizeof *out->shape);
  for (int k = 0; k < s->nin; k++) {
    const pn_tensor *t = call->in[k];
    int lead = out->ndim - s->out_rank, n = t->ndim - s->rank[k];
    bool fits = t->dtype == PN_FLOAT64 && n >= 0 && n <= lead;
    bool one = fits && product(n, t->shape) == 1;
    fits = fits && (one || memcmp(t->shape, out->shape + lead - n, (size_t)n * sizeof *t->shape) == 0);
    if (!fits)
      return pni_fail(c, PN_SHAPE, "%s: input %d must be float64 and end as the result, got %s %s", s->name, k + 1,
                      pn_dtype_name((pn_dtype)t->dtype), pni_shape_text(t->ndim, t->shape, text));
  }
  return PN_OK;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  const pni_random_source *s = source_of(call);
  work w = {.s = s, .dtype = out->dtype, .out = pni_data(out)};
  w.d.at = (pni_philox){(uint64_t)call->attr->i[KEY], (uint64_t)call->attr->i[POSITION]};
  pn_tensor *in[PNI_SOURCE_INPUTS] = {NULL};
  int lead = out->ndim - s->out_rank, given = 0;
  while (given < s->nin && (in[given] = pni_contiguous(c, call->in[given]))) given++;
  for (int k = 0; k < given; k++) {
    const pn_tensor *t = in[k];
    int n = t->ndim - s->rank[k];
    w.d.in[k] = pni_data(t);
    w.d.period[k] = product(n, t->shape);
    w.d.width[k] = product(s->rank[k], t->shape + n);
  }
  w.d.out_width = product(s->out_rank, out->shape + lead);
  w.d.out = s->rows ? w.out : NULL;
  if (given == s->nin) pni_parallel(c, product(lead, out->shape), s->rows ? 64 : GRAIN, shard, &w);
  while (given-- > 0) pn_tensor_unref(in[given]);
  return c->status;
}

static const pni_op draw = {
    .name = "random_source", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_DRAW, .infer = infer, .eval = eval};

/* in[k] as contiguous float64 whose items are the last of the result's, or one. */
static pn_tensor *plain(pn_context *c, const pni_random_source *s, int k, pn_tensor *t, const pni_spec *out) {
  if (!t) return NULL;
  int lead = out->ndim - s->out_rank, n = t->ndim - s->rank[k];
  if (n < 0 || n > lead) {
    char got[PNI_SHAPE_TEXT];
    pni_fail(c, PN_SHAPE, "%s: input %d must have %d to %d axes, got shape %s", s->name, k + 1, s->rank[k],
             lead + s->rank[k], pni_shape_text(t->ndim, t->shape, got));
    return NULL;
  }
  t = pn_cast(c, t, PN_FLOAT64);
  if (!t || product(n, t->shape) == 1) return pn_contiguous(c, t);
  int64_t shape[PN_MAX_DIMS];
  for (int i = 0; i < t->ndim; i++) shape[i] = i < n ? out->shape[lead - n + i] : t->shape[i];
  return pn_contiguous(c, pn_broadcast_to(c, t, t->ndim, shape));
}

pn_tensor *pni_draw_apply(pn_context *c, const pni_op *op, pn_rng *rng, uint64_t positions, int nin,
                          pn_tensor *const *in, pni_attr *attr) {
  if (pni_failed(c)) return NULL;
  pni_philox at = pni_rng_reserve(c, rng, positions);
  attr->i[KEY] = (int64_t)at.key;
  attr->i[POSITION] = (int64_t)at.position;
  return pni_apply(c, op, nin, in, attr);
}

pn_tensor *pni_source_draw(pn_context *c, const pni_random_source *s, pn_rng *rng, const pni_spec *out,
                           pn_tensor *const *in) {
  if (pni_failed(c)) return NULL;
  int dtype = s->rows ? PN_FLOAT64 : out->dtype; /* rows are doubles first */
  pn_tensor *x[PNI_SOURCE_INPUTS];
  for (int k = 0; k < s->nin; k++)
    if (!(x[k] = plain(c, s, k, in[k], out))) return NULL;
  int64_t items = pni_count(out->ndim - s->out_rank, out->shape);
  uint64_t each = (uint64_t)(s->positions ? s->positions : 1);
  pni_attr a = {.ni = SHAPE + out->ndim, .i = {[SOURCE] = (int64_t)(uintptr_t)s, [DTYPE] = dtype}};
  memcpy(a.i + SHAPE, out->shape, (size_t)out->ndim * sizeof *out->shape);
  pn_tensor *t = pni_draw_apply(c, &draw, rng, each * (uint64_t)items, s->nin, x, &a);
  return t && dtype != out->dtype ? pn_cast(c, t, (pn_dtype)out->dtype) : t;
}
