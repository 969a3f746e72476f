/*
** network.h: the small network inside the coupling and autoregressive bijectors: one or two hidden layers of tanh
** and two linear outputs,
**   h = tanh(x W_1 + b_1),  h = tanh(h W_2 + b_2) if given,  shift = h V + c,  log_scale = h U + d
** Its weights are the bijector's parameters in the order of PNI_NETWORK.
*/
#ifndef PN_DISTRIBUTION_BIJECTOR_NETWORK_H
#define PN_DISTRIBUTION_BIJECTOR_NETWORK_H

#include <math.h>
#include <string.h>
#include "bijector.h"

enum { NET_W1, NET_B1, NET_W2, NET_B2, NET_SHIFT_W, NET_SHIFT_B, NET_SCALE_W, NET_SCALE_B };

/* The parameters: `in` and `out` are the letters of inputs and outputs. Letters l (last hidden size) are checked by
 * pni_network_check. */
#define PNI_NETWORK(in, out)                                                                                           \
  {                                                                                                                    \
    {.name = "hidden_weight", .constraint = &pni_constraint_real, .axes = in "h"},                                     \
        {.name = "hidden_bias", .constraint = &pni_constraint_real, .axes = "h"},                                      \
        {.name = "middle_weight", .constraint = &pni_constraint_real, .axes = "hg", .optional = true, .absent = NAN},  \
        {.name = "middle_bias", .constraint = &pni_constraint_real, .axes = "g", .optional = true, .absent = NAN},     \
        {.name = "shift_weight", .constraint = &pni_constraint_real, .axes = "l" out},                                 \
        {.name = "shift_bias", .constraint = &pni_constraint_real, .axes = out},                                       \
        {.name = "scale_weight", .constraint = &pni_constraint_real, .axes = "l" out}, {                               \
      .name = "scale_bias", .constraint = &pni_constraint_real, .axes = out                                            \
    }                                                                                                                  \
  }

/* Weights fit each other and have no batch. */
pn_status pni_network_check(pn_context *c, const pn_bijector *b);
/* Constant masks for W_1, W_2 and the outputs, so that output i depends on inputs before i alone: kept in b. */
pn_status pni_network_mask(pn_context *c, pn_bijector *b);
/* Both outputs at x. Masked if b has masks. */
pn_status pni_network(pn_context *c, const pn_bijector *b, pn_tensor *x, pn_tensor **shift, pn_tensor **log_scale);

#endif
