/*
** wishart.c: Wishart(df nu, scale V = L L^T) on symmetric positive definite n x n matrices, nu > n - 1,
**   log p(X) = (nu - n - 1)/2 log det X - tr(V^-1 X)/2 - nu n/2 log 2 - nu/2 log det V - log Gamma_n(nu/2)
**   mean nu V, variance nu (V_ij^2 + V_ii V_jj)
** a density of the n (n + 1)/2 entries on and below the diagonal. Draws are (L A)(L A)^T with Bartlett's (1933) A:
** A_ii^2 ~ chi-square(nu - i), i = 0 .. n - 1, and standard normals below the diagonal.
*/
#include "wishart.h"
#include "../count/count_mass.h"

enum { DF, SCALE, TRIL };
#define df d->param[DF]
#define L  d->param[TRIL]

static int64_t size(D *d) { return d->shape[pni_dist_base_ndim(d)]; }

pn_status pni_wishart_require_df(C *c, D *d, int k, int64_t n) {
  T *room = plus(c, d->param[k], 1 - (double)n);
  return room ? pni_constraint_require(c, &pni_constraint_positive, d->kind->name, "df - (n - 1)", room) : c->status;
}

T *pni_wishart_in_support(C *c, D *d, T *x) {
  double n = (double)last_size(x), unit = d->dtype == PN_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
  T *shrink = from(c, 1, times(c, identity_like(c, x), n * (n + 1) * unit));
  return pni_constraint_mask(c, &pni_constraint_positive_definite, pn_mul(c, x, shrink));
}

T *pni_wishart_root(C *c, D *d, pn_rng *rng, T *nu, const pni_spec *out) {
  pni_spec rows = *out;
  rows.ndim--;
  T *below = pn_tril(c, normal_draw(c, rng, out), -1);
  T *log_square = plus(c, log_gamma(c, rng, halves(c, d, nu, out->shape[out->ndim - 1]), &rows), LOG_2);
  T *diagonal = pn_exp(c, times(c, pn_clamp(c, log_square, log(tiny(out->dtype)), INFINITY), 0.5));
  return pn_add(c, below, pn_diag_embed(c, diagonal));
}

/* nu_p/2 (tr(V_q^-1 V_p) - n) - nu_q/2 log det(V_q^-1 V_p) + log Gamma_n(nu_q/2) - log Gamma_n(nu_p/2)
 * + (nu_p - nu_q)/2 digamma_n(nu_p/2) */
T *pni_wishart_kl(C *c, D *d, T *df_p, T *df_q, T *from, T *to) {
  int64_t n = last_size(from);
  T *trace = plus(c, square_norm(c, unscale(c, to, from)), -(double)n);
  T *t = times(c, pn_mul(c, df_p, trace), 0.5);
  t = pn_sub(c, t, pn_mul(c, df_q, pn_sub(c, log_diagonal(c, from), log_diagonal(c, to))));
  T *hp = halves(c, d, df_p, n), *hq = halves(c, d, df_q, n);
  return pn_add(c, t, pn_sum(c, pn_add(c, pni_deviance(c, hq, hp), pni_lgamma_bend(c, hp, hq)), LAST, 0));
}

static T *derive_tril(C *c, D *d) { return pn_cholesky(c, d->param[SCALE]); }
static T *derive_scale(C *c, D *d) { return outer(c, L); }
static pn_status check(C *c, D *d) { return pni_wishart_require_df(c, d, DF, size(d)); }

/* nu n/2 log 2 + nu/2 log det V + log Gamma_n(nu/2) */
static T *log_norm(C *c, D *d) {
  T *per_df = plus(c, log_diagonal(c, L), (double)size(d) * LOG_2 / 2);
  return pn_add(c, pn_mul(c, df, per_df), lgamma_n(c, d, df, size(d)));
}

static T *density(C *c, D *d, T *x) {
  T *lx = pn_cholesky(c, x), *power = plus(c, df, -(double)size(d) - 1);
  T *t = pn_sub(c, pn_mul(c, power, log_diagonal(c, lx)), times(c, square_norm(c, unscale(c, L, lx)), 0.5));
  return pn_sub(c, t, log_norm(c, d));
}
LOG_PROB_IN_DOUBLE

static T *mean(C *c, D *d) { return pn_mul(c, beside_matrix(c, df), outer(c, L)); }

static T *variance(C *c, D *d) {
  T *v = outer(c, L), *own = pn_diagonal(c, v);
  T *both = pn_mul(c, pn_unsqueeze(c, own, -1), pn_unsqueeze(c, own, -2));
  return pn_mul(c, beside_matrix(c, df), pn_add(c, pn_square(c, v), both));
}

/* (nu - n - 1) V, 0 where the density has a pole at singular matrices */
static T *mode(C *c, D *d) {
  return pn_mul(c, beside_matrix(c, pn_relu(c, plus(c, df, -(double)size(d) - 1))), outer(c, L));
}

/* log norm - (nu - n - 1)/2 E log det X + nu n/2,  E log det X = digamma_n(nu/2) + n log 2 + log det V */
static T *entropy(C *c, D *d) {
  double n = (double)size(d);
  T *log_det = plus(c, times(c, log_diagonal(c, L), 2), n * LOG_2);
  return pn_add(c, surprise_n(c, d, df, size(d), n + 1), times(c, log_det, (n + 1) / 2));
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return outer(c, pn_matmul(c, L, pni_wishart_root(c, d, rng, df, out)));
}

T *pni_kl_wishart_wishart(C *c, D *p, D *q) {
  return pni_wishart_kl(c, p, p->param[DF], q->param[DF], p->param[TRIL], q->param[TRIL]);
}

const pni_distribution pni_dist_wishart = {
    .name = "wishart",
    .doc = "positive definite n x n matrices with mean df V, V = scale_matrix = L L^T, L = scale_tril, df > n - 1: "
           "log p(X) = (df - n - 1) / 2 log(det(X)) - tr(V^-1 X) / 2 - df n / 2 log(2) - df / 2 log(det(V)) - "
           "log(Gamma_n(df / 2)), a density of the entries on and below the diagonal",
    .source = "Muirhead 1982, Aspects of Multivariate Statistical Theory, ch. 3",
    .moments = "mean df V, variance df (V_ij^2 + V_ii V_jj), mode (df - n - 1) V for df > n + 1; "
               "E log(det(X)) = sum digamma((df - i) / 2) + n log(2) + log(det(V)), i = 0 .. n - 1",
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
