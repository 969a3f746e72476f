/*
** context_test.c: the context's promises. Memory comes from the host's allocator and is accounted and
** limited; the first failure stays; cancellation and deadlines stop running work; contexts are
** independent; a context outlives pn_context_close until its last object goes; work is shared out over
** threads so that every item is done once; every allocation may fail.
*/
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#include "../../src/tensor/tensor.h"
#include "check.h"

/* An allocator that knows what it gave: the size stands in front of the block. */
typedef struct heap {
  size_t live, peak;
  long blocks, calls, fail_at; /* fail_at: number of the call that fails, 0 none */
  bool wrong_size;
} heap;

static void *heap_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  heap *h = data;
  char *raw = block ? (char *)block - 16 : NULL;
  if (raw) {
    size_t size;
    memcpy(&size, raw, sizeof size);
    h->wrong_size |= size != old_size;
  }
  if (new_size == 0) {
    if (raw) h->blocks--, h->live -= old_size;
    free(raw);
    return NULL;
  }
  if (++h->calls == h->fail_at) return NULL;
  char *fresh = realloc(raw, new_size + 16);
  if (!fresh) return NULL;
  if (!raw) h->blocks++;
  h->live += new_size - (raw ? old_size : 0);
  if (h->live > h->peak) h->peak = h->live;
  memcpy(fresh, &new_size, sizeof new_size);
  return fresh + 16;
}

static pn_context *context_on(heap *h, size_t limit, size_t pool, int threads) {
  pn_context_config cfg = {
      .allocate = heap_allocate, .allocator_data = h, .memory_limit = limit, .pool_limit = pool, .threads = threads};
  return pn_context_new(&cfg);
}

static pn_tensor *vector(pn_context *c, int64_t n) { return pn_zeros(c, PN_FLOAT64, 1, &n); }

static void accounting(void) {
  heap h = {0};
  pn_context *c = context_on(&h, 0, PN_NO_POOL, 1);
  size_t mark = pn_scope_open(c), peak;
  CHECK_INT(pn_context_memory(c, NULL), 0);
  vector(c, 10000);
  size_t used = pn_context_memory(c, &peak);
  CHECK(used >= 80000 && used < 110000);
  CHECK_INT(peak, used);
  CHECK_INT(pn_context_objects(c), 1);
  CHECK(h.live >= used && h.live < used + sizeof(pn_context) + 512);
  pn_scope_close(c, mark);
  CHECK(pn_context_memory(c, &peak) < 2048); /* the list of the scope itself */
  CHECK_INT(peak, used);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_INT(h.live, 0);
  CHECK_INT(h.blocks, 0);
  CHECK(!h.wrong_size);
}

/* Every size gets a block of its own, aligned, that long; the same size frees it. */
static void block_sizes(void) {
  heap h = {0};
  pn_context *c = context_on(&h, 0, 0, 1);
  int bad = 0;
  for (size_t n = 0; n < 200000; n += 1 + n / 7) {
    unsigned char *a = pni_alloc(c, n), *b = pni_alloc(c, n);
    if (!a || !b) break;
    if ((uintptr_t)a % 64 || (uintptr_t)b % 64) bad++;
    memset(a, 0xAA, n);
    memset(b, 0x55, n);
    for (size_t i = 0; i < n; i++) bad += a[i] != 0xAA;
    pni_free(c, a);
    pni_free(c, b);
  }
  CHECK_INT(bad, 0);
  CHECK_INT(pn_context_memory(c, NULL), 0);
  CHECK(pni_alloc(c, SIZE_MAX) == NULL);
  CHECK_FAIL(c, PN_NOMEM, "memory");
  CHECK(pni_alloc_array(c, INT64_MAX, 16) == NULL);
  CHECK_FAIL(c, PN_NOMEM, "items of 16 bytes");
  pn_context_close(c);
  CHECK_INT(h.live, 0);
}

