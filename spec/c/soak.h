/*
** soak.h: sweeps that are short among the tests and PN_SOAK times as long under `make soak`; seeded by PN_SEED. On an
** emulated processor, which is some fifty times slower, PN_SHORT = n takes one of n cases of the longest.
*/
#ifndef PN_SPEC_SOAK_H
#define PN_SPEC_SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline long soak_rounds(long n) {
  const char *times = getenv("PN_SOAK");
  long k = times ? atol(times) : 1;
  return n * (k > 0 ? k : 1);
}

static inline long soak_short(void) {
  const char *of = getenv("PN_SHORT");
  long n = of ? atol(of) : 1;
  return n > 1 ? n : 1;
}

/* Whether the k-th case, from 0, is taken. */
static inline bool soak_takes(long k) { return k % soak_short() == 0; }

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
