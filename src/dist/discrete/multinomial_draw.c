/*
** multinomial_draw.c: the draws as an operation. Count j of item i is Binomial(what is left, p_j / (p_j + ... + p_n)),
** from position i n + j; the sums of the tail are made from the end, so that small probabilities keep their digits.
** Inputs: totals, probabilities and tail sums of the last items of the result, repeated. attr: key, position, then
** the shape of the result.
*/
#include <string.h>
#include "multinomial_draw.h"
#include "../../autodiff/replay/source.h"
#include "../../base/rng.h"

enum { KEY, POSITION, SHAPE };

typedef struct {
  pni_philox at;
  const double *total, *p, *tail;
  int64_t n, period;
  pn_tensor *out;
} work;

static void one(const work *w, int64_t item) {
  int64_t row = item % w->period, n = w->n, first = item * n;
  double left = w->total[row];
  for (int64_t j = 0; j < n; j++) {
    double k = left, tail = w->tail[row * n + j], p = w->p[row * n + j];
    if (left > 0 && j < n - 1 && tail > p)
      k = pni_binomial_draw(w->at.key, w->at.position + (uint64_t)(first + j), left, p / tail);
    else if (tail == 0)
      k = 0;
    left -= k;
    if (w->out->dtype == PN_FLOAT64)
      ((double *)pni_data(w->out))[first + j] = k;
    else
      ((float *)pni_data(w->out))[first + j] = (float)k;
  }
}

static void shard(void *data, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) one(data, i);
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  (void)c;
  *out = (pni_spec){.dtype = (int)call->attr->r[0], .ndim = call->attr->ni - SHAPE};
  memcpy(out->shape, call->attr->i + SHAPE, (size_t)out->ndim * sizeof *out->shape);
  return PN_OK;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  const pn_tensor *p = call->in[1];
  work w = {.total = pni_data(call->in[0]), .p = pni_data(p), .tail = pni_data(call->in[2]), .out = out};
  w.at = (pni_philox){(uint64_t)call->attr->i[KEY], (uint64_t)call->attr->i[POSITION]};
  w.n = p->shape[p->ndim - 1];
  if (out->numel == 0) return PN_OK;
  w.period = p->numel / w.n;
  return pni_parallel(c, out->numel / w.n, 256, shard, &w);
}

static const pni_op draw_multinomial = {
    .name = "draw_multinomial", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_DRAW, .infer = infer, .eval = eval};

/* t as contiguous float64 of the last ndim axes of out (without the event's if it is a number per item) */
static pn_tensor *plain(pn_context *c, pn_tensor *t, int ndim, const int64_t *shape) {
  return pn_contiguous(c, pni_dist_expand_to(c, pn_cast(c, t, PN_FLOAT64), ndim, shape));
}

pn_tensor *pni_multinomial_draw(pn_context *c, const pn_dist *d, pn_tensor *total, pn_tensor *probs, pn_rng *rng,
                                const pni_spec *out) {
  if (!total || !probs) return NULL;
  int nb = pni_dist_base_ndim(d);
  if (total->ndim > nb || probs->ndim > nb + 1) nb = out->ndim - 1;
  const int64_t *shape = out->shape + (out->ndim - 1 - nb);
  pn_tensor *in[3] = {plain(c, total, nb, shape), plain(c, probs, nb + 1, shape), NULL};
  in[2] = pn_contiguous(c, pn_flip(c, pn_cumsum(c, pn_flip(c, in[1], -1), -1), -1));
  pni_attr a = {.ni = SHAPE + out->ndim, .r = {out->dtype}};
  memcpy(a.i + SHAPE, out->shape, (size_t)out->ndim * sizeof *out->shape);
  uint64_t n = (uint64_t)pni_count(out->ndim, out->shape);
  return in[0] && in[2] ? pni_draw_apply(c, &draw_multinomial, rng, pni_fill_positions(PNI_FILL_SCALAR, n), 3, in, &a)
                        : NULL;
}
