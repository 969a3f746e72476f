/*
** normal_inverse_wishart.c: NormalInverseWishart(loc m, count k, df nu, scale S = L L^T) on pairs of a mean mu and a
** covariance X: X ~ InverseWishart(nu, S), mu | X ~ Normal(m, X / k), the conjugate prior of both. A value is an
** (n + 1) x n matrix: mu in its first row, X below.
**   log p(mu, X) = log p(X) + (n log(k / (2 pi)) - log det X - k (mu - m)^T X^-1 (mu - m)) / 2
*/
#include "wishart.h"

enum { LOC, COUNT, DF, SCALE, TRIL };
#define m  d->param[LOC]
#define k  d->param[COUNT]
#define df d->param[DF]
#define L  d->param[TRIL]

static T *derive_tril(C *c, D *d) { return pn_cholesky(c, d->param[SCALE]); }
static T *derive_scale(C *c, D *d) { return outer(c, L); }
static pn_status check(C *c, D *d) { return pni_wishart_require_df(c, d, DF, last_size(L)); }

/* mu above X, both repeated to the axes before the last two of a value with this shape */
static T *couple(C *c, T *mu, T *x, int ndim, const int64_t *shape) {
  int64_t own[PN_MAX_DIMS];
  for (int i = 0; i < ndim; i++) own[i] = shape[i];
  own[ndim - 2] = 1;
  T *row = pni_dist_expand_to(c, pn_unsqueeze(c, mu, -2), ndim, own);
  own[ndim - 2] = own[ndim - 1];
  T *both[2] = {row, pni_dist_expand_to(c, x, ndim, own)};
  return both[0] && both[1] ? pn_concatenate(c, 2, both, -2) : NULL;
}

static T *value(C *c, D *d, T *mu, T *x) { return couple(c, mu, x, pni_dist_base_ndim(d) + 2, d->shape); }

static T *in_support(C *c, D *d, T *x) {
  T *finite = pni_constraint_mask(c, &pni_constraint_real_vector, pn_select(c, x, -2, 0));
  return pn_logical_and(c, finite, pni_wishart_in_support(c, d, pn_slice(c, x, -2, 1, last_size(L), 1)));
}

static T *density(C *c, D *d, T *x) {
  int64_t n = last_size(L);
  T *lx = pn_cholesky(c, pn_slice(c, x, -2, 1, n, 1)), *mu = pn_select(c, x, -2, 0);
  T *distance = pn_mul(c, k, distance_from(c, lx, pn_sub(c, mu, m)));
  T *t = times(c, pn_sub(c, times(c, pn_log(c, k), (double)n), distance), 0.5);
  t = plus(c, pn_sub(c, t, log_diagonal(c, lx)), -(double)n * LOG_ROOT_TWO_PI);
  return pn_add(c, t, pni_inverse_wishart_log_prob(c, d, df, L, lx));
}
LOG_PROB_IN_DOUBLE

/* mu is Student's t with nu - n + 1 degrees of freedom. */
static T *mean(C *c, D *d) {
  T *exists = above(c, plus(c, df, -(double)last_size(L)), 0);
  return value(c, d, only(c, beside_vector(c, exists), m, NAN), pni_inverse_wishart_mean(c, df, L));
}

static T *variance(C *c, D *d) {
  T *of_mean = pn_div(c, pn_diagonal(c, pni_inverse_wishart_mean(c, df, L)), beside_vector(c, k));
  return value(c, d, of_mean, pni_inverse_wishart_variance(c, df, L));
}

/* (m, S / (nu + n + 2)) */
static T *mode(C *c, D *d) {
  T *x = pn_div(c, outer(c, L), plus(c, beside_matrix(c, df), (double)last_size(L) + 2));
  return value(c, d, m, x);
}

/* that of X, and the mean over X of that of mu */
static T *entropy(C *c, D *d) {
  double n = (double)last_size(L);
  T *of_mean = pn_sub(c, pni_inverse_wishart_log_det(c, d, df, L), times(c, pn_log(c, k), n));
  T *t = plus(c, times(c, of_mean, 0.5), n * (0.5 + LOG_ROOT_TWO_PI));
  return pn_add(c, t, pni_inverse_wishart_entropy(c, d, df, L));
}

/* With X = B B^T, mu = m + B z / sqrt(k). */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  pni_spec matrix = *out, vector = *out;
  vector.ndim--;
  vector.shape[vector.ndim - 1] = matrix.shape[matrix.ndim - 2] = last_size(L);
  T *b = pni_inverse_wishart_root(c, d, rng, df, L, &matrix), *z = normal_draw(c, rng, &vector);
  T *mu = pn_add(c, m, pn_div(c, apply(c, b, z), beside_vector(c, pn_sqrt(c, k))));
  return couple(c, mu, outer(c, b), out->ndim, out->shape);
}

/* KL of X and E_p of the KL of mu given X,
 * (n (k_q / k_p - 1 - log(k_q / k_p)) + k_q nu_p (m_p - m_q)^T S_p^-1 (m_p - m_q)) / 2 */
T *pni_kl_normal_inverse_wishart_normal_inverse_wishart(C *c, D *p, D *q) {
  T *lp = p->param[TRIL], *ratio = pn_div(c, q->param[COUNT], p->param[COUNT]);
  T *far = distance_from(c, lp, pn_sub(c, p->param[LOC], q->param[LOC]));
  T *t = times(c, pn_sub(c, plus(c, ratio, -1), pn_log(c, ratio)), (double)last_size(lp));
  t = pn_add(c, t, pn_mul(c, pn_mul(c, q->param[COUNT], p->param[DF]), far));
  return pn_add(c, times(c, t, 0.5), pni_wishart_kl(c, p, p->param[DF], q->param[DF], q->param[TRIL], lp));
}

const pni_distribution pni_dist_normal_inverse_wishart = {
    .name = "normal_inverse_wishart",
    .doc = "a mean mu (first row of a value) and a covariance X (the n rows below it): X ~ inverse_wishart(df, "
           "scale_matrix), mu | X ~ normal with mean loc and covariance X / count; log p(mu, X) is the sum of the two",
    .source = "Gelman et al., Bayesian Data Analysis, section 3.6",
    .moments = "mean (loc, S / (df - n - 1)), variance of mu the diagonal of S / (count (df - n - 1)), of X that of "
               "inverse_wishart; mode (loc, S / (df + n + 2)); S = scale_matrix",
    .param = {{.name = "loc", .constraint = &pni_constraint_real_vector, .axes = "n"},
              {.name = "count", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "df", .constraint = &pni_constraint_positive, .axes = "", .example = 7},
              {.name = "scale_matrix",
               .constraint = &pni_constraint_positive_definite,
               .axes = "nn",
               .choice = 1,
               .derive = derive_scale},
              {.name = "scale_tril",
               .constraint = &pni_constraint_lower_cholesky,
               .axes = "nn",
               .choice = 1,
               .derive = derive_tril,
               .kept = true}},
    .support = &pni_constraint_mean_and_covariance,
    .event = "Nn",
    .flags = PNI_DIST_IN_DOUBLE,
    .check = check,
    .in_support = in_support,
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
