/*
** trace.c: the trace, and with it the variance of the log-evidence out of one run. Lee & Whiteley 2018: with E[i] the
** ancestor of particle i in the first step, after r rounds of resampling,
**   V = 1 - (n / (n - 1))^(r + 1) (1 - sum_k (sum of w[i] over E[i] = k)^2)
** estimates the relative variance of the evidence, and so the variance of its logarithm. Without bias where resampling
** is multinomial and at times that do not depend on the particles; it is 1 when all descend from one. Where ancestors
** come in ascending order, as most schemes give them, so do those of the first step, and blocks of particles are taken
** side by side; else one after the other.
*/
#include <math.h>
#include <string.h>
#include "op/smc_op.h"
#include "trace.h"

/* ---- life ---- */

void pni_trace_free(pn_context *c, pni_trace *t) {
  if (!t) return;
  pni_free(c, t->eve);
  pni_free(c, t->spare);
  pni_free(c, t->seen);
  pni_free(c, t->sum);
  pni_free(c, t->rounds);
  pni_free(c, t->part);
  pni_free(c, t->now);
  pni_free(c, t->rows);
  pni_free(c, t);
}

pni_trace *pni_trace_new(pn_context *c, int64_t n, int64_t filters) {
  pni_trace *t = pni_calloc(c, sizeof *t);
  if (!t) return NULL;
  t->n = n;
  t->filters = filters;
  t->blocks = pni_particle_blocks(n);
  t->eve = pni_alloc_array(c, pni_times(n, filters), sizeof *t->eve);
  if (t->eve) t->spare = pni_alloc_array(c, pni_times(n, filters), sizeof *t->spare);
  if (t->spare) t->seen = pni_calloc_array(c, n, sizeof *t->seen);
  if (t->seen) t->sum = pni_alloc_array(c, n, sizeof *t->sum);
  if (t->sum) t->rounds = pni_alloc_array(c, filters, sizeof *t->rounds);
  if (t->rounds) t->now = pni_alloc_array(c, pni_times(PNI_TRACE_ROWS, filters), sizeof *t->now);
  if (t->now) t->part = pni_alloc_array(c, pni_times(t->blocks, filters), sizeof *t->part);
  if (t->part) {
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
  pni_free(c, t->rows);
  t->rows = rows;
  t->room = room;
  return PN_OK;
}

/* ---- steps ---- */

typedef struct {
  pni_trace *t;
  const int64_t *ancestor;
  const pn_tensor *weighed;
} job;

/* Block k % blocks of filter k / blocks: its particles from *begin to before *end. */
static void range_of(const pni_trace *t, int64_t k, int64_t *f, int64_t *begin, int64_t *end) {
  *f = k / t->blocks;
  *begin = k % t->blocks * PNI_PARTICLE_BLOCK;
  *end = t->n - *begin < PNI_PARTICLE_BLOCK ? t->n : *begin + PNI_PARTICLE_BLOCK;
}

/* eve of the ancestors, to spare. */
static void descend(void *data, int64_t first, int64_t stop) {
  const job *j = data;
  pni_trace *t = j->t;
  for (int64_t k = first; k < stop; k++) {
    int64_t f, begin, end, step = t->filters;
    range_of(t, k, &f, &begin, &end);
    const int64_t *a = j->ancestor + f;
    pni_trace_part p = {.ascending = true};
    for (int64_t i = begin; i < end; i++) p.wrong = p.wrong || (uint64_t)a[i * step] >= (uint64_t)t->n;
    int64_t before = begin ? a[(begin - 1) * step] : -1;
    for (int64_t i = begin; i < end && !p.wrong; i++) {
      int64_t now = a[i * step];
      t->spare[i * step + f] = t->eve[now * step + f];
      p.unique += now != before;
      p.ascending = p.ascending && now >= before;
      before = now;
    }
    t->part[k] = p;
  }
}

/* How many different ancestors filter f has, which are in no order. */
static int64_t count_unique(pni_trace *t, const int64_t *ancestors, int64_t f) {
  int64_t unique = 0;
  t->round++;
  for (int64_t i = 0; i < t->n; i++) {
    int64_t a = ancestors[i * t->filters + f];
    unique += t->seen[a] != t->round;
    t->seen[a] = t->round;
  }
  return unique;
}

/* The round of resampling by ancestors a, of which `part` and `spare` tell. */
static void resampled(pni_trace *t, const int64_t *ancestors, const uint8_t *due) {
  int64_t filters = t->filters;
  for (int64_t f = 0; f < filters; f++) {
    int64_t unique = 0;
    bool ascending = true;
    if (!due[f]) continue;
    for (int64_t b = 0; b < t->blocks; b++) {
      unique += t->part[f * t->blocks + b].unique;
      ascending = ascending && t->part[f * t->blocks + b].ascending;
    }
    if (!ascending) unique = count_unique(t, ancestors, f);
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
  int64_t parts = pni_times(t->blocks, t->filters);
  bool wrong = !a;
  if (!wrong) pni_parallel_whole(c, parts, 8, descend, &(job){.t = t, .ancestor = pni_data(a)});
  for (int64_t k = 0; k < parts && !wrong; k++) wrong = t->part[k].wrong;
  if (!wrong)
    resampled(t, pni_data(a), due);
  else if (a)
    pni_check_places(c, "trace: ancestors", a, pni_times(t->n, t->filters), t->n);
  pn_tensor_unref(a);
  return c->status;
}

static double number(const pn_tensor *t, int64_t i) {
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

/* The weights of filter f's particles begin .. end - 1. */
static void weights_of(const pni_trace *t, const pn_tensor *weighed, int64_t f, int64_t begin, int64_t end, double *w) {
  const int64_t step = t->filters, at = (t->n + begin) * step + f;
  if (weighed->dtype == PN_FLOAT64) {
    const double *x = (const double *)pni_data(weighed) + at;
    for (int64_t i = 0; i < end - begin; i++) w[i] = x[i * step];
  } else {
    const float *x = (const float *)pni_data(weighed) + at;
    for (int64_t i = 0; i < end - begin; i++) w[i] = (double)x[i * step];
  }
}

/* Weights of those who descend from one, by blocks. */
static void gather(void *data, int64_t first, int64_t stop) {
  const job *j = data;
  pni_trace *t = j->t;
  for (int64_t k = first; k < stop; k++) {
    int64_t f, begin, end, step = t->filters;
    range_of(t, k, &f, &begin, &end);
    const int64_t *eve = t->eve + f;
    double w[PNI_PARTICLE_BLOCK];
    weights_of(t, j->weighed, f, begin, end, w);
    pni_trace_part p = {.ascending = begin == 0 || eve[begin * step] >= eve[(begin - 1) * step]};
    int64_t who = p.head = eve[begin * step];
    double sum = 0;
    for (int64_t i = begin; i < end; i++) {
      if (eve[i * step] != who) {
        p.ascending = p.ascending && eve[i * step] > who;
        if (who == p.head)
          p.first = sum;
        else
          p.inner += sum * sum;
        who = eve[i * step];
        sum = 0;
      }
      sum += w[i - begin];
    }
    p.tail = who;
    *(who == p.head ? &p.first : &p.last) = sum;
    t->part[k] = p;
  }
}

/* sum_k (sum of w[i] over E[i] = k)^2 of filter f, of blocks in ascending order. */
static double together_by_blocks(const pni_trace *t, int64_t f) {
  const pni_trace_part *p = t->part + f * t->blocks;
  int64_t who = -1;
  double sum = 0, together = 0;
  for (int64_t b = 0; b < t->blocks; b++) {
    if (p[b].head != who) {
      together += sum * sum;
      sum = 0;
    }
    who = p[b].tail;
    sum += p[b].first;
    if (p[b].head == who) continue;
    together += sum * sum + p[b].inner;
    sum = p[b].last;
  }
  return together + sum * sum;
}

static double together_one_by_one(pni_trace *t, const pn_tensor *weighed, int64_t f) {
  double together = 0;
  memset(t->sum, 0, (size_t)t->n * sizeof *t->sum);
  for (int64_t i = 0; i < t->n; i++) t->sum[t->eve[i * t->filters + f]] += number(weighed, (t->n + i) * t->filters + f);
  for (int64_t i = 0; i < t->n; i++) together += t->sum[i] * t->sum[i];
  return together;
}

static double variance(pni_trace *t, const pn_tensor *weighed, int64_t f) {
  bool ascending = true;
  for (int64_t b = 0; b < t->blocks; b++) ascending = ascending && t->part[f * t->blocks + b].ascending;
  double together = ascending ? together_by_blocks(t, f) : together_one_by_one(t, weighed, f);
  return 1 - exp((double)(t->rounds[f] + 1) * -log1p(-1 / (double)t->n)) * (1 - together);
}

void pni_trace_weighed(pn_context *c, pni_trace *t, const pn_tensor *weighed, bool step) {
  int64_t filters = t->filters, n = t->n;
  if (step) pni_parallel_whole(c, t->blocks * filters, 8, gather, &(job){.t = t, .weighed = weighed});
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
