/*
** layer.h: a layer is one const descriptor. Layers are pure: an object holds parameters and options, and
** `forward` is a function of those, the input and the generator.
*/
#ifndef PN_NN_LAYER_H
#define PN_NN_LAYER_H

#include "../tensor/tensor.h"
#include "initialiser.h"
#include "option.h"

enum { PNI_LAYER_PARAMS = 4, PNI_LAYER_SIZES = 2, PNI_LAYER_STATES = 2 };

typedef struct pni_layer {
  const char *name;
  const char *doc;                         /* formula in one line, shapes */
  const char *source;                      /* of the formula, or NULL */
  const char *size[PNI_LAYER_SIZES + 1];   /* sizes to be given: "in", "out"; NULL-terminated */
  const char *param[PNI_LAYER_PARAMS + 1]; /* names of the parameters, NULL-terminated */
  const pni_option *options;
  /* Makes the parameters (l->param[k], each new; NULL where an option removes it). NULL: none. */
  pn_status (*init)(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng);
  pn_tensor *(*forward)(pn_context *c, const pn_layer *l, pn_tensor *x, pn_rng *rng);
  /* The output at the posterior's mean; NULL: forward is deterministic. */
  pn_tensor *(*mean)(pn_context *c, const pn_layer *l, pn_tensor *x);
  /* KL divergence from posterior to prior, 0-d; NULL: there is none. */
  pn_tensor *(*kl)(pn_context *c, const pn_layer *l);
  /* out[0] mean and out[1] variance of the output given x; NULL: not available. */
  pn_status (*moments)(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *out[2]);
  /* Recurrent layers: x [T, ..., in] is a sequence, the state is `states` tensors [..., hidden] (NULL: zeros). out[0] is
   * the output of all steps, what follows the last state. 0 and NULL for other layers. */
  int states;
  pn_status (*unroll)(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *const *state, pn_tensor **out);
} pni_layer;

struct pn_layer {
  int32_t refs;
  pn_context *ctx;
  const pni_layer *type;
  int64_t size[PNI_LAYER_SIZES];
  double option[PNI_OPTIONS];
  pn_tensor *param[PNI_LAYER_PARAMS];
};

int pni_layer_count(void);
const pni_layer *pni_layer_at(int i);
const pni_layer *pni_layer_find(const char *name);
/* Makes parameter k of l from a fresh tensor. */
pn_status pni_layer_set(pn_context *c, pn_layer *l, int k, pn_tensor *t);
/* New: a layer like l whose parameters are these tensors (of the same shapes), nodes of any graph. */
pn_layer *pni_layer_with(pn_context *c, const pn_layer *l, pn_tensor *const *param);

#define X(name) extern const pni_layer pni_layer_##name;
#include "layer.def"
#undef X

#endif
