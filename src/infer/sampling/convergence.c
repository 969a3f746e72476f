/*
** convergence.c: have the chains mixed, and how many independent draws are theirs worth? Rank-normalised split R-hat,
** effective sample sizes of the bulk and of the tails, Monte Carlo standard error: Vehtari, Gelman, Simpson,
** Carpenter & Buerkner, Rank-normalization, folding, and localization (Bayesian Analysis 2021).
**
** Each chain is cut into two halves of n draws (of an odd number the middle one is left out), m halves in all. With W
** the mean variance within them, B / n the variance of their means and V = W (n - 1) / n + B / n,
**   R-hat = sqrt(V / W),   rho_t = 1 - (W - mean autocovariance at lag t) / V,   ESS = m n / (-1 + 2 sum_t rho_t),
** the sum cut where a pair of neighbours first falls below 0 and made monotone (Geyer 1992).
**
** The draws of a quantity are sorted once; ranks, quantiles and the order of their distances from the median follow
** from that order in one walk each.
*/
#include <math.h>
#include <string.h>
#include "../../math/special.h"
#include "../../tensor/tensor.h"
#include "autocovariance.h"

/* A draw and where it stands; keys are ordered as the draws are. */
typedef struct {
  uint64_t key;
  int64_t at;
} place;

/* Draws of one quantity by halves, and scratch. */
typedef struct {
  pn_context *c;
  int64_t steps; /* since the last look at the clock */
  int64_t halves, n, total;
  int64_t rows, count; /* of a chain and of all, those in the middle included */
  double *x;           /* [halves, n] */
  double *y;           /* transformed */
  double *mean;        /* of each half */
  double *rho;         /* [n] */
  double *all;         /* [count] */
  double *score;       /* [total] ndtri((rank - 3/8) / (total + 1/4)) */
  place *sorted;       /* [count] all draws in order */
  place *other;        /* [count] room for the sort */
  int64_t *order;      /* [total] places in x in order of their values */
  int64_t *folded;     /* [total] in order of their distance from the median */
  pni_autocovariance lagged;
} split;

/* Loops are left early where somebody cancels (PNI_INTERRUPTIBLE); what comes out of them is asked for only by who has
 * seen that nobody did, and nothing indexes by it before. */

/* ---- effective sample size and R-hat of numbers that stand in y ---- */

/* Are we to end? Asked after each half, of however few draws. */
static bool is_over(split *s) {
  enum { LOOK = 1 << 15 };
  s->steps += s->n;
  if (s->steps < LOOK) return pni_failed(s->c);
  s->steps = 0;
  return pni_check_cancel(s->c) != PN_OK;
}

/* Mean over the halves of their variances (divisor n - 1) and V; the means go to s->mean. */
static double variances(split *s, const double *x, double *plus) {
  double within = 0, between = 0, centre = 0;
  for (int64_t k = 0; k < s->halves && !is_over(s); k++) {
    const double *h = x + k * s->n;
    double sum = 0, square = 0;
    PNI_INTERRUPTIBLE(s->c, i, s->n) sum += h[i];
    s->mean[k] = sum / (double)s->n;
    PNI_INTERRUPTIBLE(s->c, i, s->n) square += (h[i] - s->mean[k]) * (h[i] - s->mean[k]);
    within += square / (double)(s->n - 1);
    centre += s->mean[k];
  }
  within /= (double)s->halves;
  centre /= (double)s->halves;
  for (int64_t k = 0; k < s->halves; k++) between += (s->mean[k] - centre) * (s->mean[k] - centre);
  *plus = within * (double)(s->n - 1) / (double)s->n + between / (double)(s->halves - 1);
  return within;
}

static double r_hat(split *s) {
  double plus, within = variances(s, s->y, &plus);
  return sqrt(plus / within);
}

/* Mean over the halves of the autocovariance of y, centred, at a lag (divisor n). */
static double autocovariance(split *s, int64_t lag) {
  return pni_autocovariance_at(&s->lagged, lag) / (double)(s->n * s->halves);
}

