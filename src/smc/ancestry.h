/*
** ancestry.h: the paths of particles through all steps, without those that have died out.
*/
#ifndef PN_SMC_ANCESTRY_H
#define PN_SMC_ANCESTRY_H

#include "../tensor/tensor.h"

typedef struct pni_ancestry pni_ancestry;

/* Of `leaves` particles of all filters, the filter's number running fastest. NULL with the reason in c. */
pni_ancestry *pni_ancestry_new(pn_context *c, int64_t n, int64_t filters);
void pni_ancestry_free(pn_context *c, pni_ancestry *a);
/* A step: the parts of the state, each [n, B..., event...], and the ancestors [n, B...] they come from (NULL: their own
 * places). Parts must be those of the first step. On failure nothing has changed. */
pn_status pni_ancestry_add(pn_context *c, pni_ancestry *a, const pn_tensor *ancestors, int parts,
                           pn_tensor *const *part);
/* Part k along the paths to now: [T, n, B..., event...], or [T, B..., event...] of the particles `which` [B...].
 * Scoped. */
pn_tensor *pni_ancestry_paths(pn_context *c, const pni_ancestry *a, int k, const pn_tensor *which);
/* Steps; particles that are kept; bytes held. */
int64_t pni_ancestry_length(const pni_ancestry *a);
int64_t pni_ancestry_nodes(const pni_ancestry *a);
size_t pni_ancestry_bytes(const pni_ancestry *a);

#endif
