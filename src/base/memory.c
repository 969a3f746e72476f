/*
** memory.c: the context's account. Blocks come in size classes, four per doubling, and go back to a
** free list of their class, so that a loop that has warmed up allocates nothing. Blocks are 64-byte
** aligned. What lies between the allocator's address and the block (16 bytes at least) links all blocks
** of the context in one list, so that a context can end whatever is still alive in it. Addresses of blocks
** have six zero bits; in them the two links carry the block's class and its distance.
** Under the address sanitizer what a block has beyond the bytes asked for, and all of a block that waits for reuse, is
** poisoned: the sanitizer knows the allocator's blocks alone.
*/
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include "span.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 64 };

/* Large blocks begin and, as far as they reach, stay on huge pages where the system has them: a fault for each 2 MiB
 * instead of 512 of them, which would take longer than the arithmetic on what they hold. */
static void *large_block(size_t n) {
  enum { HUGE_PAGE = 2 << 20 };
  void *block = NULL;
  if (n < HUGE_PAGE || posix_memalign(&block, HUGE_PAGE, n)) return malloc(n);
#ifdef MADV_HUGEPAGE
  madvise(block, n, MADV_HUGEPAGE); /* advice: its failure changes nothing */
#endif
  return block;
}

void *pni_default_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  (void)data;
  (void)old_size;
  if (new_size == 0) {
    free(block);
    return NULL;
  }
  return block ? realloc(block, new_size) : large_block(new_size);
}

/* The largest class; where addresses have 32 bits a size doubled once more would not be one. */
static const size_t LARGEST = (size_t)1 << (SIZE_MAX > UINT32_MAX ? 44 : 31);

/* Class k holds blocks of class_size(k) bytes: 64, 80, 96, 112, 128, 160, ... */
static size_t class_size(int k) { return ((size_t)(4 + k % 4) << (k / 4)) * (ALIGN / 4); }
/* What a block of that class takes from the allocator, and what the account counts. */
static size_t class_cost(int k) { return class_size(k) + ALIGN; }

static int class_of(size_t n) {
  if (n <= ALIGN) return 0;
  size_t m = (n - 1) / (ALIGN / 4); /* >= 4; the class above keeps n <= class_size */
  int shift = 61 - __builtin_clzll((unsigned long long)m);
  return shift * 4 + (int)(m >> shift) - 4 + 1;
}

/* Stands before a block. Low bits of `next`: distance / 8 - 1, three bits of the class; of `prev`: the others. */
typedef struct {
  uintptr_t next, prev;
} link;

static const uintptr_t LOW = ALIGN - 1;

static link *link_of(uintptr_t block) { return (link *)block - 1; }

/* Replaces the address in a link and leaves its low bits. */
static void point(uintptr_t *to, uintptr_t block) { *to = block | (*to & LOW); }

static void enlist(pn_context *c, unsigned char *p, size_t distance, int k) {
  uintptr_t at = (uintptr_t)p;
  *link_of(at) = (link){c->blocks | (uintptr_t)(distance / 8 - 1) | (uintptr_t)(k & 7) << 3, (uintptr_t)(k >> 3)};
  if (c->blocks) point(&link_of(c->blocks)->prev, at);
  c->blocks = at;
}

static int class_in(const link *l) { return (int)((l->next >> 3 & 7) | (l->prev & LOW) << 3); }

static void release(pn_context *c, void *block) {
  unsigned char *p = block;
  link l = *link_of((uintptr_t)p);
  uintptr_t next = l.next & ~LOW, prev = l.prev & ~LOW;
  size_t distance = ((l.next & 7) + 1) * 8, cost = class_cost(class_in(&l));
  if (next) point(&link_of(next)->prev, prev);
  if (prev)
    point(&link_of(prev)->next, next);
  else
    c->blocks = next;
  UNPOISON(p - distance, cost);
  pni_reallocate(c, p - distance, cost, 0);
}

void pni_release_all(pn_context *c) {
  while (c->blocks) release(c, (void *)c->blocks);
  c->pooled = 0;
}

/* The first free block of a class that has one. */
static void *pop(pn_context *c, int k) {
  void *block = c->pool[k];
  UNPOISON(block, sizeof(void *));
  memcpy(&c->pool[k], block, sizeof(void *));
  return block;
}

static void push(pn_context *c, int k, void *block) {
  UNPOISON(block, sizeof(void *));
  memcpy(block, &c->pool[k], sizeof(void *));
  c->pool[k] = block;
  POISON(block, class_size(k));
}

/* Only a context's own thread trims it, which waits while children work in others. */
void pn_context_trim(pn_context *c) {
  for (int k = 0; k < PNI_POOL_CLASSES; k++)
    while (c->pool[k]) release(c, pop(c, k));
  c->pooled = 0;
  for (pn_context *child = c->children; child; child = child->sibling) pn_context_trim(child);
}

void pni_memory_return(pn_context *c) {
  pn_context_trim(c);
#ifdef __GLIBC__
  if (c->allocate == pni_default_allocate) malloc_trim(0);
#endif
}

/* ---- the account: of a context and its children together. A child's bytes are put on it by the thread in which the
 * child works; the parent's own numbers stand still meanwhile. ---- */

static pn_context *root_of(pn_context *c) {
  while (c->parent) c = c->parent;
  return c;
}

static size_t in_use(const pn_context *c) {
  return c->held - c->pooled + atomic_load_explicit(&c->lent, memory_order_relaxed);
}

