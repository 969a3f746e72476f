/* Philox blocks and the array fills. See rng.h for the counter's layout and the invariants.
 *
 * Every fill goes through chunks of whole blocks: words, then transforms, each a plain loop over small
 * stack buffers with no branch and no call, which the compiler turns into vector code. log, sin and cos are
 * polynomials of our own, so that the numbers do not depend on the C library either. */
#include "rng.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* clang fuses products and sums unless told not to */
#endif

#include <math.h>
#include <string.h>

#define CHUNK 64 /* blocks */

typedef struct words {
  uint32_t w[4][CHUNK]; /* word k of block j is w[k][j] */
} words;

/* One round: (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)). */
#define M0 0xD2511F53u
#define M1 0xCD9E8D57u
#define W0 0x9E3779B9u
#define W1 0xBB67AE85u

static inline void philox(uint64_t key, uint64_t position, uint32_t attempt, uint32_t domain, uint32_t *o0,
                          uint32_t *o1, uint32_t *o2, uint32_t *o3) {
  uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32), c2 = attempt, c3 = domain;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
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

void pni_philox_block(uint64_t key, uint64_t position, uint32_t attempt, uint32_t domain, uint32_t out[4]) {
  philox(key, position, attempt, domain, out, out + 1, out + 2, out + 3);
}

/* Finaliser of splitmix64 (Steele, Lea & Flood 2014, constants of Stafford's variant 13). */
pni_philox pni_philox_seed(uint64_t seed) {
  uint64_t z = seed + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (pni_philox){z ^ (z >> 31), 0};
}

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

static inline void fill_words(words *t, uint64_t key, uint64_t position, int count, uint32_t domain) {
  for (int j = 0; j < count; j++)
    philox(key, position + (uint64_t)j, 0, domain, &t->w[0][j], &t->w[1][j], &t->w[2][j], &t->w[3][j]);
}

/* (53 bits + 1) 2^-53 in (0, 1], through two signed 32-bit halves that vector units convert. */
static inline double unit_f64(uint32_t high, uint32_t low) {
  return ((double)(int32_t)(high >> 5) * 67108864.0 + (double)(int32_t)((low >> 6) + 1)) * 0x1p-53;
}

/* log x for 2^-1022 <= x <= 1: x = 2^e m, m in [1/sqrt 2, sqrt 2), s = (m - 1)/(m + 1),
 * log m = 2s + s^3 P(s^2); P is a Chebyshev fit, error 9e-18 of log m. */
static inline double log_f64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint64_t shifted = bits + (0x3FF0000000000000u - 0x3FE6A09E00000000u);
  uint64_t exponent_bits = (shifted >> 52) | 0x4330000000000000u; /* 2^52 + biased exponent */
  uint64_t mantissa_bits = (shifted & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E00000000u;
  double e, m;
  memcpy(&e, &exponent_bits, sizeof e);
  memcpy(&m, &mantissa_bits, sizeof m);
  e -= 0x1p52 + 1023;
  double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.4616615424888621989e-1;
  p = p * z + 1.5331710618210771568e-1;
  p = p * z + 1.8182889455674946039e-1;
  p = p * z + 2.2222211130259877029e-1;
  p = p * z + 2.8571428626003268742e-1;
  p = p * z + 3.9999999999899443233e-1;
  p = p * z + 6.6666666666666696883e-1;
  /* log 2 in two parts, the high one with 20 trailing zero bits */
  double low = e * 1.90821492927058770002e-10 + s * z * p;
  return e * 6.93147180369123816490e-01 + (2 * s + low);
}

/* sin and cos of 2 pi u, u in [0, 1]: 4u = k + r, |r| <= 1/2 exactly; Chebyshev fits, errors below 2e-17. */
static inline void sincos_f64(double u, double *sine, double *cosine) {
  double t = 4 * u;
  int32_t k = (int32_t)(t + 0.5);
  double r = t - k, z = r * r;
  double s = 5.6422054750288415729e-8;
  s = s * z - 3.5987028390395637608e-6;
  s = s * z + 1.6044116659232323451e-4;
  s = s * z - 4.6817541342525063371e-3;
  s = s * z + 7.9692626246144192959e-2;
  s = s * z - 6.4596409750624617428e-1;
  s = r * 1.570796326794896619 + r * z * s;
  double c = -6.337524486423736323e-9;
  c = c * z + 4.7107368589656791977e-7;
  c = c * z - 2.5202040585521139067e-5;
  c = c * z + 9.1926027473467748579e-4;
  c = c * z - 2.0863480763350715677e-2;
  c = c * z + 2.5366950790104800584e-1;
  c = 1 - z * (1.233700550136169827 - z * c);
  double sign_s = 1 - (double)(k & 2), sign_c = 1 - (double)((k + 1) & 2);
  double odd = (double)(k & 1), even = 1 - odd;
  *sine = sign_s * (even * s + odd * c);
  *cosine = sign_c * (even * c + odd * s);
}

