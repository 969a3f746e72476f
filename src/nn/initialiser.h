/*
** initialiser.h: how parameters start. A row turns shape and fans into a tensor. For weights [in, out]
** the fans are in and out; leading axes (a convolution's window) multiply both.
*/
#ifndef PN_NN_INITIALISER_H
#define PN_NN_INITIALISER_H

#include "../tensor/tensor.h"
#include "option.h"

/* What a row sees. */
typedef struct pni_init_call {
  pn_rng *rng;
  pn_dtype dtype;
  int ndim;
  const int64_t *shape;
  double fan_in, fan_out;
  const double *option;
} pni_init_call;

typedef struct pni_initialiser {
  const char *name, *alias; /* alias: another name in use, or NULL */
  const char *doc;
  const char *source; /* of the formula, or NULL */
  const pni_option *options;
  pn_tensor *(*make)(pn_context *c, const pni_init_call *call); /* scoped */
} pni_initialiser;

int pni_initialiser_count(void);
const pni_initialiser *pni_initialiser_at(int i);
const pni_initialiser *pni_initialiser_find(const char *name);
/* Row number i with its default options. Scoped. */
pn_tensor *pni_initialise(pn_context *c, int i, const pni_init_call *call);

/* The names as choices of an option. */
#define X(name) #name " "
static const char pni_initialiser_names[] =
#include "initialiser.def"
    ;
#undef X
enum {
#define X(name) PNI_INIT_##name,
#include "initialiser.def"
#undef X
};

#endif
