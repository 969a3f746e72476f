/*
** poisoned.h: memory in which a stale pointer shows without a sanitiser. What is given out is full of one byte, what
** was given back of another, and it is not given out again for a while; what moves always moves. Behind each block lies
** a fence. Whoever reads what was given back reads STALE throughout (as an address: one that faults), whoever writes
** there or beyond a block is counted when the block leaves.
*/
#ifndef PN_SPEC_POISONED_H
#define PN_SPEC_POISONED_H

#include <stdlib.h>
#include "check.h"

enum { POISON_FRESH = 0xF5, POISON_STALE = 0xA5, POISON_FENCE = 0xE7, POISON_FENCE_BYTES = 64, POISON_KEPT = 4096 };

typedef struct {
  unsigned char *block;
  size_t size;
} poisoned_block;

typedef struct {
  unsigned char fresh;              /* what new memory is full of; 0: POISON_FRESH */
  poisoned_block kept[POISON_KEPT]; /* given back, the oldest at `next` */
  size_t next;
  long spoiled; /* blocks that were written to when they were nobody's, or beyond their end */
} poisoned_memory;

static inline bool poisoned_whole(const unsigned char *p, size_t n, unsigned char byte) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != byte) return false;
  return true;
}

static inline void poisoned_leave(poisoned_memory *m, poisoned_block *b) {
  if (b->block && !poisoned_whole(b->block, b->size + POISON_FENCE_BYTES, POISON_STALE)) m->spoiled++;
  free(b->block);
  *b = (poisoned_block){NULL, 0};
}

static inline void poisoned_free(poisoned_memory *m, unsigned char *block, size_t size) {
  if (!block) return;
  if (!poisoned_whole(block + size, POISON_FENCE_BYTES, POISON_FENCE)) m->spoiled++;
  memset(block, POISON_STALE, size + POISON_FENCE_BYTES);
  poisoned_block *b = &m->kept[m->next++ % POISON_KEPT];
  poisoned_leave(m, b);
  *b = (poisoned_block){block, size};
}

/* An allocator of contexts and of Lua (which gives a kind as the size of what is new). */
static inline void *poisoned_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  poisoned_memory *m = data;
  unsigned char *fresh = new_size ? malloc(new_size + POISON_FENCE_BYTES) : NULL;
  if (new_size && !fresh) return NULL;
  if (fresh) {
    memset(fresh, m->fresh ? m->fresh : POISON_FRESH, new_size);
    memset(fresh + new_size, POISON_FENCE, POISON_FENCE_BYTES);
    if (block) memcpy(fresh, block, old_size < new_size ? old_size : new_size);
  }
  if (block) poisoned_free(m, block, old_size);
  return fresh;
}

/* Looks at what is still kept; how much was spoiled in all. */
static inline long poisoned_end(poisoned_memory *m) {
  for (size_t k = 0; k < POISON_KEPT; k++) poisoned_leave(m, &m->kept[k]);
  return m->spoiled;
}

#endif
