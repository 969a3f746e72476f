/*
** hmc_fixture.h: plans of log densities, for the tests of samplers and targets.
*/
#ifndef PN_SPEC_HMC_FIXTURE_H
#define PN_SPEC_HMC_FIXTURE_H

#include <stdint.h>
#include "../../src/penumbra.h"

typedef pn_tensor *(*density_builder)(pn_context *c, pn_tensor *z, const void *data);

/* The plan z [n] -> log density [1], gradient [n] of f(z, data), or NULL. */
static inline pn_plan *density_plan(pn_context *c, int64_t n, density_builder f, const void *data) {
  pn_tensor *at = pn_full(c, PN_FLOAT64, 1, &n, 0.25), *zero = pn_param(c, pn_zeros(c, PN_FLOAT64, 1, &n)), *inside;
  pn_tensor *out[2] = {NULL, NULL};
  if (!zero || pn_capture_begin(c, 1, &at, &inside)) return NULL;
  pn_tensor *z = pn_add(c, inside, zero), *lp = f(c, z, data);
  if (lp && pn_grad(c, lp, 1, &z, 0, &out[1]) == PN_OK)
    out[0] = pn_reshape(c, pn_detach(c, lp), 1, (const int64_t[]){1});
  return pn_capture_end(c, 2, out);
}

/* -sum z^2 / 2 */
static inline pn_tensor *standard_normal(pn_context *c, pn_tensor *z, const void *data) {
  (void)data;
  return pn_mul(c, pn_sum(c, pn_square(c, z), PN_ALL, 0), pn_scalar(c, PN_FLOAT64, -0.5));
}

enum { CORRELATED = 4 };

/* A = S R S with standard deviations 0.1, 1, 3, 10 and correlations 0.7^|i - j|. */
static inline double correlated_cov(int i, int j) {
  static const double sd[CORRELATED] = {0.1, 1, 3, 10};
  double r = 1;
  for (int k = i < j ? i : j; k < (i < j ? j : i); k++) r *= 0.7;
  return sd[i] * sd[j] * r;
}

static inline double correlated_mean(int i) { return i - 1.5; }

/* Its covariance as a parameter. */
static inline pn_tensor *correlated_matrix(pn_context *c) {
  double cov[CORRELATED * CORRELATED];
  for (int i = 0; i < CORRELATED; i++)
    for (int j = 0; j < CORRELATED; j++) cov[i * CORRELATED + j] = correlated_cov(i, j);
  return pn_param(c, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){CORRELATED, CORRELATED}, cov));
}

/* Normal with that mean and the covariance `data`, a tensor that is factorised within the plan; z is cut into pieces,
 * put together by places and looked at through views on the way. */
static inline pn_tensor *correlated(pn_context *c, pn_tensor *z, const void *data) {
  const int64_t n = CORRELATED, index[CORRELATED] = {2, 3, 0, 1};
  double mean[CORRELATED];
  for (int i = 0; i < CORRELATED; i++) mean[i] = correlated_mean(i);
  pn_tensor *mu = pn_from_data(c, PN_FLOAT64, 1, &n, mean), *places = pn_from_data(c, PN_INT64, 1, &n, index);
  pn_tensor *half[2] = {pn_slice(c, z, 0, 2, 2, 1), pn_slice(c, z, 0, 0, 2, 1)};
  pn_tensor *turned = half[0] && half[1] ? pn_concatenate(c, 2, half, 0) : NULL; /* z[2] z[3] z[0] z[1] */
  pn_tensor *back = pn_take(c, turned, 0, places), *l = pn_cholesky(c, (pn_tensor *)(uintptr_t)data);
  pn_tensor *e = pn_reshape(c, pn_sub(c, back, mu), 2, (const int64_t[]){n, 1});
  return standard_normal(c, pn_solve_triangular(c, l, e, 0, 0), NULL);
}

/* Neal's funnel: v ~ normal(0, 3), x_i ~ normal(0, e^(v/2)). */
static inline pn_tensor *funnel(pn_context *c, pn_tensor *z, const void *data) {
  int64_t n = pn_tensor_shape(z)[0] - 1;
  (void)data;
  pn_tensor *v = pn_slice(c, z, 0, 0, 1, 1), *x = pn_slice(c, z, 0, 1, n, 1);
  pn_tensor *square = pn_sum(c, pn_square(c, x), PN_ALL, 0);
  pn_tensor *of_x = pn_mul(c, pn_mul(c, square, pn_exp(c, pn_neg(c, v))), pn_scalar(c, PN_FLOAT64, -0.5));
  pn_tensor *of_v = pn_mul(c, pn_square(c, v), pn_scalar(c, PN_FLOAT64, -1.0 / 18));
  pn_tensor *weight = pn_mul(c, v, pn_scalar(c, PN_FLOAT64, -0.5 * (double)n));
  return pn_sum(c, pn_add(c, pn_add(c, of_x, of_v), weight), PN_ALL, 0);
}

#endif
