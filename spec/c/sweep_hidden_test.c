/* sweep_hidden_test.c: passes over hidden Markov models survive the failure of each of their allocations. */
#include "alloc_sweep.h"

enum { T = 4, B = 3, K = 2 };

typedef struct {
  pn_tensor *initial, *transition, *emission;
} model;

static bool make(pn_context *c, model *m) {
  m->initial = pn_param(c, pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){1, K}));
  m->transition = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 4, (const int64_t[]){T, 1, K, K}));
  m->emission = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 3, (const int64_t[]){T, B, K}));
  return m->emission != NULL;
}

static bool passes(pn_context *c, const void *data) {
  int backward = *(const int *)data;
  model m;
  pn_hmm out;
  if (!make(c, &m) || pn_hmm_filter(c, m.initial, m.transition, m.emission, backward, &out)) return false;
  pn_tensor *sum = pn_sum(c, out.increment, PN_ALL, 0), *in[] = {m.transition}, *slope;
  if (pn_grad(c, sum, 1, in, 1, &slope)) return false; /* the formula in operations */
  return pn_backward(c, sum) == PN_OK && pn_backward(c, pn_sum(c, pn_square(c, slope), PN_ALL, 0)) == PN_OK;
}

static bool paths(pn_context *c, const void *data) {
  (void)data;
  const int64_t count[] = {B};
  model m;
  pn_hmm out;
  if (!make(c, &m) || pn_hmm_filter(c, m.initial, m.transition, m.emission, 0, &out)) return false;
  pn_tensor *lengths = pn_from_data(c, PN_INT64, 1, count, (const int64_t[]){T, 0, 2});
  return pn_hmm_viterbi(c, m.initial, m.transition, m.emission, NULL) &&
         pn_hmm_viterbi(c, m.initial, m.transition, m.emission, lengths) &&
         pn_hmm_sample(c, NULL, out.filtered, m.transition, 5);
}

/* What Lua never asks for, and empty batches. */
static void edges(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  model m;
  pn_hmm out;
  CHECK(make(c, &m));
  const int64_t none[] = {T, 0, K};
  pn_tensor *empty = pn_zeros(c, PN_FLOAT64, 3, none);
  CHECK(pn_hmm_filter(c, m.initial, m.transition, empty, 0, &out) == PN_OK && pn_tensor_numel(out.increment) == 0);
  CHECK(pn_tensor_numel(pn_hmm_viterbi(c, m.initial, m.transition, empty, NULL)) == 0);
  CHECK(pn_tensor_numel(pn_hmm_sample(c, NULL, out.filtered, m.transition, 5)) == 0);
  pn_tensor *slope, *in[] = {m.transition};
  CHECK(pn_grad(c, pn_sum(c, out.increment, PN_ALL, 0), 1, in, 0, &slope) == PN_OK);
  CHECK(pn_hmm_filter(c, m.initial, m.emission, m.emission, 0, &out) == PN_SHAPE && !out.filtered);
  pn_context_clear_error(c);
  CHECK(pn_hmm_filter(c, m.transition, m.transition, m.emission, 0, &out) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(pn_hmm_filter(c, m.initial, m.transition, m.transition, 0, &out) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(!pn_hmm_sample(c, NULL, m.emission, m.transition, -1) && pn_context_status(c) == PN_DOMAIN);
  pn_context_clear_error(c);
  pn_tensor *long_one = pn_from_data(c, PN_INT64, 1, (const int64_t[]){B}, (const int64_t[]){T, T + 1, 2});
  CHECK(!pn_hmm_viterbi(c, m.initial, m.transition, m.emission, long_one) && pn_context_status(c) == PN_DOMAIN);
  pn_context_clear_error(c);
  CHECK(!pn_hmm_viterbi(c, m.initial, m.transition, m.emission, m.initial) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

int main(void) {
  edges();
  sweep("forward", passes, &(int){0});
  sweep("backward", passes, &(int){1});
  sweep("paths", paths, NULL);
  CHECK_DONE();
}
