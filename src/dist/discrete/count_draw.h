/*
** count_draw.h: draws of whole numbers by the scalar samplers of rng.h, one position an element.
*/
#ifndef PN_DIST_DISCRETE_COUNT_DRAW_H
#define PN_DIST_DISCRETE_COUNT_DRAW_H

#include "../distribution.h"

typedef double (*pni_count_sampler)(uint64_t key, uint64_t position, double a, double b);

/* f of each element of a and b (NULL: 0), which broadcast to `out`. Scoped, no graph. */
pn_tensor *pni_count_draw(pn_context *c, pn_rng *rng, const pni_spec *out, pni_count_sampler f, pn_tensor *a,
                          pn_tensor *b);

#endif