static void byte_limit(void) {
  heap h = {0};
  size_t limit = 1 << 20;
  pn_context *c = context_on(&h, limit, 0, 1);
  size_t own = h.live;
  CHECK(vector(c, 1 << 20) == NULL);
  CHECK_FAIL(c, PN_NOMEM, "limit 1048576");
  CHECK(vector(c, 1000) != NULL); /* usable again */
  int64_t n = 0;
  while (n < 100000 && vector(c, 4)) n++; /* many small ones are counted as what they cost */
  CHECK(n > 1000 && n < 100000);
  CHECK_FAIL(c, PN_NOMEM, "bytes asked for");
  CHECK(h.peak <= limit + own);
  pn_scope_close(c, 0);
  CHECK(vector(c, 100000) != NULL); /* pooled small blocks make room for a large one */
  pn_context_set_memory_limit(c, 0);
  CHECK(vector(c, 1 << 20) != NULL);
  pn_context_close(c);
  CHECK_INT(h.live, 0);
}

/* The allocator of contexts without one of their own: blocks of any size, which keep what they hold when they grow;
 * large ones begin on a page of 2 MiB, where a few faults do. */
static void own_allocator(void) {
  enum { MIB = 1 << 20 };
  static const size_t sizes[] = {1, 5000, 2 * MIB - 1, 2 * MIB, 5 * MIB + 64, 40 * MIB};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = sizes[i];
    unsigned char *p = pni_default_allocate(NULL, NULL, 0, n);
    CHECK(p != NULL && (n < 2 * MIB || (uintptr_t)p % (2 * MIB) == 0));
    if (!p) continue;
    p[0] = 1;
    p[n - 1] = 2;
    unsigned char first = p[0], last = p[n - 1];
    unsigned char *q = pni_default_allocate(NULL, p, n, n + 3 * MIB);
    CHECK(q != NULL && q[0] == first && q[n - 1] == last);
    if (q) q[n + 3 * MIB - 1] = 3;
    CHECK(pni_default_allocate(NULL, q, n + 3 * MIB, 0) == NULL);
  }
}

static void pool(void) {
  heap h = {0};
  pn_context *c = context_on(&h, 0, 0, 1);
  vector(c, 1000);
  pn_scope_close(c, 0);
  long calls = h.calls;
  for (int i = 0; i < 100; i++) {
    vector(c, 1000);
    pn_scope_close(c, 0);
  }
  CHECK_INT(h.calls, calls);
  size_t before = h.live;
  pn_context_trim(c);
  CHECK(h.live + 8000 <= before);
  CHECK(vector(c, 1000) != NULL);
  pn_context_close(c);
  CHECK_INT(h.live, 0);

  c = context_on(&h, 0, 20000, 1); /* keeps at most 20000 bytes */
  for (int i = 0; i < 10; i++) vector(c, 1000);
  before = h.live;
  pn_scope_close(c, 0);
  CHECK(h.live <= before - 8 * 8000);
  pn_context_close(c);
  CHECK_INT(h.live, 0);
  CHECK(!h.wrong_size);
}

static void error_slot(void) {
  pn_context *c = pn_context_new(NULL);
  CHECK_INT(pn_context_status(c), PN_OK);
  CHECK_STR(pn_context_message(c), "");
  pn_tensor *a = vector(c, 3), *b = vector(c, 4), *i = pn_zeros(c, PN_INT64, 1, (int64_t[]){3});
  pn_tensor *first = pn_add(c, a, b);
  CHECK(first == NULL);
  CHECK_INT(pn_context_status(c), PN_SHAPE);
  CHECK(strstr(pn_context_message(c), "[3] and [4]") != NULL);
  CHECK(pn_exp(c, pn_mul(c, first, a)) == NULL); /* NULL passes through */
  CHECK(pn_add(c, a, i) == NULL);                /* a second failure does not replace the first */
  CHECK_FAIL(c, PN_SHAPE, "add");
  CHECK(pn_add(c, a, i) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "float64 and int64");
  CHECK(pn_add(c, a, NULL) == NULL);
  CHECK_FAIL(c, PN_STATE, "NULL");
  CHECK(pn_add(c, a, a) != NULL);
  CHECK_INT(pn_context_status(c), PN_OK);
  CHECK_STR(pn_status_name(PN_STALE), "stale");
  CHECK_STR(pn_status_name((pn_status)999), "?");
  pn_context_close(c);
}

