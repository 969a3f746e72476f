/*
** op_pareto_smooth.c: Pareto smoothed importance weights. The M = min(K / 5, 3 sqrt(K / r)) largest weights of a
** column, r the draws' relative efficiency (1 unless they come from a Markov chain), are replaced by the quantiles of a
** generalised Pareto distribution fitted to them; its shape k-hat tells how heavy the tail of the weights is. Vehtari,
** Simpson, Gelman, Yao & Gabry, Pareto smoothed importance sampling, JMLR 2024; the fit is Zhang & Stephens,
** Technometrics 2009, with the weak prior of the former.
*/
#include <float.h>
#include <math.h>
#include "../../base/sort.h"
#include "pareto_tail.h"

/* ---- the fit ---- */

/* Mean of log(1 - theta x_i). */
static double mean_log(pn_context *c, const double *x, int64_t n, double theta) {
  double sum = 0;
  PNI_INTERRUPTIBLE(c, i, n) sum += log1p(-theta * x[i]);
  return sum / (double)n;
}

/* Posterior mean of theta over a grid of 30 + sqrt n values, weighted by profile likelihood; then k and sigma at it. */
pni_pareto pni_pareto_fit(pn_context *c, const double *x, int64_t n) {
  enum { PRIOR_BS = 3, PRIOR_K = 10, GRID = 30, MOST = 512 };
  int m = GRID + (int)fmin(sqrt((double)n), MOST - GRID);
  double theta[MOST], profile[MOST], quartile = x[(int64_t)((double)n / 4 + 0.5) - 1], top = -INFINITY;
  for (int i = 0; i < m; i++) {
    if (pni_check_cancel(c)) return (pni_pareto){NAN, NAN};
    theta[i] = (1 - sqrt((double)m / (i + 0.5))) / (PRIOR_BS * quartile) + 1 / x[n - 1];
    double k = mean_log(c, x, n, theta[i]);
    profile[i] = (double)n * (log(-theta[i] / k) - k - 1);
    top = fmax(top, profile[i]);
  }
  double mean = 0, total = 0, all = 0;
  for (int i = 0; i < m; i++) all += profile[i] = exp(profile[i] - top);
  for (int i = 0; i < m; i++) {
    if (profile[i] < 10 * DBL_EPSILON * all) continue;
    mean += profile[i] * theta[i];
    total += profile[i];
  }
  mean /= total;
  double k = mean_log(c, x, n, mean);
  return (pni_pareto){.sigma = -k / mean, .k = ((double)n * k + PRIOR_K * 0.5) / ((double)n + PRIOR_K)};
}

double pni_pareto_quantile(pni_pareto p, double probability) {
  double e = -log1p(-probability);
  return p.sigma * (fabs(p.k) < DBL_EPSILON ? e : expm1(p.k * e) / p.k);
}

int64_t pni_pareto_tail(int64_t draws, double efficiency) {
  return (int64_t)ceil(fmin(0.2 * (double)draws, 3 * sqrt((double)draws / efficiency)));
}

double pni_pareto_tail_smooth(pn_context *c, pni_ranked *r, int64_t n, double *excess) {
  if (n - 1 < PNI_SHORTEST_TAIL) return INFINITY;
  if (r[0].log_w > -PNI_EVEN_WEIGHTS) return 0;
  double low = fmax(r[0].log_w, log(DBL_MIN)), base = exp(low);
  int64_t first = 0;
  PNI_INTERRUPTIBLE(c, i, n) first += r[i].log_w <= low; /* they ascend */
  int64_t m = n - first;
  if (m < PNI_SHORTEST_TAIL) return INFINITY;
  PNI_INTERRUPTIBLE(c, i, m) excess[i] = exp(r[first + i].log_w) - base;
  if (pni_failed(c)) return NAN;
  pni_pareto p = pni_pareto_fit(c, excess, m);
  if (!isfinite(p.k)) return p.k;
  PNI_INTERRUPTIBLE(c, i, m) {
    double v = log(pni_pareto_quantile(p, ((double)i + 0.5) / (double)m) + base);
    r[first + i].log_w = fmin(v, 0); /* none beyond the largest that was drawn */
  }
  return p.k;
}