static void centre_halves(split *s) {
  for (int64_t k = 0; k < s->halves && !is_over(s); k++)
    PNI_INTERRUPTIBLE(s->c, i, s->n) s->y[k * s->n + i] -= s->mean[k];
  pni_autocovariance_of(&s->lagged, s->y);
}

/* Correlations of lags 0 .. in s->rho, until a pair is not above 0. Returns the last lag. */
static int64_t correlations(split *s, double within, double plus, double *even, double *odd) {
  int64_t t = 1;
  *even = 1;
  *odd = 1 - (within - autocovariance(s, 1)) / plus;
  s->rho[0] = *even;
  s->rho[1] = *odd;
  while (t < s->n - 3 && *even + *odd > 0 && (t % 4096 != 1 || pni_check_cancel(s->c) == PN_OK)) {
    *even = 1 - (within - autocovariance(s, t + 1)) / plus;
    *odd = 1 - (within - autocovariance(s, t + 2)) / plus;
    s->rho[t + 1] = *even + *odd >= 0 ? *even : 0;
    s->rho[t + 2] = *even + *odd >= 0 ? *odd : 0;
    t += 2;
  }
  return t - 2;
}

/* Of the numbers in y, which it centres. */
static double effective(split *s) {
  double plus, even, odd, within = variances(s, s->y, &plus), total = (double)s->total, sum = 0;
  if (!(plus > 0) || pni_failed(s->c)) return total; /* constant */
  centre_halves(s);
  int64_t last = correlations(s, within, plus, &even, &odd);
  double rest = even > 0 || even + odd >= 0 ? even : 0;
  for (int64_t t = 1; t <= last - 2; t += 2) {
    double before = s->rho[t - 1] + s->rho[t];
    if (s->rho[t + 1] + s->rho[t + 2] > before) s->rho[t + 1] = s->rho[t + 2] = before / 2;
  }
  PNI_INTERRUPTIBLE(s->c, t, last + 1) sum += s->rho[t];
  double tau = -1 + 2 * sum + rest, least = 1 / log10(total);
  return total / (tau > least ? tau : least);
}

/* ---- order ---- */

/* Sorts s->all into s->sorted, byte by byte of the keys from the last one; bytes that all keys share are passed
 * over. */
static void sort_draws(split *s) {
  enum { BYTES = 8, VALUES = 256 };
  const uint64_t sign = UINT64_C(1) << 63;
  int64_t n = s->count, count[BYTES][VALUES] = {{0}};
  PNI_INTERRUPTIBLE(s->c, i, n) {
    uint64_t bits;
    memcpy(&bits, s->all + i, sizeof bits);
    s->sorted[i] = (place){.key = bits & sign ? ~bits : bits | sign, .at = i};
    for (int b = 0; b < BYTES; b++) count[b][s->sorted[i].key >> 8 * b & 255]++;
  }
  for (int b = 0; b < BYTES && !pni_failed(s->c); b++) {
    int64_t *first = count[b], sum = 0;
    if (first[s->sorted[0].key >> 8 * b & 255] == n) continue;
    for (int v = 0; v < VALUES; v++) {
      int64_t here = first[v];
      first[v] = sum;
      sum += here;
    }
    PNI_INTERRUPTIBLE(s->c, i, n) s->other[first[s->sorted[i].key >> 8 * b & 255]++] = s->sorted[i];
    place *filled = s->other;
    s->other = s->sorted;
    s->sorted = filled;
  }
}

/* Places in x in order, from those in all: of an odd number of draws the middle one of each chain is left out. */
static void order_halves(split *s) {
  int64_t k = 0, odd = s->rows - 2 * s->n;
  PNI_INTERRUPTIBLE(s->c, i, s->count) {
    int64_t at = s->sorted[i].at;
    if (odd) {
      int64_t chain = at / s->rows, row = at - chain * s->rows;
      if (row == s->n) continue;
      at -= chain + (row > s->n);
    }
    s->order[k++] = at;
  }
}

