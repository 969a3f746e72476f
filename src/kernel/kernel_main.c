/*
** kernel_main.c: the program behind `penumbra kernel`: install it, or run it for a connection file.
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../cli/cli.h"
#include "kernel.h"

enum { LOOK = 1000 };

static const char usage[] =
    "usage: penumbra kernel install [--user | --prefix FOLDER] [--name NAME] [--display-name TEXT]\n"
    "       penumbra kernel run CONNECTION_FILE\n"
    "The first tells Jupyter of the kernel (for this user, or below FOLDER/share/jupyter); the second is\n"
    "what Jupyter then starts.\n";

/* Answers what comes until somebody wants an end. */
static void serve(kernel *k) {
  kernel_status(k, NULL, "starting");
  while (!atomic_load(&k->stopping)) {
    kernel_message m;
    if (!kernel_receive(k, KERNEL_SHELL, LOOK, &m)) continue;
    kernel_answer(k, &m);
    kernel_message_free(&m);
  }
}

/* The standard files: the one we were told to complain to is kept, input is empty. */
static bool hold_files(kernel *k) {
  int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
  k->log = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  return empty >= 0 && k->log >= 0 && dup2(empty, STDIN_FILENO) >= 0;
}

static int run(kernel *k, const char *path) {
  const char *wrong = kernel_connection_open(path, &k->connection);
  if (wrong) return fprintf(stderr, "penumbra kernel: connection file %s: %s\n", path, wrong), EXIT_FAILURE;
  k->seal.key = k->connection.key;
  if (!hold_files(k)) return fputs("penumbra kernel: the standard files are not open\n", stderr), EXIT_FAILURE;
  wrong = kernel_open(k);
  if (wrong) return fprintf(stderr, "penumbra kernel: %s\n", wrong), EXIT_FAILURE;
  if (!kernel_capture_output(k)) return kernel_log(k, "%s", "standard output cannot be captured"), EXIT_FAILURE;
  if (!kernel_open_lua(k)) return EXIT_FAILURE;
  if (!kernel_start_threads(k)) return kernel_log(k, "%s", "threads cannot be started"), EXIT_FAILURE;
  serve(k);
  kernel_join_threads(k);
  pthread_join(k->pump, NULL);
  kernel_close(k);
  lua_close(k->L);
  kernel_seal_free(&k->seal);
  free(k->info);
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  static kernel k;
  if (argc > 1 && strcmp(argv[1], "install") == 0) return kernel_install(argc - 2, argv + 2);
  if (argc != 3 || strcmp(argv[1], "run") != 0) {
    bool asked = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    fputs(usage, asked ? stdout : stderr);
    return asked ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  cli_choose_blas(argv);
  k.main = pthread_self();
  k.parent_process = getenv("JPY_PARENT_PID") ? getppid() : 0;
  pthread_mutex_init(&k.publishing, NULL);
  pthread_mutex_init(&k.calling, NULL);
  pthread_mutex_init(&k.seal.lock, NULL);
  return run(&k, argv[2]);
}
