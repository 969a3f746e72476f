/*
** turn.h: how the files that make and run plans get the rolls of their steps to turn (turn.c).
*/
#ifndef PN_AUTODIFF_REPLAY_TURN_H
#define PN_AUTODIFF_REPLAY_TURN_H

#include "plan.h"

/* Something that moves from turn to turn: an address or an offset, or a step that is prepared anew. */
typedef struct pni_shift {
  char **at;
  int64_t *offset;
  pni_step *step;
  int64_t by; /* bytes, or elements */
} pni_shift;

/* Notes what moves in the rolls of the steps, which are complete. */
pn_status pni_turn_steps(pn_context *c, pn_plan *p);
/* Everything that moves in a roll, by so many turns. */
void pni_turn(const pn_plan *p, const pni_step *roll, int64_t turns);
/* A step that was prepared is so for the places where its operands are now. (bind.c) */
void pni_prepare_again(const pn_plan *p, pni_step *s);

#endif
