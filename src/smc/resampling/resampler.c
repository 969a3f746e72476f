/*
** resampler.c: the schemes by name, and what their kernels share.
*/
#include <math.h>
#include <string.h>
#include "resampler.h"

static const pni_resampler *const rows[] = {
#define X(name) &pni_resampler_##name,
#include "resampler.def"
#undef X
};

int pni_resampler_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_resampler *pni_resampler_at(int i) { return i >= 0 && i < pni_resampler_count() ? rows[i] : NULL; }

const pni_resampler *pni_resampler_find(const char *name) {
  for (int i = 0; i < pni_resampler_count(); i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

void pni_each_block(const pni_resampling *r, pni_shard body, void *data) {
  int64_t blocks = pni_particle_blocks(r->n);
  if (r->c)
    pni_parallel(r->c, blocks, 8, body, data);
  else
    body(data, 0, blocks);
}

typedef struct {
  const double *w;
  int64_t n;
  double *sum; /* of blocks; NaN where a weight is negative */
} law;

/* A NaN shows in the sum: four of them, and four least weights, so that no addition waits for the one before. */
static double sum_of_law(const double *w, int64_t n) {
  enum { LANES = 4 };
  double sum[LANES] = {0}, least[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      sum[j] += w[i + j];
      least[j] = w[i + j] < least[j] ? w[i + j] : least[j];
    }
  for (; i < n; i++) {
    sum[0] += w[i];
    least[0] = w[i] < least[0] ? w[i] : least[0];
  }
  bool negative = least[0] < 0 || least[1] < 0 || least[2] < 0 || least[3] < 0;
  return negative ? (double)NAN : (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void sum_blocks(void *data, int64_t first, int64_t end) {
  const law *k = data;
  for (int64_t b = first; b < end; b++) {
    int64_t begin = b * PNI_PARTICLE_BLOCK, left = k->n - begin;
    k->sum[b] = sum_of_law(k->w + begin, left < PNI_PARTICLE_BLOCK ? left : PNI_PARTICLE_BLOCK);
  }
}

/* Every scheme's scratch has more numbers than there are blocks. */
static bool is_law(const pni_resampling *r) {
  law k = {r->w, r->n, r->scratch};
  double total = 0;
  int64_t blocks = pni_particle_blocks(r->n);
  for (int64_t b = 0; b < blocks; b++) k.sum[b] = 0;
  pni_each_block(r, sum_blocks, &k);
  for (int64_t b = 0; b < blocks; b++) total += k.sum[b];
  return total > 0 && isfinite(total) && isfinite((double)r->n / total);
}

bool pni_resampler_run(const pni_resampler *scheme, const pni_resampling *r) {
  bool is = is_law(r);
  if (is)
    scheme->run(r);
  else
    for (int64_t i = 0; i < r->count; i++) r->out[i] = i;
  return is;
}

typedef struct {
  const pni_resampling *r;
  double *cumulative, *sums;
} cumulation;

/* Sums within a block, four at a time: the chain of additions is a quarter as long. */
static void within(void *data, int64_t first, int64_t end) {
  const cumulation *k = data;
  for (int64_t b = first; b < end; b++) {
    int64_t begin = b * PNI_PARTICLE_BLOCK, left = k->r->n - begin;
    int64_t n = left < PNI_PARTICLE_BLOCK ? left : PNI_PARTICLE_BLOCK, i = 0;
    const double *w = k->r->w + begin;
    double *out = k->cumulative + begin, base = 0;
    for (; i + 4 <= n; i += 4) {
      double s0 = w[i], s1 = s0 + w[i + 1], s2 = s1 + w[i + 2], s3 = s2 + w[i + 3];
      out[i] = base + s0;
      out[i + 1] = base + s1;
      out[i + 2] = base + s2;
      base = out[i + 3] = base + s3;
    }
    for (; i < n; i++) base = out[i] = base + w[i];
    k->sums[b] = base;
  }
}

static void shift(void *data, int64_t first, int64_t end) {
  const cumulation *k = data;
  for (int64_t b = first; b < end; b++) {
    int64_t begin = b * PNI_PARTICLE_BLOCK, left = k->r->n - begin;
    int64_t n = left < PNI_PARTICLE_BLOCK ? left : PNI_PARTICLE_BLOCK;
    double *out = k->cumulative + begin, before = k->sums[b];
    for (int64_t i = 0; i < n; i++) out[i] += before;
  }
}

double pni_cumulate_within(const pni_resampling *r, double *cumulative, double *sums) {
  cumulation k = {r, cumulative, sums};
  double total = 0;
  pni_each_block(r, within, &k);
  for (int64_t b = 0; b < pni_particle_blocks(r->n); b++) {
    double own = sums[b];
    sums[b] = total;
    total += own;
  }
  return total;
}

double pni_cumulate(const pni_resampling *r, double *cumulative, double *sums) {
  double total = pni_cumulate_within(r, cumulative, sums);
  if (r->n > PNI_PARTICLE_BLOCK) pni_each_block(r, shift, &(cumulation){r, cumulative, sums});
  return total;
}

int64_t pni_last_alive(const pni_resampling *r) {
  int64_t i = r->n - 1;
  while (i > 0 && !(r->w[i] > 0)) i--;
  return i;
}

/* ---- sorted positions through cumulative weights ---- */

static int64_t first_above(const double *cumulative, int64_t last, double p) {
  int64_t low = 0, high = last;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (cumulative[middle] > p)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

typedef struct {
  const double *cumulative, *position;
  double scale; /* from sums of gaps to the weights */
  int64_t count, last;
  int64_t *out;
} search;

static void find(void *data, int64_t first, int64_t stop) {
  const search *k = data;
  int64_t j = first * PNI_PARTICLE_BLOCK, end = stop * PNI_PARTICLE_BLOCK;
  if (end > k->count) end = k->count;
  if (j >= end) return;
  int64_t i = first_above(k->cumulative, k->last, k->position[j] * k->scale);
  while (j < end) {
    double p = k->position[j] * k->scale;
    while (i < k->last && !(k->cumulative[i] > p)) i++;
    k->out[j++] = i;
  }
}

void pni_merge(const pni_resampling *r, const double *cumulative, int64_t last, double *gaps, double *sums,
               double total, int64_t count, int64_t *out) {
  pni_resampling of_gaps = {.c = r->c, .w = gaps, .n = count + 1}, of_places = {.c = r->c, .n = count};
  double all = pni_cumulate(&of_gaps, gaps, sums);
  search k = {cumulative, gaps, total / all, count, last, out};
  pni_each_block(&of_places, find, &k);
}

/* ---- copies ---- */

enum { CHUNK = 256, AHEAD = 4 };

typedef struct {
  const pni_resampling *r;
  int64_t last;
  pni_ends ends;
  const void *data;
} placing;

static int64_t end_of(const placing *k, int64_t i) {
  int32_t to = 0;
  if (i >= k->last) return k->r->count;
  if (i >= 0) k->ends(k->data, i, 1, &to);
  return to < k->r->count ? to : k->r->count;
}

/* n particles from `begin` on, whose copies start at *at and stop before `end`. Each is written AHEAD times before its
 * number of copies matters: what was too much, the next ones overwrite. */
static void place(const placing *k, int64_t begin, int64_t n, int64_t *at, int64_t end) {
  int32_t to[CHUNK];
  k->ends(k->data, begin, n, to);
  int64_t *out = k->r->out, here = *at;
  for (int64_t i = 0; i < n; i++) {
    int64_t until = begin + i >= k->last || to[i] > end ? end : to[i], p = begin + i, written = 0;
    if (here + AHEAD <= end) {
      for (int j = 0; j < AHEAD; j++) out[here + j] = p;
      written = AHEAD;
    }
    for (int64_t j = here + written; j < until; j++) out[j] = p;
    here = until;
  }
  *at = here;
}

static void place_blocks(void *data, int64_t first, int64_t stop) {
  const placing *k = data;
  for (int64_t b = first; b < stop; b++) {
    int64_t begin = b * PNI_PARTICLE_BLOCK, behind = begin + PNI_PARTICLE_BLOCK;
    if (behind > k->r->n) behind = k->r->n;
    int64_t at = end_of(k, begin - 1), end = end_of(k, behind - 1);
    for (int64_t i = begin; i < behind; i += CHUNK) place(k, i, behind - i < CHUNK ? behind - i : CHUNK, &at, end);
  }
}

void pni_place_copies(const pni_resampling *r, int64_t last, pni_ends ends, const void *data) {
  placing k = {r, last, ends, data};
  pni_each_block(r, place_blocks, &k);
}

int64_t pni_whole_copies(const pni_resampling *r, double *rest, int32_t *counts) {
  double total = 0, slack = 1 + 1e-12; /* above the rounding of a sum of 2^31 weights */
  for (int64_t b = 0; b < r->n; b += PNI_PARTICLE_BLOCK) {
    double sum = 0;
    for (int64_t i = b; i < r->n && i < b + PNI_PARTICLE_BLOCK; i++) sum += r->w[i];
    total += sum;
  }
  double scale = (double)r->n / total;
  int64_t missing = r->n;
  for (int64_t i = 0; i < r->n; i++) {
    double x = r->w[i] * scale;
    int32_t whole = pni_whole(x * slack, (int32_t)r->n);
    counts[i] = whole;
    rest[i] = x > (double)whole * slack ? x - (double)whole : 0;
    missing -= whole;
  }
  return missing;
}

void pni_write_copies(const pni_resampling *r, const int32_t *counts) {
  int64_t at = 0;
  for (int64_t i = 0; i < r->n; i++)
    for (int32_t k = 0; k < counts[i] && at < r->n; k++) r->out[at++] = i;
  for (; at < r->n; at++) r->out[at] = at;
}
