/*
** order.c: sorting of (key, position) pairs by unsigned keys that rise as the elements are to: short rows by insertion
** and merging, others by counting digits (LSD radix sort; Knuth, TAOCP 3, section 5.2.5). Only the highest digits in
** which the keys differ are counted; what they leave equal are mostly pairs and triples, which insertion puts right,
** and longer runs are rows of their own. Every step is stable.
*/
#include <string.h>
#include "order.h"

typedef struct {
  uint64_t key;
  int64_t at;
} entry;

/* Runs of BLOCK by insertion; merged up to SHORT, digits counted above; wide digits from LONG on; at most PASSES digits
 * at once. */
enum { BLOCK = 12, SHORT = 160, LONG = 12000, PASSES = 3, NARROW = 8, WIDE = 11 };
typedef size_t counts[1 << WIDE];

size_t pni_order_scratch(int64_t n) {
  return 2 * (size_t)n * sizeof(entry) + (n > SHORT ? PASSES * sizeof(counts) : 0);
}

/* ---- keys ---- */

static inline uint64_t key_f64(uint64_t bits, uint64_t flip) {
  const uint64_t sign = (uint64_t)1 << 63;
  if (bits << 1 > (uint64_t)0x7FF << 53) return UINT64_MAX; /* NaN; no number has this key, rising or falling */
  if (bits << 1 == 0) bits = 0;
  return (bits ^ (bits & sign ? UINT64_MAX : sign)) ^ flip;
}

static inline uint64_t key_f32(uint32_t bits, uint64_t flip) {
  const uint32_t sign = (uint32_t)1 << 31;
  if (bits << 1 > (uint32_t)0xFF << 24) return UINT32_MAX;
  if (bits << 1 == 0) bits = 0;
  return (bits ^ (bits & sign ? UINT32_MAX : sign)) ^ (flip & UINT32_MAX);
}

static inline uint64_t key_i64(uint64_t bits, uint64_t flip) { return bits ^ (uint64_t)1 << 63 ^ flip; }
static inline uint64_t key_bool(uint8_t v, uint64_t flip) { return (v != 0) ^ (flip & 1); }

#define FILL(T, key_of)                                                                                                \
  PNI_INTERRUPTIBLE(c, k, n) e[k] = (entry){key_of(((const T *)x)[k * step], flip), k};                                \
  break;

static void fill(pn_context *c, entry *e, int dtype, const void *x, int64_t n, int64_t step, uint64_t flip) {
  switch (dtype) {
  case PN_FLOAT64: FILL(uint64_t, key_f64)
  case PN_FLOAT32: FILL(uint32_t, key_f32)
  case PN_INT64: FILL(uint64_t, key_i64)
  default: FILL(uint8_t, key_bool)
  }
}

/* ---- short rows ---- */

static void insert(entry *e, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    entry v = e[i];
    int64_t k = i;
    for (; k > 0 && e[k - 1].key > v.key; k--) e[k] = e[k - 1];
    e[k] = v;
  }
}

static void merge(entry *to, const entry *left, const entry *mid, const entry *end) {
  const entry *right = mid;
  while (left < mid && right < end) {
    bool second = right->key < left->key;
    const entry *next = second ? right : left;
    *to++ = *next;
    right += second;
    left += !second;
  }
  memcpy(to, left, (size_t)(mid - left) * sizeof *to);
  memcpy(to + (mid - left), right, (size_t)(end - right) * sizeof *to);
}

/* Each of these sorts e [n] with `spare` [n] and returns the one of the two that holds the result; of a failed context
 * either, of no use. */
static entry *sort_short(entry *e, entry *spare, int64_t n) {
  if (n <= 2 * BLOCK) {
    insert(e, n);
    return e;
  }
  for (int64_t lo = 0; lo < n; lo += BLOCK) insert(e + lo, n - lo < BLOCK ? n - lo : BLOCK);
  for (int64_t width = BLOCK; width < n; width *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * width) {
      int64_t mid = n - lo < width ? n : lo + width, end = n - mid < width ? n : mid + width;
      merge(spare + lo, e + lo, e + mid, e + end);
    }
    entry *t = e;
    e = spare;
    spare = t;
  }
  return e;
}

