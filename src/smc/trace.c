/*
** trace.c: the trace, and with it the variance of the log-evidence out of one run. Lee & Whiteley 2018: with E[i] the
** ancestor of particle i in the first step, after r rounds of resampling,
**   V = 1 - (n / (n - 1))^(r + 1) (1 - sum_k (sum of w[i] over E[i] = k)^2)
** estimates the relative variance of the evidence, and so the variance of its logarithm. Without bias where resampling
** is multinomial and at times that do not depend on the particles; it is 1 when all descend from one.
*/
#include <math.h>
#include <string.h>
#include "op/smc_op.h"
#include "trace.h"

/* ---- life ---- */

void pni_trace_free(pn_context *c, pni_trace *t) {
  if (!t) return;
  size_t n = (size_t)t->n, filters = (size_t)t->filters;
  pni_free(c, t->eve, n * filters * sizeof *t->eve);
  pni_free(c, t->spare, n * filters * sizeof *t->spare);
  pni_free(c, t->seen, n * sizeof *t->seen);
  pni_free(c, t->sum, n * sizeof *t->sum);
  pni_free(c, t->rounds, filters * sizeof *t->rounds);
  pni_free(c, t->now, PNI_TRACE_ROWS * filters * sizeof *t->now);
  pni_free(c, t->rows, (size_t)t->room * PNI_TRACE_ROWS * filters * sizeof *t->rows);
  pni_free(c, t, sizeof *t);
}

pni_trace *pni_trace_new(pn_context *c, int64_t n, int64_t filters) {
  pni_trace *t = pni_calloc(c, sizeof *t);
  if (!t) return NULL;
  t->n = n;
  t->filters = filters;
  t->eve = pni_alloc_array(c, pni_times(n, filters), sizeof *t->eve);
  if (t->eve) t->spare = pni_alloc_array(c, pni_times(n, filters), sizeof *t->spare);
  if (t->spare) t->seen = pni_calloc_array(c, n, sizeof *t->seen);
  if (t->seen) t->sum = pni_alloc_array(c, n, sizeof *t->sum);
  if (t->sum) t->rounds = pni_alloc_array(c, filters, sizeof *t->rounds);
  if (t->rounds) t->now = pni_alloc_array(c, pni_times(PNI_TRACE_ROWS, filters), sizeof *t->now);
  if (t->now) {
    pni_trace_reset(t);
    return t;
  }
  pni_trace_free(c, t);
  return NULL;
}

static void begin_step(pni_trace *t) {
  memset(t->now, 0, PNI_TRACE_ROWS * (size_t)t->filters * sizeof *t->now);
  for (int64_t f = 0; f < t->filters; f++) t->now[PNI_TRACE_UNIQUE * t->filters + f] = (double)t->n;
}

void pni_trace_reset(pni_trace *t) {
  t->length = 0;
  for (int64_t i = 0; i < t->n; i++)
    for (int64_t f = 0; f < t->filters; f++) t->eve[i * t->filters + f] = i;
  memset(t->rounds, 0, (size_t)t->filters * sizeof *t->rounds);
  begin_step(t);
}

pn_status pni_trace_reserve(pn_context *c, pni_trace *t) {
  if (t->length < t->room) return PN_OK;
  int64_t room = t->room ? pni_times(2, t->room) : 64, width = PNI_TRACE_ROWS * t->filters;
  double *rows = pni_alloc_array(c, pni_times(room, width), sizeof *rows);
  if (!rows) return c->status;
  if (t->rows) memcpy(rows, t->rows, (size_t)(t->length * width) * sizeof *rows);
  pni_free(c, t->rows, (size_t)(t->room * width) * sizeof *rows);
  t->rows = rows;
  t->room = room;
  return PN_OK;
}

/* ---- steps ---- */

/* The round of resampling by ancestors a, which are places. */
static void resampled(pni_trace *t, const int64_t *ancestors, const uint8_t *due) {
  int64_t filters = t->filters;
  for (int64_t f = 0; f < filters; f++) {
    int64_t unique = 0;
    if (t->round == INT32_MAX) memset(t->seen, 0, (size_t)t->n * sizeof *t->seen), t->round = 0;
    t->round++;
    for (int64_t i = 0; i < t->n; i++) {
      int64_t a = ancestors[i * filters + f];
      t->spare[i * filters + f] = t->eve[a * filters + f];
      unique += t->seen[a] != t->round;
      t->seen[a] = t->round;
    }
    if (!due[f]) continue;
    t->now[PNI_TRACE_UNIQUE * filters + f] = (double)unique;
    t->now[PNI_TRACE_RESAMPLED * filters + f] = 1;
    t->rounds[f]++;
  }
  int64_t *old = t->eve;
  t->eve = t->spare;
  t->spare = old;
}

pn_status pni_trace_resampled(pn_context *c, pni_trace *t, const pn_tensor *ancestors, const uint8_t *due) {
  pn_tensor *a = pni_contiguous(c, ancestors);
  if (a && pni_check_places(c, "trace: ancestors", a, pni_times(t->n, t->filters), t->n) == PN_OK)
    resampled(t, pni_data(a), due);
  pn_tensor_unref(a);
  return c->status;
}

static double number(const pn_tensor *t, int64_t i) {
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

static double variance(pni_trace *t, const pn_tensor *weighed, int64_t f) {
  double n = (double)t->n, together = 0;
  memset(t->sum, 0, (size_t)t->n * sizeof *t->sum);
  for (int64_t i = 0; i < t->n; i++) t->sum[t->eve[i * t->filters + f]] += number(weighed, (t->n + i) * t->filters + f);
  for (int64_t i = 0; i < t->n; i++) together += t->sum[i] * t->sum[i];
  return 1 - exp((double)(t->rounds[f] + 1) * -log1p(-1 / n)) * (1 - together);
}

void pni_trace_weighed(pni_trace *t, const pn_tensor *weighed, bool step) {
  int64_t filters = t->filters, n = t->n;
  for (int64_t f = 0; f < filters; f++) {
    double *now = t->now + f;
    now[PNI_TRACE_INCREMENT * filters] += number(weighed, (2 * n + PNI_WEIGHED_INCREMENT) * filters + f);
    now[PNI_TRACE_SIZE * filters] = number(weighed, (2 * n + PNI_WEIGHED_SIZE) * filters + f);
    now[PNI_TRACE_LARGEST * filters] = number(weighed, (2 * n + PNI_WEIGHED_LARGEST) * filters + f);
    if (step) now[PNI_TRACE_VARIANCE * filters] = variance(t, weighed, f);
  }
  if (!step) return;
  memcpy(t->rows + t->length++ * PNI_TRACE_ROWS * filters, t->now, PNI_TRACE_ROWS * (size_t)filters * sizeof *t->now);
  begin_step(t);
}
