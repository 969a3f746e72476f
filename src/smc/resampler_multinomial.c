/*
** resampler_multinomial.c: N independent draws. Sorted uniform numbers are sums of exponential ones over the sum of
** N + 1 of them (Devroye 1986, V.3.1), and then they go through the weights once.
*/
#include "resampler.h"

typedef struct {
  const pni_resampling *r;
  double *gaps; /* n + 1 exponential numbers, then their sums */
} spacing;

static void draw(void *data, int64_t first, int64_t end) {
  const spacing *s = data;
  uint64_t begin = (uint64_t)(first * PNI_PARTICLE_BLOCK), behind = (uint64_t)(end * PNI_PARTICLE_BLOCK);
  uint64_t n = (uint64_t)s->r->n + 1;
  if (behind >= n - 1) behind = n; /* the last block has one more */
  pni_fill_exponential_f64(s->r->at.key, s->r->at.position, begin, behind, s->gaps + begin);
}

typedef struct {
  const double *cumulative, *position;
  double scale; /* from sums of gaps to the weights */
  int64_t n, last;
  int64_t *out;
} search;

static void blocks(void *data, int64_t first, int64_t stop) {
  const search *k = data;
  int64_t j = first * PNI_PARTICLE_BLOCK, end = stop * PNI_PARTICLE_BLOCK;
  if (end > k->n) end = k->n;
  int64_t i = pni_first_above(k->cumulative, k->last, k->position[j] * k->scale);
  while (j < end) {
    double p = k->position[j] * k->scale;
    while (i < k->last && !(k->cumulative[i] > p)) i++;
    k->out[j++] = i;
  }
}

static void run(const pni_resampling *r) {
  int64_t n = r->n, count = pni_particle_blocks(n + 1);
  double *cumulative = r->scratch, *gaps = cumulative + n, *sums = gaps + n + 1;
  spacing s = {r, gaps};
  pni_each_block(r, draw, &s);
  pni_resampling of_gaps = {.c = r->c, .w = gaps, .n = n + 1};
  double all = pni_cumulate(&of_gaps, gaps, sums), total = pni_cumulate(r, cumulative, sums + count);
  search k = {cumulative, gaps, total / all, n, pni_last_alive(r), r->out};
  pni_each_block(r, blocks, &k);
}

static uint64_t positions(int64_t n) { return pni_fill_positions(PNI_FILL_EXPONENTIAL_F64, (uint64_t)n + 1); }
static int64_t scratch(int64_t n) { return 2 * n + 1 + 2 * pni_particle_blocks(n + 1); }

const pni_resampler pni_resampler_multinomial = {.name = "multinomial",
                                                 .doc = "N independent draws by the weights",
                                                 .source = "Gordon, Salmond & Smith 1993",
                                                 .sorted = true,
                                                 .positions = positions,
                                                 .scratch = scratch,
                                                 .run = run};
