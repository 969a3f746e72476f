/*
** output.c: what a cell, the library or a program that a script starts writes to standard output or standard error goes
** into pipes and from there, as stream messages of the request under way, to the front end: by a thread while the cell
** runs, by main at its end. Messages are text: bytes that are no UTF-8 become U+FFFD.
*/
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "kernel.h"

enum { PIECE = 65536, PIECES = 64, GATHER = 10000, LOOK = 200 }; /* microseconds for a line to be complete */

/* Publishes what was read, behind what was held. */
static void publish(kernel *k, int which, char *bytes, size_t n, bool last) {
  char *text = malloc(3 * n + 1);
  if (!text) return;
  size_t rest = kernel_utf8(bytes, n, last, text);
  memcpy(k->held[which].byte, bytes + n - rest, rest);
  k->held[which].n = rest;
  if (*text && !k->silent) {
    cJSON *content = cJSON_CreateObject();
    cJSON_AddStringToObject(content, "name", which ? "stderr" : "stdout");
    cJSON_AddStringToObject(content, "text", text);
    char *json = cJSON_PrintUnformatted(content);
    if (json) kernel_publish_held(k, k->parent, "stream", json);
    cJSON_free(json);
    cJSON_Delete(content);
  }
  free(text);
}

/* Reads and publishes what stands in a pipe; `publishing` is held. */
static void forward(kernel *k, int which, bool last) {
  char bytes[4 + PIECE];
  for (int i = 0; i < PIECES; i++) {
    size_t held = k->held[which].n;
    memcpy(bytes, k->held[which].byte, held);
    ssize_t n = read(k->pipe[which], bytes + held, PIECE);
    if (n > 0)
      publish(k, which, bytes, held + (size_t)n, false);
    else if (last && held)
      publish(k, which, bytes, held, true);
    if (n <= 0) return;
  }
}

void kernel_drain(kernel *k, bool last) {
  fflush(stdout);
  fflush(stderr);
  pthread_mutex_lock(&k->publishing);
  for (int i = 0; i < 2; i++) forward(k, i, last);
  pthread_mutex_unlock(&k->publishing);
}

static void *pump(void *arg) {
  kernel *k = arg;
  while (!atomic_load(&k->finished)) {
    struct pollfd ready[2] = {{.fd = k->pipe[0], .events = POLLIN}, {.fd = k->pipe[1], .events = POLLIN}};
    if (poll(ready, 2, LOOK) <= 0) continue;
    usleep(GATHER);
    pthread_mutex_lock(&k->publishing);
    for (int i = 0; i < 2; i++)
      if (ready[i].revents) forward(k, i, false);
    pthread_mutex_unlock(&k->publishing);
  }
  return NULL;
}

/* Descriptor `fd` becomes the writing end of a pipe. */
static bool redirect(int fd, int *reading) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  *reading = ends[0];
  return fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && dup2(ends[1], fd) >= 0 && close(ends[1]) == 0;
}

bool kernel_capture_output(kernel *k) {
  sigset_t all, before;
  if (!redirect(STDOUT_FILENO, &k->pipe[0]) || !redirect(STDERR_FILENO, &k->pipe[1])) return false;
  setvbuf(stdout, NULL, _IONBF, 0); /* what is written without a line's end is seen, too */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool good = pthread_create(&k->pump, NULL, pump, k) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return good;
}
