/*
** composite.h: distributions made of distributions. They are pn_dist like all others, with the same functions; only
** their constructors differ: pn_dist_<name>. Rows without parameters for the constructor of the rows.
*/
#ifndef PN_DISTRIBUTION_COMPOSITE_COMPOSITE_H
#define PN_DISTRIBUTION_COMPOSITE_COMPOSITE_H

#include "../bijector/bijector.h"

/* A distribution of the kind with room for n parts, which the caller fills with references. New. */
pn_dist *pni_composite_shell(pn_context *c, const pni_distribution *kind, int n, int dtype);
/* Draws of part i, repeated to the own batch of d and `tail` more batch axes of the part: sample + own batch + tail +
 * event; `out` is what d draws. */
pn_tensor *pni_composite_draw(pn_context *c, const pn_dist *d, int i, int tail, pn_rng *rng, const pni_spec *out,
                              bool with_gradient);
/* The same with a gradient, and the log density of the draws: sample + own batch. */
pn_tensor *pni_composite_draw_with_log_prob(pn_context *c, const pn_dist *d, int i, pn_rng *rng, const pni_spec *out,
                                            pn_tensor **log_prob);
/* batch = broadcast(batch, the n sizes); PN_SHAPE names `where`. */
pn_status pni_composite_widen(pn_context *c, const char *where, pni_spec *batch, int n, const int64_t *shape);
/* Do all members of a belong to b, a set of measure zero apart? Said of sets that are known. */
bool pni_constraint_inside(const pni_constraint *a, const pni_constraint *b);

int pni_composite_count(void);
const pni_distribution *pni_composite_at(int i);

#define X(name) extern const pni_distribution pni_composite_##name;
#include "composite.def"
#undef X

#endif