/* ---- digits ---- */

/* The bits in which keys differ; 0 where they rise already. */
static uint64_t differing(pn_context *c, const entry *e, int64_t n) {
  uint64_t differ = 0, falls = 0;
  PNI_INTERRUPTIBLE(c, k, n - 1) {
    differ |= e[k + 1].key ^ e[0].key;
    falls |= e[k + 1].key < e[k].key;
  }
  return falls ? differ : 0;
}

static int bits_of(uint64_t v) {
  int n = 0;
  for (; v; v >>= 1) n++;
  return n;
}

/* Moves e to `to` in the order of a digit of which `count` tells how often each value occurs. */
static void deal(pn_context *c, entry *to, const entry *e, int64_t n, int shift, size_t mask, size_t *count) {
  size_t before = 0;
  for (size_t d = 0; d <= mask; d++) {
    size_t many = count[d];
    count[d] = before;
    before += many;
  }
  PNI_INTERRUPTIBLE(c, k, n) to[count[e[k].key >> shift & mask]++] = e[k];
}

static entry *sort(pn_context *c, entry *e, entry *spare, int64_t n, counts *count);

/* Puts in order what agrees in all bits from `shift` on and follows each other. */
static void finish(pn_context *c, entry *e, entry *spare, int64_t n, int shift, counts *count) {
  for (int64_t lo = 0, hi, look = 0; lo < n; lo = hi) {
    if (lo >= look && !pni_next_piece(c, lo, n, &look)) return;
    uint64_t top = e[lo].key >> shift;
    for (hi = lo + 1; hi < n && e[hi].key >> shift == top; hi++) continue;
    if (hi - lo == 1) continue;
    if (sort(c, e + lo, spare + lo, hi - lo, count) != e + lo)
      memcpy(e + lo, spare + lo, (size_t)(hi - lo) * sizeof *e);
  }
}

/* Recursion ends: a run of equal highest digits differs in fewer bits. */
static entry *sort(pn_context *c, entry *e, entry *spare, int64_t n, counts *count) {
  if (n <= SHORT) return sort_short(e, spare, n);
  int differ = bits_of(differing(c, e, n)), width = n < LONG ? NARROW : WIDE;
  if (!differ) return e;
  int digits = differ > PASSES * width ? PASSES : (differ + width - 1) / width;
  int low = differ > PASSES * width ? differ - PASSES * width : 0;
  size_t mask = ((size_t)1 << width) - 1;
  for (int d = 0; d < digits; d++) memset(count[d], 0, (mask + 1) * sizeof **count);
  PNI_INTERRUPTIBLE(c, k, n) {
    uint64_t rest = e[k].key >> low;
    for (int d = 0; d < digits; d++, rest >>= width) count[d][rest & mask]++;
  }
  for (int d = 0; d < digits && !pni_failed(c); d++) {
    int shift = low + d * width;
    if (count[d][e[0].key >> shift & mask] == (size_t)n) continue;
    deal(c, spare, e, n, shift, mask, count[d]);
    entry *t = e;
    e = spare;
    spare = t;
  }
  if (low && !pni_failed(c)) finish(c, e, spare, n, low, count);
  return e;
}

pn_status pni_order_row(pn_context *c, int dtype, const void *x, int64_t n, int64_t step, bool down, int64_t *order,
                        void *scratch) {
  entry *e = scratch, *spare = e + n;
  fill(c, e, dtype, x, n, step, down ? UINT64_MAX : 0);
  if (!pni_failed(c)) e = sort(c, e, spare, n, (counts *)(void *)(spare + n));
  if (!pni_failed(c)) PNI_INTERRUPTIBLE(c, k, n) order[k * step] = e[k].at;
  return c->status;
}