static void pause_for(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static void *cancel_soon(void *c) {
  pause_for(30);
  pn_context_cancel(c);
  return NULL;
}

static void cancellation(int threads) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
  pn_tensor *x = vector(c, 400000);
  pthread_t other;
  pthread_create(&other, NULL, cancel_soon, c);
  size_t mark = pn_scope_open(c);
  while (pn_exp(c, x)) pn_scope_close(c, mark);
  pthread_join(other, NULL);
  CHECK_FAIL(c, PN_CANCELLED, "interrupted");
  CHECK(pn_exp(c, x) == NULL); /* stays until withdrawn */
  CHECK_FAIL(c, PN_CANCELLED, "interrupted");
  pn_context_uncancel(c);
  CHECK(pn_exp(c, x) != NULL);

  int64_t start = pni_now();
  pn_context_set_deadline(c, 0.03);
  mark = pn_scope_open(c);
  while (pn_exp(c, x)) pn_scope_close(c, mark);
  CHECK(pni_now() - start >= 30000000);
  CHECK_FAIL(c, PN_TIME, "time limit");
  pn_context_set_deadline(c, 0);
  CHECK(pn_exp(c, x) != NULL);
  pn_context_set_deadline(c, 1e300);
  CHECK(pn_exp(c, x) != NULL);
  pn_context_set_deadline(c, INFINITY);
  CHECK(pn_exp(c, x) != NULL);
  pn_context_close(c);
}

/* ---- pni_parallel ---- */

typedef struct hits {
  pn_context *c;
  atomic_int *count;
  atomic_int calls;
  pthread_t caller;
  atomic_int elsewhere;
  int64_t slow; /* milliseconds a shard takes */
} hits;

static void touch(void *data, int64_t begin, int64_t end) {
  hits *h = data;
  atomic_fetch_add(&h->calls, 1);
  if (!pthread_equal(pthread_self(), h->caller)) atomic_fetch_add(&h->elsewhere, 1);
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&h->count[i], 1);
  if (h->slow) pause_for((long)h->slow);
}

static void parallel_covers(void) {
  static atomic_int count[5000];
  int sizes[] = {0, 1, 2, 7, 63, 64, 65, 1000, 4999};
  for (int threads = 1; threads <= 7; threads++) {
    pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int grain = 0; grain < 100; grain += 33) {
        hits h = {.c = c, .count = count, .caller = pthread_self()};
        for (int i = 0; i < 5000; i++) atomic_store(&count[i], 0);
        CHECK_STATUS(c, pni_parallel(c, sizes[s], grain, touch, &h), PN_OK);
        int wrong = 0;
        for (int i = 0; i < 5000; i++) wrong += atomic_load(&count[i]) != (i < sizes[s]);
        CHECK_INT(wrong, 0);
        if (threads == 1 || sizes[s] < 2 * grain) CHECK_INT(h.elsewhere, 0);
      }
    pn_context_close(c);
  }
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 4});
  hits h = {.c = c, .count = count, .caller = pthread_self()};
  CHECK_STATUS(c, pni_parallel(c, 1999, 1000, touch, &h), PN_OK);
  CHECK(c->threads == NULL); /* small work wakes nobody */
  CHECK_INT(pn_context_threads(c, 0), 4);
  CHECK_INT(pn_context_threads(c, 2), 2);
  CHECK_INT(pn_context_threads(c, 100000), 256);
  pn_context_close(c);
  c = pn_context_new(&(pn_context_config){.threads = 100000});
  CHECK_INT(pn_context_threads(c, 0), 256);
  pn_context_close(c);
}

static void spin(int n) {
  for (volatile int i = 0; i < n; i = i + 1) {
  }
}

/* Cancels and withdraws it again and again, from outside; waits while there is nothing to withdraw. */
typedef struct {
  pn_context *c;
  atomic_int stop;
} toggle;

static void *toggles(void *data) {
  toggle *t = data;
  for (int k = 1; !atomic_load(&t->stop); k++) {
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    pn_context_cancel(t->c);
    if (k % 8 == 0) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* whoever else runs sees it */
    spin(1000 * (k % 32 + 1));
    pn_context_uncancel(t->c);
  }
  return NULL;
}

static void mark_items(void *data, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) ((unsigned char *)data)[i] = 1;
  spin(2000);
}

