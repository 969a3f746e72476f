/*
** hidden_markov.h: whole sequences of hidden Markov models in one operation each. With K states, T steps and B
** sequences side by side all operations take, in logarithms,
**   initial    [1 or B, K]             log p(z_0)
**   transition [1 or T, 1 or B, K, K]  log p(z_t = k | z_{t-1} = j) at [t, b, j, k]; row 0 of T is not looked at
**   emission   [T, B, K]               log p(y_t | z_t = k); a row of zeros where nothing was observed
** -inf is a legal entry of each. Sums run over e^(x - largest), and those that come out near the smallest floating
** point number are summed anew in logarithms: a state that is as good as impossible comes back if the data ask for it.
*/
#ifndef PN_SMC_HIDDEN_HIDDEN_MARKOV_H
#define PN_SMC_HIDDEN_HIDDEN_MARKOV_H

#include "../../nn/recurrent/recurrent_op.h"

#define X(name) extern const pni_op pni_hidden_op_##name;
#include "hidden_markov.def"
#undef X

/* Sizes and operands of a call; the tensors are contiguous. */
typedef struct pni_markov {
  const pn_tensor *initial, *transition, *emission;
  int64_t steps, batch, states;
  pn_context *context; /* asked whether time is over */
  bool backward;       /* last step first, transitions turned round */
} pni_markov;

/* Places in a row of the packed result, [T, B, 2 K + 1]: log p(z_t | before), log p(z_t | up to t), log p(y_t |
 * before). */
static inline int64_t pni_markov_width(const pni_markov *m) { return 2 * m->states + 1; }

/* Element i of contiguous floats. */
static inline double pni_markov_get(const pn_tensor *t, int64_t i) {
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}
static inline void pni_markov_put(pn_tensor *t, int64_t i, double v) {
  if (t->dtype == PN_FLOAT64)
    ((double *)pni_data(t))[i] = v;
  else
    ((float *)pni_data(t))[i] = (float)v;
}

/* Where the transition into step t of sequence b begins. */
static inline int64_t pni_markov_matrix(const pni_markov *m, int64_t t, int64_t b) {
  const int64_t *n = m->transition->shape;
  return ((n[0] == 1 ? 0 : t) * n[1] + (n[1] == 1 ? 0 : b)) * m->states * m->states;
}

/* The shape of the transition fits T steps of B sequences with K states: PN_SHAPE that begins with `where`. */
pn_status pni_markov_check_transition(pn_context *c, const char *where, const pn_tensor *x, int64_t steps,
                                      int64_t batch, int64_t states);
/* The shapes of initial, transition and emission belong together. */
pn_status pni_markov_check(pn_context *c, const char *where, const pni_call *call);
/* Operands in[0] .. in[2] of a call as they are; no references. */
pni_markov pni_markov_of(pn_context *c, pn_tensor *const *in, bool backward);

/* Fills the packed result. */
pn_status pni_markov_filter(pn_context *c, const pni_markov *m, pn_tensor *packed);

/* The gradients of initial, transition and emission, one after the other in `out`, from those of the packed result. */
pn_status pni_markov_adjoint(pn_context *c, const pni_markov *m, const pn_tensor *packed, const pn_tensor *g,
                             pn_tensor *out);

#endif
