/*
** rng_fill_real.h: the transforms of a chunk, included once by each rng_fill_*.c with LEVEL (the table's name) and
** TARGET (the function attribute). Words, then transforms, each a plain loop over whole groups with no branch and no
** call, which the compiler turns into vector code. log, sin and cos are polynomials of our own, so that the numbers
** do not depend on the C library; products and sums are never fused, so that they do not depend on the processor.
*/
#include <math.h>
#include <string.h>
#include "rng_fill.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* clang fuses products and sums unless told not to */
#endif
#if defined(__GNUC__)
#define FN static inline __attribute__((always_inline)) TARGET
#else
#define FN static inline
#endif

enum { CHUNK = PNI_RNG_CHUNK };
#define EACH_BLOCK for (int j = 0; j < groups * PNI_RNG_GROUP; j++)

typedef struct words {
  uint32_t w[4][CHUNK]; /* word k of block j is w[k][j] */
} words;

#ifdef LANES
/* Philox on 64-bit lanes, of which the low halves count: products read these alone, so that nothing is masked. */
#if LANES == 4
FN __m128i low_words(__m256i x) {
  return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
}
#endif
FN void words_at(uint32_t *const w[4], uint64_t key, const uint64_t *position, uint32_t attempt, uint32_t domain,
                 int groups) {
  const lanes m0 = EVERY(M0), m1 = EVERY(M1);
  uint64_t k0[10], k1[10];
  for (uint32_t round = 0; round < 10; round++) {
    k0[round] = (uint32_t)key + round * W0;
    k1[round] = (uint32_t)(key >> 32) + round * W1;
  }
  for (int j = 0; j < groups * PNI_RNG_GROUP; j += LANES) {
    lanes c0 = LOAD(position + j), c1 = HIGH(c0), c2 = EVERY(attempt), c3 = EVERY(domain);
    PNI_UNROLL
    for (int round = 0; round < 10; round++) {
      lanes p0 = PRODUCT(m0, c0), p1 = PRODUCT(m1, c2);
      c0 = XOR(XOR(HIGH(p1), c1), EVERY(k0[round]));
      c1 = p1;
      c2 = XOR(XOR(HIGH(p0), c3), EVERY(k1[round]));
      c3 = p0;
    }
    STORE(w[0] + j, c0);
    STORE(w[1] + j, c1);
    STORE(w[2] + j, c2);
    STORE(w[3] + j, c3);
  }
}
#else
FN void words_at(uint32_t *const w[4], uint64_t key, const uint64_t *position, uint32_t attempt, uint32_t domain,
                 int groups) {
  EACH_BLOCK pni_philox_words(key, position[j], attempt, domain, &w[0][j], &w[1][j], &w[2][j], &w[3][j]);
}
#endif

FN void fill_words(words *t, uint64_t key, uint64_t first, int groups, uint32_t domain) {
  uint64_t position[CHUNK];
  EACH_BLOCK position[j] = first + (uint64_t)j;
  words_at((uint32_t *const[4]){t->w[0], t->w[1], t->w[2], t->w[3]}, key, position, 0, domain, groups);
}

/* (53 bits + 1) 2^-53 in (0, 1], through two signed 32-bit halves that vector units convert. */
FN double unit_f64(uint32_t high, uint32_t low) {
  return ((double)(int32_t)(high >> 5) * 67108864.0 + (double)(int32_t)((low >> 6) + 1)) * 0x1p-53;
}

/* log x for 2^-1022 <= x <= 1: x = 2^e m, m in [1/sqrt 2, sqrt 2), s = (m - 1)/(m + 1),
 * log m = 2s + s^3 P(s^2); P is a Chebyshev fit, error 9e-18 of log m. */