static void note_peak(pn_context *c, size_t used) {
  size_t peak = atomic_load_explicit(&c->peak, memory_order_relaxed);
  while (used > peak &&
         !atomic_compare_exchange_weak_explicit(&c->peak, &peak, used, memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* Is there room for n bytes beside `lent` of children? */
static bool fits(const pn_context *root, size_t lent, size_t n) {
  return !root->limit || (n <= root->limit && root->held + lent <= root->limit - n);
}

/* Puts n bytes on the account, if they fit; *used is what is in use then. */
static bool take(pn_context *c, size_t n, size_t *used) {
  pn_context *root = root_of(c);
  size_t lent = atomic_load_explicit(&root->lent, memory_order_relaxed);
  do {
    if (!fits(root, lent, n)) return false;
  } while (c != root && !atomic_compare_exchange_weak_explicit(&root->lent, &lent, lent + n, memory_order_relaxed,
                                                               memory_order_relaxed));
  c->held += n;
  *used = root->held - root->pooled + lent + (c == root ? 0 : n);
  return true;
}

static bool charge(pn_context *c, size_t n, size_t *used) {
  if (take(c, n, used)) return true;
  pn_context_trim(c);
  return take(c, n, used);
}

bool pni_charge(pn_context *c, size_t n) {
  size_t used;
  if (!charge(c, n, &used)) return false;
  note_peak(root_of(c), used);
  return true;
}

void pni_discharge(pn_context *c, size_t n) {
  pn_context *root = root_of(c);
  c->held -= n;
  if (c != root) atomic_fetch_sub_explicit(&root->lent, n, memory_order_relaxed);
}

void *pni_reallocate(pn_context *c, void *block, size_t old, size_t new) {
  size_t used = 0;
  if (new > old && !charge(c, new - old, &used)) return NULL;
  void *p = c->allocate(c->allocator_data, block, old, new);
  if (!p && new && (c->pooled || c->children)) {
    pn_context_trim(c);
    p = c->allocate(c->allocator_data, block, old, new);
  }
  if (new <= old) {
    pni_discharge(c, old - new);
    return new && !p ? block : p;
  }
  if (p)
    note_peak(root_of(c), used);
  else
    pni_discharge(c, new - old);
  return p;
}

static void *fresh(pn_context *c, int k) {
  size_t cost = class_cost(k);
  c->requests++;
  unsigned char *raw = pni_reallocate(c, NULL, 0, cost);
  size_t distance = ALIGN - ((uintptr_t)raw & (ALIGN - 1)); /* 16 .. 64, as malloc aligns to 16 */
  if (!raw || distance < sizeof(link)) {
    if (raw) pni_reallocate(c, raw, cost, 0);
    return NULL;
  }
  POISON(raw, cost);
  UNPOISON(link_of((uintptr_t)raw + distance), sizeof(link));
  enlist(c, raw + distance, distance, k);
  return raw + distance;
}

void *pni_alloc(pn_context *c, size_t n) {
  if (n > LARGEST) {
    pni_fail(c, PN_NOMEM, "out of memory: %zu bytes asked for", n);
    return NULL;
  }
  int k = class_of(n);
  size_t cost = class_cost(k);
  void *block = c->pool[k] ? pop(c, k) : NULL;
  if (block) {
    c->pooled -= cost;
  } else if (!(block = fresh(c, k))) {
    const pn_context *root = root_of(c);
    pni_fail(c, PN_NOMEM, "out of memory: %zu bytes asked for, %zu in use, limit %zu", n, in_use(root), root->limit);
    return NULL;
  }
  UNPOISON(block, n);
  POISON((char *)block + n, class_size(k) - n);
  c->allocated += cost;
  note_peak(c, in_use(c));
  return block;
}

void *pni_calloc(pn_context *c, size_t n) {
  void *block = pni_alloc(c, n);
  if (!block || pni_clear(c, block, n) == PN_OK) return block;
  pni_free(c, block);
  return NULL;
}

void *pni_alloc_array(pn_context *c, int64_t count, size_t size) {
  if (count < 0 || (uint64_t)count > LARGEST / (size ? size : 1)) {
    pni_fail(c, PN_NOMEM, "out of memory: %lld items of %zu bytes asked for", (long long)count, size);
    return NULL;
  }
  return pni_alloc(c, (size_t)count * size);
}

void *pni_calloc_array(pn_context *c, int64_t count, size_t size) {
  void *block = pni_alloc_array(c, count, size);
  if (block) memset(block, 0, (size_t)count * size);
  return block;
}

void pni_free(pn_context *c, void *block) {
  if (!block) return;
  int k = class_in(link_of((uintptr_t)block));
  size_t cost = class_cost(k);
  if (c->pooled + cost > c->pool_limit) {
    release(c, block);
    return;
  }
  push(c, k, block);
  c->pooled += cost;
}

size_t pn_context_memory(const pn_context *c, size_t *peak) {
  if (peak) *peak = atomic_load_explicit(&c->peak, memory_order_relaxed);
  return in_use(c);
}

/* What waits for reuse counts as held, so that it cannot be handed out beyond the limit. */
void pn_context_set_memory_limit(pn_context *c, size_t bytes) {
  c->limit = bytes;
  if (!fits(c, atomic_load_explicit(&c->lent, memory_order_relaxed), 0)) pn_context_trim(c);
}
