/*
** threads.c: a small pool of workers per context. Work is cut into shards whose bounds depend only on
** n and grain, taken from an atomic counter; small work runs in place and wakes nobody. Workers start
** at the first big job, and look for the next one for a little while before they sleep: a step of training is many jobs
** with little between them, and to wake a thread takes as long as one of them. A job ends when the shards are done: it
** does not wait for workers that slept through it. If a thread cannot be started the caller does the work alone.
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

/* How long a worker looks for another job, and a caller for the end of its own, before they sleep; and how many times
 * they look between two looks at the clock. */
enum { PATIENCE = 200000, LOOKS = 32 };

struct pni_threads {
  pthread_t *worker;
  int n;    /* workers running, the caller not counted */
  int room; /* slots in worker */
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  atomic_uint job;   /* number of the current job; changed under the lock, as all that follows */
  bool open;         /* the current job still takes workers */
  atomic_int inside; /* workers that are at the current job */
  int asleep;        /* workers that wait for `wake` */
  atomic_bool stop;
  pni_shard body;
  void *data;
  int64_t total, grain;
  atomic_llong next;     /* first item nobody took */
  const pni_stop *until; /* NULL: the current job is done whatever happens */
};

static inline void relax(void) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
  __builtin_ia32_pause();
#elif defined(__GNUC__) && defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

static void drain(pni_threads *p) {
  for (;;) {
    if (p->until && (pni_stop_asked(p->until) || pni_stop_due(p->until))) return;
    int64_t begin = atomic_fetch_add(&p->next, p->grain);
    if (begin >= p->total) return;
    int64_t end = begin + p->grain < p->total ? begin + p->grain : p->total;
    p->body(p->data, begin, end);
  }
}

/* Until there is another job than `seen`, or the patience is over. */
static void look(pni_threads *p, unsigned seen) {
  int64_t end = pni_now() + PATIENCE;
  do
    for (int k = 0; k < LOOKS; k++) {
      if (atomic_load(&p->job) != seen || atomic_load(&p->stop)) return;
      relax();
    }
  while (pni_now() < end);
}

static void *work(void *arg) {
  pni_threads *p = arg;
  unsigned seen = 0;
  for (;;) {
    look(p, seen);
    pthread_mutex_lock(&p->lock);
    p->asleep++;
    while (!p->stop && p->job == seen) pthread_cond_wait(&p->wake, &p->lock);
    p->asleep--;
    bool take = !p->stop && p->open, stop = p->stop;
    seen = p->job;
    if (take) p->inside++;
    pthread_mutex_unlock(&p->lock);
    if (stop) return NULL;
    if (!take) continue;
    drain(p);
    if (atomic_fetch_sub(&p->inside, 1) > 1) continue;
    pthread_mutex_lock(&p->lock); /* the caller may be between its look and its sleep */
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
  }
}

static void begin_job(pni_threads *p) {
  pthread_mutex_lock(&p->lock);
  p->open = true;
  p->job++;
  if (p->asleep) pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
}

/* No shard is left that nobody took: waits for those who have one. */
static void end_job(pni_threads *p) {
  pthread_mutex_lock(&p->lock);
  p->open = false;
  pthread_mutex_unlock(&p->lock);
  int64_t end = pni_now() + PATIENCE;
  do
    for (int k = 0; k < LOOKS; k++) {
      if (!atomic_load(&p->inside)) return;
      relax();
    }
  while (pni_now() < end);
  pthread_mutex_lock(&p->lock);
  while (p->inside) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
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
  size_t bytes = sizeof(pni_threads) + (size_t)pni_times((int64_t)room, sizeof(pthread_t));
  bool pending = pni_failed(c);
  pni_threads *p = pni_calloc(c, bytes);
  if (!p) { /* the caller can do without */
    if (!pending) pn_context_clear_error(c);
    return NULL;
  }
  p->worker = (pthread_t *)(p + 1);
  p->room = (int)room;
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
  pni_free(c, p);
}

/* Every shard, by whoever takes it. */
static void deal(pni_threads *p, int64_t n, int64_t grain, pni_shard body, void *data) {
  p->body = body;
  p->data = data;
  p->total = n;
  p->grain = grain;
  atomic_store(&p->next, 0);
  begin_job(p);
  drain(p);
  end_job(p);
}

pn_status pni_parallel(pn_context *c, int64_t n, int64_t grain, pni_shard body, void *data) {
  if (grain < 1) grain = 1;
  pni_threads *p = n < 2 * grain ? NULL : pool(c);
  if (!p || p->n == 0) {
    for (int64_t begin = 0; begin < n; begin += grain) {
      if (begin && pni_check_cancel(c)) return c->status;
      body(data, begin, begin + grain < n ? begin + grain : n);
    }
    return atomic_load_explicit(&c->left_out, memory_order_relaxed) ? pni_check_cancel(c) : PN_OK;
  }
  p->until = c->stop;
  deal(p, n, grain, body, data);
  /* a shard that was left out stays one, whoever has withdrawn the cancellation since */
  pn_status s = pni_check_cancel(c);
  return s == PN_OK && atomic_load(&p->next) < n ? pni_fail(c, PN_CANCELLED, "interrupted") : s;
}

void pni_parallel_whole(pn_context *c, int64_t n, int64_t grain, pni_shard body, void *data) {
  pni_threads *p = n < 2 * grain ? NULL : pool(c);
  if (p && p->n > 0) {
    p->until = NULL;
    deal(p, n, grain, body, data);
    return;
  }
  for (int64_t begin = 0; begin < n; begin += grain) body(data, begin, begin + grain < n ? begin + grain : n);
}

int pn_context_threads(pn_context *c, int n) {
  if (n >= 1 && n != c->num_threads) {
    pni_threads_free(c);
    c->num_threads = n > PNI_MAX_THREADS ? PNI_MAX_THREADS : n;
  }
  return c->num_threads;
}
