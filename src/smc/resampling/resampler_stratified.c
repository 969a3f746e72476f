/*
** resampler_stratified.c: a uniform number u[j] for each position (u[j] + j) / n.
*/
#include "resampler.h"

typedef struct {
  const pni_resampling *r;
  const double *cumulative;
  double *u; /* on (0, 1]: 1 - u is what stands above */
  double scale;
} job;

static void draw(void *data, int64_t first, int64_t end) {
  const job *k = data;
  uint64_t begin = (uint64_t)(first * PNI_PARTICLE_BLOCK), behind = (uint64_t)(end * PNI_PARTICLE_BLOCK);
  if (behind > (uint64_t)k->r->n) behind = (uint64_t)k->r->n;
  pni_fill_uniform_f64(k->r->at.key, k->r->at.position, begin, behind, k->u + begin);
}

/* All j below the whole part of x, the cumulative weight in positions, and that one itself if 1 - u < the fraction. */
static void ends(const void *data, int64_t begin, int64_t n, int32_t *to) {
  const job *k = data;
  const double *cumulative = k->cumulative + begin;
  int32_t most = (int32_t)k->r->n - 1;
  for (int64_t i = 0; i < n; i++) {
    double x = cumulative[i] * k->scale;
    int32_t at = pni_whole(x, most);
    to[i] = at + (1 - k->u[at] < x - (double)at);
  }
}

static void run(const pni_resampling *r) {
  double *cumulative = r->scratch, *u = cumulative + r->n;
  double total = pni_cumulate(r, cumulative, u + r->n);
  job k = {r, cumulative, u, (double)r->n / total};
  pni_each_block(r, draw, &k);
  pni_place_copies(r, pni_last_alive(r), ends, &k);
}

static uint64_t positions(int64_t n) { return pni_fill_positions(PNI_FILL_UNIFORM_F64, (uint64_t)n); }
static int64_t scratch(int64_t n) { return 2 * n + pni_particle_blocks(n); }

const pni_resampler pni_resampler_stratified = {.name = "stratified",
                                                .doc = "positions (u[j] + j) / N, a uniform number for each",
                                                .source = "Kitagawa 1996",
                                                .sorted = true,
                                                .positions = positions,
                                                .scratch = scratch,
                                                .run = run};
