/*
** resampler_residual.c: floor(n w[i]) copies, and the rest by independent draws from what remains of n w[i].
*/
#include "resampler.h"

static void run(const pni_resampling *r) {
  int64_t n = r->n, last = -1;
  double *rest = r->scratch, *gaps = rest + n, *sums = gaps + n + 1;
  int32_t *counts = (int32_t *)(void *)(sums + pni_particle_blocks(n + 1));
  int64_t missing = pni_whole_copies(r, rest, counts);
  double total = 0;
  for (int64_t i = 0; i < n; i++) {
    if (rest[i] > 0) last = i;
    rest[i] = total += rest[i];
  }
  if (last < 0) last = pni_last_alive(r);
  if (missing > 0) {
    pni_fill_exponential_f64(r->at.key, r->at.position, 0, (uint64_t)missing + 1, gaps);
    pni_merge(r, rest, last, gaps, sums, total, missing, r->out);
    for (int64_t k = 0; k < missing; k++) counts[r->out[k]]++;
  }
  pni_write_copies(r, counts);
}

static uint64_t positions(int64_t n) { return pni_fill_positions(PNI_FILL_EXPONENTIAL_F64, (uint64_t)n + 1); }
static int64_t scratch(int64_t n) { return 3 * n + 2 + pni_particle_blocks(n + 1); }

const pni_resampler pni_resampler_residual = {
    .name = "residual",
    .doc = "floor(N w) copies, the rest by independent draws from the remainders",
    .source = "Liu & Chen 1998",
    .sorted = true,
    .positions = positions,
    .scratch = scratch,
    .run = run};
