/*
** estimator_elbo.c: the evidence lower bound in its three forms,
**   E_q[log p(x, z) - log q(z)] = E_q[log p(x, z)] + H[q] = E_q[log p(x | z)] - KL(q || p),
** of latents of each datum or, with num_data, of latents that all data share. The divergence may be annealed by a
** factor beta or held above free bits (Kingma, Salimans, Jozefowicz, Chen, Sutskever & Welling 2016): then the value
** stays the bound and the gradient is that of the annealed objective.
*/
#include <math.h>
#include "estimator.h"

typedef pn_tensor T;
typedef pn_context C;

enum { LOG_P, LOG_Q, LOG_LIKELIHOOD, KL, LOG_JOINT, ENTROPY, BETA };
enum { NUM_DATA, FREE_BITS, GROUPS };

static T *refuse(C *c, pn_status status, const char *why, const T *t) {
  char got[PNI_SHAPE_TEXT];
  if (t)
    pni_fail(c, status, "elbo: %s, got shape %s", why, pni_shape_text(t->ndim, t->shape, got));
  else
    pni_fail(c, status, "elbo: %s", why);
  return NULL;
}

/* The mean of x, which must be usable. */
static T *mean_of(C *c, const char *role, T *x) {
  T *mean = x ? pni_live_mean(c, x) : NULL;
  return mean && pni_require_weights(c, "elbo", role, mean, x) == PN_OK ? mean : NULL;
}

/* The sum of a divergence over its dimensions, each group held above the free bits: kl [B, D] -> 0-d, the mean over
 * data first. [D] is one datum. */
static T *held(C *c, const pni_estimation *e, T *kl) {
  int64_t d = kl->shape[kl->ndim - 1], b = kl->numel / d,
          groups = e->option[GROUPS] != 0 ? (int64_t)e->option[GROUPS] : d;
  if (d % groups) return refuse(c, PN_SHAPE, "groups must divide the dimensions of kl", kl);
  T *split = pn_sum(c, pn_reshape(c, kl, 3, (int64_t[]){b, groups, d / groups}), (pn_axes){1, {2}}, 0);
  T *mean = pn_mean(c, split, PNI_DRAWS, 0);
  return pn_sum(c, pn_maximum(c, mean, pni_like(c, kl, e->option[FREE_BITS])), PN_ALL, 0);
}

/* kl: the divergence that counts, 0-d. */
static T *objective(C *c, const pni_estimation *e, T *fit, T *kl) {
  T *own = e->in[KL], *beta = e->in[BETA], *bound = pn_sub(c, fit, kl), *cost = kl;
  if (!beta && e->option[FREE_BITS] == 0) return bound;
  if (e->option[FREE_BITS] > 0) cost = held(c, e, own);
  if (beta) cost = pn_mul(c, cost, pn_reshape(c, beta, 0, NULL));
  return pni_reported(c, bound, pn_sub(c, fit, cost));
}

/* Latents that all data share: N / B sum_b E log p(y_b | w) - KL(q || p), KL once. */
static T *global_bound(C *c, const pni_estimation *e) {
  T *ll = e->in[LOG_LIKELIHOOD], *kl = e->in[KL];
  double n = e->option[NUM_DATA];
  int64_t batch = ll->shape[ll->ndim - 1];
  bool apart = e->option[FREE_BITS] > 0 && kl->ndim == 1;
  if (kl->numel != 1 && !apart) return refuse(c, PN_SHAPE, "kl must have one element (the sum over all weights)", kl);
  if (n < (double)batch) {
    pni_fail(c, PN_DOMAIN, "elbo: num_data must be at least the minibatch's size %lld, got %.14g", (long long)batch, n);
    return NULL;
  }
  T *mean = mean_of(c, "log_likelihood", ll);
  T *sum = apart ? pn_sum(c, kl, PN_ALL, 0) : pn_reshape(c, kl, 0, NULL);
  return mean ? objective(c, e, pn_mul(c, mean, pni_like(c, mean, n)), sum) : NULL;
}

/* Latents of each datum: the mean over data of E log p(x | z) - KL(q || p). kl is [B], by Monte Carlo [K, B], or with
 * free bits [B, D]. */
