/*
** alloc_sweep.h: shows that a piece of work survives the failure of each of its allocations. The work is
** run again and again in a fresh context whose allocator fails at the n-th request, once or from there
** on, n = 1, 2, ... until nothing fails any more. New memory is full of SWEEP_FRESH, which is no address and, as a
** count or place, is out of range. Each time: the work reports failure with PN_NOMEM, no object is left, the same
** context does the work right afterwards and then holds what it holds where nothing failed, and no block is left after
** closing.
**
** The time of a whole sweep grows with the square of the allocations. `make soak` does it whole; otherwise one place of
** every stretch fails, at random in it, with as many stretches as SWEEP_ONCE and SWEEP_LASTING say: what has fewer
** allocations is swept whole. PN_SEED draws other places; a failure names its own.
*/
#ifndef PN_SPEC_ALLOC_SWEEP_H
#define PN_SPEC_ALLOC_SWEEP_H

#include <limits.h>
#include <stdlib.h>
#include "check.h"
#include "soak.h"

enum { SWEEP_ONCE = 150, SWEEP_LASTING = 50, SWEEP_FRESH = 0x11 };

/* The work: true if everything succeeded. Results are left to the scope that is open around it; what is
 * new (not scoped) it releases itself, on failure too. */
typedef bool (*sweep_work)(pn_context *c, const void *data);

typedef struct sweep_memory {
  long requests; /* so far */
  long fail_at;  /* 0: never */
  bool lasting;  /* all later requests fail too */
  long failed;   /* how many were refused */
  long blocks;   /* not given back */
} sweep_memory;

static inline void *sweep_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  sweep_memory *m = data;
  if (!block) old_size = 0;
  if (new_size == 0) {
    if (block) m->blocks--;
    free(block);
    return NULL;
  }
  m->requests++;
  if (m->fail_at && (m->requests == m->fail_at || (m->lasting && m->requests > m->fail_at))) {
    m->failed++;
    return NULL;
  }
  void *fresh = realloc(block, new_size);
  if (fresh && !block) m->blocks++;
  if (fresh && new_size > old_size) memset((char *)fresh + old_size, SWEEP_FRESH, new_size - old_size);
  return fresh;
}

static inline bool sweep_say(const char *name, long n, const char *what) {
  printf("%s, allocation %ld: %s\n", name, n, what);
  return false;
}

/* One run that fails at the n-th request after the context's creation. *more: something did fail; *kept: bytes that the
 * context holds after two runs, 0 as long as nobody knows, when the first must have left as many; returns how many
 * requests were made and one, 0 if anything is wrong. */
static inline long sweep_once(const char *name, sweep_work work, const void *data, int threads, long n, bool lasting,
                              bool *more, size_t *kept) {
  sweep_memory m = {0};
  bool good = true;
  pn_context *c = pn_context_new(&(pn_context_config){
      .allocate = sweep_allocate, .allocator_data = &m, .pool_limit = PN_NO_POOL, .seed = 1, .threads = threads});
  if (!c) return sweep_say(name, n, "no context"); /* 0 */
  m.requests = 0;
  m.fail_at = n;
  m.lasting = lasting;
  size_t mark = pn_scope_open(c);
  bool done = work(c, data);
  long requests = m.requests;
  *more = m.failed > 0;
  m.fail_at = 0;
  pn_scope_close(c, mark);
  if (!done && !*more) good = sweep_say(name, n, pn_context_message(c));
  if (!done && *more && pn_context_status(c) != PN_NOMEM) good = sweep_say(name, n, "the status is not PN_NOMEM");
  if (done && pn_context_status(c) != PN_OK) good = sweep_say(name, n, "success with an error pending");
  pn_context_clear_error(c);
  if (pn_context_objects(c) != 0) good = sweep_say(name, n, "objects are left");
  if (*kept == 0) *kept = pn_context_memory(c, NULL);
  mark = pn_scope_open(c);
  if (good && !work(c, data)) good = sweep_say(name, n, pn_context_message(c));
  pn_scope_close(c, mark);
  if (good && pn_context_memory(c, NULL) != *kept) good = sweep_say(name, n, "the context holds memory");
  pn_context_clear_error(c);
  pn_context_close(c);
  if (m.blocks != 0) good = sweep_say(name, n, "memory is left");
  return good ? requests + 1 : 0;
}

/* Failures in one place of each of `stretches`, in every place where that is whole. */
static inline bool sweep_places(const char *name, sweep_work work, const void *data, int threads, long requests,
                                bool lasting, long stretches, size_t *kept) {
  static uint64_t random;
  if (random == 0) random = soak_seed();
  stretches /= soak_short();
  long stretch = getenv("PN_SOAK") ? 1 : 1 + requests / (stretches > 0 ? stretches : 1);
  bool more = true;
  for (long first = 1; more; first += stretch) {
    long n = first + (long)soak_random(&random, (uint64_t)stretch);
    if (!sweep_once(name, work, data, threads, n, lasting, &more, kept)) return false;
  }
  return true;
}

/* Counts as one check. */
static inline void sweep_threads(const char *name, sweep_work work, const void *data, int threads) {
  bool more;
  size_t kept = 0;
  long requests = sweep_once(name, work, data, threads, LONG_MAX, false, &more, &kept);
  check_record(requests && sweep_places(name, work, data, threads, requests, false, SWEEP_ONCE, &kept) &&
               sweep_places(name, work, data, threads, requests, true, SWEEP_LASTING, &kept));
}

static inline void sweep(const char *name, sweep_work work, const void *data) { sweep_threads(name, work, data, 1); }

#endif
