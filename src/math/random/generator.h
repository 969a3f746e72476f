/*
** generator.h: generators that scripts and hosts hold, and the context's own: a stream and a position in it.
*/
#ifndef PN_MATH_RANDOM_GENERATOR_H
#define PN_MATH_RANDOM_GENERATOR_H

#include "../../base/context.h"
#include "rng.h"

static inline pn_rng *pni_rng_or_default(pn_context *c, pn_rng *r) { return r ? r : &c->rng; }
/* One more reference to a generator; pn_rng_free gives it back. */
static inline pn_rng *pni_rng_ref(pn_rng *r) {
  if (r->ctx) r->refs++;
  return r;
}
/* Reserves `positions` Philox positions of r (NULL: the context's) and returns where they start. */
static inline pni_philox pni_rng_reserve(pn_context *c, pn_rng *r, uint64_t positions) {
  pn_rng *g = pni_rng_or_default(c, r);
  pni_philox at = g->state;
  g->state.position += positions;
  c->drawn_from = g;
  c->drawn_positions = positions;
  c->reservations++;
  return at;
}

#endif
