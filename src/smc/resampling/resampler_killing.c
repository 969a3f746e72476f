/*
** resampler_killing.c: a particle keeps its place with probability w[i] / max w; the others are replaced by independent
** draws. The only scheme that leaves places as they are.
*/
#include "resampler.h"

static void run(const pni_resampling *r) {
  int64_t n = r->n, dead = 0;
  double *u = r->scratch, *gaps = u + n, *sums = gaps + n + 1, largest = 0;
  int64_t *heir = (int64_t *)(void *)(sums + pni_particle_blocks(n + 1));
  for (int64_t i = 0; i < n; i++) largest = r->w[i] > largest ? r->w[i] : largest;
  pni_fill_uniform_f64(r->at.key, r->at.position, 0, (uint64_t)n, u);
  for (int64_t i = 0; i < n; i++) {
    bool lives = (1 - u[i]) * largest < r->w[i];
    r->out[i] = lives ? i : -1;
    dead += !lives;
  }
  if (dead == 0) return;
  uint64_t behind = r->at.position + pni_fill_positions(PNI_FILL_UNIFORM_F64, (uint64_t)n);
  pni_fill_exponential_f64(r->at.key, behind, 0, (uint64_t)dead + 1, gaps);
  double *cumulative = u, total = pni_cumulate(r, cumulative, sums);
  pni_merge(r, cumulative, pni_last_alive(r), gaps, sums, total, dead, heir);
  for (int64_t i = 0, k = 0; i < n; i++)
    if (r->out[i] < 0) r->out[i] = heir[k++];
}

static uint64_t positions(int64_t n) {
  return pni_fill_positions(PNI_FILL_UNIFORM_F64, (uint64_t)n) +
         pni_fill_positions(PNI_FILL_EXPONENTIAL_F64, (uint64_t)n + 1);
}
static int64_t scratch(int64_t n) { return 3 * n + 1 + pni_particle_blocks(n + 1); }

const pni_resampler pni_resampler_killing = {.name = "killing",
                                             .doc = "each stays with probability w / max w, else an independent draw",
                                             .source = "Del Moral 2004",
                                             .positions = positions,
                                             .scratch = scratch,
                                             .run = run};
