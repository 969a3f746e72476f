/*
** natural_gaussian.h: Gaussian factors by natural parameters, r(x) = exp(eta . x - x . Lambda x / 2). Not
** distributions: the precision Lambda may be zero or negative, as it is for likelihood sites; products, quotients and
** powers are sums of parameters and always exist.
*/
#ifndef PN_DISTRIBUTION_GAUSSIAN_NATURAL_GAUSSIAN_H
#define PN_DISTRIBUTION_GAUSSIAN_NATURAL_GAUSSIAN_H

#include "../distribution.h"

typedef enum pni_natural_form { PNI_SCALAR, PNI_DIAGONAL, PNI_FULL } pni_natural_form;

struct pn_natural {
  int32_t refs;
  pn_context *ctx;
  pni_natural_form form;
  pn_tensor *precision_mean; /* eta: batch (scalar) or batch + [n] */
  pn_tensor *precision;      /* Lambda: as eta, or batch + [n, n] (full) */
};

#endif
