/*
** blas_core.c: OpenBLAS chooses its kernels when it is loaded, by a list of processors that ends where its release
** does: 0.3.21 runs AMD processors with AVX-512 on its Haswell kernels, at half their speed, and Intel's of 2024 on
** those of 2004. The command then starts itself once more with OPENBLAS_CORETYPE set (and OPENBLAS_NUM_THREADS=1, since
** it brings its own threads), and takes both out of the environment again. Whoever has set the type is obeyed.
*/
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../base/processor.h"
#include "../tensor/product/gemm.h"
#include "cli.h"

static const char type_name[] = "OPENBLAS_CORETYPE", threads_name[] = "OPENBLAS_NUM_THREADS";
/* Which of the two the first start has set: "t" or "tn". */
static const char mark_name[] = "PENUMBRA_BLAS_START";

void cli_choose_blas(char **argv) {
  const char *mark = getenv(mark_name);
  if (mark) {
    unsetenv(type_name);
    if (strchr(mark, 'n')) unsetenv(threads_name);
    unsetenv(mark_name);
    return;
  }
  char path[4096];
  const char *type = pni_blas_better_core();
  if (!type || getenv(type_name)) return;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = '\0';
  bool threads = !getenv(threads_name);
  bool set = setenv(type_name, type, 1) == 0 && (!threads || setenv(threads_name, "1", 1) == 0) &&
             setenv(mark_name, threads ? "tn" : "t", 1) == 0;
  if (set) execv(path, argv);
  unsetenv(type_name); /* it did not work: go on as we are */
  if (threads) unsetenv(threads_name);
  unsetenv(mark_name);
}
