/*
** wishart.h: what the Wishart distribution, its inverse and the normal-inverse-Wishart share. df [...] is nu, l
** [..., n, n] the Cholesky factor of the scale matrix.
*/
#ifndef PN_DISTRIBUTION_VECTOR_WISHART_H
#define PN_DISTRIBUTION_VECTOR_WISHART_H

#include "matrix.h"
#include "../stirling.h"

/* nu/2, (nu - 1)/2 ... (nu - n + 1)/2 as a last axis */
static inline T *halves(C *c, D *d, T *df, int64_t n) {
  return times(c, pn_sub(c, beside_vector(c, df), count_by(c, d, n, 1)), 0.5);
}
/* log Gamma_n(nu/2) = n (n - 1)/4 log pi + sum_i lgamma((nu - i)/2), i = 0 .. n - 1 (Muirhead 1982, theorem 2.1.12) */
static inline T *lgamma_n(C *c, D *d, T *df, int64_t n) {
  double count = (double)n;
  return plus(c, pn_sum(c, pn_lgamma(c, halves(c, d, df, n)), LAST, 0), count * (count - 1) / 4 * LOG_PI);
}
/* lgamma_n(nu/2) + n nu/2 - sum_i (nu/2 - s/2) digamma((nu - i)/2), i = 0 .. n - 1, without the large terms */
static inline T *surprise_n(C *c, D *d, T *df, int64_t n, double s) {
  double count = (double)n;
  T *own = pni_gamma_surprise(c, halves(c, d, df, n), times(c, from(c, s, count_by(c, d, n, 1)), 0.5));
  return plus(c, pn_sum(c, own, LAST, 0), count * (count - 1) / 4 * (1 + LOG_PI));
}
/* The derivative of lgamma_n in nu/2; E log det X of Wishart(nu, I) less n log 2 */
static inline T *digamma_n(C *c, D *d, T *df, int64_t n) {
  return pn_sum(c, pn_digamma(c, halves(c, d, df, n)), LAST, 0);
}

/* d in float64, its factor made anew where the matrix was given: densities of float32 lose digits where the logarithms
 * of determinants cancel. */
static inline pn_dist in_double(C *c, D *d, int scale, int tril) {
  pn_dist own = *d;
  own.dtype = PN_FLOAT64;
  for (int k = 0; k < PNI_DIST_PARAMS; k++)
    if (d->param[k]) own.param[k] = pn_cast(c, d->param[k], PN_FLOAT64);
  if (pni_dist_given(d, scale)) own.param[tril] = pn_cholesky(c, own.param[scale]);
  return own;
}

/* log_prob of a kind with density(c, d, x) and parameters SCALE and TRIL */
#define LOG_PROB_IN_DOUBLE                                                                                             \
  static T *log_prob(C *c, D *d, T *x) {                                                                               \
    if (d->dtype == PN_FLOAT64) return density(c, d, x);                                                               \
    pn_dist own = in_double(c, d, SCALE, TRIL);                                                                        \
    if (pni_failed(c)) return NULL;                                                                                    \
    return pn_cast(c, density(c, &own, pn_cast(c, x, PN_FLOAT64)), (pn_dtype)d->dtype);                                \
  }

/* PN_OK if parameter `df` is above n - 1; else PN_DOMAIN. */
pn_status pni_wishart_require_df(C *c, D *d, int df, int64_t n);
/* Positive definite beyond rounding: still so with a diagonal smaller by n (n + 1) units of the dtype, so that the
 * Cholesky factor exists in it (Higham 2002, theorem 10.7). Other matrices have density 0. */
T *pni_wishart_in_support(C *c, D *d, T *x);
/* Bartlett's lower triangular A with A A^T ~ Wishart(nu, I); out: [..., n, n]. */
T *pni_wishart_root(C *c, D *d, pn_rng *rng, T *df, const pni_spec *out);
/* KL of Wishart(nu_p, from from^T) and Wishart(nu_q, to to^T) */
T *pni_wishart_kl(C *c, D *d, T *df_p, T *df_q, T *from, T *to);

/* InverseWishart(nu, l l^T): log density of lx lx^T, moments, entropy, and B with B B^T a draw */
T *pni_inverse_wishart_log_prob(C *c, D *d, T *df, T *l, T *lx);
T *pni_inverse_wishart_mean(C *c, T *df, T *l);
T *pni_inverse_wishart_variance(C *c, T *df, T *l);
T *pni_inverse_wishart_entropy(C *c, D *d, T *df, T *l);
/* E log det X */
T *pni_inverse_wishart_log_det(C *c, D *d, T *df, T *l);
T *pni_inverse_wishart_root(C *c, D *d, pn_rng *rng, T *df, T *l, const pni_spec *out);

#endif
