/*
** rng_fill.h: chunks of blocks turned into numbers, once per instruction set (rng_fill_*.c from the one text
** rng_fill_real.h); the same bits at each.
*/
#ifndef PN_MATH_RANDOM_RNG_FILL_H
#define PN_MATH_RANDOM_RNG_FILL_H

#include "../../base/processor.h"
#include "rng.h"

enum { PNI_RNG_CHUNK = 64, PNI_RNG_GROUP = 16 }; /* blocks of a chunk and of a group */
enum { PNI_GAMMA_LOT = 256 };

typedef union pni_rng_values {
  double f64[2 * PNI_RNG_CHUNK];
  float f32[4 * PNI_RNG_CHUNK];
} pni_rng_values;

/* The numbers of `groups` groups of blocks from `first` on, groups <= PNI_RNG_CHUNK / PNI_RNG_GROUP. */
typedef void (*pni_rng_chunk)(uint64_t key, uint64_t first, int groups, pni_rng_values *out);

typedef struct pni_rng_level {
  pni_rng_chunk chunk[PNI_FILL_EXPONENTIAL_F64 + 1]; /* by pni_fill_kind */
  /* Gamma(a[j], 1) draws of n <= PNI_GAMMA_LOT positions from `first` on, or their logarithms if not `plain`. out may
   * be a. */
  void (*gamma)(uint64_t key, uint64_t first, int n, const double *a, double *out, int plain);
} pni_rng_level;

extern const pni_rng_level pni_rng_portable, pni_rng_avx2, pni_rng_avx512;
/* The one of a level of processor.h. */
const pni_rng_level *pni_rng_at(int level);

/* One round: (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)). */
#define M0 0xD2511F53u
#define M1 0xCD9E8D57u
#define W0 0x9E3779B9u
#define W1 0xBB67AE85u

static inline void pni_philox_words(uint64_t key, uint64_t position, uint32_t attempt, uint32_t domain, uint32_t *o0,
                                    uint32_t *o1, uint32_t *o2, uint32_t *o3) {
  uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32), c2 = attempt, c3 = domain;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  PNI_UNROLL
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)M0 * c0, p1 = (uint64_t)M1 * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += W0;
    k1 += W1;
  }
  *o0 = c0;
  *o1 = c1;
  *o2 = c2;
  *o3 = c3;
}

#endif