/* PN_OK says that all is done, whatever happened to the cancellation meanwhile. */
static void parallel_whole(int threads) {
  enum { N = 1024, STOPS = 20000 };
  const int64_t end = pni_now() + (int64_t)2500000000;
  static unsigned char done[N];
  toggle t = {.c = pn_context_new(&(pn_context_config){.threads = threads})};
  pthread_t other;
  CHECK_INT(pthread_create(&other, NULL, toggles, &t), 0);
  int holes = 0, stopped = 0;
  while (stopped < STOPS && pni_now() < end) {
    memset(done, 0, sizeof done);
    if (pni_parallel(t.c, N, 16, mark_items, done) == PN_OK) {
      holes += memchr(done, 0, sizeof done) != NULL;
    } else {
      CHECK_INT(pn_context_status(t.c), PN_CANCELLED);
      stopped++;
    }
    pn_context_clear_error(t.c);
  }
  atomic_store(&t.stop, 1);
  pthread_join(other, NULL);
  CHECK_INT(holes, 0);
  CHECK(stopped > 0);
  pn_context_close(t.c);
}

/* The address sanitizer sees what lies beyond the bytes asked for, and blocks that wait for reuse. */
static void poisoned(void) {
#if defined(__SANITIZE_ADDRESS__)
  pn_context *c = pn_context_new(NULL);
  for (size_t n = 1; n < 5000; n += 37) {
    unsigned char *p = pni_alloc(c, n);
    CHECK(__asan_region_is_poisoned(p, n) == NULL);
    CHECK(__asan_address_is_poisoned(p + n) && __asan_address_is_poisoned(p - sizeof(void *) * 2 - 1));
    pni_free(c, p);
    CHECK(__asan_address_is_poisoned(p) && __asan_address_is_poisoned(p + n - 1));
  }
  pn_context_trim(c);
  pn_context_close(c);
#endif
}

/* A deadline stops the shards that nobody began, whoever works. */
static void parallel_stops(int threads) {
  static atomic_int count[1000];
  pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
  hits h = {.c = c, .count = count, .caller = pthread_self(), .slow = 2};
  pn_context_set_deadline(c, 0.02);
  CHECK_STATUS(c, pni_parallel(c, 1000, 1, touch, &h), PN_TIME);
  CHECK(atomic_load(&h.calls) < 500);
  pn_context_close(c);
}

/* ---- several contexts, and contexts that end early ---- */

static double workload(pn_context *c) {
  double sum = 0;
  size_t mark = pn_scope_open(c);
  pn_seed(c, 5);
  for (int i = 0; i < 20; i++) {
    pn_tensor *w = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 2, (int64_t[]){64, 64}));
    pn_tensor *y = pn_mean(c, pn_tanh(c, pn_matmul(c, w, w)), PN_ALL, 0);
    double v = NAN, g = NAN;
    if (pn_backward(c, y) == PN_OK && pn_tensor_item(c, y, &v) == PN_OK)
      pn_tensor_item(c, pn_sum(c, pn_square(c, pn_tensor_grad(w)), PN_ALL, 0), &g);
    sum += v + g;
    pn_scope_close(c, mark);
  }
  return sum;
}

static void *run_alone(void *out) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 2});
  *(double *)out = workload(c);
  pn_context_close(c);
  return NULL;
}

static void two_threads(void) {
  double want, got[2] = {0};
  run_alone(&want);
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, run_alone, &got[i]);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  CHECK(isfinite(want) && got[0] == want && got[1] == want);
}

static void closed_early(void) {
  heap h = {0};
  pn_context *c = context_on(&h, 0, 0, 2);
  pn_tensor *a = pn_tensor_ref(pn_param(c, vector(c, 100)));
  pn_tensor *b = pn_tensor_ref(pn_exp(c, a));
  pn_rng *r = pn_rng_new(c, 1);
  pn_context_close(c);
  pn_context_close(NULL);
  CHECK(h.live > 0);
  pn_tensor_unref(a); /* b still holds it */
  CHECK_INT(pn_tensor_numel(b), 100);
  CHECK_NEAR(((const double *)pn_tensor_data(b))[7], 1, 0);
  pn_rng_free(r);
  CHECK(h.live > 0);
  pn_tensor_unref(b);
  CHECK_INT(h.live, 0);
  CHECK_INT(h.blocks, 0);
}

