/*
** count_draw.c: draws of whole numbers as an operation on their parameters, so that a plan draws anew. Element i
** depends on the generator's key, position + i and its parameters alone. First trials come from a fill of uniform
** numbers, two an element, which is one position.
*/
#include <math.h>
#include <string.h>
#include "count_draw.h"
#include "count_kernel.h"
#include "../label/guide_table.h"
#include "../../autodiff/random_source.h"

static void poisson(pni_count_law *l, double a, double b) {
  (void)b;
  pni_poisson_law(l, a);
}

const pni_count_kind pni_count_poisson = {poisson};
const pni_count_kind pni_count_binomial = {pni_binomial_law};

/* attr: key and position, then the kind. */
enum { KEY, POSITION, KIND, INTS };
enum { BLOCK = 128 };

/* Masses up to each number, of a law that is searched. */
enum { SUMS = 200, GUIDE = 256 };
typedef struct {
  int64_t n; /* 0: none */
  double sum[SUMS];
  int32_t guide[GUIDE];
} table;

/* The same sums as the search of rng_sample.c makes. */
static void tabulate(const pni_count_law *l, table *t) {
  double weight = l->start, sum = weight;
  for (int k = 0; k < SUMS && weight > 0; k++) {
    t->sum[t->n++] = sum;
    weight *= l->slope / (k + 1) - l->drop;
    sum += weight;
  }
  pni_guide(t->sum, t->n, 1, t->guide, GUIDE);
}

typedef struct {
  pni_philox at;
  const pni_count_kind *kind;
  const pn_tensor *a, *b; /* contiguous, or one element for all; b NULL: none */
  bool one;               /* the parameters of all elements are equal: so is the law */
  pni_count_law law;
  table table;
  pn_tensor *out;
} work;

static double element(const pn_tensor *t, int64_t i) {
  if (!t) return 0;
  if (t->numel == 1) i = 0;
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

static void store(const work *w, int64_t i, double k) {
  if (w->out->dtype == PN_FLOAT64)
    ((double *)pni_data(w->out))[i] = k;
  else
    ((float *)pni_data(w->out))[i] = (float)k;
}

static double draw(const work *w, const pni_count_law *law, int64_t i, const double *u) {
  if (w->table.n) {
    int64_t k = pni_lookup_guided(w->table.sum, w->table.n, 1, w->table.guide, GUIDE, u[0]);
    if (w->table.sum[k] >= u[0]) return law->mirrored ? law->n - (double)k : (double)k;
  }
  return pni_count_from(law, w->at.key, w->at.position + (uint64_t)i, u[0], u[1]);
}

/* Laws that are searched, side by side. */
typedef struct {
  int64_t n, item[BLOCK];
  double start[BLOCK], slope[BLOCK], drop[BLOCK], u[BLOCK], mirror[BLOCK]; /* mirror: n of mirrored ones, else -1 */
} searches;

static void search_all(const work *w, const searches *s, int64_t begin, const double *u) {
  double k[BLOCK];
  pni_count_search(s->n, s->start, s->slope, s->drop, s->u, k);
  for (int64_t j = 0; j < s->n; j++) {
    int64_t i = s->item[j];
    double value = s->mirror[j] >= 0 ? s->mirror[j] - k[j] : k[j];
    if (k[j] < 0) {
      pni_count_law law;
      w->kind->law(&law, element(w->a, i), element(w->b, i));
      value = draw(w, &law, i, u + 2 * (i - begin));
    }
    store(w, i, value);
  }
}

/* The law of a run of elements with equal parameters is made once. */
typedef struct {
  double a, b;
  pni_count_law law;
} current;

static void block(const work *w, current *now, int64_t begin, int64_t end) {
  double u[2 * BLOCK];
  searches s;
  s.n = 0;
  pni_fill_uniform_f64(w->at.key, w->at.position, 2 * (uint64_t)begin, 2 * (uint64_t)end, u);
  for (int64_t i = begin; i < end; i++) {
    double a = w->one ? 0 : element(w->a, i), b = w->one ? 0 : element(w->b, i);
    const pni_count_law *law = &now->law;
    if (a != now->a || b != now->b) w->kind->law(&now->law, now->a = a, now->b = b);
    if (law->kind == PNI_COUNT_SEARCH && !w->table.n) {
      int64_t j = s.n++;
      s.item[j] = i, s.u[j] = u[2 * (i - begin)], s.mirror[j] = law->mirrored ? law->n : -1;
      s.start[j] = law->start, s.slope[j] = law->slope, s.drop[j] = law->drop;
    } else {
      store(w, i, draw(w, law, i, u + 2 * (i - begin)));
    }
  }
  if (s.n) search_all(w, &s, begin, u);
}

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  current now = {w->one ? 0 : NAN, 0, w->law};
  for (; begin < end; begin += BLOCK) block(w, &now, begin, end - begin < BLOCK ? end : begin + BLOCK);
}

/* t contiguous; of a repeated number one element. New. */
static pn_tensor *plain(pn_context *c, const pn_tensor *t) {
  for (int i = 0; i < t->ndim; i++)
    if (t->shape[i] != 1 && t->stride[i] != 0) return pni_contiguous(c, t);
  pn_tensor *one = t->numel ? pni_tensor_new(c, &(pni_spec){.dtype = t->dtype}) : pni_contiguous(c, t);
  if (one && t->numel) memcpy(pni_data(one), pni_data(t), pni_itemsize(t));
  return one;
}

static pn_status eval_draw(pn_context *c, const pni_call *call, pn_tensor *out) {
  const int64_t *i = call->attr->i;
  work w = {.kind = (const pni_count_kind *)(intptr_t)i[KIND], .out = out};
  w.at = (pni_philox){(uint64_t)i[KEY], (uint64_t)i[POSITION]};
  pn_tensor *a = plain(c, call->in[0]), *b = a && call->nin > 1 ? plain(c, call->in[1]) : NULL;
  if (a && (b || call->nin == 1)) {
    w.a = a, w.b = b;
    w.one = a->numel == 1 && (!b || b->numel == 1);
    if (w.one) w.kind->law(&w.law, element(a, 0), element(b, 0));
    if (w.law.kind == PNI_COUNT_SEARCH && out->numel >= SUMS) tabulate(&w.law, &w.table);
    pni_parallel(c, out->numel, 1024, shard, &w);
  }
  pn_tensor_unref(a);
  pn_tensor_unref(b);
  return c->status;
}

static pn_status infer_draw(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  return call->nin > 1 ? pni_require_like(c, call, 1, out) : PN_OK;
}

static const pni_op draw_counts = {.name = "draw_counts",
                                   .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_DRAW,
                                   .infer = infer_draw,
                                   .eval = eval_draw};

pn_tensor *pni_count_draw(pn_context *c, pn_rng *rng, const pni_spec *out, const pni_count_kind *kind, pn_tensor *a,
                          pn_tensor *b) {
  pn_tensor *in[2] = {pni_dist_expand_to(c, a, out->ndim, out->shape),
                      b ? pni_dist_expand_to(c, b, out->ndim, out->shape) : NULL};
  if (!in[0] || (b && !in[1])) return NULL;
  uint64_t n = (uint64_t)pni_count(out->ndim, out->shape);
  pni_attr attr = {.ni = INTS, .i = {[KIND] = (int64_t)(intptr_t)kind}};
  return pni_draw_apply(c, &draw_counts, rng, pni_fill_positions(PNI_FILL_UNIFORM_F64, 2 * n), b ? 2 : 1, in, &attr);
}
