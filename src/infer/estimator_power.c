/*
** estimator_power.c: bounds by power means of the weights, L = (1 / s) log mean_k w_k^s: importance weighted.
*/
#include <math.h>
#include "estimator.h"

static pn_tensor *log_mean(pn_context *c, pn_tensor *x) {
  pn_tensor *sum = pn_logsumexp(c, x, (pn_axes){1, {0}}, 0);
  return sum ? pn_sub(c, sum, pni_like(c, sum, log((double)x->shape[0]))) : NULL;
}

static pn_tensor *build_iwae(pn_context *c, pni_estimation *e) {
  pn_tensor *bound = log_mean(c, e->in[0]);
  if (!bound || pni_require_weights(c, e->row->name, "log_w", bound, e->in[0])) return NULL;
  return pn_mean(c, bound, PN_ALL, 0);
}

const pni_estimator pni_estimator_iwae = {
    .name = "iwae",
    .doc =
        "importance weighted bound: the mean over data of log (1/K) sum_k w_k, never below elbo, which it is at K = 1",
    .source = "Burda, Grosse & Salakhutdinov 2016",
    .result = "a lower bound, to be maximised",
    .input = {{"log_w", "KB", 0, "log p(x, z) - log q(z | x) of K draws for B data"}},
    .build = build_iwae};
