/*
** count_quantile.c: search around mean + deviation * normal quantile, by steps that double and then halve. What is
** compared is the distribution function rounded to the distribution's dtype, so that icdf(cdf(k)) = k.
*/
#include <math.h>
#include "count_quantile.h"
#include "../../math/special.h"

enum { PARAMS = 3 };

static double poisson_cdf(double k, const double *v) { return pni_gammaincc(k + 1, v[0]); }
static void poisson_place(const double *v, double *mean, double *deviation) {
  *mean = v[0];
  *deviation = sqrt(v[0]);
}
static double no_top(const double *v) { return (void)v, INFINITY; }

static double binomial_cdf(double k, const double *v) { return k >= v[0] ? 1 : pni_betaincc(k + 1, v[0] - k, v[1]); }
static void binomial_place(const double *v, double *mean, double *deviation) {
  *mean = v[0] * v[1];
  *deviation = sqrt(v[0] * v[1] * (1 - v[1]));
}
static double first(const double *v) { return v[0]; }

static double negative_cdf(double k, const double *v) { return pni_betainc(v[0], k + 1, v[1]); }
static void negative_place(const double *v, double *mean, double *deviation) {
  *mean = v[0] * (1 - v[1]) / v[1];
  *deviation = sqrt(*mean / v[1]);
}

const pni_count_family pni_family_poisson = {poisson_cdf, poisson_place, no_top};
const pni_count_family pni_family_binomial = {binomial_cdf, binomial_place, first};
const pni_count_family pni_family_negative_binomial = {negative_cdf, negative_place, no_top};

typedef struct {
  const pni_count_family *f;
  double p, v[PARAMS];
  bool single; /* float32 */
} question;

static bool reached(const question *q, double k) {
  double value = q->f->cdf(k, q->v);
  return q->single ? (float)value >= (float)q->p : value >= q->p;
}

static double quantile(const question *q) {
  double top = q->f->top(q->v), mean, deviation;
  if (!(q->p >= 0 && q->p <= 1) || isnan(q->v[0] + q->v[1] + q->v[2])) return NAN;
  if (q->p == 1 || top == 0) return top;
  q->f->place(q->v, &mean, &deviation);
  double start = floor(mean + deviation * pni_ndtri(q->p));
  start = start >= 0 ? fmin(fmin(start, top), 0x1p53) : 0;
  double low = start - 1, high = start, step = fmax(1, floor(deviation / 16)); /* low: not reached, or -1 */
  if (reached(q, start)) {
    while (low >= 0 && reached(q, low)) high = low, low = fmax(-1, low - step), step *= 2;
  } else {
    low = start, high = fmin(top, start + step);
    while (high < top && high < 0x1p60 && !reached(q, high)) low = high, step *= 2, high = fmin(top, high + step);
  }
  while (high - low > 1) {
    double middle = floor(low + (high - low) / 2);
    if (middle <= low || middle >= high) break; /* beyond 2^53 */
    if (reached(q, middle))
      high = middle;
    else
      low = middle;
  }
  return high;
}

typedef struct {
  pn_context *c;
  const pni_count_family *f;
  pn_tensor *in[1 + PARAMS], *out; /* p, v; NULL: none */
  bool single;
} work;

static double element(const pn_tensor *t, int64_t i) {
  if (!t) return 0;
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  for (int64_t i = begin; i < end && !pni_leaves(w->c); i++) {
    question q = {.f = w->f, .p = element(w->in[0], i), .single = w->single};
    for (int k = 0; k < PARAMS; k++) q.v[k] = element(w->in[1 + k], i);
    if (w->out->dtype != PN_FLOAT64)
      ((float *)pni_data(w->out))[i] = (float)quantile(&q);
    else
      ((double *)pni_data(w->out))[i] = quantile(&q);
  }
}

/* Input k repeated to the shape of out, contiguous. New; NULL too if there is no such input. */
static pn_tensor *expanded(pn_context *c, const pni_call *call, int k, const pn_tensor *out) {
  if (k >= call->nin || pni_failed(c)) return NULL;
  pni_spec s = pni_spec_of(out);
  pn_tensor *t = pni_tensor_new(c, &s);
  if (t) pni_copy(c, t, call->in[k]);
  return t;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  work w = {.c = c, .f = (const pni_count_family *)(intptr_t)call->attr->i[0], .out = out, .single = call->attr->i[1]};
  for (int k = 0; k <= PARAMS; k++) w.in[k] = expanded(c, call, k, out);
  if (!pni_failed(c)) pni_parallel(c, out->numel, 64, shard, &w);
  for (int k = 0; k <= PARAMS; k++) pn_tensor_unref(w.in[k]);
  return c->status;
}

static const pni_op count_quantile = {.name = "count_quantile", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN, .eval = eval};

pn_tensor *pni_count_quantile(pn_context *c, const pn_dist *d, const pni_count_family *f, pn_tensor *p, int n,
                              pn_tensor *const *v) {
  pn_tensor *in[1 + PARAMS] = {p};
  for (int k = 0; k < n; k++) in[1 + k] = v[k];
  for (int k = 0; k <= n; k++)
    if (!in[k]) return NULL;
  if (pni_failed(c)) return NULL;
  pni_attr a = {.ni = 2, .i = {(int64_t)(intptr_t)f, d->dtype != PN_FLOAT64 || d->flags & PNI_DIST_ROUNDED}};
  return pni_apply(c, &count_quantile, 1 + n, in, &a);
}
