/*
** leak_check.c: for programs that sanitisers are built into. Where MPI was begun in a process, leaks are not looked for
** at its end: threads of MPI's own are ending then, and the sanitiser, which looks into all threads, now and then falls
** over one that is gone.
*/
#include <dlfcn.h>
#include <stddef.h>

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void) {
  int on = 0;
  void *mpi = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
  int (*initialized)(int *) = NULL;
  if (mpi) *(void **)&initialized = dlsym(mpi, "MPI_Initialized");
  if (initialized) initialized(&on);
  return on;
}
