/*
** mpi_host.c: a host that has initialised MPI itself (mpi_spec.lua compiles and runs it): two runtimes, one after the
** other, speak through it, and MPI is still the host's afterwards; a call that waits for a rank which does not come
** ends by the runtime's limit. argv[1]: the folder of the modules in C.
*/
#include <mpi.h>
#include <penumbra.h>
#include <stdio.h>
#include <string.h>

static pn_runtime *open_runtime(const char *folder, double seconds) {
  char line[4096];
  pn_runtime *rt = NULL;
  pn_runtime_config config = {.libraries = PN_LIB_STRING | PN_LIB_TABLE | PN_LIB_PENUMBRA | PN_LIB_PACKAGE,
                              .limits = {.seconds = seconds}};
  if (pn_runtime_new(&config, &rt)) return NULL;
  snprintf(line, sizeof line, "package.cpath = '%s/?.so' pn = require 'penumbra' rank = pn.mpi.rank()", folder);
  if (pn_runtime_run_string(rt, line, strlen(line), "begin")) fprintf(stderr, "%s\n", pn_runtime_message(rt));
  return rt;
}

/* The sum of rank + 1 over the ranks, by a script. */
static double sum(const char *folder) {
  static const char script[] = "total = pn.mpi.all_reduce(pn.full({ 2 }, rank + 1))[2]:item()";
  double total = 0;
  pn_runtime *rt = open_runtime(folder, 30);
  if (pn_runtime_run_string(rt, script, sizeof script - 1, "sum")) fprintf(stderr, "%s\n", pn_runtime_message(rt));
  pn_runtime_get_number(rt, "total", &total);
  pn_runtime_close(rt);
  return total;
}

int main(int argc, char **argv) {
  int level, rank, size, done = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double first = sum(argv[1]), second = sum(argv[1]), mine = rank, all = 0;
  MPI_Finalized(&done);
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  int wrong = done || first != size * (size + 1) / 2 || second != first || all != size * (size - 1) / 2;
  pn_runtime *rt = open_runtime(argv[1], 0.3);
  MPI_Barrier(MPI_COMM_WORLD);
  if (wrong || rank == 0) {
    static const char script[] = "pn.mpi.barrier()";
    pn_status status = pn_runtime_run_string(rt, script, sizeof script - 1, "wait");
    printf("host: %s, then %s\n", wrong ? "wrong" : "right", pn_status_name(status));
    fflush(stdout);
  }
  pn_runtime_close(rt);
  MPI_Barrier(MPI_COMM_WORLD);
  _Exit(MPI_Abort(MPI_COMM_WORLD, 0)); /* (what is given up keeps MPI from ending in order) */
}
