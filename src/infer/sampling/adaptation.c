/*
** adaptation.c: dual averaging (Hoffman & Gelman 2014, with gamma = 0.05, t0 = 10, kappa = 0.75) and variances in
** windows: 75 iterations for the step size alone, windows of 25, 50, 100 ..., 50 iterations for the step size (Stan
** Reference Manual, section on HMC algorithm parameters); in less than 150 iterations 15 %, 75 % and 10 %.
*/
#include <cblas.h>
#include <math.h>
#include <string.h>
#include "../../base/clock.h"
#include "adaptation.h"

static const double GAMMA = 0.05, T0 = 10, KAPPA = 0.75;

int64_t pni_adaptation_room(int64_t n, bool dense) { return pni_plus(dense ? pni_times(n, n) : n, pni_times(2, n)); }

static void restart_step(pni_adaptation *a, const pni_chain *h) {
  a->mu = log(10 * h->step);
  a->mean_error = 0;
  a->log_mean_step = 0;
  a->count = 0;
}

static void restart_window(pni_adaptation *a, const pni_chain *h) {
  a->draws = 0;
  memset(a->mean, 0, (size_t)a->n * sizeof *a->mean);
  memset(a->sum, 0, (size_t)(h->metric.dense ? a->n * a->n : a->n) * sizeof *a->sum);
}

/* A window takes what would not hold another of twice its size, the first one excepted (Stan's schedule). */
static void next_window(pni_adaptation *a) {
  int end = a->warmup - a->last, start = a->window_end;
  a->window_end = start + a->window;
  if (start > a->first && a->window_end + 2 * a->window > end) a->window_end = end;
  a->window *= 2;
}

void pni_adaptation_start(pni_adaptation *a, const pni_chain *h, int warmup, double target, double *memory) {
  int64_t n = h->metric.n;
  *a = (pni_adaptation){.warmup = warmup, .first = 75, .last = 50, .window = 25, .target = target, .n = n};
  a->mean = memory;
  a->delta = memory + n;
  a->sum = memory + 2 * n;
  if (warmup < 20) { /* the step size alone */
    a->first = warmup;
    a->last = 0;
  } else if (warmup < 150) {
    a->first = (int)(0.15 * warmup);
    a->last = (int)(0.1 * warmup);
    a->window = warmup - a->first - a->last;
  }
  a->window_end = a->first;
  if (warmup >= 20) next_window(a);
  restart_step(a, h);
  restart_window(a, h);
}

static void adapt_step(pni_adaptation *a, pni_chain *h, double accept) {
  double t = ++a->count;
  a->mean_error += (a->target - accept - a->mean_error) / (t + T0);
  double log_step = a->mu - a->mean_error * sqrt(t) / GAMMA;
  double weight = pow(t, -KAPPA);
  a->log_mean_step = weight * log_step + (1 - weight) * a->log_mean_step;
  h->step = exp(log_step);
}

/* Welford's update of mean and sum of squares (or products, the lower triangle). */
static void add_draw(pni_adaptation *a, const pni_chain *h) {
  int64_t n = a->n;
  double count = (double)++a->draws;
  for (int64_t i = 0; i < n; i++) {
    a->delta[i] = h->at.z[i] - a->mean[i];
    a->mean[i] += a->delta[i] / count;
  }
  if (h->metric.dense)
    cblas_dsyr(CblasRowMajor, CblasLower, (int)n, (count - 1) / count, a->delta, 1, a->sum, (int)n);
  else
    for (int64_t i = 0; i < n; i++) a->sum[i] += a->delta[i] * (h->at.z[i] - a->mean[i]);
}

/* Lower Cholesky factor of the n x n matrix at f, in place; false if it has none, or the watch says that the rest is to
 * be left. */
static bool factorise(pni_watch *w, int64_t n, double *f) {
  for (int64_t j = 0; j < n; j++) {
    double *row = f + j * n;
    double d = row[j] - cblas_ddot((int)j, row, 1, row, 1);
    if (!(d > 0) || isinf(d)) return false;
    row[j] = sqrt(d);
    for (int64_t i = j + 1; i < n; i++) {
      if (pni_watch_leaves(w, j / 2 + 8)) return false;
      f[i * n + j] = (f[i * n + j] - cblas_ddot((int)j, f + i * n, 1, row, 1)) / row[j];
    }
  }
  return true;
}

/* The window's covariance, drawn towards 0.001 by 5 draws' worth. The window keeps its sums. */
static pn_status adapt_metric(pni_adaptation *a, pni_chain *h) {
  pni_metric *m = &h->metric;
  double count = (double)a->draws, share = count / (count + 5), floor = 1e-3 * 5 / (count + 5);
  int64_t n = a->n;
  if (a->draws < 2) return PN_OK;
  if (!m->dense) {
    for (int64_t i = 0; i < n; i++) m->inverse[i] = share * a->sum[i] / (count - 1) + floor;
    return PN_OK;
  }
#define ELEMENT(i, j) (share * a->sum[(i)*n + (j)] / (count - 1) + ((i) == (j) ? floor : 0))
  pni_watch watch = {.c = h->c};
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) m->factor[i * n + j] = ELEMENT(i, j);
  if (factorise(&watch, n, m->factor)) {
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j <= i; j++) m->inverse[i * n + j] = m->inverse[j * n + i] = ELEMENT(i, j);
  } else if (!watch.left) {
    memcpy(m->factor, m->inverse, (size_t)(n * n) * sizeof *m->factor);
    factorise(&watch, n, m->factor);
  }
#undef ELEMENT
  return h->status = watch.left ? pni_check_cancel(h->c) : PN_OK;
}

pn_status pni_adapt_search(pni_adaptation *a, pni_chain *h) {
  if (a->full) {
    if (adapt_metric(a, h)) return h->status;
    restart_window(a, h);
    a->full = false;
    a->search = true;
  }
  if (!a->search) return PN_OK;
  if (pni_chain_reasonable_step(h)) return h->status;
  restart_step(a, h);
  a->search = false;
  return PN_OK;
}

void pni_adapt(pni_adaptation *a, pni_chain *h, int i, double accept) {
  adapt_step(a, h, accept);
  if (i >= a->first && i < a->warmup - a->last && a->warmup >= 20) {
    add_draw(a, h);
    if (i + 1 == a->window_end) {
      next_window(a);
      a->full = true; /* the rest before the next iteration: the warm-up does not end here */
    }
  }
  if (i + 1 == a->warmup) h->step = exp(a->log_mean_step);
}