/* The same in single precision; 2^-33 <= x <= 1. Error of log m 4e-11 before rounding. */
static inline float log_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t shifted = bits + (0x3F800000u - 0x3F3504F3u);
  uint32_t mantissa_bits = (shifted & 0x007FFFFFu) + 0x3F3504F3u;
  float m, e = (float)((int32_t)(shifted >> 23) - 127);
  memcpy(&m, &mantissa_bits, sizeof m);
  float s = (m - 1) / (m + 1), z = s * s;
  float p = 0.23330582f;
  p = p * z + 0.28550817f;
  p = p * z + 0.40000122f;
  p = p * z + 0.66666666f;
  return e * 0.693145752f + (2 * s + (e * 1.42860677e-6f + s * z * p));
}

/* sin and cos of 2 pi w / 2^32; quadrant and remainder are split in integers, exactly. */
static inline void sincos_f32(uint32_t w, float *sine, float *cosine) {
  uint32_t k = (w + 0x20000000u) >> 30;
  float r = (float)(int32_t)(w - (k << 30)) * 0x1p-30f, z = r * r;
  float s = 1.5865081e-4f;
  s = s * z - 4.6814747e-3f;
  s = s * z + 7.9692613e-2f;
  s = s * z - 6.4596410e-1f;
  s = r * 1.57079633f + r * z * s;
  float c = -2.4967500e-5f;
  c = c * z + 9.1922367e-4f;
  c = c * z - 2.0863479e-2f;
  c = c * z + 2.5366951e-1f;
  c = 1 - z * (1.23370055f - z * c);
  float sign_s = 1 - (float)(int32_t)(k & 2), sign_c = 1 - (float)(int32_t)((k + 1) & 2);
  float odd = (float)(int32_t)(k & 1), even = 1 - odd;
  *sine = sign_s * (even * s + odd * c);
  *cosine = sign_c * (even * c + odd * s);
}

/* A chunk's transforms: words of blocks [0, count) to elements, count <= CHUNK. Inlined twice by run_chunk,
 * once with the constant CHUNK, which is the loop that becomes vector code. */
typedef union chunk {
  double f64[2 * CHUNK];
  float f32[4 * CHUNK];
} chunk;

static inline void uniform_f64(const words *t, int count, chunk *out) {
  for (int j = 0; j < count; j++) {
    out->f64[2 * j] = unit_f64(t->w[0][j], t->w[1][j]);
    out->f64[2 * j + 1] = unit_f64(t->w[2][j], t->w[3][j]);
  }
}

static inline void uniform_f32(const words *t, int count, chunk *out) {
  for (int j = 0; j < count; j++)
    for (int k = 0; k < 4; k++) out->f32[4 * j + k] = (float)(int32_t)((t->w[k][j] >> 8) + 1) * 0x1p-24f;
}

static inline void exponential_f64(const words *t, int count, chunk *out) {
  uniform_f64(t, count, out);
  for (int j = 0; j < 2 * count; j++) out->f64[j] = -log_f64(out->f64[j]);
}

/* Box-Muller: sqrt(-2 log u) (cos, sin)(2 pi v), one pair a block. */
static inline void normal_f64(const words *t, int count, chunk *out) {
  double radius[CHUNK], sine[CHUNK], cosine[CHUNK];
  for (int j = 0; j < count; j++) radius[j] = -2 * log_f64(unit_f64(t->w[0][j], t->w[1][j]));
  for (int j = 0; j < count; j++) radius[j] = sqrt(radius[j]);
  for (int j = 0; j < count; j++) sincos_f64(unit_f64(t->w[2][j], t->w[3][j]), &sine[j], &cosine[j]);
  for (int j = 0; j < count; j++) {
    out->f64[2 * j] = radius[j] * cosine[j];
    out->f64[2 * j + 1] = radius[j] * sine[j];
  }
}

