/*
** estimator_pareto.c: Pareto smoothed importance sampling.
*/
#include "estimator.h"

static pn_tensor *build(pn_context *c, pni_estimation *e) {
  pn_tensor *x = e->in[0], *bound = pni_log_mean_weight(c, x);
  if (!bound || pni_require_weights(c, e->row->name, "log_w", bound, x)) return NULL;
  pn_tensor *both = pni_pareto_smooth(c, x, e->in[1]);
  int64_t k = x->shape[0];
  e->second = pn_select(c, both, 0, k);
  return pn_slice(c, both, 0, 0, k, 1);
}

const pni_estimator pni_estimator_psis = {
    .name = "psis",
    .doc = "Pareto smoothed importance sampling: the largest min(K / 5, 3 sqrt(K / r)) weights replaced by "
           "quantiles of the generalised Pareto distribution fitted to them, r the relative efficiency of the draws; "
           "k-hat, its shape, tells whether to trust them "
           "(infer.pareto_warning)",
    .source = "Vehtari, Simpson, Gelman, Yao & Gabry 2024",
    .result = "normalised log-weights [K, B] and k-hat [B], inf where the tail holds fewer than 5 draws, 0 where its "
              "weights differ by less than a percent; no gradient",
    .input = {{"log_w", "KB", 0, "log-weights"},
              {"relative_efficiency", "B", PNI_INPUT_OPTIONAL,
               "effective sample size of the weights by the number of draws, where these come from a Markov chain; 1"}},
    .build = build};
