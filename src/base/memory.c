/*
** memory.c: the context's account. Blocks come in size classes, four per doubling, and go back to a
** free list of their class, so that a loop that has warmed up allocates nothing. Blocks are 64-byte
** aligned; the byte before a block says how far it lies into what the allocator gave.
*/
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "context.h"

enum { ALIGN = 64 };

void *pni_default_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  (void)data;
  (void)old_size;
  if (new_size == 0) {
    free(block);
    return NULL;
  }
  return realloc(block, new_size);
}

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

static void release(pn_context *c, void *block, size_t cost) {
  unsigned char *p = block;
  c->allocate(c->allocator_data, p - p[-1], cost, 0);
  c->held -= cost;
}

void pn_context_trim(pn_context *c) {
  for (int k = 0; k < PNI_POOL_CLASSES; k++) {
    while (c->pool[k]) {
      void *block = c->pool[k];
      memcpy(&c->pool[k], block, sizeof(void *));
      release(c, block, class_cost(k));
    }
  }
  c->pooled = 0;
}

static void *fresh(pn_context *c, size_t cost) {
  if (c->limit && c->held + cost > c->limit) {
    pn_context_trim(c);
    if (c->held + cost > c->limit) return NULL;
  }
  unsigned char *raw = c->allocate(c->allocator_data, NULL, 0, cost);
  if (!raw && c->pooled) {
    pn_context_trim(c);
    raw = c->allocate(c->allocator_data, NULL, 0, cost);
  }
  if (!raw) return NULL;
  size_t shift = ALIGN - ((uintptr_t)raw & (ALIGN - 1)); /* 1 .. 64 */
  raw[shift - 1] = (unsigned char)shift;
  c->held += cost;
  return raw + shift;
}

void *pni_alloc(pn_context *c, size_t n) {
  if (n > (size_t)1 << 44) { /* the largest class */
    pni_fail(c, PN_NOMEM, "out of memory: %zu bytes asked for", n);
    return NULL;
  }
  int k = class_of(n);
  size_t cost = class_cost(k);
  void *block = c->pool[k];
  if (block) {
    memcpy(&c->pool[k], block, sizeof(void *));
    c->pooled -= cost;
  } else if (!(block = fresh(c, cost))) {
    pni_fail(c, PN_NOMEM, "out of memory: %zu bytes asked for, %zu in use, limit %zu", n, c->held - c->pooled,
             c->limit);
    return NULL;
  }
  c->allocated += cost;
  if (c->held - c->pooled > c->peak) c->peak = c->held - c->pooled;
  return block;
}

void *pni_calloc(pn_context *c, size_t n) {
  void *block = pni_alloc(c, n);
  if (block) memset(block, 0, n);
  return block;
}

void *pni_alloc_array(pn_context *c, int64_t count, size_t size) {
  if (count < 0 || (size && (uint64_t)count > ((uint64_t)1 << 44) / size)) {
    pni_fail(c, PN_NOMEM, "out of memory: %lld items of %zu bytes asked for", (long long)count, size);
    return NULL;
  }
  return pni_alloc(c, (size_t)count * size);
}

void pni_free(pn_context *c, void *block, size_t n) {
  if (!block) return;
  int k = class_of(n);
  size_t cost = class_cost(k);
  if (c->pooled + cost > c->pool_limit) {
    release(c, block, cost);
    return;
  }
  memcpy(block, &c->pool[k], sizeof(void *));
  c->pool[k] = block;
  c->pooled += cost;
}

size_t pn_context_memory(const pn_context *c, size_t *peak) {
  if (peak) *peak = c->peak;
  return c->held - c->pooled;
}

/* What waits for reuse counts as held, so that it cannot be handed out beyond the limit. */
void pn_context_set_memory_limit(pn_context *c, size_t bytes) {
  c->limit = bytes;
  if (bytes && c->held > bytes) pn_context_trim(c);
}
