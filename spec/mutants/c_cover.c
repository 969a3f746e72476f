/* Within a core.so that clang compiled with -fsanitize-coverage=inline-8bit-counters,pc-table: which blocks a process
   enters. COVERED=FILE: a 1 or a 0 for each block, joined with what stands there, as the process ends. PLACES=FILE: the
   address of each block within the library. For spec/mutants/c_run.lua. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static const unsigned char *first, *last;
static const uintptr_t *places, *places_end;

void __sanitizer_cov_8bit_counters_init(const unsigned char *start, const unsigned char *stop);
void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop);

void __sanitizer_cov_8bit_counters_init(const unsigned char *start, const unsigned char *stop) {
  first = start;
  last = stop;
}

void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop) {
  places = start;
  places_end = stop;
}

static void tell_places(const char *path) {
  Dl_info info;
  FILE *file = fopen(path, "w");
  if (!file) return;
  for (const uintptr_t *p = places; p < places_end; p += 2) {
    if (dladdr((void *)p[0], &info)) fprintf(file, "0x%zx\n", (size_t)(p[0] - (uintptr_t)info.dli_fbase));
  }
  fclose(file);
}

static void tell_entered(const char *path) {
  const size_t n = (size_t)(last - first);
  char *entered = calloc(n, 1);
  const int file = open(path, O_RDWR | O_CREAT, 0666);
  if (entered && file >= 0 && flock(file, LOCK_EX) == 0) {
    const ssize_t got = pread(file, entered, n, 0);
    for (size_t k = 0; k < n; k++) entered[k] = first[k] || (got == (ssize_t)n && entered[k] == '1') ? '1' : '0';
    if (pwrite(file, entered, n, 0) != (ssize_t)n) perror(path);
  }
  if (file >= 0) close(file);
  free(entered);
}

__attribute__((destructor)) static void tell(void) {
  if (getenv("PLACES")) tell_places(getenv("PLACES"));
  if (getenv("COVERED")) tell_entered(getenv("COVERED"));
}
