/*
** sir.c: sampling importance resampling: draws of equal weight out of weighted ones. Rubin 1988.
*/
#include "../distribution/distribution.h"
#include "estimator/estimator.h"

pn_tensor *pn_sir(pn_context *c, pn_rng *rng, pn_tensor *log_w, int64_t n) {
  if (!PNI_GIVEN(c, "sir", log_w)) return NULL;
  char got[PNI_SHAPE_TEXT];
  if (log_w->ndim != 2 || log_w->numel == 0) {
    pni_fail(c, PN_SHAPE, "sir: log_w must be [K, B], got shape %s", pni_shape_text(log_w->ndim, log_w->shape, got));
    return NULL;
  }
  if (n < 1) {
    pni_fail(c, PN_DOMAIN, "sir: n must be at least 1, got %lld", (long long)n);
    return NULL;
  }
  int old = pn_set_no_grad(c, 1);
  pn_tensor *bound = pni_log_mean_weight(c, log_w), *labels = NULL;
  if (bound && pni_require_each_weight(c, "sir", "log_w", bound, log_w) == PN_OK) {
    pn_tensor *share = pn_transpose(c, pni_normalised_weights(c, log_w), 0, 1);
    pn_dist *d = share ? pn_dist_new(c, "categorical", 1, (const char *[]){"probs"}, &share) : NULL;
    if (d) labels = pn_dist_sample(c, d, rng, 1, &n);
    pn_dist_unref(d);
  }
  pn_set_no_grad(c, old);
  return labels;
}
