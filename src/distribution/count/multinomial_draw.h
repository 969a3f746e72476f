/*
** multinomial_draw.h: counts of classes, drawn as binomials in turn.
*/
#ifndef PN_DISTRIBUTION_COUNT_MULTINOMIAL_DRAW_H
#define PN_DISTRIBUTION_COUNT_MULTINOMIAL_DRAW_H

#include "../distribution.h"

/* Draws of shape `out`, which is sample + batch + [n]; total [batch] and probs [batch, n] broadcast to batch or to
 * sample + batch. Scoped, no gradient. */
pn_tensor *pni_multinomial_draw(pn_context *c, const pn_dist *d, pn_tensor *total, pn_tensor *probs, pn_rng *rng,
                                const pni_spec *out);
/* The most probable counts; total [batch, 1], probs [batch, n]. No gradient. */
pn_tensor *pni_multinomial_mode(pn_context *c, pn_tensor *total, pn_tensor *probs);

#endif