static T *local_bound(C *c, const pni_estimation *e) {
  T *ll = e->in[LOG_LIKELIHOOD], *kl = e->in[KL];
  int64_t batch = ll->shape[ll->ndim - 1];
  bool apart = e->option[FREE_BITS] > 0, fits;
  if (apart)
    fits = kl->ndim == 2 && kl->shape[0] == batch;
  else
    fits = (kl->ndim == 1 || (kl->ndim == 2 && ll->ndim == 2 && kl->shape[0] == ll->shape[0])) &&
           kl->shape[kl->ndim - 1] == batch;
  if (!fits && kl->numel == 1 && !apart)
    return refuse(c, PN_DOMAIN,
                  "num_data is required: the number N of data in the whole set, by which the minibatch is scaled up "
                  "against a KL that is counted once (N = the minibatch's size if that is all there is)",
                  NULL);
  if (!fits)
    return refuse(c, PN_SHAPE,
                  apart ? "kl must be [B, D], a divergence per dimension, for free bits"
                        : "kl must be [B], or [K, B] like log_likelihood, without num_data",
                  kl);
  T *mean = mean_of(c, "log_likelihood", ll), *cost = mean ? mean_of(c, "kl", kl) : NULL;
  if (cost && apart) cost = pn_mul(c, cost, pni_like(c, cost, (double)kl->shape[1]));
  return cost ? objective(c, e, mean, cost) : NULL;
}

static T *joint_bound(C *c, const pni_estimation *e) {
  T *mean = mean_of(c, "log_joint", e->in[LOG_JOINT]), *entropy = mean ? mean_of(c, "entropy", e->in[ENTROPY]) : NULL;
  return entropy ? pn_add(c, mean, entropy) : NULL;
}

static T *build_elbo(C *c, pni_estimation *e) {
  static const struct { int a, b; } forms[] = {{LOG_P, LOG_Q}, {LOG_JOINT, ENTROPY}, {LOG_LIKELIHOOD, KL}};
  int form = -1, given = 0;
  for (int k = 0; k < BETA; k++) given += e->in[k] != NULL;
  for (int i = 0; i < 3; i++)
    if (e->in[forms[i].a] && e->in[forms[i].b]) form = i;
  if (form < 0 || given != 2)
    return refuse(c, PN_STATE,
                  "write elbo{log_likelihood = ll, kl = kl, num_data = N}, elbo{log_joint = lp, entropy = h} or "
                  "elbo(log_p, log_q)",
                  NULL);
  if (form != 2 && (e->in[BETA] || e->option[NUM_DATA] != 0 || e->option[FREE_BITS] > 0))
    return refuse(c, PN_STATE, "beta, free_bits and num_data need the form with log_likelihood and kl", NULL);
  if (e->in[BETA] && e->in[BETA]->numel != 1) return refuse(c, PN_SHAPE, "beta must have one element", e->in[BETA]);
  if (form == 0) return mean_of(c, "log_p - log_q", pn_sub(c, e->in[LOG_P], e->in[LOG_Q]));
  if (form == 1) return joint_bound(c, e);
  return e->option[NUM_DATA] != 0 ? global_bound(c, e) : local_bound(c, e);
}

static const pni_option options[] = {
    {"num_data", NULL, 0, 0, HUGE_VAL, false,
     "N, the number of data in the whole set, for latents that all data share"},
    {"free_bits", NULL, 0, 0, HUGE_VAL, false, "nats below which the divergence of a group costs nothing less"},
    {"groups", NULL, 0, 0, HUGE_VAL, false, "number of groups of dimensions for free_bits, 0: each dimension"},
    {0}};

const pni_estimator pni_estimator_elbo = {
    .name = "elbo",
    .doc = "evidence lower bound, in three forms: the mean of log_p - log_q, of log_joint plus entropy, or of "
           "log_likelihood minus kl; with num_data (N) of latents that all data share: N times the mean over the "
           "minibatch "
           "minus kl, once",
    .source = "Jordan, Ghahramani, Jaakkola & Saul 1999; Kingma & Welling 2014",
    .result = "a lower bound, to be maximised",
    .input = {{"log_p", "kB", PNI_INPUT_OPTIONAL, "log p(x, z)"},
              {"log_q", "kB", PNI_INPUT_OPTIONAL, "log q(z | x)"},
              {"log_likelihood", "kB", PNI_INPUT_OPTIONAL, "log p(x | z)"},
              {"kl", "", PNI_INPUT_OPTIONAL | PNI_INPUT_NUMBER,
               "KL(q || p): [B], or [K, B] by Monte Carlo; [B, D] for free_bits; one number (or [D]) with num_data"},
              {"log_joint", "kB", PNI_INPUT_OPTIONAL, "log p(x, z)"},
              {"entropy", "kB", PNI_INPUT_OPTIONAL, "of q(z | x)"},
              {"beta", "", PNI_INPUT_OPTIONAL | PNI_INPUT_NUMBER,
               "annealing: the gradient is that of fit minus beta kl, the value stays the bound"}},
    .options = options,
    .objective = {.gradient = "whole"},
    .build = build_elbo};
