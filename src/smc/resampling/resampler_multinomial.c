/*
** resampler_multinomial.c: independent draws. Sorted uniform numbers are sums of exponential ones over the sum of one
** more of them (Devroye 1986, V.3.1), and so they go through the weights once.
*/
#include "resampler.h"

typedef struct {
  const pni_resampling *r;
  double *gaps;
} spacing;

static void draw(void *data, int64_t first, int64_t end) {
  const spacing *s = data;
  uint64_t begin = (uint64_t)(first * PNI_PARTICLE_BLOCK), behind = (uint64_t)(end * PNI_PARTICLE_BLOCK);
  if (behind >= (uint64_t)s->r->n) behind = (uint64_t)s->r->n + 1; /* the last block has one more */
  pni_fill_exponential_f64(s->r->at.key, s->r->at.position, begin, behind, s->gaps + begin);
}

static void run(const pni_resampling *r) {
  int64_t n = r->n;
  double *cumulative = r->scratch, *gaps = cumulative + n, *sums = gaps + n + 1;
  spacing s = {r, gaps};
  pni_each_block(r, draw, &s);
  double total = pni_cumulate(r, cumulative, sums);
  pni_merge(r, cumulative, pni_last_alive(r), gaps, sums, total, r->count, r->out);
}

static uint64_t positions(int64_t n) { return pni_fill_positions(PNI_FILL_EXPONENTIAL_F64, (uint64_t)n + 1); }
static int64_t scratch(int64_t n) { return 2 * n + 1 + pni_particle_blocks(n + 1); }

const pni_resampler pni_resampler_multinomial = {.name = "multinomial",
                                                 .doc = "N independent draws by the weights",
                                                 .source = "Gordon, Salmond & Smith 1993",
                                                 .sorted = true,
                                                 .independent = true,
                                                 .positions = positions,
                                                 .scratch = scratch,
                                                 .run = run};
