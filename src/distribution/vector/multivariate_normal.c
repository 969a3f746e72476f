/*
** multivariate_normal.c: MultivariateNormal(loc m, one of covariance S, precision S^-1, scale_tril L) on R^n with
** S = L L^T, L lower triangular with positive diagonal. Everything is computed from L:
**   log p(x) = -|z|^2 / 2 - sum log diag L - n log(2 pi) / 2,  z = L^-1 (x - m)
**   KL(p || q) = (|L_q^-1 L_p|_F^2 + |L_q^-1 (m_q - m_p)|^2 - n) / 2 + sum log diag L_q - sum log diag L_p
*/
#include <string.h>
#include "matrix.h"

enum { LOC, COVARIANCE, PRECISION, SCALE_TRIL };
#define loc  d->param[LOC]
#define L    d->param[SCALE_TRIL]
#define K(v) pni_like(c, loc, v)

static double size(D *d) { return (double)d->shape[pni_dist_base_ndim(d)]; }

/* ---- the parametrisations ---- */

/* J A J with J the reversed identity. */
static T *reversed(C *c, T *a) { return pn_flip(c, pn_flip(c, a, -1), -2); }

/* With J P J = M M^T the precision is P = U U^T, U = J M J upper triangular, and so L = U^-T. */
static T *derive_scale_tril(C *c, D *d) {
  if (pni_dist_given(d, COVARIANCE)) return pn_cholesky(c, d->param[COVARIANCE]);
  T *u = reversed(c, pn_cholesky(c, reversed(c, d->param[PRECISION])));
  return unscale(c, mt(c, u), identity_like(c, u));
}

static T *derive_covariance(C *c, D *d) { return outer(c, L); }

static T *derive_precision(C *c, D *d) {
  T *inverse = unscale(c, L, identity_like(c, L));
  return pn_matmul(c, mt(c, inverse), inverse);
}

/* ---- functions ---- */

/* One triangle for all: where x is not finite the kernel says so. */
static bool total(D *d) { return pni_distance_fits(L); }

static T *log_prob(C *c, D *d, T *x) {
  T *z2 = total(d) ? pni_distance_from(c, L, x, loc) : distance_from(c, L, pn_sub(c, x, loc));
  T *log_norm = pn_add(c, log_diagonal(c, L), K(size(d) * LOG_ROOT_TWO_PI)), *fall = pn_mul(c, z2, K(-0.5));
  T *lp = pn_sub(c, fall, log_norm);
  return total(d) ? pn_where(c, pn_isfinite(c, z2), lp, fall) : lp; /* at infinity without slopes, the norm's too */
}

static T *mean(C *c, D *d) { return (void)c, loc; }
static T *variance(C *c, D *d) { return pn_sum(c, pn_square(c, L), LAST, 0); }
static T *entropy(C *c, D *d) { return pn_add(c, log_diagonal(c, L), K(size(d) * (0.5 + LOG_ROOT_TWO_PI))); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *z = normal_draw(c, rng, out);
  return pn_add(c, loc, apply(c, L, z));
}

T *pni_kl_multivariate_normal_multivariate_normal(C *c, D *p, D *d) {
  T *ratio = unscale(c, L, p->param[SCALE_TRIL]);
  T *trace = square_norm(c, ratio);
  T *shift = distance_from(c, L, pn_sub(c, loc, p->param[LOC]));
  T *half = pn_mul(c, pn_sub(c, pn_add(c, trace, shift), K(size(d))), K(0.5));
  return pn_add(c, half, pn_sub(c, log_diagonal(c, L), log_diagonal(c, p->param[SCALE_TRIL])));
}

/* ---- against independent normals, with event axes [n] ---- */

/* t [..., n], repeated if it has fewer axes or size 1. */
static T *rows_of(C *c, D *d, T *t, int64_t n) {
  int ndim = t && t->ndim > 0 ? t->ndim : 1;
  int64_t shape[PN_MAX_DIMS] = {n};
  if (t && t->ndim) memcpy(shape, t->shape, sizeof shape);
  shape[ndim - 1] = n;
  return (void)d, pni_dist_expand_to(c, t, ndim, shape);
}

/* sum over i of (v_i + (m_p - m_q)_i^2) / s_i^2 / 2 + log s_i, less the entropy of p */
T *pni_kl_multivariate_normal_normal(C *c, D *p, D *q) {
  int64_t n = p->shape[pni_dist_base_ndim(p)];
  T *s = rows_of(c, q, q->param[1], n), *m = rows_of(c, q, q->param[0], n);
  T *lower = p->param[SCALE_TRIL], *v = variance(c, p);
  T *away = pn_square(c, pn_sub(c, p->param[LOC], m));
  T *ratio = pn_div(c, pn_add(c, v, away), pn_square(c, s));
  T *half = pn_sum(c, pn_mul(c, pn_sub(c, ratio, pni_like(c, ratio, 1)), pni_like(c, ratio, 0.5)), LAST, 0);
  return pn_add(c, half, pn_sub(c, pn_sum(c, pn_log(c, s), LAST, 0), log_diagonal(c, lower)));
}

/* KL(p || q) above with L_p = diag(s) */
T *pni_kl_normal_multivariate_normal(C *c, D *p, D *d) {
  int64_t n = d->shape[pni_dist_base_ndim(d)];
  T *s = rows_of(c, p, p->param[1], n), *m = rows_of(c, p, p->param[0], n);
  T *ratio = pn_solve_triangular(c, L, pn_diag_embed(c, s), 0, 0);
  T *trace = pn_sum(c, pn_square(c, ratio), (pn_axes){2, {-2, -1}}, 0);
  T *shift = pn_sum(c, pn_square(c, whiten(c, L, pn_sub(c, loc, m))), LAST, 0);
  T *half = pn_mul(c, pn_sub(c, pn_add(c, trace, shift), K(size(d))), K(0.5));
  return pn_add(c, half, pn_sub(c, log_diagonal(c, L), pn_sum(c, pn_log(c, s), LAST, 0)));
}

const pni_distribution pni_dist_multivariate_normal = {
    .name = "multivariate_normal",
    .doc = "normal on vectors with mean loc and covariance L L^T, given as covariance, precision or L = scale_tril: "
           "log p(x) = -|L^-1 (x - loc)|^2 / 2 - sum log diag(L) - n log(2 pi) / 2",
    .source = "Kotz, Balakrishnan & Johnson, Continuous Multivariate Distributions 1, ch. 45",
    .moments = "mean and mode loc, variance the diagonal of L L^T",
    .param = {{.name = "loc", .constraint = &pni_constraint_real_vector, .axes = "n"},
              {.name = "covariance_matrix",
               .constraint = &pni_constraint_positive_definite,
               .axes = "nn",
               .choice = 1,
               .derive = derive_covariance},
              {.name = "precision_matrix",
               .constraint = &pni_constraint_positive_definite,
               .axes = "nn",
               .choice = 1,
               .derive = derive_precision},
              {.name = "scale_tril",
               .constraint = &pni_constraint_lower_cholesky,
               .axes = "nn",
               .choice = 1,
               .derive = derive_scale_tril,
               .kept = true}},
    .support = &pni_constraint_real_vector,
    .event = "n",
    .total = total,
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mean,
    .entropy = entropy,
    .rsample = rsample};
