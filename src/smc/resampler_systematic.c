/*
** resampler_systematic.c: one uniform number u for all, positions (u + j) / n: particle i gets floor or ceil of n w[i]
** copies. The copies of a particle begin where the positions below its cumulative weight end, which each particle finds
** by itself.
*/
#include "resampler.h"

typedef struct {
  const pni_resampling *r;
  const double *cumulative;
  double scale, u;
  int64_t last; /* the last particle with a weight: it takes what is left */
} job;

/* How many positions lie below the cumulative weight of particle i: those j with j + u < scale C. */
static inline int64_t below(const job *k, int64_t i) {
  if (i < 0) return 0;
  if (i >= k->last) return k->r->n;
  double x = k->cumulative[i] * k->scale - k->u;
  int32_t whole = (int32_t)x; /* x > -1, so this rounds up all but the fraction */
  int64_t count = whole + (x > (double)whole);
  return count < k->r->n ? count : k->r->n;
}

enum { CHUNK = 256, STRIDE = 4 };

static void fill(const job *k, int64_t begin, int64_t n, int64_t *at, int64_t end) {
  int32_t to[CHUNK];
  const double *cumulative = k->cumulative + begin;
  for (int64_t i = 0; i < n; i++) {
    double x = cumulative[i] * k->scale - k->u;
    int32_t whole = (int32_t)x;
    to[i] = whole + (x > (double)whole);
  }
  int64_t *out = k->r->out, place = *at;
  for (int64_t i = 0; i < n; i++) {
    int64_t until = begin + i >= k->last || to[i] > end ? end : to[i], p = begin + i;
    if (place + STRIDE <= end) /* written beyond its end, and then over */
      for (int j = 0; j < STRIDE; j++) out[place + j] = p;
    else
      for (int64_t j = place; j < until; j++) out[j] = p;
    for (int64_t j = place + STRIDE; j < until; j++) out[j] = p;
    place = until;
  }
  *at = place;
}

static void blocks(void *data, int64_t first, int64_t stop) {
  const job *k = data;
  for (int64_t b = first; b < stop; b++) {
    int64_t begin = b * PNI_PARTICLE_BLOCK, behind = begin + PNI_PARTICLE_BLOCK;
    if (behind > k->r->n) behind = k->r->n;
    int64_t at = below(k, begin - 1), end = below(k, behind - 1);
    for (int64_t i = begin; i < behind; i += CHUNK) fill(k, i, behind - i < CHUNK ? behind - i : CHUNK, &at, end);
  }
}

static void run(const pni_resampling *r) {
  double u, *cumulative = r->scratch;
  pni_fill_uniform_f64(r->at.key, r->at.position, 0, 1, &u);
  double total = pni_cumulate(r, cumulative, cumulative + r->n);
  job k = {r, cumulative, (double)r->n / total, 1 - u, pni_last_alive(r)};
  pni_each_block(r, blocks, &k);
}

static uint64_t positions(int64_t n) {
  (void)n;
  return pni_fill_positions(PNI_FILL_UNIFORM_F64, 1);
}
static int64_t scratch(int64_t n) { return n + pni_particle_blocks(n); }

const pni_resampler pni_resampler_systematic = {.name = "systematic",
                                                .doc = "positions (u + j) / N of one uniform u: floor or ceil of N w copies",
                                                .source = "Kitagawa 1996",
                                                .sorted = true,
                                                .positions = positions,
                                                .scratch = scratch,
                                                .run = run};
