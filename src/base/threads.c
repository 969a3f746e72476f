/*
** threads.c: a small pool of workers per context. Work is cut into shards whose bounds depend only on
** n and grain, taken from an atomic counter; small work runs in place and wakes nobody. Workers start
** at the first big job. If a thread cannot be started the caller does the work alone.
*/
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include "context.h"

/* OpenBLAS has a pool of its own, which would fight with ours for the processors. */
#if defined(__GNUC__)
extern void openblas_set_num_threads(int n) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));
void pni_blas_single_thread(void) {
  if (openblas_set_num_threads && openblas_get_num_threads && openblas_get_num_threads() != 1)
    openblas_set_num_threads(1);
}
#else
void pni_blas_single_thread(void) {}
#endif

struct pni_threads {
  pthread_t *worker;
  int n;    /* workers running, the caller not counted */
  int room; /* slots in worker */
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  uint64_t job; /* number of the current job */
  int busy;     /* workers that have not finished the current job */
  bool stop;
  pni_shard body;
  void *data;
  int64_t total, grain;
  atomic_llong next; /* first item nobody took */
  atomic_int *cancelled;
  int64_t deadline; /* of the current job, 0: none */
};

static void drain(pni_threads *p) {
  for (;;) {
    if (atomic_load_explicit(p->cancelled, memory_order_relaxed)) return;
    if (p->deadline && pni_now() > p->deadline) return;
    int64_t begin = atomic_fetch_add(&p->next, p->grain);
    if (begin >= p->total) return;
    int64_t end = begin + p->grain < p->total ? begin + p->grain : p->total;
    p->body(p->data, begin, end);
  }
}

static void *work(void *arg) {
  pni_threads *p = arg;
  uint64_t seen = 0;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->stop && p->job == seen) pthread_cond_wait(&p->wake, &p->lock);
    if (p->stop) break;
    seen = p->job;
    pthread_mutex_unlock(&p->lock);
    drain(p);
    pthread_mutex_lock(&p->lock);
    if (--p->busy == 0) pthread_cond_signal(&p->done);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* Signals belong to the host's threads: workers block them all. */
static void start_workers(pni_threads *p) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (p->n < p->room && pthread_create(&p->worker[p->n], NULL, work, p) == 0) p->n++;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static pni_threads *pool(pn_context *c) {
  if (c->threads || c->num_threads < 2) return c->threads;
  size_t room = (size_t)c->num_threads - 1;
  size_t bytes = sizeof(pni_threads) + room * sizeof(pthread_t);
  bool pending = pni_failed(c);
  pni_threads *p = pni_calloc(c, bytes);
  if (!p) { /* the caller can do without */
    if (!pending) pn_context_clear_error(c);
    return NULL;
  }
  p->worker = (pthread_t *)(p + 1);
  p->room = (int)room;
  p->cancelled = &c->cancelled;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  pthread_cond_init(&p->done, NULL);
  start_workers(p);
  return c->threads = p;
}

void pni_threads_free(pn_context *c) {
  pni_threads *p = c->threads;
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < p->n; i++) pthread_join(p->worker[i], NULL);
  pthread_cond_destroy(&p->wake);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->lock);
  c->threads = NULL;
  pni_free(c, p, sizeof *p + (size_t)p->room * sizeof(pthread_t));
}

pn_status pni_parallel(pn_context *c, int64_t n, int64_t grain, pni_shard body, void *data) {
  if (grain < 1) grain = 1;
  pni_threads *p = n < 2 * grain ? NULL : pool(c);
  if (!p || p->n == 0) {
    for (int64_t begin = 0; begin < n; begin += grain) {
      if (begin && pni_check_cancel(c)) return c->status;
      body(data, begin, begin + grain < n ? begin + grain : n);
    }
    return PN_OK;
  }
  pthread_mutex_lock(&p->lock);
  p->body = body;
  p->data = data;
  p->total = n;
  p->grain = grain;
  p->deadline = c->deadline;
  atomic_store(&p->next, 0);
  p->busy = p->n;
  p->job++;
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
  drain(p);
  pthread_mutex_lock(&p->lock);
  while (p->busy) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  /* a shard that was left out stays one, whoever has withdrawn the cancellation since */
  pn_status s = pni_check_cancel(c);
  return s == PN_OK && atomic_load(&p->next) < n ? pni_fail(c, PN_CANCELLED, "interrupted") : s;
}

int pn_context_threads(pn_context *c, int n) {
  if (n >= 1 && n != c->num_threads) {
    pni_threads_free(c);
    c->num_threads = n > PNI_MAX_THREADS ? PNI_MAX_THREADS : n;
  }
  return c->num_threads;
}
