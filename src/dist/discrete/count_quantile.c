/*
** count_quantile.c: search around mean + deviation * normal quantile, by steps that double and then halve. What is
** compared is the distribution function rounded to the tensor's dtype, so that icdf(cdf(k)) = k.
*/
#include <math.h>
#include "count_quantile.h"
#include "../../base/special.h"

static double poisson_cdf(double k, double rate, double b) { return (void)b, pni_gammaincc(k + 1, rate); }
static void poisson_place(double rate, double b, double *mean, double *deviation) {
  (void)b;
  *mean = rate;
  *deviation = sqrt(rate);
}
static double no_top(double a, double b) { return (void)a, (void)b, INFINITY; }

static double binomial_cdf(double k, double n, double p) { return k >= n ? 1 : pni_betaincc(k + 1, n - k, p); }
static void binomial_place(double n, double p, double *mean, double *deviation) {
  *mean = n * p;
  *deviation = sqrt(n * p * (1 - p));
}
static double binomial_top(double n, double p) { return (void)p, n; }

static double negative_cdf(double k, double r, double q) { return pni_betainc(r, k + 1, q); }
static void negative_place(double r, double q, double *mean, double *deviation) {
  *mean = r * (1 - q) / q;
  *deviation = sqrt(*mean / q);
}

const pni_count_family pni_family_poisson = {poisson_cdf, poisson_place, no_top};
const pni_count_family pni_family_binomial = {binomial_cdf, binomial_place, binomial_top};
const pni_count_family pni_family_negative_binomial = {negative_cdf, negative_place, no_top};

typedef struct {
  const pni_count_family *f;
  double p, a, b;
  bool single; /* float32 */
} question;

static bool reached(const question *q, double k) {
  double value = q->f->cdf(k, q->a, q->b);
  return q->single ? (float)value >= (float)q->p : value >= q->p;
}

static double quantile(const question *q) {
  double top = q->f->top(q->a, q->b), mean, deviation;
  if (!(q->p >= 0 && q->p <= 1) || isnan(q->a) || isnan(q->b)) return NAN;
  if (q->p == 1 || top == 0) return top;
  q->f->place(q->a, q->b, &mean, &deviation);
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
  const pni_count_family *f;
  const pn_tensor *p, *a, *b;
  pn_tensor *out;
} work;

static double element(const pn_tensor *t, int64_t i) {
  if (!t) return 0;
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  for (int64_t i = begin; i < end; i++) {
    question q = {w->f, element(w->p, i), element(w->a, i), element(w->b, i), w->out->dtype != PN_FLOAT64};
    if (q.single)
      ((float *)pni_data(w->out))[i] = (float)quantile(&q);
    else
      ((double *)pni_data(w->out))[i] = quantile(&q);
  }
}

/* Input k repeated to the shape of out, contiguous. New; NULL too if there is no such input. */
static pn_tensor *wide(pn_context *c, const pni_call *call, int k, const pn_tensor *out) {
  if (k >= call->nin || pni_failed(c)) return NULL;
  pni_spec s = pni_spec_of(out);
  pn_tensor *t = pni_tensor_new(c, &s);
  if (t) pni_copy(c, t, call->in[k]);
  return t;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *p = wide(c, call, 0, out), *a = wide(c, call, 1, out), *b = wide(c, call, 2, out);
  work w = {(const pni_count_family *)(intptr_t)call->attr->i[0], p, a, b, out};
  if (!pni_failed(c)) pni_parallel(c, out->numel, 64, shard, &w);
  pn_tensor_unref(p);
  pn_tensor_unref(a);
  pn_tensor_unref(b);
  return c->status;
}

static const pni_op count_quantile = {.name = "count_quantile", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN, .eval = eval};

pn_tensor *pni_count_quantile(pn_context *c, const pni_count_family *f, pn_tensor *p, pn_tensor *a, pn_tensor *b) {
  pn_tensor *in[3] = {p, a, b};
  if (!p || !a || pni_failed(c)) return NULL;
  return pni_apply(c, &count_quantile, b ? 3 : 2, in, &(pni_attr){.ni = 1, .i = {(int64_t)(intptr_t)f}});
}
