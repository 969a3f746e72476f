/*
** roll.h: how the file that finds what a tape repeats (repeat.c) and the one that rolls it up (roll.c) call each other.
*/
#ifndef PN_AUTODIFF_REPLAY_ROLL_H
#define PN_AUTODIFF_REPLAY_ROLL_H

#include "replay.h"

/* Fewer turns than this stay as they are: to move operands takes longer than to read on in a longer plan (6 % at 12
 * turns of a stochastic volatility model, 3 % at 32, nothing at 100; at 1000 the longer plan is slower). */
enum { PNI_LEAST_TURNS = 32 };

/* The notes `begin` .. of the line, `period` at a time, are `turns` turns of the same. What a turn reads moves on
 * evenly from turn number `peel` on. */
typedef struct pni_section {
  int begin, period;
  int64_t turns, peel;
} pni_section;

/* The notes that compute something which is needed, in order; views are none. */
typedef struct pni_line {
  const pni_tape *tape;
  int n;
  int *note;      /* [n] */
  uint64_t *hash; /* [n]: what is done, to which shapes */
  int *next;      /* [n]: the next of the same hash, or -1 */
  int *section;   /* [n]: its section, or -1 */
  uint8_t *kept;  /* [n]: of the first turn of a section: results outlive their turn */
  int *maker;     /* by value: what computes it, a place in the line, or -1 */
  PNI_LIST(pni_section) sections;
} pni_line;

/* Where an operand lies: elements from the beginning of something. */
typedef struct pni_whereabouts {
  const void *of;
  int64_t at;
} pni_whereabouts;

/* Fills the line and finds its sections. Freed by pni_line_free also after a failure. */
pn_status pni_line_open(pn_context *c, pni_line *l, const pni_tape *tape, int nout, const int *out);
void pni_line_free(pn_context *c, pni_line *l);
/* Of value v, where the results of a section's note lie one after another. own: a section that is being tried, or
 * NULL. */
pni_whereabouts pni_find_value(const pni_line *l, const pni_section *own, int v);
/* Operand k of note m of a turn. */
static inline int pni_turn_operand(const pni_line *l, const pni_section *s, int64_t turn, int m, int k) {
  return l->tape->edge.v[l->tape->note.v[l->note[s->begin + turn * s->period + m]].first + k];
}
/* A constant of which there may be another at each turn: one without gaps, repeated perhaps. */
bool pni_is_loose(const pni_tape *tape, int v);
/* Elements from the first to the last of a tensor; -1 if it runs backwards. */
int64_t pni_extent(const pni_geometry *g);

/* Rolls up what the tape repeats, where that is worth it: the same computation in fewer notes. out: values of its
 * results, which get their new numbers. On failure everything is as it was. */
pn_status pni_roll_up(pn_context *c, pni_tape *tape, int nout, int *out);

#endif
