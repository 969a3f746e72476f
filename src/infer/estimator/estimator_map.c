/*
** estimator_map.c: the log posterior of parameters up to a constant, of a data set seen through a minibatch. A
** log_prior of 0 leaves maximum likelihood.
*/
#include <math.h>
#include "estimator.h"

enum { LOG_LIKELIHOOD, LOG_PRIOR };

static pn_tensor *build(pn_context *c, pni_estimation *e) {
  pn_tensor *ll = e->in[LOG_LIKELIHOOD], *prior = e->in[LOG_PRIOR];
  double n = e->option[0], batch = (double)ll->numel;
  char got[PNI_SHAPE_TEXT];
  if (prior->numel != 1) {
    pni_fail(c, PN_SHAPE, "map: log_prior must have one element (the sum over all parameters), got shape %s",
             pni_shape_text(prior->ndim, prior->shape, got));
    return NULL;
  }
  if (n == 0) {
    pni_fail(c, PN_DOMAIN,
             "map: num_data is required: the number N of data in the whole set, by which the minibatch is scaled up "
             "against a prior that is counted once (N = the minibatch's size if that is all there is)");
    return NULL;
  }
  if (n < batch) {
    pni_fail(c, PN_DOMAIN, "map: num_data must be at least the minibatch's size %.0f, got %.14g", batch, n);
    return NULL;
  }
  pn_tensor *mean = pni_live_mean(c, ll);
  if (!mean || pni_require_weights(c, e->row->name, "log_likelihood", mean, ll)) return NULL;
  return pn_add(c, pn_mul(c, mean, pni_like(c, mean, n)), pn_reshape(c, prior, 0, NULL));
}

static const pni_option options[] = {
    {"num_data", NULL, 0, 0, HUGE_VAL, false, "N, the number of data in the whole set; it must be given"}, {0}};

const pni_estimator pni_estimator_map = {
    .name = "map",
    .doc =
        "log posterior of parameters up to a constant, for the maximum a posteriori: num_data (N) times the mean log "
        "likelihood of the minibatch, plus the log prior, once",
    .source = "Bishop 2006, section 3.3",
    .result = "an objective, to be maximised",
    .input = {{"log_likelihood", "B", 0, "log p(y | w) of each datum"},
              {"log_prior", "", PNI_INPUT_NUMBER, "log p(w), one number"}},
    .options = options,
    .build = build};
