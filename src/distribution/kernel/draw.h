/*
** draw.h: draws that are one operation with one pass over the memory.
*/
#ifndef PN_DISTRIBUTION_KERNEL_DRAW_H
#define PN_DISTRIBUTION_KERNEL_DRAW_H

#include "../distribution.h"

/* gamma_draw.c: of Gamma(a, b), with an implicit gradient in a. Scoped. */
pn_tensor *pni_gamma_draw_over(pn_context *c, pn_rng *rng, pn_tensor *a, pn_tensor *b, const pni_spec *out);

/* student_draw.c: of Student's t. Scoped. */
pn_tensor *pni_student_draw(pn_context *c, pn_rng *rng, pn_tensor *df, pn_tensor *loc, pn_tensor *scale,
                            const pni_spec *out);

/* uniform_density.c: low + (high - low) u, 0 <= u <= 1, not above high. Scoped. */
pn_tensor *pni_between(pn_context *c, pn_tensor *u, pn_tensor *low, pn_tensor *high);

/* log_uniform_kernel.c: low (high / low)^u, 0 <= u <= 1, within the ends. Scoped. */
pn_tensor *pni_log_between(pn_context *c, pn_tensor *u, pn_tensor *low, pn_tensor *high);

#endif
