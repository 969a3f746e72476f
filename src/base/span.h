/* span.h: many items in pieces of a millisecond at most, between which the context is asked whether time is over. */
#ifndef PN_BASE_SPAN_H
#define PN_BASE_SPAN_H

#include <string.h>
#include "context.h"

enum { PNI_SPAN = 1 << 16, PNI_BYTES = 2 << 20 };

/* Was something left out in this job? Then numbers that come next may be no indices: who uses them as such asks
 * first. */
static inline bool pni_has_left(pn_context *c) { return atomic_load_explicit(&c->left_out, memory_order_relaxed) != 0; }

/* Items begin .. end - 1. */
typedef struct pni_span {
  int64_t begin, end;
} pni_span;

/* The next of n items after s, the first after {0}; false at the end, or with PN_CANCELLED. */
static inline bool pni_next_span(pn_context *c, int64_t n, pni_span *s) {
  s->begin = s->end;
  if (s->begin >= n || (s->begin && pni_check_cancel(c))) return false;
  s->end = n - s->begin < PNI_SPAN ? n : s->begin + PNI_SPAN;
  return true;
}

/* memset to 0. */
static inline pn_status pni_clear(pn_context *c, void *p, size_t n) {
  for (size_t at = 0; at < n; at += PNI_BYTES) {
    if (at && pni_check_cancel(c)) return c->status;
    memset((char *)p + at, 0, n - at < PNI_BYTES ? n - at : PNI_BYTES);
  }
  return PN_OK;
}

/* The same in a shard; false if the rest was left. Fresh memory is zeroed by the system page by page, which takes
 * longer than to write it. */
static inline bool pni_clear_in_shard(pn_context *c, void *p, size_t n) {
  for (size_t at = 0; at < n; at += PNI_BYTES) {
    if (pni_leaves(c)) return false;
    memset((char *)p + at, 0, n - at < PNI_BYTES ? n - at : PNI_BYTES);
  }
  return true;
}

/* memcpy. */
static inline pn_status pni_copy_bytes(pn_context *c, void *to, const void *from, size_t n) {
  for (size_t at = 0; at < n; at += PNI_BYTES) {
    if (at && pni_check_cancel(c)) return c->status;
    memcpy((char *)to + at, (const char *)from + at, n - at < PNI_BYTES ? n - at : PNI_BYTES);
  }
  return PN_OK;
}

#endif
