/*
** sampler.h: a sampler of any density, for pn_sampler_new and pn_target_sampler; one whose chains stand in several
** processes.
*/
#ifndef PN_INFER_SAMPLING_SAMPLER_H
#define PN_INFER_SAMPLING_SAMPLER_H

#include "hamiltonian.h"

/* pn_sampler_new with a density of n numbers; its plan is copied, its function called from the threads of c. */
pn_sampler *pni_sampler_new(pn_context *c, const pni_density *d, int64_t n, const pn_sampler_config *config,
                            pn_tensor *start, pn_rng *rng);

/* pn_sampler_new for a part of the chains: number `first`, from 0 on, and the config's chains from there. With the same
 * generator they are what one sampler of all would have. Where it would look at all chains it halts, whatever it was to
 * run: the windows of all parts, one below the other, are to be judged by each. */
pn_sampler *pni_sampler_new_part(pn_context *c, const pn_plan *plan, const pn_sampler_config *config, int first,
                                 pn_tensor *start, pn_rng *rng);
bool pni_sampler_halted(const pn_sampler *s);
/* float64 [2 chains, 1 + 2 n]: of half a chain's window the count, means and sums of squares. */
pn_tensor *pni_sampler_windows(pn_context *c, const pn_sampler *s);
pn_status pni_sampler_judge(pn_context *c, pn_sampler *s, pn_tensor *windows);

#endif
