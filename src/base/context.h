/*
** context.h: the one object that owns allocator, error slot, generator, threads and scopes.
** Every other file reaches memory, errors and cancellation through here. No mutable globals.
*/
#ifndef PN_BASE_CONTEXT_H
#define PN_BASE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include "../penumbra.h"

enum { PNI_MESSAGE = 1024, PNI_POOL_CLASSES = 160, PNI_MAX_THREADS = 256 };

typedef struct pni_threads pni_threads;   /* threads.c */
typedef struct pni_recorder pni_recorder; /* tensor/tensor.h */

/* A folder below which files are found (file/root.c); fd -1: no file is. */
typedef struct pni_root {
  int fd;
  bool writable;
} pni_root;

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
  size_t limit;                 /* bytes that may be held (in use + pooled), 0: none */
  size_t held;                  /* bytes taken from the allocator */
  size_t pooled;                /* of these, bytes waiting in pool[] */
  size_t peak;                  /* largest in use */
  size_t pool_limit;            /* largest pooled */
  void *pool[PNI_POOL_CLASSES]; /* free blocks by size class, linked through their first word */
  uintptr_t blocks;             /* the newest of all blocks, linked through their headers (memory.c) */
  uint64_t requests;            /* blocks ever taken from the allocator */
  uint64_t allocated;           /* bytes ever handed out: the Lua binding credits its collector from it */

  pn_status status; /* of the first failure since the last clear */
  char message[PNI_MESSAGE];
  atomic_int cancelled;
  int64_t deadline; /* monotonic nanoseconds, 0: none */

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
  bool trap_nan;        /* an operation that makes a NaN out of inputs without one fails */
  bool validate;        /* densities refuse values outside the support */
  const pni_root *root; /* readers and writers stay below it; NULL: any file */
};

/* ---- memory: blocks are 64-byte aligned; the caller remembers the size ---- */

/* realloc and free under pn_allocator's signature. */
void *pni_default_allocate(void *data, void *block, size_t old_size, size_t new_size);
/* n bytes, not cleared; NULL with PN_NOMEM set. n = 0 gives a valid block. */
void *pni_alloc(pn_context *c, size_t n);
/* The same, cleared. */
void *pni_calloc(pn_context *c, size_t n);
/* Gives back a block of pni_alloc; n must be what was asked for. NULL is a no-op. */
void pni_free(pn_context *c, void *block, size_t n);
/* Gives every block back, used or not. Only the end of a context calls it. */
void pni_release_all(pn_context *c);
/* count * size with overflow reported as PN_NOMEM. */
void *pni_alloc_array(pn_context *c, int64_t count, size_t size);

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
/* Did somebody cancel, or has the deadline passed? Shards that take long ask between two pieces of their work. */
static inline bool pni_is_over(const pn_context *c) {
  return atomic_load_explicit(&c->cancelled, memory_order_relaxed) || (c->deadline && pni_now() > c->deadline);
}
/* Fails with PN_CANCELLED if somebody asked for it or the deadline passed. Long loops call this. */
pn_status pni_check_cancel(pn_context *c);

/* ---- lifetime ---- */

/* Ends the context with everything that lives in it. Nobody may hold a reference any more. */
void pni_context_end(pn_context *c);
static inline void pni_object_born(pn_context *c) { c->objects++; }
/* Call when an object's memory is gone: a closed context dies with its last object. */
void pni_object_died(pn_context *c);

/* ---- threads.c ---- */

/* body(data, begin, end) must not allocate, fail or touch the context except for reading cancelled. */
typedef void (*pni_shard)(void *data, int64_t begin, int64_t end);
/* Covers 0 .. n - 1 by shards of at least `grain` items; runs in place when n < 2 * grain. Which
 * thread does which shard never influences results. PN_CANCELLED if cancelled; PN_OK means that every shard was done. */
pn_status pni_parallel(pn_context *c, int64_t n, int64_t grain, pni_shard body, void *data);
/* The same for work that must not stop half-way: every shard is done, cancelled or not. grain >= 1. */
void pni_parallel_whole(pn_context *c, int64_t n, int64_t grain, pni_shard body, void *data);
void pni_threads_free(pn_context *c);
/* Asks an OpenBLAS in this process to use one thread; other libraries are left alone. */
void pni_blas_single_thread(void);

#endif
