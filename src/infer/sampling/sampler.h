/*
** sampler.h: a sampler of any density, for pn_sampler_new and pn_target_sampler.
*/
#ifndef PN_INFER_SAMPLING_SAMPLER_H
#define PN_INFER_SAMPLING_SAMPLER_H

#include "hamiltonian.h"

/* pn_sampler_new with a density of n numbers; its plan is copied, its function called from the threads of c. */
pn_sampler *pni_sampler_new(pn_context *c, const pni_density *d, int64_t n, const pn_sampler_config *config,
                            pn_tensor *start, pn_rng *rng);

#endif
