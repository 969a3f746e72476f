/*
** resampler.c: the schemes by name, and what their kernels share.
*/
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

double pni_cumulate(const pni_resampling *r, double *cumulative, double *sums) {
  cumulation k = {r, cumulative, sums};
  double total = 0;
  pni_each_block(r, within, &k);
  for (int64_t b = 0; b < pni_particle_blocks(r->n); b++) {
    double own = sums[b];
    sums[b] = total;
    total += own;
  }
  if (r->n > PNI_PARTICLE_BLOCK) pni_each_block(r, shift, &k);
  return total;
}

int64_t pni_last_alive(const pni_resampling *r) {
  int64_t i = r->n - 1;
  while (i > 0 && !(r->w[i] > 0)) i--;
  return i;
}

int64_t pni_first_above(const double *cumulative, int64_t last, double p) {
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
