/*
** convergence.c: have the chains mixed, and how many independent draws are theirs worth? Rank-normalised split R-hat,
** effective sample sizes of the bulk and of the tails, Monte Carlo standard error: Vehtari, Gelman, Simpson,
** Carpenter & Buerkner, Rank-normalization, folding, and localization (Bayesian Analysis 2021).
**
** Each chain is cut into two halves of n draws (of an odd number the middle one is left out), m halves in all. With W the
** mean variance within them, B / n the variance of their means and V = W (n - 1) / n + B / n,
**   R-hat = sqrt(V / W),   rho_t = 1 - (W - mean autocovariance at lag t) / V,   ESS = m n / (-1 + 2 sum_t rho_t),
** the sum cut where a pair of neighbours first falls below 0 and made monotone (Geyer 1992).
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../base/special.h"
#include "../tensor/tensor.h"

/* Draws of one quantity by halves, and scratch. */
typedef struct {
  int64_t halves, n, total;
  int64_t count;  /* of all draws, those in the middle included */
  double *x;      /* [halves, n] */
  double *y;      /* transformed */
  double *mean;   /* of each half */
  double *rho;    /* [n] */
  double *sorted; /* all draws in order, or the halves' */
  double *all;    /* [count] */
} split;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* ---- effective sample size and R-hat of numbers that stand in y ---- */

/* Mean over the halves of their variances (divisor n - 1) and V; the means go to s->mean. */
static double variances(split *s, const double *x, double *plus) {
  double within = 0, between = 0, centre = 0;
  for (int64_t k = 0; k < s->halves; k++) {
    const double *h = x + k * s->n;
    double sum = 0, square = 0;
    for (int64_t i = 0; i < s->n; i++) sum += h[i];
    s->mean[k] = sum / (double)s->n;
    for (int64_t i = 0; i < s->n; i++) square += (h[i] - s->mean[k]) * (h[i] - s->mean[k]);
    within += square / (double)(s->n - 1);
    centre += s->mean[k];
  }
  within /= (double)s->halves;
  centre /= (double)s->halves;
  for (int64_t k = 0; k < s->halves; k++) between += (s->mean[k] - centre) * (s->mean[k] - centre);
  *plus = within * (double)(s->n - 1) / (double)s->n + between / (double)(s->halves - 1);
  return within;
}

static double r_hat(split *s, const double *x) {
  double plus, within = variances(s, x, &plus);
  return sqrt(plus / within);
}

/* Mean over the halves of the autocovariance at a lag (divisor n). */
static double autocovariance(const split *s, const double *x, int64_t lag) {
  double sum = 0;
  for (int64_t k = 0; k < s->halves; k++) {
    const double *h = x + k * s->n, m = s->mean[k];
    for (int64_t i = 0; i + lag < s->n; i++) sum += (h[i] - m) * (h[i + lag] - m);
  }
  return sum / (double)(s->n * s->halves);
}

static double effective(split *s, const double *x) {
  double plus, within = variances(s, x, &plus), total = (double)s->total;
  if (!(plus > 0)) return total; /* constant */
  int64_t t = 1;
  double even = 1, odd = 1 - (within - autocovariance(s, x, 1)) / plus;
  s->rho[0] = even;
  s->rho[1] = odd;
  while (t < s->n - 3 && even + odd > 0) {
    even = 1 - (within - autocovariance(s, x, t + 1)) / plus;
    odd = 1 - (within - autocovariance(s, x, t + 2)) / plus;
    s->rho[t + 1] = even + odd >= 0 ? even : 0;
    s->rho[t + 2] = even + odd >= 0 ? odd : 0;
    t += 2;
  }
  int64_t last = t - 2;
  double rest = even > 0 || even + odd >= 0 ? even : 0, sum = 0;
  for (t = 1; t <= last - 2; t += 2) {
    double before = s->rho[t - 1] + s->rho[t];
    if (s->rho[t + 1] + s->rho[t + 2] > before) s->rho[t + 1] = s->rho[t + 2] = before / 2;
  }
  for (t = 0; t <= last; t++) sum += s->rho[t];
  double tau = -1 + 2 * sum + rest, least = 1 / log10(total);
  return total / (tau > least ? tau : least);
}

/* ---- what is asked of them ---- */

/* Of n numbers in s->sorted. */
static double quantile(const split *s, int64_t n, double p) {
  double at = p * (double)(n - 1);
  int64_t i = (int64_t)at;
  double low = s->sorted[i], high = i + 1 < n ? s->sorted[i + 1] : low;
  return low + (at - (double)i) * (high - low);
}

/* The two numbers in the middle are equally far from it wherever rounding allows: folded they share a rank. */
static double median(const split *s, int64_t n) { return (s->sorted[(n - 1) / 2] + s->sorted[n / 2]) / 2; }

