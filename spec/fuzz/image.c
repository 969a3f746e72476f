/*
** image.c: fuzz target of pn_load_image. Sums of a PNG file's chunks are made right first, every other time.
*/
#include <string.h>
#include <zlib.h>
#include "fuzz.h"

static void load(pn_context *c, const char *path) { pn_load_image(c, path, PN_FLOAT64); }

static void mend_sums(uint8_t *p, size_t n) {
  for (size_t at = 8, length; at + 12 <= n; at += 12 + length) {
    length = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
    if (length > n - at - 12) return;
    unsigned long sum = crc32(0, p + at + 4, (unsigned)length + 4);
    for (int k = 0; k < 4; k++) p[at + 8 + length + (size_t)k] = (uint8_t)(sum >> (24 - 8 * k));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size + 1);
  if (!copy) return 0;
  memcpy(copy, data, size);
  mend_sums(copy, size);
  int a = fuzz_run(data, size, load), b = fuzz_run(copy, size, load);
  free(copy);
  return a | b;
}
