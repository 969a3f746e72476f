/*
** window.c: Welford's updates, and what is done about single draws far out, whose scores would else settle the
** variance of all.
*/
#include <cblas.h>
#include <math.h>
#include <string.h>
#include "window.h"

enum { ENOUGH = 10 }; /* draws whose spread judges others */
static const double FAR = 10;

/* Which products a metric needs: of x, of a. */
static bool has_products(int metric) { return metric == PN_METRIC_DENSE; }

static int64_t kept_draws(int metric, int warmup) {
  int64_t most = warmup < PNI_KEPT_DRAWS ? warmup : PNI_KEPT_DRAWS;
  return metric == PN_METRIC_LOW_RANK ? most : 0;
}

int64_t pni_window_room(int64_t n, int metric, bool scores, int warmup) {
  int64_t arrays = scores ? 2 : 1;
  int64_t products = has_products(metric) ? pni_times(2 * arrays, pni_times(n, n)) : 0;
  int64_t draws = pni_times(arrays * kept_draws(metric, warmup), n);
  return pni_plus(pni_plus(pni_times(4 * arrays + 2, n), products), draws);
}

static double *take(double **from, int64_t size) {
  double *a = *from;
  *from += size;
  return a;
}

void pni_window_start(pni_window *w, int64_t n, int metric, int warmup, double *memory) {
  bool scores = w->scores;
  *w = (pni_window){.n = n, .scores = scores, .single = w->single, .keep = kept_draws(metric, warmup)};
  for (int k = 0; k < 2; k++) {
    pni_window_sums *m = &w->slot[k];
    m->mean_x = take(&memory, n);
    m->square_x = take(&memory, n);
    if (scores) m->mean_a = take(&memory, n);
    if (scores) m->square_a = take(&memory, n);
    if (has_products(metric)) m->product_x = take(&memory, n * n);
    if (has_products(metric) && scores) m->product_a = take(&memory, n * n);
  }
  w->fore = &w->slot[0];
  w->back = &w->slot[1];
  w->x = take(&memory, n);
  w->a = take(&memory, n);
  if (w->keep) w->draw = take(&memory, w->keep * n);
  if (w->keep && scores) w->score = take(&memory, w->keep * n);
}

static void clear(const pni_window *w, pni_window_sums *m) {
  size_t bytes = (size_t)w->n * sizeof(double), matrix = (size_t)(w->n * w->n) * sizeof(double);
  double *vector[] = {m->mean_x, m->square_x, m->mean_a, m->square_a}, *products[] = {m->product_x, m->product_a};
  m->count = 0;
  for (int k = 0; k < 4; k++)
    if (vector[k]) memset(vector[k], 0, bytes);
  for (int k = 0; k < 2; k++)
    if (products[k]) memset(products[k], 0, matrix);
}

void pni_window_switch(pni_window *w) {
  pni_window_sums *old = w->fore;
  w->fore = w->back;
  w->back = old;
  clear(w, w->single ? w->fore : old);
}

/* How many times FAR standard deviations x or a is away from the means of m, the worst coordinate; 1 at least. */
static double distance(const pni_window *w, const pni_window_sums *m) {
  double worst = 1, most = FAR * FAR / (double)(m->count - 1);
  for (int64_t i = 0; i < w->n; i++) {
    double dx = w->x[i] - m->mean_x[i], da = w->a[i] - m->mean_a[i];
    double of_x = dx * dx / (most * m->square_x[i]), of_a = da * da / (most * m->square_a[i]);
    if (of_x > worst && m->square_x[i] > 0) worst = of_x;
    if (of_a > worst && m->square_a[i] > 0) worst = of_a;
  }
  return sqrt(worst);
}

/* Draws in w->x and w->a. False: they are not finite. */
static bool tame(pni_window *w) {
  double sum = 0;
  for (int64_t i = 0; i < w->n; i++) sum += 0 * w->x[i] + 0 * w->a[i];
  if (sum != 0) return false;
  const pni_window_sums *m = w->fore->count >= ENOUGH ? w->fore : w->back;
  double away = m->count >= ENOUGH ? distance(w, m) : 1;
  if (!(away < INFINITY)) return false;
  for (int64_t i = 0; i < w->n && away > 1; i++) {
    w->x[i] = m->mean_x[i] + (w->x[i] - m->mean_x[i]) / away;
    w->a[i] = m->mean_a[i] + (w->a[i] - m->mean_a[i]) / away;
  }
  return true;
}

/* Welford's update of mean and sums; delta, x itself at first, is scratch. */
static void update(int64_t n, double count, double *mean, double *square, double *product, double *delta) {
  for (int64_t i = 0; i < n; i++) {
    double d = delta[i] - mean[i];
    mean[i] += d / count;
    square[i] += d * (delta[i] - mean[i]);
    delta[i] = d;
  }
  if (product) cblas_dsyr(CblasRowMajor, CblasLower, (int)n, (count - 1) / count, delta, 1, product, (int)n);
}

void pni_window_add(pni_window *w, const double *x, const double *a) {
  int64_t n = w->n;
  size_t bytes = (size_t)n * sizeof *x;
  memcpy(w->x, x, bytes);
  if (w->scores) memcpy(w->a, a, bytes);
  if (w->scores && !tame(w)) return;
  if (w->keep) memcpy(w->draw + w->added % w->keep * n, w->x, bytes);
  if (w->keep && w->scores) memcpy(w->score + w->added % w->keep * n, w->a, bytes);
  w->added++;
  for (int k = 0; k < (w->single ? 1 : 2); k++) { /* update() leaves x - mean, from which x is had again */
    pni_window_sums *m = k == 0 ? w->fore : w->back;
    double count = (double)++m->count;
    update(n, count, m->mean_x, m->square_x, m->product_x, w->x);
    if (w->scores) update(n, count, m->mean_a, m->square_a, m->product_a, w->a);
    for (int64_t i = 0; k == 0 && i < n; i++) w->x[i] = w->x[i] * (1 - 1 / count) + m->mean_x[i];
    for (int64_t i = 0; k == 0 && w->scores && i < n; i++) w->a[i] = w->a[i] * (1 - 1 / count) + m->mean_a[i];
  }
}
