/*
** turn.c: what moves between the turns of a roll. Steps hold addresses, and values their offsets; a plan knows those
** that move and by how much, and puts them back after the last turn: between runs all stand where the first turn has
** them.
*/
#include "turn.h"

static void add(pn_plan *p, pni_shift s) {
  if (p->shift) p->shift[p->nshift] = s;
  p->nshift++;
}

/* Operand k of a note, a value that moves; or -1. */
static int moving_operand(const pn_plan *p, const pni_note *note, int k) {
  int v = k ? p->tape->edge.v[note->first + k - 1] : note->out;
  return v < 0 || !p->tape->value.v[v].move ? -1 : v;
}

/* The address `at` of operand k of a note, in a step. */
static void add_address(pn_plan *p, const pni_note *note, int k, char **at) {
  int v = moving_operand(p, note, k);
  if (v >= 0) add(p, (pni_shift){.at = at, .by = p->tape->value.v[v].move * (int64_t)pni_itemsize(&p->tensor[v])});
}

/* The values themselves, for steps that look at them; and the step, if it keeps what it has found. */
static void add_values(pn_plan *p, const pni_note *note, pni_step *prepared) {
  bool any = false;
  for (int k = 0; k <= note->nin; k++) {
    int v = moving_operand(p, note, k);
    if (v < 0) continue;
    add(p, (pni_shift){.offset = &p->tensor[v].offset, .by = p->tape->value.v[v].move});
    any = true;
  }
  if (any && prepared) add(p, (pni_shift){.step = prepared});
}

static void add_step(pn_plan *p, pni_step *s) {
  const pni_note *note = &p->tape->note.v[s->note];
  switch (s->kind) {
  case PNI_STEP_RUN:
    for (int k = 0; k <= note->nin; k++) add_address(p, note, k, &s->u.run.p[k]);
    break;
  case PNI_STEP_FOLD:
    for (int k = 0; k < 2; k++) add_address(p, note, k, &s->u.fold.p[k]);
    break;
  case PNI_STEP_LOOP:
    for (int k = 0; k <= note->nin; k++) add_address(p, note, k, &s->u.loop.nest->base[k]);
    break;
  case PNI_STEP_GROUP:
    for (int i = 0; i < s->u.group.n; i++)
      for (int k = 0; k < s->u.group.member[i].nop; k++) {
        pni_operand *o = &s->u.group.member[i].op[k];
        if (o->slot < 0 && o->move) add(p, (pni_shift){.at = &o->base, .by = o->move});
      }
    break;
  case PNI_STEP_PREPARED: add_values(p, note, s); break;
  default: add_values(p, note, NULL); break;
  }
}

static void add_all(pn_plan *p) {
  p->nshift = 0;
  for (int64_t i = 0; i < p->nstep; i++) {
    pni_step *roll = &p->step[i];
    if (roll->kind != PNI_STEP_ROLL) continue;
    roll->u.roll.first = p->nshift;
    for (int64_t k = 1; k <= roll->u.roll.n; k++) add_step(p, &p->step[i + k]);
    roll->u.roll.nshift = p->nshift - roll->u.roll.first;
  }
}

pn_status pni_turn_steps(pn_context *c, pn_plan *p) {
  if (!p->tape->roll.n) return PN_OK;
  add_all(p);
  p->shift = pni_alloc_array(c, p->shift_cap = p->nshift, sizeof *p->shift);
  if (p->shift) add_all(p);
  return c->status;
}

void pni_turn(const pn_plan *p, const pni_step *roll, int64_t turns) {
  pni_shift *s = p->shift + roll->u.roll.first, *end = s + roll->u.roll.nshift;
  for (; s < end; s++)
    if (s->at)
      *s->at += turns * s->by;
    else if (s->offset)
      *s->offset += turns * s->by;
    else
      pni_prepare_again(p, s->step);
}
