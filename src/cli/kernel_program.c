/*
** kernel_program.c: `penumbra kernel ...` is a program of its own beside the command (src/kernel), so that neither the
** command nor the library needs what Jupyter's messages need.
*/
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"

int cli_run_kernel(char **argv) {
  static const char program[] = "penumbra-kernel";
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof program);
  char *slash;
  path[n > 0 ? n : 0] = '\0';
  if ((slash = strrchr(path, '/'))) {
    strcpy(slash + 1, program);
    execv(path, argv);
  } else
    execvp(program, argv); /* without /proc: where PATH leads */
  fprintf(stderr,
          "penumbra: the notebook kernel is not there: %s\n"
          "It is built where libzmq and cJSON are found (Debian: apt install libzmq3-dev libcjson-dev), by `make`.\n"
          "(A script of this name: penumbra ./kernel)\n",
          path);
  return EXIT_FAILURE;
}