/* Two pairs a block: radii from words 0 and 1, (w + 1/2) 2^-32 rounded to float; angles from 2 and 3. */
static inline void normal_f32(const words *t, int count, chunk *out) {
  for (int pair = 0; pair < 2; pair++) {
    float radius[CHUNK], sine[CHUNK], cosine[CHUNK];
    for (int j = 0; j < count; j++) {
      uint32_t w = t->w[pair][j];
      float u = (float)(int32_t)(w >> 16) * 0x1p-16f + ((float)(int32_t)(w & 0xFFFF) + 0.5f) * 0x1p-32f;
      radius[j] = -2 * log_f32(u);
    }
    for (int j = 0; j < count; j++) radius[j] = sqrtf(radius[j]);
    for (int j = 0; j < count; j++) sincos_f32(t->w[2 + pair][j], &sine[j], &cosine[j]);
    for (int j = 0; j < count; j++) {
      out->f32[4 * j + 2 * pair] = radius[j] * cosine[j];
      out->f32[4 * j + 2 * pair + 1] = radius[j] * sine[j];
    }
  }
}

typedef struct fill_row {
  uint32_t domain;
  size_t element_size;
  void (*whole)(const words *t, chunk *out);
  void (*part)(const words *t, int count, chunk *out);
} fill_row;

#define VARIANTS(name)                                                                                                 \
  static void name##_whole(const words *t, chunk *out) { name(t, CHUNK, out); }                                        \
  static void name##_part(const words *t, int count, chunk *out) { name(t, count, out); }
VARIANTS(uniform_f64)
VARIANTS(uniform_f32)
VARIANTS(normal_f64)
VARIANTS(normal_f32)
VARIANTS(exponential_f64)

static const fill_row fill_rows[] = {
    [PNI_FILL_UNIFORM_F64] = {PNI_DOMAIN_UNIFORM, sizeof(double), uniform_f64_whole, uniform_f64_part},
    [PNI_FILL_UNIFORM_F32] = {PNI_DOMAIN_UNIFORM, sizeof(float), uniform_f32_whole, uniform_f32_part},
    [PNI_FILL_NORMAL_F64] = {PNI_DOMAIN_NORMAL, sizeof(double), normal_f64_whole, normal_f64_part},
    [PNI_FILL_NORMAL_F32] = {PNI_DOMAIN_NORMAL, sizeof(float), normal_f32_whole, normal_f32_part},
    [PNI_FILL_EXPONENTIAL_F64] = {PNI_DOMAIN_EXPONENTIAL, sizeof(double), exponential_f64_whole, exponential_f64_part},
};

/* Blocks first, first + 1, ... of one chunk, count <= CHUNK. */
static void run_chunk(const fill_row *row, uint64_t key, uint64_t first, int count, chunk *out) {
  words t;
  if (count == CHUNK) {
    fill_words(&t, key, first, CHUNK, row->domain);
    row->whole(&t, out);
  } else {
    fill_words(&t, key, first, count, row->domain);
    row->part(&t, count, out);
  }
}

/* Elements [begin, end): whole blocks are made, and the part that was asked for is copied. */
static void fill(pni_fill_kind kind, uint64_t key, uint64_t position, uint64_t begin, uint64_t end, void *out) {
  const fill_row *row = &fill_rows[kind];
  int shift = elements_log2(kind);
  char *to = out;
  while (begin < end) {
    uint64_t block = begin >> shift, left = ((end - 1) >> shift) - block + 1;
    int count = left < CHUNK ? (int)left : CHUNK;
    chunk values;
    run_chunk(row, key, position + block, count, &values);
    uint64_t start = block << shift, stop = (block + (uint64_t)count) << shift;
    uint64_t take = (stop < end ? stop : end) - begin;
    size_t bytes = (size_t)take * row->element_size;
    memcpy(to, (const char *)&values + (size_t)(begin - start) * row->element_size, bytes);
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

void pni_permutation(uint64_t key, uint64_t position, int64_t n, int64_t *out) {
  for (int64_t i = 0; i < n; i++) out[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t j = (int64_t)bounded(key, position + (uint64_t)i, (uint64_t)i + 1);
    int64_t kept = out[i];
    out[i] = out[j];
    out[j] = kept;
  }
}
