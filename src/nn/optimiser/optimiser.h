/*
** optimiser.h: an optimiser is one const descriptor: its options, the arrays it keeps beside each
** parameter (slots), the scalars of one update and the update itself as a kernel per dtype.
*/
#ifndef PN_NN_OPTIMISER_OPTIMISER_H
#define PN_NN_OPTIMISER_OPTIMISER_H

#include <math.h>
#include "../../tensor/tensor.h"
#include "../option.h"

enum { PNI_SLOTS = 4, PNI_SCALARS = 10 };

/* One parameter's arrays: n elements each, contiguous. */
typedef struct pni_update {
  int64_t n;
  void *param;
  const void *grad;
  void *slot[PNI_SLOTS];
  const void *noise;     /* of rows that want it: standard normal numbers; or what `direction` made, or NULL */
  double k[PNI_SCALARS]; /* from `scalars` */
  double scale;          /* of the gradient, from clip_norm; 1 without */
  double limit;          /* of each of its numbers, from clip_value; infinite without */
} pni_update;

typedef struct pni_optimiser {
  const char *name;
  const char *doc;
  const char *source; /* of the formula */
  const pni_option *options;
  const char *slot[PNI_SLOTS]; /* names of the arrays per parameter, NULL-terminated */
  unsigned squares;            /* bit k: slot k sums squares, so nothing in it is below 0 */
  bool noisy;                  /* each update takes standard normal numbers of the context's generator */
  /* Of rows whose step in a parameter is no function of its numbers one by one: new, a tensor of the shape of parameter
   * i, in the place of noise, or NULL for the update without one. Called before anything has changed; may fail. The
   * gradient is to be scaled and limited as in pni_update. */
  pn_tensor *(*direction)(pn_context *c, const struct pn_optim *o, int i, const double *option, const pni_update *how,
                          pn_tensor *grad);
  /* Scalars of the update number `step` (from 1) of a parameter. */
  void (*scalars)(const double *option, int64_t step, double *k);
  void (*update[2])(const pni_update *u); /* float64, float32; cannot fail */
} pni_optimiser;

/* The options that every row ends its own with: what optimiser_step.c does to the gradients. */
#define PNI_CLIPPING                                                                                                   \
  {"clip_norm", NULL, HUGE_VAL, 0, HUGE_VAL, true, "largest Euclidean norm of all gradients together"}, {              \
    "clip_value", NULL, HUGE_VAL, 0, HUGE_VAL, true, "largest size of each number of the gradients, after clip_norm"   \
  }

int pni_optimiser_count(void);
const pni_optimiser *pni_optimiser_at(int i);
const pni_optimiser *pni_optimiser_find(const char *name);

#define X(name) extern const pni_optimiser pni_optimiser_##name;
#include "optimiser.def"
#undef X

enum { PNI_OWN = PNI_OPTIONS + 1 };

/* pn_optim_step that lets go of the loss's graph on its way (pni_backward_spend). */
pn_status pni_optim_step_spend(pn_context *c, pn_optim *o, pn_tensor *loss);

struct pn_optim {
  int32_t refs;
  pn_context *ctx;
  const pni_optimiser *type;
  double option[PNI_OPTIONS];
  double *own; /* NULL, or of each parameter PNI_OPTIONS options (NaN: the optimiser's) and a factor of the rate */
  int n, nslots;
  pn_tensor **param; /* n */
  pn_tensor **slot;  /* n * nslots */
  int64_t *step;     /* n: updates that the parameter has had */
  char **name;       /* n, NULL where it has none */
};

/* Would pn_optim_set_state take the tensor? Its status. */
pn_status pni_optim_check_state(pn_context *c, const pn_optim *o, int index, pn_tensor *value);

#endif
