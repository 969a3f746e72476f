/*
** estimator_power.c: bounds by power means of the weights,
**   L_s = (1 / s) log mean_k w_k^s,  s = 1 - alpha for Renyi's: s = 1 is importance weighted, s -> 0 the lower bound,
** s > 1 a bound from above, and what the families share about weights.
*/
#include <math.h>
#include "estimator.h"

typedef pn_tensor T;
typedef pn_context C;

static T *times(C *c, T *x, double k) { return pn_mul(c, x, pni_like(c, x, k)); }

T *pni_finite_or(C *c, T *x, double other) {
  return x ? pn_where(c, pn_isfinite(c, x), x, pni_like(c, x, other)) : NULL;
}

T *pni_log_mean_weight(C *c, T *x) {
  T *sum = pn_logsumexp(c, x, PNI_DRAWS, 0);
  return sum ? pn_sub(c, sum, pni_like(c, sum, log((double)x->shape[0]))) : NULL;
}

T *pni_normalised_weights(C *c, T *x) {
  T *sum = pn_logsumexp(c, x, PNI_DRAWS, 1);
  return pn_exp(c, pn_sub(c, x, pni_finite_or(c, sum, 0)));
}

/* ---- powers ---- */

static T *is_dead(C *c, T *x) { return pn_eq(c, x, pni_like(c, x, -INFINITY)); }

/* s = 0: the mean over draws, [B]; no gradient to weights of -inf. */
static T *mean_log(C *c, T *x) { return pn_mean(c, pn_where(c, is_dead(c, x), pn_detach(c, x), x), PNI_DRAWS, 0); }

/* s near 0, where log mean w^s loses digits to the division: with the largest weight m at 1,
 * m + log1p(mean expm1(s (x - m))) / s. */
static T *near_zero(C *c, T *x, double s) {
  T *top = pn_detach(c, pn_max(c, x, PNI_DRAWS, 1));
  T *rest = pn_mean(c, pn_expm1(c, times(c, pn_sub(c, x, top), s)), PNI_DRAWS, 1);
  return pn_squeeze(c, pn_add(c, top, times(c, pn_log1p(c, rest), 1 / s)), 0);
}

/* A datum whose power mean is -inf: all weights 0, or, for s < 0, one. [1, B] */
static T *vanished(C *c, T *x, double s) {
  return s > 0 ? pn_all(c, is_dead(c, x), PNI_DRAWS, 1) : pn_any(c, is_dead(c, x), PNI_DRAWS, 1);
}

/* [B]. */
static T *log_power_mean(C *c, T *x, double s) {
  if (s == 1) return pni_log_mean_weight(c, x);
  if (s == 0) return mean_log(c, x);
  T *gone = vanished(c, x, s), *safe = pn_where(c, gone, pni_like(c, x, 0), x);
  bool small = fabs(s) < (x->dtype == PN_FLOAT64 ? 1e-5 : 1e-2);
  T *mean = small ? near_zero(c, safe, s) : times(c, pni_log_mean_weight(c, times(c, safe, s)), 1 / s);
  return pn_where(c, pn_squeeze(c, gone, 0), pni_like(c, x, -INFINITY), mean);
}

static T *power_bound(C *c, pni_estimation *e, double s) {
  T *bound = log_power_mean(c, e->in[0], s);
  if (!bound || pni_require_weights(c, e->row->name, "log_w", bound, e->in[0])) return NULL;
  return pn_mean(c, bound, PN_ALL, 0);
}

/* ---- rows ---- */

#define LOG_W                                                                                                          \
  { "log_w", "KB", 0, "log p(x, z) - log q(z | x) of K draws for B data" }

static T *build_iwae(C *c, pni_estimation *e) { return power_bound(c, e, 1); }

const pni_estimator pni_estimator_iwae = {
    .name = "iwae",
    .doc =
        "importance weighted bound: the mean over data of log (1/K) sum_k w_k, never below elbo, which it is at K = 1",
    .source = "Burda, Grosse & Salakhutdinov 2016",
    .result = "a lower bound, to be maximised",
    .input = {LOG_W},
    .objective = {.gradient = "whole", .nonlinear = true},
    .build = build_iwae};

static T *build_renyi(C *c, pni_estimation *e) { return power_bound(c, e, 1 - e->option[0]); }

static const pni_option orders[] = {
    {"alpha", NULL, 0.5, -1e6, 1e6, false, "order: 0 is iwae, 1 elbo; falls with alpha, above log p(x) where negative"},
    {0}};

const pni_estimator pni_estimator_renyi = {
    .name = "renyi",
    .doc = "Renyi's bound of order alpha: the mean over data of log((1/K) sum_k w_k^(1 - alpha)) / (1 - alpha)",
    .source = "Li & Turner 2016",
    .result = "a bound, to be maximised",
    .input = {LOG_W},
    .options = orders,
    .objective = {.gradient = "whole", .nonlinear = true},
    .build = build_renyi};

static T *build_cubo(C *c, pni_estimation *e) { return power_bound(c, e, e->option[0]); }

static const pni_option powers[] = {{"order", NULL, 2, 1, 1e6, false, "n; 2 is the chi-square divergence"}, {0}};

const pni_estimator pni_estimator_cubo = {
    .name = "cubo",
    .doc =
        "chi upper bound: the mean over data of log((1/K) sum_k w_k^n) / n; an upper bound of log p(x) in the limit of "
        "many draws",
    .source = "Dieng, Tran, Ranganath, Paisley & Blei 2017",
    .result = "an upper bound, to be minimised",
    .input = {LOG_W},
    .options = powers,
    .build = build_cubo};
