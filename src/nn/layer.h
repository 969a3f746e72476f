/*
** layer.h: a layer is one const descriptor. Layers are pure: an object holds parameters, buffers and options, and
** `forward` is a function of those, the inputs, the mode and the generator.
**
** To add a layer:
**   1. src/nn/layer_<name>.c with a row pni_layer_<name> at its bottom, and X(<name>) in layer.def. Sizes (positional)
**   by
**      name; options as a table (option.h); inputs by name and shape, "[batch, in, height, width]": words that name
**      sizes stand for their values, "..." for any axes, other words for one size that is the same wherever it stands.
**      The shapes are checked, and named in messages and help, before anything of the row runs.
**   2. `init` makes parameters and buffers with pni_layer_set and pni_layer_set_buffer. Rows without: NULL.
**   3. `forward` builds the output with the builders of penumbra.h, for the mode: in PN_MODE_TRAINING batches have
**   their own
**      statistics and units drop out; in PN_MODE_EVALUATION not; PN_MODE_MEAN is evaluation at the posterior's mean,
**      where nothing is drawn. A buffer never changes here: return pn_with_update(c, y, l->buffer[k], value, rate),
**      whose update is committed with the step that is taken on y, or not at all.
**   4. `kl` if there is a posterior. `moments` if a mean and a variance can be passed through; without it a layer that
**      has no posterior still passes inputs that are certain.
**   5. An entry in spec/golden/nn/ (values of another library by a script there) and, where one input [4, 3] does not
**      fit, a line in spec/nn/layer_case.lua and spec/c/layer_case.h: the batteries do the rest.
*/
#ifndef PN_NN_LAYER_H
#define PN_NN_LAYER_H

#include "../tensor/tensor.h"
#include "initialiser.h"
#include "option.h"
#include "slope.h"

enum { PNI_LAYER_PARAMS = 8, PNI_LAYER_BUFFERS = 4, PNI_LAYER_SIZES = 8, PNI_LAYER_STATES = 2, PNI_LAYER_INPUTS = 4 };

/* PNI_LAYER_WHOLE: int64 instead of the layer's dtype; PNI_LAYER_INDEX beside it: or floats, which an index may be if
 * they are whole numbers; PNI_LAYER_ANY: whatever the operations take. */
enum { PNI_LAYER_MAYBE = 1, PNI_LAYER_WHOLE = 2, PNI_LAYER_ANY = 4, PNI_LAYER_INDEX = 8 };

typedef struct pni_layer_input {
  const char *name;
  const char *shape; /* as above; NULL: any */
  int flags;
} pni_layer_input;

/* One call. */
typedef struct pni_layer_call {
  pn_tensor *in[PNI_LAYER_INPUTS]; /* NULL where an optional input was not given */
  pn_mode mode;
  pn_rng *rng;
  /* Of `moments`: in[0] is a mean, and this its variance, of the same shape, or (rows with `covariance`) its covariance
   * over the last axis, [..., n, n]; NULL: the input is certain. */
  pn_tensor *variance;
} pni_layer_call;

typedef struct pni_layer {
  const char *name;
  const char *doc;    /* formula in one line, shapes */
  const char *source; /* of the formula, or NULL */
  /* Sizes to be given: "in", "out"; NULL-terminated. A last name that ends with "..." stands for one or more sizes. */
  const char *size[PNI_LAYER_SIZES + 1];
  bool free_sizes;                             /* sizes may also be 0 or -1: the row looks at them */
  pni_layer_input input[PNI_LAYER_INPUTS + 1]; /* up to name NULL; none at all: one input x of any shape */
  const char *param[PNI_LAYER_PARAMS + 1];     /* names of the parameters, NULL-terminated */
  const char *buffer[PNI_LAYER_BUFFERS + 1];   /* names of the buffers, NULL-terminated */
  /* Names of the parameters, then of the buffers, in the PyTorch module that computes the same, with blanks between:
   * "weight'" is the transpose there, "count=0" a number that is kept only there, written as 0. NULL for a row with
   * parameters: there is no such module. */
  const char *torch;
  const pni_option *options;
  /* Makes the parameters and buffers (each new; none where an option removes it). NULL: there are none. */
  pn_status (*init)(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng);
  pn_tensor *(*forward)(pn_context *c, const pn_layer *l, const pni_layer_call *call);
  /* KL divergence from posterior to prior, 0-d; NULL: there is no posterior. */
  pn_tensor *(*kl)(pn_context *c, const pn_layer *l);
  /* out[0] mean and out[1] variance of the output (or covariance where one was given), NULL if it is certain. May be
   * NULL. */
  pn_status (*moments)(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]);
  bool covariance; /* moments takes covariances */
  bool activation; /* elementwise, without parameters or draws */
  /* Of an activation: its value and slope as loops know them. NULL: they do not. */
  const pni_slope *slope;
  /* The row of the same map with independent normal posteriors: of each parameter the mean and, after it, the logarithm
   * of the standard deviation; the same sizes, and options with defaults. May be NULL. */
  const struct pni_layer *uncertain;
  /* Recurrent layers: x [T, ..., in] is a sequence, the state is `states` tensors [..., hidden] (NULL: zeros). out[0]
   * is the output of all steps, what follows the last state. 0 and NULL for other layers. */
  int states;
  pn_status (*unroll)(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *const *state,
                      pn_tensor **out);
} pni_layer;

struct pn_layer {
  int32_t refs;
  pn_context *ctx;
  const pni_layer *type;
  int nsizes;
  int64_t size[PNI_LAYER_SIZES];
  double option[PNI_OPTIONS];
  pn_tensor *param[PNI_LAYER_PARAMS];
  pn_tensor *buffer[PNI_LAYER_BUFFERS];
};

int pni_layer_count(void);
const pni_layer *pni_layer_at(int i);
const pni_layer *pni_layer_find(const char *name);
/* Makes parameter, or buffer, k of l from a fresh tensor. */
pn_status pni_layer_set(pn_context *c, pn_layer *l, int k, pn_tensor *t);
pn_status pni_layer_set_buffer(pn_context *c, pn_layer *l, int k, pn_tensor *t);
/* New: a layer like l whose parameters are these tensors (of the same shapes), nodes of any graph; buffer NULL: it
 * shares those of l. */
pn_layer *pni_layer_with(pn_context *c, const pn_layer *l, pn_tensor *const *param, pn_tensor *const *buffer);
/* New: a layer of the row's `uncertain` with the parameters of l as means and these logarithms of standard deviations,
 * of their shapes. PN_MISSING where there is none. */
pn_layer *pni_layer_uncertain(pn_context *c, const pn_layer *l, pn_tensor *const *log_scale);
/* A row's inputs; one that declares none has one, x. */
const pni_layer_input *pni_layer_inputs(const pni_layer *row, int *n);
/* What messages call input k: its name, or "input" where it is the only one that must be given. */
const char *pni_layer_role(const pni_layer *row, int k);
/* layer_dropout.c: x whose elements are 0 with probability p, the others over 1 - p. */
pn_tensor *pni_dropped(pn_context *c, pn_tensor *x, double p, pn_rng *rng);
/* layer_shape.c: do the n tensors fit the inputs of l? */
pn_status pni_layer_check_inputs(pn_context *c, const pn_layer *l, int n, pn_tensor *const *in);

#define X(name) extern const pni_layer pni_layer_##name;
#include "layer.def"
#undef X

#endif
