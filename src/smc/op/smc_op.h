/*
** smc_op.h: the operations of this layer. Particles are the first axis, filters side by side the next ones:
** log-weights are [N] or [N, B...].
*/
#ifndef PN_SMC_OP_SMC_OP_H
#define PN_SMC_OP_SMC_OP_H

#include "../../autodiff/op/op.h"
#include "../resampling/resampler.h"

#define X(name) extern const pni_op pni_smc_op_##name;
#include "smc_op.def"
#undef X

/* ---- weigh: the one place where weights and evidence change ----
 * What it gives is packed, [2 N + 3, B...]: the normalised log-weights, the weights, and a row each of these. */
enum { PNI_WEIGHED_INCREMENT, PNI_WEIGHED_SIZE, PNI_WEIGHED_LARGEST, PNI_WEIGHED_ROWS };
static inline int64_t pni_weighed_particles(const pn_tensor *weighed) {
  return (weighed->shape[0] - PNI_WEIGHED_ROWS) / 2;
}

/* What log-weights come from, beside the increments. */
enum { PNI_BEFORE_EQUAL, PNI_BEFORE_WEIGHED, PNI_BEFORE_CARRIED };

typedef struct pni_weighing {
  int before;       /* PNI_BEFORE_...: all 1 / N; what weigh gave; log-weights [N, B...] whatever their sum */
  bool resampled;   /* with PNI_BEFORE_WEIGHED: filters that were due begin from 1 / N */
  double threshold; /* tells which these are */
  bool
      zero_possible; /* weights that are all 0: an increment of -inf, and equal weights from there on; else a failure */
  int64_t step;      /* for messages, from 1; 0: unknown */
  bool plain;        /* for messages: no machine asks, but pn_resample */
} pni_weighing;

/* log w' = log w + log_increment - L with L = logsumexp(log w + log_increment), the increment of the log-evidence.
 * before: as how->before says, or NULL. Differentiable in both but for effective sample size and largest weight.
 * PN_DEGENERATE, PN_NAN, PN_DOMAIN (+inf), PN_SHAPE. Scoped. */
pn_tensor *pni_weigh(pn_context *c, pn_tensor *log_increment, pn_tensor *before, const pni_weighing *how);

/* Is a filter of n particles resampled? At a threshold of 1 always, of 0 never. */
static inline bool pni_is_due(double size, double threshold, int64_t n) {
  return threshold >= 1 || size <= threshold * (double)n;
}

/* ---- resampling ---- */

typedef struct pni_resampling_rule {
  const pni_resampler *scheme;
  double threshold;
  bool conditional; /* the last particle is its own ancestor (scheme->independent) */
} pni_resampling_rule;

/* Ancestors [N, B...] by the weights in `weighed`; of filters that are not due by `decider` (what weigh gave; NULL:
 * `weighed`) their own places. Scoped. */
pn_tensor *pni_resample(pn_context *c, const pni_resampling_rule *rule, pn_rng *rng, pn_tensor *weighed,
                        pn_tensor *decider);

/* `count` places of n particles, int64, contiguous. role begins the message. PN_SHAPE, PN_DOMAIN. */
pn_status pni_check_places(pn_context *c, const char *role, const pn_tensor *places, int64_t count, int64_t n);
/* x[ancestors[i, b], b, ...] at [i, b, ...]. PN_SHAPE, PN_DTYPE, PN_DOMAIN. Scoped. */
pn_tensor *pni_select_particles(pn_context *c, pn_tensor *x, pn_tensor *ancestors);

#endif
