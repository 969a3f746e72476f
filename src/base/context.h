/*
** context.h: the one object that owns allocator, error slot, generator, threads and scopes.
** Every other file reaches memory, errors and cancellation through here. No mutable globals.
*/
#ifndef PN_BASE_CONTEXT_H
#define PN_BASE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include "../penumbra.h"
#include "given.h"
#include "size.h"

enum { PNI_MESSAGE = 1024, PNI_POOL_CLASSES = 160, PNI_MAX_THREADS = 256 };

typedef struct pni_threads pni_threads;   /* threads.c */
typedef struct pni_recorder pni_recorder; /* tensor/tensor.h */
typedef struct pni_root pni_root;         /* file/file.h */

/* Whether and when work has to end. Any thread may set `cancelled`; the deadline is set between calls. */
typedef struct pni_stop {
  atomic_int cancelled;
  int64_t deadline; /* monotonic nanoseconds, 0: none */
} pni_stop;

/* A stream of random numbers (math/random/rng.h) and the next position in it. */
typedef struct pni_philox {
  uint64_t key;
  uint64_t position;
} pni_philox;

/* The key that a seed stands for: finaliser of splitmix64 (Steele, Lea & Flood 2014, constants of Stafford's variant
 * 13). */
static inline uint64_t pni_seed_key(uint64_t seed) {
  uint64_t z = seed + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

struct pn_rng {
  pni_philox state;
  pn_context *ctx; /* NULL for the context's own generator */
  int32_t refs;    /* of a generator with ctx: its owner's and those of plans that draw from it */
};

struct pn_context {
  pn_allocator allocate;
  void *allocator_data;
  size_t limit;                 /* bytes that may be held (in use + pooled + lent), 0: none */
  size_t held;                  /* bytes taken from the allocator */
  size_t pooled;                /* of these, bytes waiting in pool[] */
  atomic_size_t lent;           /* bytes that children hold, whichever threads they work in: all of it is in use */
  atomic_size_t peak;           /* largest in use */
  size_t pool_limit;            /* largest pooled */
  void *pool[PNI_POOL_CLASSES]; /* free blocks by size class, linked through their first word */
  uintptr_t blocks;             /* the newest of all blocks, linked through their headers (memory.c) */
  uint64_t requests;            /* blocks ever taken from the allocator */
  uint64_t allocated;           /* bytes ever handed out: the Lua binding credits its collector from it */

  pn_status status; /* of the first failure since the last clear */
  char message[PNI_MESSAGE];
  pni_stop own_stop;
  pni_stop *stop;      /* own_stop, or the parent's */
  atomic_int left_out; /* work was left out because of it: until somebody fails for it */

  pn_context *parent;             /* whose account and stop this context shares; NULL: it has its own */
  pn_context *children, *sibling; /* those whose parent this one is; the next child of the parent */

  pn_rng rng;
  pni_threads *threads;
  int num_threads;

  pn_tensor **scope; /* results owned by open scopes, innermost last (tensor/scope.c) */
  size_t scope_len, scope_cap;
  void (*close_scopes)(pn_context *c); /* set by who opens them, for the end of the context; NULL: none were */
  pn_tensor *dying;                    /* tensors whose last reference is gone, waiting to be freed iteratively */
  uint64_t next_id;                    /* of the next graph node: inputs have smaller ids than results */
  pni_recorder *recorder;              /* of the capture that is going on, else NULL */
  uint32_t captures;                   /* number of the capture that goes on, or of the last */
  uint32_t captures_first;             /* number of the outermost one that goes on, or of the last */
  uint32_t captures_begun;
  int evaluating;     /* depth of kernels that run: they may look at numbers */
  char broken[256];   /* the first failure within the capture that need not come again, "" */
  pn_rng *drawn_from; /* the last reservation: generator and how many positions */
  uint64_t drawn_positions;
  uint64_t reservations; /* so far: a capture sees whether all of them were recorded */
  int64_t objects;
  int64_t maps;   /* bijectors made so far: tells them apart */
  double pace[2]; /* seconds per operation of large factorisations in float64, float32; 0: not measured yet */
  bool freeing, closed, no_grad;
  bool trap_nan;  /* an operation that makes a NaN out of inputs without one fails */
  bool validate;  /* densities refuse values outside the support */
  pni_root *root; /* readers and writers stay below it; NULL: any file */
};

/* ---- memory: blocks are 64-byte aligned and know their size ---- */

/* realloc and free under pn_allocator's signature. */
void *pni_default_allocate(void *data, void *block, size_t old_size, size_t new_size);
/* n bytes, not cleared; NULL with PN_NOMEM set. n = 0 gives a valid block. */
void *pni_alloc(pn_context *c, size_t n);
/* The same, cleared. */
void *pni_calloc(pn_context *c, size_t n);
/* Gives back a block of pni_alloc. NULL is a no-op. */
void pni_free(pn_context *c, void *block);
/* Gives every block back, used or not. Only the end of a context calls it. */
void pni_release_all(pn_context *c);
/* pn_context_trim, and what the default allocator has free then goes back to the system. */
void pni_memory_return(pn_context *c);
/* count * size bytes, count as pni_times and pni_plus give it (size.h): PN_NOMEM where there are too many. */
void *pni_alloc_array(pn_context *c, int64_t count, size_t size);
/* The same, cleared. */
void *pni_calloc_array(pn_context *c, int64_t count, size_t size);
/* The context's allocator (realloc if old, free if new is 0), on the account by the exact sizes: NULL if the limit or
 * the allocator refuses. Shrinking never fails. For memory that is no block of pni_alloc: Lua's. */
void *pni_reallocate(pn_context *c, void *block, size_t old, size_t new);
/* Puts n bytes on the account that came from elsewhere, or nothing if the limit forbids it. */
bool pni_charge(pn_context *c, size_t n);
void pni_discharge(pn_context *c, size_t n);

/* ---- errors: the first cause wins ---- */

#if defined(__GNUC__)
#define PNI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define PNI_PRINTF(f, a)
#endif

/* Records a failure unless one is pending; returns the pending status. Message form:
 * `<where>: <role> must be <what>, got <value>`. */
pn_status pni_fail(pn_context *c, pn_status status, const char *format, ...) PNI_PRINTF(3, 4);
static inline bool pni_failed(const pn_context *c) { return c->status != PN_OK; }
/* Monotonic clock in nanoseconds. */
int64_t pni_now(void);
static inline bool pni_stop_asked(const pni_stop *s) {
  return atomic_load_explicit(&s->cancelled, memory_order_relaxed) != 0;
}
static inline bool pni_stop_due(const pni_stop *s) { return s->deadline && pni_now() > s->deadline; }
/* Did somebody cancel? */
static inline bool pni_is_cancelled(const pn_context *c) { return pni_stop_asked(c->stop); }
/* When work has to end, in pni_now()'s nanoseconds, 0: never. */
static inline int64_t pni_deadline(const pn_context *c) { return c->stop->deadline; }
/* Did somebody cancel, or has the deadline passed? */
static inline bool pni_is_over(const pn_context *c) { return pni_is_cancelled(c) || pni_stop_due(c->stop); }
/* The same for shards, between two pieces of their work, each of some milliseconds at most. If it is over they leave
 * out the rest, and pni_parallel fails, whoever has withdrawn the cancellation since. */
static inline bool pni_leaves(pn_context *c) {
  if (!pni_is_over(c)) return false;
  atomic_store_explicit(&c->left_out, 1, memory_order_relaxed);
  return true;
}
/* Of a cancellation or a time limit: does the status say that work was to end, not that it went wrong? */
static inline bool pni_is_stop(pn_status s) { return s == PN_CANCELLED || s == PN_TIME; }
/* Fails with PN_CANCELLED if somebody asked for it or work was left out, with PN_TIME if the deadline passed; the
 * pending status. Long loops call this. */
pn_status pni_check_cancel(pn_context *c);

/* body(data, begin, end) must not allocate, fail or touch the context but to ask pni_leaves. */
typedef void (*pni_shard)(void *data, int64_t begin, int64_t end);

/* ---- lifetime ---- */

/* Ends the context with everything that lives in it, its children too. Nobody may hold a reference any more. */
void pni_context_end(pn_context *c);
static inline void pni_object_born(pn_context *c) { c->objects++; }
/* Call when an object's memory is gone: a closed context dies with its last object. */
void pni_object_died(pn_context *c);

/*
** ---- children: contexts of one thread each, in which a part of the parent's work goes on beside other parts ----
** What a child holds is on the parent's account from the moment it is taken, so the parent's limit bounds the sum and
** its peak is the sum's; the parent's cancellation and deadline are the child's. While children work in threads, the
** parent's own memory, limit and deadline do not change: the caller waits in pni_parallel.
*/

/* A context of one thread. With one thread in the parent it has the parent's allocator, else the library's, since a
 * host's allocator is called from the host's thread alone. Closed with pn_context_close before its parent; NULL with
 * PN_NOMEM set. */
pn_context *pni_context_child(pn_context *c);
/* pni_parallel for n children of c, of which `child` is one: one at a time where they have the host's allocator. */
pn_status pni_parallel_children(pn_context *c, const pn_context *child, int64_t n, pni_shard body, void *data);
/* What the child failed of becomes the parent's failure. Returns the pending status. */
pn_status pni_child_failed(pn_context *c, const pn_context *child, pn_status status);

/* ---- threads.c ---- */

/* Covers 0 .. n - 1 by shards of at least `grain` items; runs in place when n < 2 * grain. Which
 * thread does which shard never influences results. PN_CANCELLED if cancelled; PN_OK means that every shard was
 * done. */
pn_status pni_parallel(pn_context *c, int64_t n, int64_t grain, pni_shard body, void *data);
/* The same for work that must not stop half-way: every shard is done, cancelled or not. grain >= 1. */
void pni_parallel_whole(pn_context *c, int64_t n, int64_t grain, pni_shard body, void *data);
void pni_threads_free(pn_context *c);
/* Asks an OpenBLAS in this process to use one thread; other libraries are left alone. */
void pni_blas_single_thread(void);

#endif