/* Places in order of x, which has been folded at the median since `order` was found: its two sides merged. */
static void order_folded(split *s, int64_t below) {
  int64_t low = below - 1, high = below;
  PNI_INTERRUPTIBLE(s->c, k, s->total) {
    bool take_low = high == s->total || (low >= 0 && s->x[s->order[low]] <= s->x[s->order[high]]);
    s->folded[k] = s->order[take_low ? low-- : high++];
  }
}

/* y = ndtri((rank - 3/8) / (N + 1/4)) for x, whose places in order are given; equal values share their mean rank. */
static void rank_normalise(split *s, const int64_t *order) {
  for (int64_t i = 0, end, next = 0; i < s->total; i = end) {
    if (i >= next && !pni_next_piece(s->c, i, s->total, &next)) return;
    end = i + 1;
    while (end < s->total && s->x[order[end]] == s->x[order[i]]) end++;
    double rank = (double)(i + 1 + end) / 2, z = s->score[i];
    if (end > i + 1) z = pni_ndtri((rank - 0.375) / ((double)s->total + 0.25));
    for (int64_t k = i; k < end; k++) s->y[order[k]] = z;
  }
}

/* ---- what is asked of them ---- */

static double ranked(const split *s, int64_t i) { return s->all[s->sorted[i].at]; }

static double quantile(const split *s, double p) {
  double at = p * (double)(s->count - 1);
  int64_t i = (int64_t)at;
  double low = ranked(s, i), high = i + 1 < s->count ? ranked(s, i + 1) : low;
  return low + (at - (double)i) * (high - low);
}

static double tail(split *s, double q) {
  PNI_INTERRUPTIBLE(s->c, i, s->total) s->y[i] = s->x[i] <= q;
  return effective(s);
}

static double moments(const split *s, double *sd) {
  double sum = 0, square = 0;
  PNI_INTERRUPTIBLE(s->c, i, s->count) sum += s->all[i];
  double mean = sum / (double)s->count;
  PNI_INTERRUPTIBLE(s->c, i, s->count) square += (s->all[i] - mean) * (s->all[i] - mean);
  *sd = sqrt(square / (double)(s->count - 1));
  return mean;
}

enum { COLUMNS = 9 };

/* R-hat of the draws' ranks and of the ranks of their distances from the median: the worse. Leaves x folded. */
static double worse_r_hat(split *s, double bulk) {
  /* the two numbers in the middle are equally far from it wherever rounding allows: folded they share a rank */
  double centre = (s->x[s->order[(s->total - 1) / 2]] + s->x[s->order[s->total / 2]]) / 2;
  int64_t below = 0;
  PNI_INTERRUPTIBLE(s->c, i, s->total) {
    below += s->x[i] < centre;
    s->x[i] = fabs(s->x[i] - centre);
  }
  if (!pni_failed(s->c)) order_folded(s, below);
  if (!pni_failed(s->c)) rank_normalise(s, s->folded);
  double folded = r_hat(s);
  return bulk > folded || folded != folded ? bulk : folded;
}

/* mean, sd, 5 %, median, 95 %, R-hat, ESS of bulk and tails, standard error of the mean */
static void summarise(split *s, double *out) {
  out[0] = moments(s, &out[1]);
  sort_draws(s);
  if (!pni_failed(s->c)) order_halves(s);
  if (pni_failed(s->c)) return;
  out[2] = quantile(s, 0.05);
  out[3] = (ranked(s, (s->count - 1) / 2) + ranked(s, s->count / 2)) / 2;
  out[4] = quantile(s, 0.95);
  double low = tail(s, out[2]), high = tail(s, out[4]);
  out[7] = low < high ? low : high;
  memcpy(s->y, s->x, (size_t)s->total * sizeof *s->y);
  out[8] = out[1] / sqrt(effective(s));
  rank_normalise(s, s->order);
  double bulk = r_hat(s);
  out[6] = effective(s);
  out[5] = worse_r_hat(s, bulk);
}

