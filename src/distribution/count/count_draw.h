/*
** count_draw.h: draws of whole numbers by the laws of rng.h, one position an element.
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_DRAW_H
#define PN_DISTRIBUTION_COUNT_COUNT_DRAW_H

#include "../distribution.h"
#include "../../math/random/rng.h"

/* The law of numbers with one or two parameters. */
typedef struct pni_count_kind {
  void (*law)(pni_count_law *l, double a, double b);
} pni_count_kind;

extern const pni_count_kind pni_count_poisson;  /* rate */
extern const pni_count_kind pni_count_binomial; /* total_count, prob */

/* A draw for each element of `out`, to which a and b (NULL: none) broadcast. Scoped, no gradient. */
pn_tensor *pni_count_draw(pn_context *c, pn_rng *rng, const pni_spec *out, const pni_count_kind *kind, pn_tensor *a,
                          pn_tensor *b);

#endif
