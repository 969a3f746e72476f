/*
** moments.h: what is known of y = f(x) from the mean and variances of x alone.
*/
#ifndef PN_DISTRIBUTION_BIJECTOR_MOMENTS_H
#define PN_DISTRIBUTION_BIJECTOR_MOMENTS_H

#include "bijector.h"

typedef struct pni_moments {
  pn_tensor *point;    /* the mean, or if it is not known some member */
  bool mean;           /* is point the mean? */
  pn_tensor *variance; /* of each number; NULL: not known */
  bool apart;          /* are the numbers of an event uncorrelated? */
  pn_tensor *log_det;  /* E[log |det dy/dx|], summed over the extra axes of the event; NULL: not known */
} pni_moments;

/* Carries m from x to y; m->log_det starts as NULL. An event of x has in_rank + extra axes. */
void pni_bijector_push(pn_context *c, pn_bijector *b, int extra, pni_moments *m);
/* Does log |det| not depend on x? */
bool pni_bijector_even(const pn_bijector *b);
/* Are two bijectors the same map for certain, with the same gradients? One kind, the same tensors as parameters or
 * equal constants. */
bool pni_bijector_same(pn_context *c, const pn_bijector *a, const pn_bijector *b);

#endif