static int64_t count_below(const double *v, int64_t n, double x, bool or_equal) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (v[middle] < x || (or_equal && v[middle] == x))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* y = ndtri((rank - 3/8) / (N + 1/4)), equal values sharing their mean rank. `sorted` holds x in order. */
static void rank_normalise(split *s, const double *x, const double *sorted) {
  for (int64_t i = 0; i < s->total; i++) {
    int64_t below = count_below(sorted, s->total, x[i], false), upto = count_below(sorted, s->total, x[i], true);
    double rank = (double)(below + 1 + upto) / 2;
    s->y[i] = pni_ndtri((rank - 0.375) / ((double)s->total + 0.25));
  }
}

static double tail(split *s, double q) {
  for (int64_t i = 0; i < s->total; i++) s->y[i] = s->x[i] <= q;
  return effective(s, s->y);
}

static double moments(const split *s, double *sd) {
  double sum = 0, square = 0;
  for (int64_t i = 0; i < s->count; i++) sum += s->all[i];
  double mean = sum / (double)s->count;
  for (int64_t i = 0; i < s->count; i++) square += (s->all[i] - mean) * (s->all[i] - mean);
  *sd = sqrt(square / (double)(s->count - 1));
  return mean;
}

enum { COLUMNS = 9 };

static void sort(split *s, const double *x, int64_t n) {
  memcpy(s->sorted, x, (size_t)n * sizeof *x);
  qsort(s->sorted, (size_t)n, sizeof *x, by_value);
}

/* mean, sd, 5 %, median, 95 %, R-hat, ESS of bulk and tails, standard error of the mean */
static void summarise(split *s, double *out) {
  out[0] = moments(s, &out[1]);
  sort(s, s->all, s->count);
  out[2] = quantile(s, s->count, 0.05);
  out[3] = median(s, s->count);
  out[4] = quantile(s, s->count, 0.95);
  double low = tail(s, out[2]), high = tail(s, out[4]);
  out[7] = low < high ? low : high;
  sort(s, s->x, s->total);
  double centre = median(s, s->total);
  rank_normalise(s, s->x, s->sorted);
  double bulk = r_hat(s, s->y);
  out[6] = effective(s, s->y);
  out[8] = out[1] / sqrt(effective(s, s->x));
  for (int64_t i = 0; i < s->total; i++) s->x[i] = fabs(s->x[i] - centre);
  sort(s, s->x, s->total);
  rank_normalise(s, s->x, s->sorted);
  double folded = r_hat(s, s->y);
  out[5] = bulk > folded || folded != folded ? bulk : folded;
}

/* Column j of draws [chains, draws, m] by halves; false if one of them is not finite. */
static bool take_column(split *s, const double *draws, int64_t chains, int64_t rows, int64_t m, int64_t j) {
  for (int64_t i = 0; i < s->count; i++) {
    s->all[i] = draws[i * m + j];
    if (!isfinite(s->all[i])) return false;
  }
  for (int64_t k = 0; k < chains; k++) {
    const double *chain = s->all + k * rows;
    memcpy(s->x + 2 * k * s->n, chain, (size_t)s->n * sizeof *s->x);
    memcpy(s->x + (2 * k + 1) * s->n, chain + rows - s->n, (size_t)s->n * sizeof *s->x);
  }
  return true;
}

pn_tensor *pn_draws_summary(pn_context *c, pn_tensor *draws) {
  if (pni_failed(c) || pni_check_read(c, draws, "draws_summary")) return NULL;
  char got[160];
  if (draws->dtype != PN_FLOAT64 || draws->ndim != 3 || draws->shape[0] < 1 || draws->shape[1] < 4) {
    pni_fail(c, PN_SHAPE, "draws_summary: draws must be float64 [chains, draws, m] with at least 4 draws, got %s",
             pni_shape_text(draws->ndim, draws->shape, got));
    return NULL;
  }
  int64_t chains = draws->shape[0], rows = draws->shape[1], m = draws->shape[2];
  split s = {.halves = 2 * chains, .n = rows / 2, .count = chains * rows};
  s.total = s.halves * s.n;
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {m, COLUMNS}};
  pn_tensor *out = pni_scoped(c, pni_tensor_new(c, &spec)), *x = out ? pni_contiguous(c, draws) : NULL;
  size_t room = 2 * (size_t)(s.total + s.count) + (size_t)s.halves + (size_t)s.n;
  double *work = x ? pni_alloc_array(c, (int64_t)room, sizeof *work) : NULL;
  s.x = work;
  if (work) {
    s.y = s.x + s.total;
    s.all = s.y + s.total;
    s.sorted = s.all + s.count;
    s.mean = s.sorted + s.count;
    s.rho = s.mean + s.halves;
  }
  for (int64_t j = 0; work && j < m && pni_check_cancel(c) == PN_OK; j++) {
    double *row = (double *)pni_data(out) + j * COLUMNS;
    if (take_column(&s, pni_data(x), chains, rows, m, j))
      summarise(&s, row);
    else
      for (int k = 0; k < COLUMNS; k++) row[k] = NAN;
  }
  pni_free(c, work, room * sizeof *work);
  pn_tensor_unref(x);
  return pni_failed(c) ? NULL : out;
}
