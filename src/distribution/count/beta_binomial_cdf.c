/*
** beta_binomial_cdf.c: sums of masses from k down to 0, or from k + 1 up to n where that is the shorter tail,
**   p(x - 1) / p(x) = x (n - x + b) / ((n - x + 1) (x - 1 + a)),
** until what is left is nothing; where that takes long, the rest by runs (count_sum.h).
** Slopes: dp/da = p (digamma(x + a) - digamma(n + a + b) + digamma(a + b) - digamma(a)), in b as in a of n - x.
*/
#include "beta_binomial_cdf.h"
#include "../../math/special.h"
#include "../formula.h"
#include "count_sum.h"

enum { PATIENCE = 1 << 16 };

/* ---- of numbers ---- */

static double weight(double x, double a) {
  return pni_count_excess(x + a) - pni_count_excess(x) - pni_count_excess(a) - log1p(x / a);
}

/* urn_mass.h */
static double mass(double x, const double *v) {
  double n = v[0], a = v[1], b = v[2], y = n - x, s = a + b, t = n / (n + s), u = s / (n + s);
  double fit = pni_count_deviance(x, t * (x + a)) + pni_count_deviance(a, u * (x + a)) +
               pni_count_deviance(y, t * (y + b)) + pni_count_deviance(b, u * (y + b));
  return exp(weight(x, a) + weight(y, b) - weight(n, s) - fit);
}

static void place(const double *v, double *mean, double *deviation) {
  double n = v[0], a = v[1], b = v[2], s = a + b;
  *mean = n * (a / s);
  *deviation = sqrt(*mean * (b / s) * ((s + n) / (s + 1)));
}

/* P(X <= k) for 0 <= k < n. With a, b >= 1 there is one mode, beyond which masses only fall. */
static double lower(double k, const double *v) {
  double n = v[0], a = v[1], b = v[2], term = mass(k, v), sum = term, x = k;
  bool one_mode = a >= 1 && b >= 1;
  for (int step = 0; x > 0 && step < PATIENCE; step++, x--) {
    double ratio = x * (n - x + b) / ((n - x + 1) * (x - 1 + a));
    term *= ratio;
    sum += term;
    if (one_mode && ratio < 1 && term < 1e-18 * sum) return sum;
  }
  if (x <= 0) return sum;
  double mean, deviation;
  place(v, &mean, &deviation);
  return sum + pni_count_range(mean, deviation, 0, x - 1, n, mass, v);
}

static double cdf(double k, const double *v) {
  double mean, deviation;
  if (isnan(k) || isnan(v[0] + v[1] + v[2])) return NAN;
  if (k < 0 || k >= v[0]) return k < 0 ? 0 : 1;
  place(v, &mean, &deviation);
  if (k < mean) return fmin(lower(k, v), 1);
  return 1 - fmin(lower(v[0] - k - 1, (const double[]){v[0], v[2], v[1]}), 1);
}

static double top(const double *v) { return v[0]; }
const pni_count_family pni_family_beta_binomial = {cdf, place, top};

/* ---- of tensors ---- */

enum { INPUTS = 4 };

typedef struct {
  pn_context *c;
  pn_tensor *in[INPUTS], *out; /* in: float64, of the shape of out */
} work;

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  const double *in[INPUTS];
  for (int k = 0; k < INPUTS; k++) in[k] = pni_data(w->in[k]);
  for (int64_t i = begin; i < end && !pni_leaves(w->c); i++) {
    double value = cdf(in[0][i], (const double[]){in[1][i], in[2][i], in[3][i]});
    if (w->out->dtype == PN_FLOAT64)
      ((double *)pni_data(w->out))[i] = value;
    else
      ((float *)pni_data(w->out))[i] = (float)value;
  }
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_spec s = pni_spec_of(out);
  s.dtype = PN_FLOAT64;
  work w = {.c = c, .out = out};
  for (int k = 0; k < INPUTS && !pni_failed(c); k++) {
    w.in[k] = pni_tensor_new(c, &s);
    if (w.in[k]) pni_copy(c, w.in[k], call->in[k]);
  }
  if (!pni_failed(c)) pni_parallel(c, out->numel, 64, shard, &w);
  for (int k = 0; k < INPUTS; k++) pn_tensor_unref(w.in[k]);
  return c->status;
}

/* The slope of log p in its own concentration a, and that of y = n - x */
static T *score(C *c, D *d, T *x, bool success) {
  T *n = d->param[0], *a = d->param[success ? 1 : 2], *s = pn_add(c, d->param[1], d->param[2]);
  T *own = pn_sub(c, pn_digamma(c, pn_add(c, success ? x : pn_sub(c, n, x), a)), pn_digamma(c, a));
  return pn_sub(c, own, pn_sub(c, pn_digamma(c, pn_add(c, n, s)), pn_digamma(c, s)));
}
static T *score_success(C *c, D *d, T *x) { return score(c, d, x, true); }
static T *score_failure(C *c, D *d, T *x) { return score(c, d, x, false); }

/* k and n are whole numbers: no gradient */
static T *vjp(C *c, T *y, T *g, int i) {
  if (i < 2) return pn_mul(c, g, pni_like(c, g, 0));
  static const char *const names[] = {"total_count", "concentration1", "concentration0"};
  T *in[3] = {pn_detach(c, pni_in(y, 1)), pni_in(y, 2), pni_in(y, 3)};
  pn_dist *one = pn_dist_new(c, "beta_binomial", 3, names, in), *d = pn_dist_expand(c, one, y->ndim, y->shape);
  pn_dist_unref(one);
  if (!d) return NULL;
  pni_count_place where = {d->kind->mean(c, d), d->kind->variance(c, d), NULL, in[0], pni_in(y, 0)};
  T *slope = pni_count_sum(c, d, &where, i == 2 ? score_success : score_failure);
  pn_dist_unref(d);
  return pn_mul(c, g, slope);
}

static const pni_op op = {
    .name = "beta_binomial_cdf", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .eval = eval, .vjp = vjp};

T *pni_beta_binomial_cdf(C *c, T *k, T *n, T *a, T *b) { return pni_apply(c, &op, 4, (T *[]){k, n, a, b}, NULL); }