/* ---- columns ---- */

int pni_by_weight(const void *a, const void *b) {
  const pni_ranked *x = a, *y = b;
  if (x->log_w != y->log_w) return x->log_w < y->log_w ? -1 : 1;
  return (x->draw > y->draw) - (x->draw < y->draw);
}

typedef struct {
  const pn_tensor *x, *efficiency;
  pn_tensor *out;
  pni_ranked *r;  /* room for a column */
  double *excess; /* and for its tail */
} job;

static void column(pn_context *c, const job *j, int64_t b) {
  int64_t draws = j->x->shape[0], batch = j->x->shape[1];
  double top = -INFINITY, sum = 0, k = INFINITY;
  PNI_INTERRUPTIBLE(c, i, draws) {
    j->r[i] = (pni_ranked){pni_weight(j->x, i * batch + b), i};
    top = j->r[i].log_w > top || isnan(j->r[i].log_w) ? j->r[i].log_w : top;
  }
  if (isfinite(top)) {
    for (int64_t i = 0; i < draws; i++) j->r[i].log_w -= top;
    if (pni_sort(c, j->r, draws, sizeof *j->r, pni_by_weight)) return;
    int64_t cut = draws - pni_pareto_tail(draws, pni_weight(j->efficiency, b)) - 1;
    if (cut >= 0) k = pni_pareto_tail_smooth(c, j->r + cut, draws - cut, j->excess);
    PNI_INTERRUPTIBLE(c, i, draws) sum += exp(j->r[i].log_w);
  }
  if (pni_failed(c)) return; /* r may not be filled */
  double by = sum > 0 ? log(sum) : 0;
  PNI_INTERRUPTIBLE(c, i, draws) pni_set_weight(j->out, j->r[i].draw * batch + b, j->r[i].log_w - by);
  pni_set_weight(j->out, draws * batch + b, k);
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  if (pni_require_axes(c, call, "KB B")) return c->status;
  *out = pni_spec_of(call->in[0]);
  out->shape[0]++;
  return PN_OK;
}

static pn_status check_efficiency(pn_context *c, const pn_tensor *r) {
  PNI_INTERRUPTIBLE(c, b, r->numel) {
    double v = pni_weight(r, b);
    if (!(v > 0 && v < INFINITY))
      return pni_fail(c, PN_DOMAIN, "psis: relative_efficiency must be positive, got %g", v);
  }
  return c->status;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, call->in[0]), *r = x ? pni_contiguous(c, call->in[1]) : NULL;
  int64_t n = x ? x->shape[0] : 0;
  job j = {.x = x, .efficiency = r, .out = out};
  if (r && check_efficiency(c, r) == PN_OK) j.r = pni_alloc_array(c, n, sizeof *j.r);
  if (j.r) j.excess = pni_alloc_array(c, n, sizeof *j.excess);
  for (int64_t b = 0; j.excess && b < x->shape[1] && !pni_check_cancel(c); b++) column(c, &j, b);
  pni_free(c, j.excess);
  pni_free(c, j.r);
  pn_tensor_unref(r);
  pn_tensor_unref(x);
  return c->status;
}

pn_tensor *pni_pareto_smooth(pn_context *c, pn_tensor *x, pn_tensor *efficiency) {
  pn_tensor *one = efficiency || !x ? efficiency : pn_full(c, (pn_dtype)x->dtype, 1, x->shape + 1, 1);
  return pni_apply2(c, &pni_infer_op_pareto_smooth, x, one, NULL);
}

const pni_op pni_infer_op_pareto_smooth = {
    .name = "pareto_smooth",
    .args = "log_w:t relative_efficiency:t",
    .doc = "Pareto smoothed log-weights, and k-hat under them: [K, B] -> [K + 1, B]",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer,
    .eval = eval};
