/*
** resampler.h: a resampling scheme is a const descriptor. Its kernel turns normalised weights into ancestors, 0-based,
** so that particle i is expected n w[i] times among them. Weights are held against their own sum, so that no rounding
** of it gives a place beyond the last one, and a weight of 0 is never chosen.
*/
#ifndef PN_SMC_RESAMPLER_H
#define PN_SMC_RESAMPLER_H

#include "../tensor/tensor.h"

/* One filter to resample. */
typedef struct pni_resampling {
  pn_context *c;   /* blocks may be shared out over its threads; NULL: they may not */
  const double *w; /* n weights, not negative, not all 0, of any sum */
  int64_t n;       /* as many ancestors */
  pni_philox at;   /* the first of the positions that are the filter's own */
  double *scratch; /* scheme->scratch(n) numbers */
  int64_t *out;
} pni_resampling;

typedef struct pni_resampler {
  const char *name, *doc, *source;
  bool sorted;                     /* ancestors come in ascending order */
  uint64_t (*positions)(int64_t n); /* of a generator, for n particles */
  int64_t (*scratch)(int64_t n);
  void (*run)(const pni_resampling *r);
} pni_resampler;

#define X(name) extern const pni_resampler pni_resampler_##name;
#include "resampler.def"
#undef X

int pni_resampler_count(void);
const pni_resampler *pni_resampler_at(int i);
/* NULL if there is none of that name. */
const pni_resampler *pni_resampler_find(const char *name);

/* ---- for kernels: work by blocks of particles, the same whoever does them ---- */

enum { PNI_PARTICLE_BLOCK = 2048 };
static inline int64_t pni_particle_blocks(int64_t n) { return (n + PNI_PARTICLE_BLOCK - 1) / PNI_PARTICLE_BLOCK; }
/* body(data, first block, end). */
void pni_each_block(const pni_resampling *r, pni_shard body, void *data);

/* C[i] = w[0] + ... + w[i], not descending and equal where a weight is 0. sums: of blocks. Returns the total. */
double pni_cumulate(const pni_resampling *r, double *cumulative, double *sums);
/* The last particle with a weight. */
int64_t pni_last_alive(const pni_resampling *r);
/* The first particle with cumulative[i] > p, at most `last`. */
int64_t pni_first_above(const double *cumulative, int64_t last, double p);

#endif
