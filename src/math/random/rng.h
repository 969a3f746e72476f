/* Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror & Shaw (SC 2011).
 *
 * One position of a stream is one block of four 32-bit words, a pure function of
 *   key (64 bits) and counter {position low, position high, attempt, domain}.
 * The domain separates what a position is used for, the attempt numbers the trials of a rejection sampler.
 * Nothing has state beyond (key, position): element i of a fill depends on key, base position and i alone,
 * not on how [begin, end) ranges are dealt to threads, nor on vector width. That needs strict IEEE
 * arithmetic: no -ffast-math, no contraction into fma (-ffp-contract=off).
 *
 * A caller owns a pni_philox, fills n elements at its position and then adds pni_fill_positions(kind, n).
 * Scalar draws consume one position each. */
#ifndef PN_MATH_RANDOM_RNG_H
#define PN_MATH_RANDOM_RNG_H

#include <stdbool.h>
#include <stdint.h>
#include "../../base/context.h"

/* Uses of a position. Fixed for good: they are part of what a seed reproduces. */
enum {
  PNI_DOMAIN_UNIFORM = 0,
  PNI_DOMAIN_NORMAL = 1,
  PNI_DOMAIN_EXPONENTIAL = 2,
  PNI_DOMAIN_INT64 = 3,
  PNI_DOMAIN_GAMMA = 4,
  PNI_DOMAIN_GAMMA_BOOST = 5,
  PNI_DOMAIN_POISSON = 6,
  PNI_DOMAIN_BINOMIAL = 7,
  PNI_DOMAIN_VON_MISES = 12,
  PNI_DOMAIN_SPLIT = 64
};

/* The four words of one counter. */
void pni_philox_block(uint64_t key, uint64_t position, uint32_t attempt, uint32_t domain, uint32_t out[4]);

/* Generator at position 0 whose key is the seed through the finaliser of splitmix64. */
pni_philox pni_philox_seed(uint64_t seed);

/* Independent generator at position 0; depends on the parent's key and on index, not on its position. */
pni_philox pni_philox_split(const pni_philox *parent, uint64_t index);

typedef enum pni_fill_kind {
  PNI_FILL_UNIFORM_F64,
  PNI_FILL_UNIFORM_F32,
  PNI_FILL_NORMAL_F64,
  PNI_FILL_NORMAL_F32,
  PNI_FILL_EXPONENTIAL_F64,
  PNI_FILL_INT64,
  PNI_FILL_SCALAR /* any scalar sampler, one position an element; also the permutation */
} pni_fill_kind;

/* Positions that n elements of a kind consume. */
uint64_t pni_fill_positions(pni_fill_kind kind, uint64_t n);

/* Fills: elements begin <= i < end of the virtual array that starts at position; out[0] is element begin. */

/* Uniform on (0, 1]: multiples of 2^-53 (f64) and 2^-24 (f32). Never 0, so the logarithm is finite. */
void pni_fill_uniform_f64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, double *out);
void pni_fill_uniform_f32(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, float *out);
/* Standard normal by Box-Muller; the largest sizes are sqrt(106 log 2) = 8.57 and sqrt(66 log 2) = 6.76. */
void pni_fill_normal_f64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, double *out);
void pni_fill_normal_f32(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, float *out);
/* Exponential with rate 1, in [0, 36.8]. */
void pni_fill_exponential_f64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, double *out);
/* Uniform integers low <= value < high, exactly (Lemire 2019). high <= low is read as the one value low. */
void pni_fill_int64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, int64_t low, int64_t high,
                    int64_t *out);
/* The steps end - 1 .. begin >= 1 of Fisher and Yates' shuffle of out. */
void pni_permute(uint64_t key, uint64_t position, int64_t begin, int64_t end, int64_t *out);
/* A uniform permutation of 0..n-1, n positions. */
static inline void pni_permutation(uint64_t key, uint64_t position, int64_t n, int64_t *out) {
  for (int64_t i = 0; i < n; i++) out[i] = i;
  pni_permute(key, position, 1, n, out);
}

/* Scalar rejection samplers. A parameter outside its domain gives NaN. */

/* Gamma(concentration, 1). 0 at concentration 0, inf at inf; may underflow to 0 for small ones. */
double pni_gamma_draw(uint64_t key, uint64_t position, double concentration);
/* Its logarithm, the same draw; finite for every positive concentration down to 1e-306. */
double pni_log_gamma_draw(uint64_t key, uint64_t position, double concentration);
/* Draws for positions position + i, i < n, with concentration a[i]: logarithms or, if `plain`, the draws themselves (0
 * below the normal numbers). out may be a. */
void pni_fill_gamma(uint64_t key, uint64_t position, uint64_t n, const double *a, double *out, bool plain);
/* von Mises around 0, concentration > 0: an angle from -pi to pi. */
double pni_von_mises_draw(uint64_t key, uint64_t position, double concentration);
/* Poisson(rate), rate >= 0. */
double pni_poisson_draw(uint64_t key, uint64_t position, double rate);
/* Binomial(total_count, prob): a finite whole number >= 0, 0 <= prob <= 1. */
double pni_binomial_draw(uint64_t key, uint64_t position, double total_count, double prob);

/* The same in two steps, for many draws of one law: the law with what its sampler prepares, then a draw from a first
 * trial u, v, independent and uniform on (0, 1]; further trials read the counters of position from attempt 1 on. */
typedef struct pni_count_law {
  enum { PNI_COUNT_FIXED, PNI_COUNT_SEARCH, PNI_COUNT_POISSON, PNI_COUNT_BINOMIAL } kind;
  uint32_t domain;
  int mirrored;              /* draws are n minus what the sampler gives */
  double start, slope, drop; /* FIXED: the value; SEARCH: mass at 0, its ratios */
  double n, m, rest;         /* trials, mean, 1 - prob */
  double a, b, centre, scale, squeeze, peak;
} pni_count_law; /* fields that the kind does not use are not set */

void pni_poisson_law(pni_count_law *l, double rate);
void pni_binomial_law(pni_count_law *l, double total_count, double prob);
double pni_count_from(const pni_count_law *l, uint64_t key, uint64_t position, double u, double v);

#endif
