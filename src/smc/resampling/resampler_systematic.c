/*
** resampler_systematic.c: one uniform number u for all, positions (u + j) / n: particle i gets floor or ceil of n w[i]
** copies. Each particle finds by itself how many positions lie below its cumulative weight.
*/
#include "resampler.h"

typedef struct {
  const double *cumulative, *before; /* within blocks, and of the blocks before */
  double scale, u;
  int32_t most;
} job;

/* Those j with j + u < x, x the cumulative weight in positions: x - u > -1, rounded up. */
static void ends(const void *data, int64_t begin, int64_t n, int32_t *to) {
  const job *k = data;
  const double *cumulative = k->cumulative + begin, scale = k->scale, u = k->u;
  double before = k->before[begin / PNI_PARTICLE_BLOCK];
  for (int64_t i = 0; i < n; i++) {
    double x = (cumulative[i] + before) * scale - u;
    int32_t whole = pni_whole(x, k->most);
    to[i] = whole + (x > (double)whole);
  }
}

static void run(const pni_resampling *r) {
  double u, *cumulative = r->scratch;
  pni_fill_uniform_f64(r->at.key, r->at.position, 0, 1, &u);
  double *before = cumulative + r->n, total = pni_cumulate_within(r, cumulative, before);
  job k = {cumulative, before, (double)r->n / total, 1 - u, (int32_t)r->n};
  pni_place_copies(r, pni_last_alive(r), ends, &k);
}

static uint64_t positions(int64_t n) {
  (void)n;
  return pni_fill_positions(PNI_FILL_UNIFORM_F64, 1);
}
static int64_t scratch(int64_t n) { return n + pni_particle_blocks(n); }

const pni_resampler pni_resampler_systematic = {.name = "systematic",
                                                .doc = "positions (u + j) / N of one uniform u: N w rounded down or up",
                                                .source = "Kitagawa 1996",
                                                .sorted = true,
                                                .positions = positions,
                                                .scratch = scratch,
                                                .run = run};