FN double log_f64(double x) {
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
FN void sincos_f64(double u, double *sine, double *cosine) {
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
FN float log_f32(float x) {
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
FN void sincos_f32(uint32_t w, float *sine, float *cosine) {
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

/* ---- transforms ---- */

FN void uniform_f64(const words *t, int groups, pni_rng_values *out) {
  EACH_BLOCK {
    out->f64[2 * j] = unit_f64(t->w[0][j], t->w[1][j]);
    out->f64[2 * j + 1] = unit_f64(t->w[2][j], t->w[3][j]);
  }
}

FN float unit_f32(uint32_t w) { return (float)(int32_t)((w >> 8) + 1) * 0x1p-24f; }

FN void uniform_f32(const words *t, int groups, pni_rng_values *out) {
  EACH_BLOCK {
    out->f32[4 * j] = unit_f32(t->w[0][j]);
    out->f32[4 * j + 1] = unit_f32(t->w[1][j]);
    out->f32[4 * j + 2] = unit_f32(t->w[2][j]);
    out->f32[4 * j + 3] = unit_f32(t->w[3][j]);
  }
}

FN void exponential_f64(const words *t, int groups, pni_rng_values *out) {
  EACH_BLOCK {
    out->f64[2 * j] = -log_f64(unit_f64(t->w[0][j], t->w[1][j]));
    out->f64[2 * j + 1] = -log_f64(unit_f64(t->w[2][j], t->w[3][j]));
  }
}

/* Box-Muller: sqrt(-2 log u) (cos, sin)(2 pi v), one pair a block. */
FN void normal_f64(const words *t, int groups, pni_rng_values *out) {
  double sine[CHUNK], cosine[CHUNK];
  EACH_BLOCK {
    double radius = sqrt(-2 * log_f64(unit_f64(t->w[0][j], t->w[1][j]))), s, c;
    sincos_f64(unit_f64(t->w[2][j], t->w[3][j]), &s, &c);
    cosine[j] = radius * c;
    sine[j] = radius * s;
  }
  EACH_BLOCK {
    out->f64[2 * j] = cosine[j];
    out->f64[2 * j + 1] = sine[j];
  }
}

/* Radii from the first word, (w + 1/2) 2^-32 rounded to float; angles from the second. */
FN void normal_pairs_f32(const uint32_t *w, const uint32_t *v, int groups, float *cosine, float *sine) {
  EACH_BLOCK {
    float u = (float)(int32_t)(w[j] >> 16) * 0x1p-16f + ((float)(int32_t)(w[j] & 0xFFFF) + 0.5f) * 0x1p-32f;
    float radius = sqrtf(-2 * log_f32(u)), s, c;
    sincos_f32(v[j], &s, &c);
    cosine[j] = radius * c;
    sine[j] = radius * s;
  }
}

/* Two pairs a block. */
FN void normal_f32(const words *t, int groups, pni_rng_values *out) {
  float cosine[2][CHUNK], sine[2][CHUNK];
  for (int pair = 0; pair < 2; pair++) normal_pairs_f32(t->w[pair], t->w[2 + pair], groups, cosine[pair], sine[pair]);
  EACH_BLOCK {
    out->f32[4 * j] = cosine[0][j];
    out->f32[4 * j + 1] = sine[0][j];
    out->f32[4 * j + 2] = cosine[1][j];
    out->f32[4 * j + 3] = sine[1][j];
  }
}

#define MAKE(name, domain)                                                                                             \
  TARGET static void make_##name(uint64_t key, uint64_t first, int groups, pni_rng_values *out) {                      \
    words t;                                                                                                           \
    fill_words(&t, key, first, groups, domain);                                                                        \
    name(&t, groups, out);                                                                                             \
  }
MAKE(uniform_f64, PNI_DOMAIN_UNIFORM)
MAKE(uniform_f32, PNI_DOMAIN_UNIFORM)
MAKE(normal_f64, PNI_DOMAIN_NORMAL)
MAKE(normal_f32, PNI_DOMAIN_NORMAL)
MAKE(exponential_f64, PNI_DOMAIN_EXPONENTIAL)

#include "rng_gamma_real.h"

TARGET static void make_gamma(uint64_t key, uint64_t first, int n, const double *a, double *out, int plain) {
  if (plain)
    gamma_lot(key, first, n, a, out, 1);
  else
    gamma_lot(key, first, n, a, out, 0);
}

const pni_rng_level LEVEL = {{
                                 [PNI_FILL_UNIFORM_F64] = make_uniform_f64,
                                 [PNI_FILL_UNIFORM_F32] = make_uniform_f32,
                                 [PNI_FILL_NORMAL_F64] = make_normal_f64,
                                 [PNI_FILL_NORMAL_F32] = make_normal_f32,
                                 [PNI_FILL_EXPONENTIAL_F64] = make_exponential_f64,
                             },
                             make_gamma};
