/* Philox blocks and the array fills. See rng.h for the counter's layout and the invariants.
 *
 * Every fill goes through chunks of whole blocks, made by the instruction set that the processor has: the same
 * IEEE operations in the same order at each, hence the same bits. */
#include <string.h>
#include "../../base/processor.h"
#include "rng_fill.h"

void pni_philox_block(uint64_t key, uint64_t position, uint32_t attempt, uint32_t domain, uint32_t out[4]) {
  pni_philox_words(key, position, attempt, domain, out, out + 1, out + 2, out + 3);
}

pni_philox pni_philox_seed(uint64_t seed) { return (pni_philox){pni_seed_key(seed), 0}; }

pni_philox pni_philox_split(const pni_philox *parent, uint64_t index) {
  uint32_t w[4];
  pni_philox_block(parent->key, index, 0, PNI_DOMAIN_SPLIT, w);
  return (pni_philox){(uint64_t)w[1] << 32 | w[0], 0};
}

/* log2 of the elements that one block gives. */
static int elements_log2(pni_fill_kind kind) {
  switch (kind) {
  case PNI_FILL_UNIFORM_F32:
  case PNI_FILL_NORMAL_F32: return 2;
  case PNI_FILL_UNIFORM_F64:
  case PNI_FILL_NORMAL_F64:
  case PNI_FILL_EXPONENTIAL_F64: return 1;
  default: return 0;
  }
}

uint64_t pni_fill_positions(pni_fill_kind kind, uint64_t n) {
  int shift = elements_log2(kind);
  uint64_t per_block = (uint64_t)1 << shift;
  return (n >> shift) + ((n & (per_block - 1)) != 0);
}

const pni_rng_level *pni_rng_at(int level) {
#if PNI_CPU_X86
  if (level == PNI_CPU_AVX512) return &pni_rng_avx512;
  if (level == PNI_CPU_AVX2) return &pni_rng_avx2;
#endif
  (void)level;
  return &pni_rng_portable;
}

/* Elements [begin, end): whole blocks are made, and the part that was asked for is copied. */
static void fill(pni_fill_kind kind, uint64_t key, uint64_t position, uint64_t begin, uint64_t end, void *out) {
  pni_rng_chunk make = pni_rng_at(pni_cpu_level())->chunk[kind];
  size_t size = kind == PNI_FILL_UNIFORM_F32 || kind == PNI_FILL_NORMAL_F32 ? sizeof(float) : sizeof(double);
  int shift = elements_log2(kind);
  char *to = out;
  while (begin < end) {
    uint64_t block = begin >> shift, left = ((end - 1) >> shift) - block + 1;
    int count = left < PNI_RNG_CHUNK ? (int)left : PNI_RNG_CHUNK;
    pni_rng_values values;
    make(key, position + block, (count + PNI_RNG_GROUP - 1) / PNI_RNG_GROUP, &values);
    uint64_t start = block << shift, stop = (block + (uint64_t)count) << shift;
    uint64_t take = (stop < end ? stop : end) - begin;
    size_t bytes = (size_t)take * size;
    memcpy(to, (const char *)&values + (size_t)(begin - start) * size, bytes);
    to += bytes;
    begin += take;
  }
}

void pni_fill_uniform_f64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, double *out) {
  fill(PNI_FILL_UNIFORM_F64, key, position, begin, end, out);
}

void pni_fill_uniform_f32(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, float *out) {
  fill(PNI_FILL_UNIFORM_F32, key, position, begin, end, out);
}

void pni_fill_normal_f64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, double *out) {
  fill(PNI_FILL_NORMAL_F64, key, position, begin, end, out);
}

void pni_fill_normal_f32(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, float *out) {
  fill(PNI_FILL_NORMAL_F32, key, position, begin, end, out);
}

void pni_fill_exponential_f64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, double *out) {
  fill(PNI_FILL_EXPONENTIAL_F64, key, position, begin, end, out);
}

/* High and low halves of a 64 x 64 bit product, from four 32-bit ones. */
static uint64_t product(uint64_t a, uint64_t b, uint64_t *low) {
  uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  uint64_t middle = a1 * b0 + ((a0 * b0) >> 32), cross = a0 * b1 + (uint32_t)middle;
  *low = a * b;
  return a1 * b1 + (middle >> 32) + (cross >> 32);
}

/* Uniform on 0..range-1, range >= 1: the high half of word * range, retried with the next attempt while the
 * low half falls among the 2^64 mod range that would favour some values (Lemire 2019). */
static uint64_t bounded(uint64_t key, uint64_t position, uint64_t range) {
  uint64_t excess = 0;
  for (uint32_t attempt = 0;; attempt++) {
    uint32_t w[4];
    pni_philox_block(key, position, attempt, PNI_DOMAIN_INT64, w);
    uint64_t low, high = product((uint64_t)w[1] << 32 | w[0], range, &low);
    if (low >= range) return high;
    if (excess == 0) excess = (0 - range) % range;
    if (low >= excess) return high;
  }
}

void pni_fill_int64(uint64_t key, uint64_t position, uint64_t begin, uint64_t end, int64_t low, int64_t high,
                    int64_t *out) {
  uint64_t range = high > low ? (uint64_t)high - (uint64_t)low : 1;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t bits = (uint64_t)low + bounded(key, position + i, range);
    memcpy(out++, &bits, sizeof bits); /* modulo 2^64, without a conversion out of range */
  }
}

void pni_permute(uint64_t key, uint64_t position, int64_t begin, int64_t end, int64_t *out) {
  for (int64_t i = end - 1; i >= begin; i--) {
    int64_t j = (int64_t)bounded(key, position + (uint64_t)i, (uint64_t)i + 1);
    int64_t kept = out[i];
    out[i] = out[j];
    out[j] = kept;
  }
}
