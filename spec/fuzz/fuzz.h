/*
** fuzz.h: a libFuzzer target for one file format: any bytes give a tensor or an error, leave nothing, and cost
** no more memory than their number allows. `make fuzz` builds and runs the targets, beginning from the files of
** spec/golden/files.
*/
#ifndef PN_SPEC_FUZZ_H
#define PN_SPEC_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../src/penumbra.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Loads `path` into c; results are scoped or released by the function itself. */
typedef void (*fuzz_load)(pn_context *c, const char *path);

/* The file that holds the input: one per process. */
static inline const char *fuzz_file(const uint8_t *data, size_t size) {
  static char path[64];
  static int fd = -1;
  if (fd < 0) {
    snprintf(path, sizeof path, "/dev/shm/penumbra-fuzz-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0) snprintf(path, sizeof path, P_tmpdir "/penumbra-fuzz-XXXXXX");
    if (fd < 0) fd = mkstemp(path);
    if (fd < 0) abort();
    unlink(path);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
  return path;
}

static inline int fuzz_run(const uint8_t *data, size_t size, fuzz_load load) {
  /* deflate expands at most 1032 times, one byte becomes an int64, Fortran order is copied */
  pn_context *c = pn_context_new(
      &(pn_context_config){.pool_limit = PN_NO_POOL, .threads = 1, .memory_limit = (1u << 20) + size * 1032 * 16});
  if (!c) return 0;
  size_t mark = pn_scope_open(c);
  load(c, fuzz_file(data, size));
  pn_scope_close(c, mark);
  if (pn_context_objects(c) != 0) abort();
  pn_context_close(c);
  return 0;
}

#endif
