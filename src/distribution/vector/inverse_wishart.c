/*
** inverse_wishart.c: InverseWishart(df nu, scale S = L L^T) on symmetric positive definite n x n matrices, the
** inverses of Wishart(nu, S^-1), nu > n - 1,
**   log p(X) = nu/2 log det S - nu n/2 log 2 - log Gamma_n(nu/2) - (nu + n + 1)/2 log det X - tr(S X^-1)/2
**   mean S / (nu - n - 1) for nu > n + 1,
**   variance ((nu - n + 1) S_ij^2 + (nu - n - 1) S_ii S_jj) / ((nu - n) (nu - n - 1)^2 (nu - n - 3)) for nu > n + 3
** Draws are B B^T, B = L A^-T with Bartlett's A: the inverse of (L^-T A)(L^-T A)^T.
*/
#include "wishart.h"

enum { DF, SCALE, TRIL };
#define df d->param[DF]
#define L  d->param[TRIL]

/* nu/2 log det S - nu n/2 log 2 - log Gamma_n(nu/2) */
static T *log_factor(C *c, D *d, T *nu, T *l) {
  int64_t n = last_size(l);
  T *per_df = plus(c, log_diagonal(c, l), -(double)n * LOG_2 / 2);
  return pn_sub(c, pn_mul(c, nu, per_df), lgamma_n(c, d, nu, n));
}

T *pni_inverse_wishart_log_prob(C *c, D *d, T *nu, T *l, T *lx) {
  T *power = pn_mul(c, plus(c, nu, (double)last_size(l) + 1), log_diagonal(c, lx));
  T *t = pn_add(c, power, times(c, square_norm(c, unscale(c, lx, l)), 0.5));
  return pn_sub(c, log_factor(c, d, nu, l), t);
}

/* nu - n - least where that is positive, as [..., 1, 1]; *exists says where it is */
static T *excess(C *c, T *nu, T *l, double least, T **exists) {
  T *e = plus(c, beside_matrix(c, nu), -(double)last_size(l) - least);
  *exists = above(c, e, 0);
  return only(c, *exists, e, 1);
}

T *pni_inverse_wishart_mean(C *c, T *nu, T *l) {
  T *exists, *e = excess(c, nu, l, 1, &exists);
  return only(c, exists, pn_div(c, outer(c, l), e), NAN);
}

T *pni_inverse_wishart_variance(C *c, T *nu, T *l) {
  T *exists, *e = excess(c, nu, l, 3, &exists), *s = outer(c, l), *own = pn_diagonal(c, s);
  T *both = pn_mul(c, pn_unsqueeze(c, own, -1), pn_unsqueeze(c, own, -2));
  T *top = pn_add(c, pn_mul(c, plus(c, e, 4), pn_square(c, s)), pn_mul(c, plus(c, e, 2), both));
  T *bottom = pn_mul(c, pn_mul(c, plus(c, e, 3), pn_square(c, plus(c, e, 2))), e);
  return only(c, exists, pn_div(c, top, bottom), NAN);
}

/* log det S - n log 2 - digamma_n(nu/2) */
T *pni_inverse_wishart_log_det(C *c, D *d, T *nu, T *l) {
  int64_t n = last_size(l);
  return plus(c, pn_sub(c, times(c, log_diagonal(c, l), 2), digamma_n(c, d, nu, n)), -(double)n * LOG_2);
}

/* (nu n + (nu + n + 1) E log det X) / 2 less the log of the factor */
T *pni_inverse_wishart_entropy(C *c, D *d, T *nu, T *l) {
  double n = (double)last_size(l);
  T *log_det = plus(c, times(c, log_diagonal(c, l), 2), -n * LOG_2);
  return pn_add(c, surprise_n(c, d, nu, last_size(l), -(n + 1)), times(c, log_det, (n + 1) / 2));
}

T *pni_inverse_wishart_root(C *c, D *d, pn_rng *rng, T *nu, T *l, const pni_spec *out) {
  return mt(c, unscale(c, pni_wishart_root(c, d, rng, nu, out), mt(c, l)));
}

static T *derive_tril(C *c, D *d) { return pn_cholesky(c, d->param[SCALE]); }
static T *derive_scale(C *c, D *d) { return outer(c, L); }
static pn_status check(C *c, D *d) { return pni_wishart_require_df(c, d, DF, last_size(L)); }

static T *density(C *c, D *d, T *x) { return pni_inverse_wishart_log_prob(c, d, df, L, pn_cholesky(c, x)); }
LOG_PROB_IN_DOUBLE

static T *mean(C *c, D *d) { return pni_inverse_wishart_mean(c, df, L); }
static T *variance(C *c, D *d) { return pni_inverse_wishart_variance(c, df, L); }
static T *entropy(C *c, D *d) { return pni_inverse_wishart_entropy(c, d, df, L); }
static T *mode(C *c, D *d) { return pn_div(c, outer(c, L), plus(c, beside_matrix(c, df), (double)last_size(L) + 1)); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return outer(c, pni_inverse_wishart_root(c, d, rng, df, L, out));
}

/* That of the inverses, Wishart(nu, S^-1). */
T *pni_kl_inverse_wishart_inverse_wishart(C *c, D *p, D *q) {
  return pni_wishart_kl(c, p, p->param[DF], q->param[DF], q->param[TRIL], p->param[TRIL]);
}

const pni_distribution pni_dist_inverse_wishart = {
    .name = "inverse_wishart",
    .doc = "inverses of wishart(df, S^-1), n x n, S = scale_matrix = L L^T, L = scale_tril, df > n - 1: log p(X) = "
           "df / 2 log(det(S)) - df n / 2 log(2) - log(Gamma_n(df / 2)) - (df + n + 1) / 2 log(det(X)) - "
           "tr(S X^-1) / 2, a density of the entries on and below the diagonal",
    .source = "Gelman et al., Bayesian Data Analysis, app. A; variance: von Rosen 1988",
    .moments =
        "mean S / (df - n - 1), variance ((df - n + 1) S_ij^2 + (df - n - 1) S_ii S_jj) / ((df - n) (df - n - 1)^2 "
        "(df - n - 3)), else NaN or inf; mode S / (df + n + 1)",
    .param = {{.name = "df", .constraint = &pni_constraint_positive, .axes = "", .example = 7},
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
    .support = &pni_constraint_positive_definite,
    .event = "nn",
    .flags = PNI_DIST_IN_DOUBLE,
    .check = check,
    .in_support = pni_wishart_in_support,
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
