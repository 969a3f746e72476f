/*
** multinomial_draw.c: the draws as an operation. Count j of item i is Binomial(what is left, p_j / (p_j + ... + p_n)),
** from position i n + j; the sums of the tail are made from the end, so that small probabilities keep their digits.
** Inputs: totals, probabilities and tail sums of the last items of the result, repeated. attr: key, position, then
** the shape of the result.
*/
#include <math.h>
#include <string.h>
#include "multinomial_draw.h"
#include "count_kernel.h"
#include "../../autodiff/random_source.h"
#include "../../math/random/rng.h"

enum { KEY, POSITION, SHAPE };

typedef struct {
  pn_context *c;
  pni_philox at;
  const double *total, *p, *tail;
  int64_t n, period;
  pn_tensor *out;
} work;

/* Items go in blocks, class by class, so that the binomials of a class are searched side by side; first trials come
 * from a fill. */
enum { BLOCK = 128, CELLS = 1024 };

typedef struct {
  int64_t n, item[BLOCK];
  double start[BLOCK], slope[BLOCK], drop[BLOCK], u[BLOCK];
  bool mirrored[BLOCK];
} searches;

typedef struct {
  const work *w;
  int64_t first, items;
  double left[BLOCK], k[BLOCK];
  const double *u; /* [items, n, 2] */
} state;

static double prob_of(const state *b, int64_t i, int64_t j) {
  int64_t at = (b->first + i) % b->w->period * b->w->n + j;
  double tail = b->w->tail[at];
  return tail > 0 ? fmin(b->w->p[at] / tail, 1) : 0;
}

static double from_law(const state *b, const pni_count_law *law, int64_t i, int64_t j) {
  int64_t cell = i * b->w->n + j;
  uint64_t position = b->w->at.position + (uint64_t)(b->first * b->w->n + cell);
  return pni_count_from(law, b->w->at.key, position, b->u[2 * cell], b->u[2 * cell + 1]);
}

/* k[i], the count of class j, of the items that have trials left */
static void draw_class(state *b, int64_t j) {
  searches s;
  double k[BLOCK];
  pni_count_law law;
  s.n = 0;
  for (int64_t i = 0; i < b->items; i++) {
    pni_binomial_law(&law, b->left[i], prob_of(b, i, j));
    if (law.kind != PNI_COUNT_SEARCH) {
      b->k[i] = from_law(b, &law, i, j);
      continue;
    }
    int64_t at = s.n++;
    s.item[at] = i, s.u[at] = b->u[2 * (i * b->w->n + j)], s.mirrored[at] = law.mirrored;
    s.start[at] = law.start, s.slope[at] = law.slope, s.drop[at] = law.drop;
  }
  pni_count_search(s.n, s.start, s.slope, s.drop, s.u, k);
  for (int64_t at = 0; at < s.n; at++) {
    int64_t i = s.item[at];
    b->k[i] = s.mirrored[at] ? b->left[i] - k[at] : k[at];
    if (k[at] >= 0) continue;
    pni_binomial_law(&law, b->left[i], prob_of(b, i, j));
    b->k[i] = from_law(b, &law, i, j);
  }
}

static void block(const work *w, int64_t first, int64_t items) {
  double u[2 * CELLS];
  int64_t n = w->n;
  state b = {.w = w, .first = first, .items = items, .u = u};
  pni_fill_uniform_f64(w->at.key, w->at.position, 2 * (uint64_t)(first * n), 2 * (uint64_t)((first + items) * n), u);
  for (int64_t i = 0; i < items; i++) b.left[i] = w->total[(first + i) % w->period];
  for (int64_t j = 0; j < n; j++) {
    draw_class(&b, j);
    for (int64_t i = 0; i < items; i++) {
      int64_t at = (first + i) * n + j;
      b.left[i] -= b.k[i];
      if (w->out->dtype == PN_FLOAT64)
        ((double *)pni_data(w->out))[at] = b.k[i];
      else
        ((float *)pni_data(w->out))[at] = (float)b.k[i];
    }
  }
}

/* An item with more classes than a block has room for, count by count. */
static void one_item(const work *w, int64_t item) {
  int64_t n = w->n, first = item * n;
  state b = {.w = w, .first = item, .items = 1};
  double left = w->total[item % w->period];
  pni_watch watch = {.c = w->c};
  for (int64_t j = 0; j < n && !pni_watch_leaves(&watch, 64); j++) {
    double k = pni_binomial_draw(w->at.key, w->at.position + (uint64_t)(first + j), left, prob_of(&b, 0, j));
    left -= k;
    if (w->out->dtype == PN_FLOAT64)
      ((double *)pni_data(w->out))[first + j] = k;
    else
      ((float *)pni_data(w->out))[first + j] = (float)k;
  }
}

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  int64_t step = w->n > CELLS ? 1 : CELLS / w->n;
  if (step > BLOCK) step = BLOCK;
  for (int64_t i = begin; i < end && !pni_leaves(w->c); i += step) {
    if (w->n > CELLS)
      one_item(w, i);
    else
      block(w, i, end - i < step ? end - i : step);
  }
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = (pni_spec){.dtype = (int)call->attr->r[0], .ndim = call->attr->ni - SHAPE};
  memcpy(out->shape, call->attr->i + SHAPE, (size_t)out->ndim * sizeof *out->shape);
  if (pni_require_axes(c, call, "... ...n ...n")) return c->status;
  const pn_tensor *p = call->in[1];
  bool fits = p->dtype == PN_FLOAT64 && out->ndim >= p->ndim &&
              memcmp(p->shape, out->shape + out->ndim - p->ndim, (size_t)p->ndim * sizeof *p->shape) == 0;
  char s[PNI_SHAPE_TEXT];
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "draw_multinomial: probabilities must be float64 and end as the counts, got %s %s",
                  pn_dtype_name((pn_dtype)p->dtype), pni_shape_text(p->ndim, p->shape, s));
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *in[3] = {NULL};
  int k = 0;
  if (out->numel == 0) return PN_OK;
  while (k < 3 && (in[k] = pni_contiguous(c, call->in[k]))) k++;
  if (k == 3) {
    work w = {.c = c, .total = pni_data(in[0]), .p = pni_data(in[1]), .tail = pni_data(in[2]), .out = out};
    w.at = (pni_philox){(uint64_t)call->attr->i[KEY], (uint64_t)call->attr->i[POSITION]};
    w.n = in[1]->shape[in[1]->ndim - 1];
    w.period = in[1]->numel / w.n;
    pni_parallel(c, out->numel / w.n, 256, shard, &w);
  }
  while (k-- > 0) pn_tensor_unref(in[k]);
  return c->status;
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
  return in[0] && in[2]
             ? pni_draw_apply(c, &draw_multinomial, rng, pni_fill_positions(PNI_FILL_UNIFORM_F64, 2 * n), 3, in, &a)
             : NULL;
}
