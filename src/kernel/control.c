/*
** control.c: what has to work while a cell runs, in threads of their own: the heartbeat, which answers whatever comes;
** interruption and shutdown by messages; and the end with the process that started us.
*/
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
#include "../cli/cli.h"
#include "kernel.h"

/* Milliseconds between two looks, the second while a cell shall end; tenths of a second that it has at the very end. */
enum { LOOK = 500, SOON = 100, PATIENCE = 30 };

static void *beat(void *arg) {
  kernel *k = arg;
  while (!atomic_load(&k->stopping)) /* until the sockets are shut down */
    zmq_proxy(k->socket[KERNEL_HEARTBEAT], k->socket[KERNEL_HEARTBEAT], NULL);
  return NULL;
}

void kernel_call(kernel *k, bool begins) {
  pthread_mutex_lock(&k->calling);
  k->in_call = begins;
  k->wanted = false;
  pthread_mutex_unlock(&k->calling);
}

/* The script that runs shall end: SIGINT for the main thread and for the programs that the script has started. */
static void interrupt(kernel *k) {
  pthread_mutex_lock(&k->calling);
  if ((k->wanted = k->in_call)) {
    if (getpgrp() == getpid())
      kill(0, SIGINT);
    else
      pthread_kill(k->main, SIGINT);
  }
  pthread_mutex_unlock(&k->calling);
}

/* Is an interruption under way? C's system() is deaf to signals as long as its program runs: once more, then. */
static bool insist(kernel *k) {
  pthread_mutex_lock(&k->calling);
  bool wanted = k->wanted;
  if (wanted && !cli_interrupt_pending()) pthread_kill(k->main, SIGINT);
  pthread_mutex_unlock(&k->calling);
  return wanted;
}

void kernel_shut_down(kernel *k, int channel, const kernel_message *m) {
  bool restart = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(m->content, "restart"));
  const char *content =
      restart ? "{\"status\": \"ok\", \"restart\": true}" : "{\"status\": \"ok\", \"restart\": false}";
  kernel_publish(k, m->header, "shutdown_reply", content);
  kernel_reply(k, channel, m, "shutdown_reply", content);
  atomic_store(&k->stopping, true);
}

static void answer(kernel *k, const kernel_message *m) {
  kernel_status(k, m->header, "busy");
  if (strcmp(m->type, "interrupt_request") == 0) {
    interrupt(k);
    kernel_reply(k, KERNEL_CONTROL, m, "interrupt_reply", "{\"status\": \"ok\"}");
  } else if (strcmp(m->type, "kernel_info_request") == 0)
    kernel_reply(k, KERNEL_CONTROL, m, "kernel_info_reply", k->info);
  else if (strcmp(m->type, "shutdown_request") == 0)
    kernel_shut_down(k, KERNEL_CONTROL, m);
  kernel_status(k, m->header, "idle");
}

/* Has the process ended that started us and would end us? */
static bool orphaned(const kernel *k) { return k->parent_process > 0 && getppid() != k->parent_process; }

static void *control(void *arg) {
  kernel *k = arg;
  bool wanted = false;
  while (!atomic_load(&k->stopping)) {
    kernel_message m;
    if (kernel_receive(k, KERNEL_CONTROL, wanted ? SOON : LOOK, &m)) {
      answer(k, &m);
      kernel_message_free(&m);
      wanted = true; /* as it may be */
    } else
      wanted = insist(k);
    if (orphaned(k)) atomic_store(&k->stopping, true);
  }
  interrupt(k);
  pthread_kill(k->main, SIGINT); /* which may wait for a message */
  for (int i = 0; i < PATIENCE && !atomic_load(&k->finished); i++) {
    usleep(100000);
    insist(k);
  }
  if (!atomic_load(&k->finished)) _exit(0); /* an operation that does not look whether it shall end */
  return NULL;
}

bool kernel_start_threads(kernel *k) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
  bool good = pthread_create(&k->heartbeat, NULL, beat, k) == 0;
  if (good && pthread_create(&k->control, NULL, control, k) != 0) {
    atomic_store(&k->stopping, true);
    pthread_join(k->heartbeat, NULL);
    good = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return good;
}

void kernel_join_threads(kernel *k) {
  atomic_store(&k->stopping, true);
  atomic_store(&k->finished, true);
  pthread_join(k->control, NULL);
  zmq_ctx_shutdown(k->zmq); /* ends the heartbeat's waiting; what is unsent still goes */
  pthread_join(k->heartbeat, NULL);
}
