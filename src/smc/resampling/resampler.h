/*
** resampler.h: a resampling scheme is a const descriptor. Its kernel turns normalised weights into ancestors, 0-based,
** so that particle i is expected n w[i] times among them. Weights are held against their own sum, so that no rounding
** of it gives a place beyond the last one, and a weight of 0 is never chosen. Whatever the weights are, even where they
** are no weights, a place is below n: kernels turn numbers into whole ones by pni_whole alone.
*/
#ifndef PN_SMC_RESAMPLING_RESAMPLER_H
#define PN_SMC_RESAMPLING_RESAMPLER_H

#include "../../tensor/tensor.h"

/* One filter to resample. */
typedef struct pni_resampling {
  pn_context *c;   /* blocks may be shared out over its threads; NULL: they may not */
  const double *w; /* n weights, not negative, not all 0, of any sum */
  int64_t n;
  int64_t count;   /* of ancestors: n, or fewer where the scheme's flag says so */
  pni_philox at;   /* the first of the positions that are the filter's own */
  double *scratch; /* scheme->scratch(n) numbers, more than there are blocks */
  int64_t *out;
} pni_resampling;

typedef struct pni_resampler {
  const char *name, *doc, *source;
  bool sorted;                      /* ancestors come in ascending order */
  bool independent;                 /* of each other: any number of them may be drawn */
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
/* Runs the scheme, the one way to do so. False where the weights are no law (NaN, infinite, negative, none above 0, or
 * so small or large in all that n over their sum is no number): ancestors are own places then. */
bool pni_resampler_run(const pni_resampler *scheme, const pni_resampling *r);

/* x rounded down, held within 0 .. most; 0 for NaN. */
static inline int32_t pni_whole(double x, int32_t most) {
  x = x > 0 ? x : 0;
  return (int32_t)(x < (double)most ? x : (double)most);
}

/* ---- for kernels: work by blocks of particles, the same whoever does them ---- */

enum { PNI_PARTICLE_BLOCK = 2048 };
static inline int64_t pni_particle_blocks(int64_t n) { return (n + PNI_PARTICLE_BLOCK - 1) / PNI_PARTICLE_BLOCK; }
/* body(data, first block, end). */
void pni_each_block(const pni_resampling *r, pni_shard body, void *data);

/* C[i] = w[0] + ... + w[i], not descending and equal where a weight is 0. sums: of blocks. Returns the total. */
double pni_cumulate(const pni_resampling *r, double *cumulative, double *sums);
/* The same without a pass over memory: C[i] is cumulative[i] + sums[i / PNI_PARTICLE_BLOCK]. */
double pni_cumulate_within(const pni_resampling *r, double *cumulative, double *sums);
/* The last particle with a weight. */
int64_t pni_last_alive(const pni_resampling *r);
/* Sorted ancestors in the place of each other: `count` of them by cumulative[0 .. n - 1], not descending, of which
 * `last` is the last that rises. gaps: count + 1 exponential numbers, which become sums. Positions are total S[j] /
 * S[count]. */
void pni_merge(const pni_resampling *r, const double *cumulative, int64_t last, double *gaps, double *sums,
               double total, int64_t count, int64_t *out);

/* to[i] of n particles from `begin` on, all of one block: how many ancestors they and those before them are. */
typedef void (*pni_ends)(const void *data, int64_t begin, int64_t n, int32_t *to);
/* Writes the ancestors; the particles from `last` on take what is left. */
void pni_place_copies(const pni_resampling *r, int64_t last, pni_ends ends, const void *data);

/* For schemes that give floor(n w) copies first: rest[i] is what remains of n w[i], counts what is given; how many
 * copies are missing. Nothing remains within rounding of a whole number. */
int64_t pni_whole_copies(const pni_resampling *r, double *rest, int32_t *counts);
/* Ancestors of counts; never more than n of them, and where counts fall short the last place is its own. */
void pni_write_copies(const pni_resampling *r, const int32_t *counts);

#endif
