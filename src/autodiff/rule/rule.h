/*
** rule.h: the gradient of an operation that is written in a script, as a tape: captured once, when no number is known
** yet, and applied in backward with the builders of the operations on it. So its gradient has a gradient, a capture
** around it records what it does, and nothing calls the script.
*/
#ifndef PN_AUTODIFF_RULE_RULE_H
#define PN_AUTODIFF_RULE_RULE_H

#include "../replay/replay.h"

/* y, the rule and the inputs x are inputs of one operation; g, y and x those of the rule. */
enum { PNI_RULE_INPUTS = PNI_OP_INPUTS - 2 };

/* Ends the capture that goes on, begun by pni_capture_enter on g, y and each x, whose n results are the gradients in x.
 * The tensor on which the rule rides, scoped; NULL with the reason in c where it cannot be kept. */
pn_tensor *pni_rule_end(pn_context *c, int n, pn_tensor *const *out);
/* y as the result of an operation of the n inputs x with that rule. Scoped. */
pn_tensor *pni_own_gradient(pn_context *c, pn_tensor *y, pn_tensor *rule, int n, pn_tensor *const *x);

#endif
