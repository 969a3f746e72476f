/*
** estimator_elbo.c: the evidence lower bound in its three forms,
**   E_q[log p(x, z) - log q(z)] = E_q[log p(x, z)] + H[q] = E_q[log p(x | z)] - KL(q || p).
** Jordan, Ghahramani, Jaakkola & Saul 1999.
*/
#include <math.h>
#include "estimator.h"

enum { LOG_P, LOG_Q, LOG_LIKELIHOOD, KL };
enum { NUM_DATA };

/* Local latents: the mean over draws and data. */
static pn_tensor *difference(pn_context *c, const pni_estimation *e) {
  pn_tensor *w = pn_sub(c, e->in[LOG_P], e->in[LOG_Q]), *bound = w ? pni_live_mean(c, w) : NULL;
  return bound && pni_require_weights(c, e->row->name, "log_p - log_q", bound, w) == PN_OK ? bound : NULL;
}

/* Global latents: N / B sum_b E log p(y_b | w) - KL(q || p), KL once. */
static pn_tensor *scaled(pn_context *c, const pni_estimation *e) {
  pn_tensor *ll = e->in[LOG_LIKELIHOOD], *kl = e->in[KL];
  double n = e->option[NUM_DATA];
  char got[160];
  int64_t batch = ll->shape[ll->ndim - 1];
  if (n == 0) {
    pni_fail(c, PN_DOMAIN,
             "elbo: num_data is required: the number N of data in the whole set, by which the minibatch is scaled up "
             "against a KL that is counted once (N = the minibatch's size if that is all there is)");
    return NULL;
  }
  if (kl->numel != 1) {
    pni_fail(c, PN_SHAPE, "elbo: kl must have one element (the sum over all weights), got shape %s",
             pni_shape_text(kl->ndim, kl->shape, got));
    return NULL;
  }
  if (n < (double)batch) {
    pni_fail(c, PN_DOMAIN, "elbo: num_data must be at least the minibatch's size %lld, got %.14g", (long long)batch, n);
    return NULL;
  }
  pn_tensor *mean = pni_live_mean(c, ll);
  if (!mean || pni_require_weights(c, e->row->name, "log_likelihood", mean, ll)) return NULL;
  return pn_sub(c, pn_mul(c, mean, pni_like(c, mean, n)), pn_reshape(c, kl, 0, NULL));
}

static pn_tensor *build_elbo(pn_context *c, pni_estimation *e) {
  bool pair = e->in[LOG_P] && e->in[LOG_Q] && !e->in[LOG_LIKELIHOOD] && !e->in[KL];
  bool split = e->in[LOG_LIKELIHOOD] && e->in[KL] && !e->in[LOG_P] && !e->in[LOG_Q];
  if (pair) return difference(c, e);
  if (split) return scaled(c, e);
  pni_fail(c, PN_STATE, "elbo: write elbo{log_likelihood = ll, kl = kl, num_data = N} or elbo(log_p, log_q)");
  return NULL;
}

static const pni_option options[] = {
    {"num_data", NULL, 0, 0, HUGE_VAL, false, "N, the number of data in the whole set, of global latents"}, {0}};

const pni_estimator pni_estimator_elbo = {.name = "elbo",
                                          .doc = "evidence lower bound",
                                          .source = "Jordan, Ghahramani, Jaakkola & Saul 1999; Kingma & Welling 2014",
                                          .result = "a lower bound, to be maximised",
                                          .input = {{"log_p", "kB", PNI_INPUT_OPTIONAL, "log p(x, z)"},
                                                    {"log_q", "kB", PNI_INPUT_OPTIONAL, "log q(z | x)"},
                                                    {"log_likelihood", "kB", PNI_INPUT_OPTIONAL, "log p(x | z)"},
                                                    {"kl", "", PNI_INPUT_OPTIONAL | PNI_INPUT_NUMBER, "KL(q || p)"}},
                                          .options = options,
                                          .build = build_elbo};
