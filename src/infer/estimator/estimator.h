/*
** estimator.h: an estimator is one const descriptor: the log-weights and log-densities it takes, its options,
** and the graph it builds. Binding, messages, help, manual, battery and allocation sweep read the
** descriptor; nothing else names an estimator. To add one: the descriptor in a file of its family, a line in
** estimator.def, golden values in spec/golden/infer.
**
** What comes out of a bound is one number whose value is the bound, in nats per datum, and whose gradient is the
** estimator's gradient, whether or not that is the derivative of the value: pni_reported ties the two together.
** Everywhere the mean over the batch comes after the logarithm of the mean over draws.
*/
#ifndef PN_INFER_ESTIMATOR_ESTIMATOR_H
#define PN_INFER_ESTIMATOR_ESTIMATOR_H

#include "../../nn/option.h"
#include "../op/infer_op.h"

enum { PNI_ESTIMATOR_INPUTS = 8, PNI_ESTIMATOR_LATENTS = 8 };

enum {
  PNI_INPUT_OPTIONAL = 1,
  PNI_INPUT_NUMBER = 2, /* Lua may give a number */
  PNI_INPUT_LIST = 4    /* one or several tensors; the last of the inputs that a row has in order */
};

typedef struct pni_estimator_input {
  const char *name; /* "log_w" */
  /* Axes: a letter each, "K" draws, "B" data, "D" dimensions; equal letters mean equal sizes. A small letter k: the
   * axis may be absent. Then "..." for any more; "?" alone: anything that broadcasts to [K, B]; "" nothing is said. */
  const char *axes;
  int flags;
  const char *doc;
} pni_estimator_input;

typedef struct pni_estimator pni_estimator;

/* One call. */
typedef struct pni_estimation {
  const pni_estimator *row;
  pn_tensor *in[PNI_ESTIMATOR_INPUTS]; /* NULL: not given; of a list the first */
  pn_tensor *list[PNI_ESTIMATOR_LATENTS];
  int nlist;
  double option[PNI_OPTIONS];
  pn_tensor *second; /* result of rows with two */
} pni_estimation;

/* How the gradient of a bound reaches the distribution q that the draws are from. */
typedef struct pni_objective {
  /* "whole": through the weights of reparametrised draws; "path": through the draws alone; "weighted_path": so, each by
   * the square of its weight; "score": draws are constant, through log_q. NULL: the row is no objective for q. */
  const char *gradient;
  bool nonlinear; /* in the weights of a datum, so that estimates of them from a minibatch would bias it */
  int least;      /* draws that it needs, if more than one */
} pni_objective;

struct pni_estimator {
  const char *name;                                    /* "iwae" */
  const char *doc;                                     /* formula and meaning in one line */
  const char *source;                                  /* of the formula */
  const char *result;                                  /* what comes out, for help: "a lower bound, to be maximised" */
  pni_estimator_input input[PNI_ESTIMATOR_INPUTS + 1]; /* up to the first without name; positional order */
  const pni_option *options;
  pni_objective objective;
  pn_tensor *(*build)(pn_context *c, pni_estimation *e);
};

/* ---- what the families share (estimator_power.c) ---- */

/* Axis 0, the draws. */
#define PNI_DRAWS ((pn_axes){1, {0}})
/* log mean_k w_k of the log-weights x [K, B]: [B]. */
pn_tensor *pni_log_mean_weight(pn_context *c, pn_tensor *x);
/* w_k / sum_j w_j [K, B]; 0 for a datum without any weight. */
pn_tensor *pni_normalised_weights(pn_context *c, pn_tensor *x);
/* x, but `other` where x is not finite. */
pn_tensor *pni_finite_or(pn_context *c, pn_tensor *x, double other);

int pni_estimator_count(void);
const pni_estimator *pni_estimator_at(int i);
const pni_estimator *pni_estimator_find(const char *name);

#define X(name) extern const pni_estimator pni_estimator_##name;
#include "estimator.def"
#undef X

#endif
