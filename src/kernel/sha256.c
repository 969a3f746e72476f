/*
** sha256.c: SHA-256 (FIPS 180-4) and HMAC (RFC 2104) over it, with which Jupyter's messages are signed.
*/
#include <string.h>
#include "kernel.h"

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
static const uint32_t constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

/* One block into the state (6.2.2). */
static void compress(uint32_t state[8], const unsigned char *p) {
  uint32_t w[64], v[8];
  for (int t = 0; t < 16; t++, p += 4)
    w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
  for (int t = 16; t < 64; t++) {
    uint32_t a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[t - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
  }
  memcpy(v, state, sizeof v); /* a, b, ..., h */
  for (int t = 0; t < 64; t++) {
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]), majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    uint32_t t1 = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + choice + constant[t] + w[t];
    uint32_t t2 = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) + majority;
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t1;
    v[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

void kernel_sha256_begin(kernel_sha256 *s) {
  static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(s->state, first, sizeof first);
  s->length = 0;
}

void kernel_sha256_add(kernel_sha256 *s, const void *data, size_t size) {
  const unsigned char *p = data;
  size_t used = (size_t)(s->length % KERNEL_BLOCK);
  s->length += size;
  while (size > 0) {
    size_t n = size < KERNEL_BLOCK - used ? size : KERNEL_BLOCK - used;
    memcpy(s->block + used, p, n);
    p += n, size -= n, used += n;
    if (used < KERNEL_BLOCK) return;
    compress(s->state, s->block);
    used = 0;
  }
}

void kernel_sha256_end(kernel_sha256 *s, unsigned char digest[KERNEL_DIGEST]) {
  static const unsigned char padding[KERNEL_BLOCK] = {0x80};
  unsigned char bits[8];
  uint64_t length = s->length * 8, used = s->length % KERNEL_BLOCK;
  for (int i = 0; i < 8; i++) bits[i] = (unsigned char)(length >> (56 - 8 * i));
  kernel_sha256_add(s, padding, (size_t)(used < 56 ? 56 - used : 120 - used));
  kernel_sha256_add(s, bits, sizeof bits);
  for (int i = 0; i < KERNEL_DIGEST; i++) digest[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* Begins a hash with the key, padded with zeros to a block, xor `with`; a longer key is hashed first. */
static void begin_with(kernel_sha256 *s, const void *key, size_t size, unsigned char with) {
  unsigned char block[KERNEL_BLOCK] = {0};
  if (size > KERNEL_BLOCK) {
    kernel_sha256_begin(s);
    kernel_sha256_add(s, key, size);
    kernel_sha256_end(s, block);
  } else if (size > 0)
    memcpy(block, key, size);
  for (int i = 0; i < KERNEL_BLOCK; i++) block[i] ^= with;
  kernel_sha256_begin(s);
  kernel_sha256_add(s, block, sizeof block);
}

void kernel_hmac_begin(kernel_sha256 *s, const void *key, size_t size) { begin_with(s, key, size, 0x36); }

void kernel_hmac_end(kernel_sha256 *s, const void *key, size_t size, unsigned char digest[KERNEL_DIGEST]) {
  kernel_sha256 outer;
  kernel_sha256_end(s, digest);
  begin_with(&outer, key, size, 0x5c);
  kernel_sha256_add(&outer, digest, KERNEL_DIGEST);
  kernel_sha256_end(&outer, digest);
}

bool kernel_same(const void *a, const void *b, size_t n) {
  const volatile unsigned char *p = a, *q = b;
  unsigned char different = 0;
  for (size_t i = 0; i < n; i++) different = (unsigned char)(different | (p[i] ^ q[i]));
  return different == 0;
}

void kernel_hex(const unsigned char digest[KERNEL_DIGEST], char text[2 * KERNEL_DIGEST + 1]) {
  static const char digit[] = "0123456789abcdef";
  for (int i = 0; i < KERNEL_DIGEST; i++) {
    text[2 * i] = digit[digest[i] >> 4];
    text[2 * i + 1] = digit[digest[i] & 15];
  }
  text[2 * KERNEL_DIGEST] = '\0';
}
