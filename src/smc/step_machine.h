/*
** step_machine.h: what the binding asks of a machine beside the public functions.
*/
#ifndef PN_SMC_STEP_MACHINE_H
#define PN_SMC_STEP_MACHINE_H

#include "../base/context.h"

/* Fails in the middle of a capture that the machine was not made in: a replay would not repeat what is done to it. */
pn_status pni_smc_usable(pn_context *c, const pn_smc *s);

#endif
