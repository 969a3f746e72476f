/* generator.c: making, splitting and seeding generators. */
#include "generator.h"

void pn_seed(pn_context *c, uint64_t seed) { c->rng.state = pni_philox_seed(seed); }

pn_rng *pn_context_rng(pn_context *c) { return &c->rng; }

static pn_rng *generator(pn_context *c, pni_philox state) {
  if (pni_failed(c)) return NULL;
  if (c->recorder) {
    pni_fail(c, PN_STATE, "compile: a generator must be made outside the function that is compiled");
    return NULL;
  }
  pn_rng *r = pni_alloc(c, sizeof *r);
  if (!r) return NULL;
  r->state = state;
  r->ctx = c;
  r->refs = 1;
  pni_object_born(c);
  return r;
}

pn_rng *pn_rng_new(pn_context *c, uint64_t seed) { return generator(c, pni_philox_seed(seed)); }

pn_rng *pn_rng_split(pn_context *c, const pn_rng *rng, uint64_t index) {
  if (!PNI_GIVEN(c, "rng_split", rng)) return NULL;
  return generator(c, pni_philox_split(&rng->state, index));
}

void pn_rng_free(pn_rng *rng) {
  if (!rng || !rng->ctx || --rng->refs > 0) return;
  pn_context *c = rng->ctx;
  pni_free(c, rng);
  pni_object_died(c);
}

void pn_rng_get_state(const pn_rng *rng, uint64_t state[2]) {
  if (!rng || !state) return;
  state[0] = rng->state.key;
  state[1] = rng->state.position;
}

void pn_rng_set_state(pn_rng *rng, const uint64_t state[2]) {
  if (!rng || !state) return;
  rng->state.key = state[0];
  rng->state.position = state[1];
}
