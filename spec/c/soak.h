/*
** soak.h: sweeps that are short among the tests and PN_SOAK times as long under `make soak`; seeded by PN_SEED.
*/
#ifndef PN_SPEC_SOAK_H
#define PN_SPEC_SOAK_H

#include <stdint.h>
#include <stdlib.h>

static inline long soak_rounds(long n) {
  const char *times = getenv("PN_SOAK");
  long k = times ? atol(times) : 1;
  return n * (k > 0 ? k : 1);
}

static inline uint64_t soak_seed(void) {
  const char *seed = getenv("PN_SEED");
  return seed ? strtoull(seed, NULL, 10) : 1;
}

/* A number below n (Vigna's splitmix64). */
static inline uint64_t soak_random(uint64_t *state, uint64_t n) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return (z ^ z >> 31) % n;
}

#endif