/* Every allocation fails once, the others succeed: no leak, a named status, a usable context. */
static void failing_allocations(void) {
  heap quiet = {0};
  pn_context *c = context_on(&quiet, 0, PN_NO_POOL, 1);
  double want = workload(c);
  pn_context_close(c);
  long total = quiet.calls;
  CHECK(total > 100);
  for (long k = 1; k <= total; k += k < 150 ? 1 : 37) {
    heap h = {.fail_at = k};
    c = context_on(&h, 0, PN_NO_POOL, 1);
    if (!c) {
      CHECK_INT(k, 1);
      continue;
    }
    double got = workload(c);
    CHECK(isnan(got));
    CHECK_INT(pn_context_status(c), PN_NOMEM);
    pn_context_clear_error(c);
    CHECK_INT(pn_context_objects(c), 0);
    CHECK_NEAR(workload(c), want, 0);
    pn_context_close(c);
    CHECK_INT(h.live, 0);
    CHECK(!h.wrong_size);
  }
}

/* A graph that could not be walked for lack of memory can be walked later. */
static void failing_backward(void) {
  for (long k = 1; k < 60; k++) {
    heap h = {0};
    pn_context *c = context_on(&h, 0, PN_NO_POOL, 1);
    pn_tensor *w = pn_param(c, vector(c, 3)), *y = w;
    for (int i = 0; i < 70; i++) y = pn_add(c, y, w);
    y = pn_sum(c, y, PN_ALL, 0);
    h.fail_at = h.calls + k;
    pn_tensor *g = NULL;
    pn_status s = pn_grad(c, y, 1, &w, 0, &g);
    CHECK(s == PN_OK || (s == PN_NOMEM && g == NULL));
    h.fail_at = 0;
    pn_context_clear_error(c);
    CHECK_STATUS(c, pn_grad(c, y, 1, &w, 0, &g), PN_OK);
    CHECK_NEAR(g ? pni_element(g, 0) : 0, 71, 0);
    pn_context_close(c);
    CHECK_INT(h.live, 0);
  }
}

/* A backward pass that fails leaves every gradient as it was. */
static void gradients_kept(void) {
  for (long k = 1; k < 80; k++) {
    heap h = {0};
    pn_context *c = context_on(&h, 0, PN_NO_POOL, 1);
    pn_tensor *w[3], *y = pn_scalar(c, PN_FLOAT64, 1);
    for (int i = 0; i < 3; i++) y = pn_mul(c, y, pn_exp(c, w[i] = pn_param(c, pn_scalar(c, PN_FLOAT64, i + 1))));
    CHECK_STATUS(c, pn_backward(c, y), PN_OK);
    double before[3], twice = 0;
    for (int i = 0; i < 3; i++) before[i] = pni_element(pn_tensor_grad(w[i]), 0);
    h.fail_at = h.calls + k;
    pn_status s = pn_backward(c, y);
    h.fail_at = 0;
    for (int i = 0; i < 3; i++) twice += pni_element(pn_tensor_grad(w[i]), 0) / before[i];
    CHECK(s == PN_OK ? twice == 6 : s == PN_NOMEM && twice == 3);
    pn_context_clear_error(c);
    pn_context_close(c);
    CHECK_INT(h.live, 0);
  }
}

#if defined(__GNUC__)
extern void openblas_set_num_threads(int n) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));
static void one_pool(void) {
  if (!openblas_set_num_threads || !openblas_get_num_threads) return;
  openblas_set_num_threads(2);
  pn_context *c = pn_context_new(NULL);
  CHECK_INT(openblas_get_num_threads(), 1);
  pn_context_close(c);
}
#else
static void one_pool(void) {}
#endif

int main(void) {
  one_pool();
  accounting();
  block_sizes();
  byte_limit();
  own_allocator();
  pool();
  error_slot();
  cancellation(1);
  cancellation(3);
  parallel_covers();
  poisoned();
  parallel_whole(1);
  parallel_whole(3);
  parallel_stops(1);
  parallel_stops(3);
  two_threads();
  closed_early();
  failing_allocations();
  failing_backward();
  gradients_kept();
  CHECK_DONE();
}
