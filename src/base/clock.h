/*
** clock.h: loops whose length a script can choose look at the clock and at cancellation between pieces.
*/
#ifndef PN_BASE_CLOCK_H
#define PN_BASE_CLOCK_H

#include "context.h"

enum { PNI_STRETCH = 1 << 15, PNI_LOOK = 1 << 18 };

/* The end of the piece that begins at `from`; false if it is not to begin, the context having failed. */
static inline bool pni_next_piece(pn_context *c, int64_t from, int64_t n, int64_t *end) {
  *end = n - from < PNI_STRETCH ? n : from + PNI_STRETCH;
  return !pni_failed(c) && (from == 0 || pni_check_cancel(c) == PN_OK);
}

/* What follows for i = 0 .. n - 1, a few milliseconds of it for 2^15 of them. It ends early where the context has
 * failed, so whoever uses what it fills asks. (A break leaves a piece, not the loop.) */
#define PNI_INTERRUPTIBLE(c, i, n)                                                                                     \
  for (int64_t i##_end, i##_from = 0; i##_from < (n) && pni_next_piece(c, i##_from, n, &i##_end); i##_from = i##_end)  \
    for (int64_t i = i##_from; i < i##_end; i++)

/* Within shards, which must not fail: how much was done since the last look, in steps of about a nanosecond, and
 * whether work was left half-way. pni_parallel fails then, whoever has withdrawn a cancellation since. Zero but for
 * c. */
typedef struct pni_watch {
  pn_context *c;
  int64_t steps;
  bool left;
} pni_watch;

/* `steps` more are done: are we to leave out the rest? */
static inline bool pni_watch_leaves(pni_watch *w, int64_t steps) {
  w->steps += steps;
  if (w->steps < PNI_LOOK || w->left) return w->left;
  w->steps = 0;
  return w->left = pni_leaves(w->c);
}

/* The same outside of shards. */
static inline pn_status pni_watch_check(pni_watch *w, int64_t steps) {
  return pni_watch_leaves(w, steps) ? pni_check_cancel(w->c) : PN_OK;
}

/* Does the watch (NULL: nobody watches) let the stretch from i on begin? */
static inline bool pni_watch_lets(pni_watch *w, int64_t i, int64_t n, int64_t *end) {
  *end = n - i < PNI_STRETCH ? n : i + PNI_STRETCH;
  return !w || !pni_watch_leaves(w, *end - i);
}

/* In a shard i goes from `from` to n - 1 in what follows, until the watch says that the rest is to be left. */
#define PNI_LOOKING(w, i, from, n)                                                                                     \
  for (int64_t i = (from), i##_end; i < (n) && pni_watch_lets(w, i, n, &i##_end);)                                     \
    for (; i < i##_end; i++)

#endif