/* Column j of draws [chains, draws, m] by halves; false if one of them is not finite. */
static bool take_column(split *s, const double *draws, int64_t chains, int64_t rows, int64_t m, int64_t j) {
  bool finite = true;
  PNI_INTERRUPTIBLE(s->c, i, s->count) {
    s->all[i] = draws[i * m + j];
    finite &= isfinite(s->all[i]) != 0;
  }
  if (!finite) return false;
  for (int64_t k = 0; k < chains; k++) {
    const double *chain = s->all + k * rows;
    memcpy(s->x + 2 * k * s->n, chain, (size_t)s->n * sizeof *s->x);
    memcpy(s->x + (2 * k + 1) * s->n, chain + rows - s->n, (size_t)s->n * sizeof *s->x);
  }
  return true;
}

static void lay_out(split *s, double *numbers, place *places, int64_t *orders) {
  s->x = numbers;
  s->y = s->x + s->total;
  s->score = s->y + s->total;
  s->all = s->score + s->total;
  s->mean = s->all + s->count;
  s->rho = s->mean + s->halves;
  s->sorted = places;
  s->other = places + s->count;
  s->order = orders;
  s->folded = orders + s->total;
}

/* Summaries of all columns of x, [m, COLUMNS] into `out`. */
static void each_column(pn_context *c, split *s, const pn_tensor *x, double *out) {
  int64_t m = x->shape[2];
  PNI_INTERRUPTIBLE(c, i, s->total) s->score[i] = pni_ndtri(((double)i + 0.625) / ((double)s->total + 0.25));
  for (int64_t j = 0; j < m && pni_check_cancel(c) == PN_OK; j++) {
    double *row = out + j * COLUMNS;
    if (take_column(s, pni_data(x), x->shape[0], s->rows, m, j))
      summarise(s, row);
    else
      for (int k = 0; k < COLUMNS; k++) row[k] = NAN;
  }
}

pn_tensor *pn_draws_summary(pn_context *c, pn_tensor *draws) {
  if (!PNI_GIVEN(c, "draws_summary", draws) || pni_check_read(c, draws, "draws_summary")) return NULL;
  char got[PNI_SHAPE_TEXT];
  if (draws->dtype != PN_FLOAT64 || draws->ndim != 3 || draws->shape[0] < 1 || draws->shape[1] < 4) {
    pni_fail(c, PN_SHAPE, "draws_summary: draws must be float64 [chains, draws, m] with at least 4 draws, got %s",
             pni_shape_text(draws->ndim, draws->shape, got));
    return NULL;
  }
  int64_t chains = draws->shape[0], rows = draws->shape[1];
  split s = {.c = c, .halves = 2 * chains, .n = rows / 2, .rows = rows, .count = pni_times(chains, rows)};
  s.total = pni_times(s.halves, s.n);
  s.lagged = (pni_autocovariance){.c = c, .count = s.halves, .n = s.n};
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {draws->shape[2], COLUMNS}};
  pn_tensor *out = pni_scoped(c, pni_tensor_new(c, &spec)), *x = out ? pni_contiguous(c, draws) : NULL;
  int64_t room = pni_plus(pni_times(3, s.total), pni_plus(s.count, pni_plus(s.halves, s.n)));
  double *numbers = x ? pni_alloc_array(c, room, sizeof *numbers) : NULL;
  place *places = numbers ? pni_alloc_array(c, pni_times(2, s.count), sizeof *places) : NULL;
  int64_t *orders = places ? pni_alloc_array(c, pni_times(2, s.total), sizeof *orders) : NULL;
  if (orders) {
    lay_out(&s, numbers, places, orders);
    each_column(c, &s, x, pni_data(out));
  }
  pni_autocovariance_end(&s.lagged);
  pni_free(c, orders);
  pni_free(c, places);
  pni_free(c, numbers);
  pn_tensor_unref(x);
  return pni_failed(c) ? NULL : out;
}
