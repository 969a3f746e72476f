/*
** log_share.h: logarithms of shares, also where these underflow: of the regularised incomplete gamma and beta
** functions, and of what is left after a decay.
*/
#ifndef PN_DISTRIBUTION_KERNEL_LOG_SHARE_H
#define PN_DISTRIBUTION_KERNEL_LOG_SHARE_H

#include "../distribution.h"

/* log P(a, x), or of the upper one log Q(a, x). */
pn_tensor *pni_log_gamma_share(pn_context *c, pn_tensor *a, pn_tensor *x, bool upper);
/* log I_x(a, b), or of the upper one log(1 - I_x(a, b)); rest = 1 - x. */
pn_tensor *pni_log_beta_share(pn_context *c, pn_tensor *a, pn_tensor *b, pn_tensor *x, pn_tensor *rest, bool upper);
/* log(kept + rest e^-r) of kept + rest = 1 and r >= 0: all its digits, and slopes also at kept = 0. */
pn_tensor *pni_log_residue(pn_context *c, pn_tensor *kept, pn_tensor *rest, pn_tensor *r);

#endif
