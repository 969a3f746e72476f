/*
** estimator_average.c: expectations under the target by weighted draws from q, with their standard errors.
*/
#include <math.h>
#include "estimator.h"

typedef pn_tensor T;
typedef pn_context C;

enum { LOG_W, F };

static T *usable(C *c, const pni_estimation *e) {
  T *x = e->in[LOG_W], *bound = pni_log_mean_weight(c, x);
  return bound && pni_require_weights(c, e->row->name, "log_w", bound, x) == PN_OK ? bound : NULL;
}

/* Weights [K, B], or what a datum has [B], with the axes that f has beyond. */
static T *beside(C *c, T *w, const T *f) {
  int64_t shape[PN_MAX_DIMS];
  int own = w ? w->ndim : 0, ndim = f->ndim - 2 + own;
  for (int i = 0; i < ndim; i++) shape[i] = i < own ? w->shape[i] : 1;
  return pn_reshape(c, w, ndim, shape);
}

/* ---- weights ---- */

static T *build_weights(C *c, pni_estimation *e) {
  return usable(c, e) ? pni_normalised_weights(c, e->in[LOG_W]) : NULL;
}

const pni_estimator pni_estimator_normalised_weights = {
    .name = "normalised_weights",
    .doc = "w_k / sum_j w_j of log-weights; 0 for a datum whose weights are all 0",
    .source = "Owen 2013, chapter 9",
    .result = "the weights [K, B]",
    .input = {{"log_w", "KB", 0, "log-weights"}},
    .build = build_weights};

/* 1 / sum w~^2; 0 without any weight. */
static T *build_size(C *c, pni_estimation *e) {
  T *bound = usable(c, e);
  if (!bound) return NULL;
  T *square = pn_sum(c, pn_square(c, pni_normalised_weights(c, e->in[LOG_W])), PNI_DRAWS, 0);
  T *none = pn_eq(c, square, pni_like(c, square, 0));
  T *size = pn_reciprocal(c, pn_where(c, none, pni_like(c, square, 1), square));
  return pn_where(c, none, pni_like(c, size, 0), size);
}

const pni_estimator pni_estimator_effective_sample_size = {
    .name = "effective_sample_size",
    .doc = "(sum_k w_k)^2 / sum_k w_k^2 of each datum: K for equal weights, 1 where one weight is all",
    .source = "Kong, Liu & Wong 1994",
    .result = "the size of each datum's sample [B]",
    .input = {{"log_w", "KB", 0, "log-weights"}},
    .build = build_size};

/* ---- expectations ---- */

/* (1/K) sum_k w_k f_k = e^(log mean w) sum_k w~_k f_k: the large exponent comes last. */
static T *build_importance(C *c, pni_estimation *e) {
  T *bound = usable(c, e), *f = e->in[F];
  if (!bound) return NULL;
  double k = (double)f->shape[0];
  T *scale = pn_exp(c, beside(c, bound, f)), *w = beside(c, pni_normalised_weights(c, e->in[LOG_W]), f);
  T *terms = pn_mul(c, w, f), *mean = pn_sum(c, terms, PNI_DRAWS, 1);
  T *off = pn_sub(c, terms, pn_mul(c, mean, pni_like(c, mean, 1 / k)));
  T *error = pn_sqrt(c, pn_mul(c, pn_sum(c, pn_square(c, off), PNI_DRAWS, 0), pni_like(c, f, k / fmax(k - 1, 0))));
  e->second = pn_detach(c, pn_mul(c, scale, error));
  return pn_mul(c, scale, pn_squeeze(c, mean, 0));
}

const pni_estimator pni_estimator_importance = {
    .name = "importance",
    .doc = "E_p[f] by weights of normalised densities, (1/K) sum_k w_k f_k: unbiased; and its standard error",
    .source = "Owen 2013, chapter 9",
    .result = "the mean [B, ...] and its standard error (NaN for one draw)",
    .input = {{"log_w", "KB", 0, "log p(z) - log q(z)"}, {"f", "KB...", 0, "the function's values at the draws"}},
    .build = build_importance};

/* Delta method: the variance of sum w~ f is about sum w~^2 (f - mean)^2. A datum without weight has no mean: NaN. */
static T *build_self(C *c, pni_estimation *e) {
  T *bound = usable(c, e), *f = e->in[F];
  if (!bound) return NULL;
  T *none = pn_eq(c, beside(c, bound, f), pni_like(c, bound, -INFINITY)), *nan = pni_like(c, bound, NAN);
  T *w = beside(c, pni_normalised_weights(c, e->in[LOG_W]), f), *mean = pn_sum(c, pn_mul(c, w, f), PNI_DRAWS, 1);
  T *error = pn_sqrt(c, pn_sum(c, pn_square(c, pn_mul(c, w, pn_sub(c, f, mean))), PNI_DRAWS, 0));
  e->second = pn_detach(c, pn_where(c, none, nan, error));
  return pn_where(c, none, nan, pn_squeeze(c, mean, 0));
}

const pni_estimator pni_estimator_self_normalised = {
    .name = "self_normalised",
    .doc = "E_p[f] by normalised weights, sum_k w~_k f_k, where densities are known up to constants; and its standard "
           "error "
           "by the delta method",
    .source = "Owen 2013, chapter 9",
    .result = "the mean [B, ...] and its standard error; NaN for a datum whose weights are all 0",
    .input = {{"log_w", "KB", 0, "log p(z) - log q(z), up to a constant"},
              {"f", "KB...", 0, "the function's values at the draws"}},
    .build = build_self};
