/*
** low_rank_multivariate_normal.c: LowRankMultivariateNormal(loc m, cov_factor W [n, r], cov_diag D) on R^n with
** covariance S = W W^T + diag(D). Everything is computed from the capacitance K = I + W^T D^-1 W, r x r, K = L L^T:
**   log det S = sum log D + log det K            (matrix determinant lemma)
**   y^T S^-1 y = |D^-1/2 (y - W u)|^2 + |u|^2, u = K^-1 W^T D^-1 y, the least over all u
** the last by Woodbury's identity without its difference y^T D^-1 y - u^T K u, whose terms are larger by the norm of K.
** KL to and from full covariances as well, by the same two and
**   KL(p || q) = (tr(S_q^-1 S_p) + |m_q - m_p|^2_q - n + log det S_q - log det S_p) / 2,  tr(S_q^-1 M M^T) = |M|^2_q
*/
#include <string.h>
#include "matrix.h"

enum { LOC, FACTOR, DIAGONAL, FULL_TRIL = 3 };
#define loc  d->param[LOC]
#define W    d->param[FACTOR]
#define diag d->param[DIAGONAL]

/* What does not depend on values is computed in float64 for either dtype: K is as badly conditioned as the larger part
 * of S is large against the smaller. */
static T *in_double(C *c, T *t) { return pn_cast(c, t, PN_FLOAT64); }
static T *narrow(C *c, D *d, T *t) { return pn_cast(c, t, (pn_dtype)d->dtype); }

/* D^-1 W */
static T *weighed_factor(C *c, D *d) { return pn_div(c, in_double(c, W), beside_vector(c, in_double(c, diag))); }

/* W^T D^-1 W. Of one factor for many diagonals D a product of the reciprocals with the rows W_ia W_ib. */
static T *inner(C *c, D *d) {
  int ndim = diag->ndim + 1;
  T *w = in_double(c, W);
  if (!w || w->ndim > 2 || ndim < 3 || ndim > PN_MAX_DIMS) return pn_matmul(c, mt(c, w), weighed_factor(c, d));
  int64_t n = w->shape[0], r = w->shape[1], shape[PN_MAX_DIMS];
  T *pairs = pn_mul(c, pn_unsqueeze(c, w, -1), pn_unsqueeze(c, w, -2));
  T *k = pn_matmul(c, pn_reciprocal(c, in_double(c, diag)), pn_reshape(c, pairs, 2, (int64_t[]){n, r * r}));
  memcpy(shape, diag->shape, sizeof shape);
  shape[ndim - 2] = shape[ndim - 1] = r;
  return pn_reshape(c, k, ndim, shape);
}

static T *capacitance(C *c, D *d) {
  T *k = inner(c, d);
  return pn_cholesky(c, pn_add(c, k, identity_like(c, k)));
}

/* log det S */
static T *log_det(C *c, D *d, T *l) {
  T *own = pn_sum(c, pn_log(c, in_double(c, diag)), LAST, 0);
  return narrow(c, d, pn_add(c, own, times(c, log_diagonal(c, l), 2)));
}

/* G = K^-1 W^T D^-1 */
static T *gain(C *c, D *d, T *l) {
  T *half = unscale(c, l, mt(c, weighed_factor(c, d)));
  return narrow(c, d, pn_solve_triangular(c, l, half, 0, 1));
}

/* y^T S^-1 y of vectors */
static T *distance(C *c, D *d, T *l, T *y) {
  T *u = apply(c, gain(c, d, l), y), *rest = pn_sub(c, y, apply(c, W, u));
  return pn_add(c, square_length(c, u), pn_sum(c, pn_div(c, pn_square(c, rest), diag), LAST, 0));
}

/* tr(M^T S^-1 M) of matrices [..., n, k] */
static T *trace(C *c, D *d, T *l, T *m) {
  T *u = pn_matmul(c, gain(c, d, l), m), *rest = pn_sub(c, m, pn_matmul(c, W, u));
  return pn_add(c, square_norm(c, u), pn_sum(c, pn_div(c, pn_square(c, rest), beside_vector(c, diag)), LAST_TWO, 0));
}

static T *log_prob(C *c, D *d, T *x) {
  T *l = capacitance(c, d), *t = pn_add(c, distance(c, d, l, pn_sub(c, x, loc)), log_det(c, d, l));
  return times(c, plus(c, t, 2 * LOG_ROOT_TWO_PI * (double)last_size(loc)), -0.5);
}

static T *mean(C *c, D *d) { return (void)c, loc; }
static T *variance(C *c, D *d) { return pn_add(c, pn_sum(c, pn_square(c, W), LAST, 0), diag); }
static T *entropy(C *c, D *d) {
  T *half = times(c, log_det(c, d, capacitance(c, d)), 0.5);
  return plus(c, half, (double)last_size(loc) * (0.5 + LOG_ROOT_TWO_PI));
}

/* m + W e + sqrt(D) z with standard normal e [r] and z [n] */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  pni_spec inner = *out;
  inner.shape[inner.ndim - 1] = last_size(W);
  T *shared = apply(c, W, normal_draw(c, rng, &inner));
  T *own = pn_mul(c, pn_sqrt(c, diag), normal_draw(c, rng, out));
  return pn_add(c, loc, pn_add(c, shared, own));
}

/* (trace + distance - n + log det S_q - log det S_p) / 2 */
static T *half_sum(C *c, D *q, T *trace_of_p, T *far, T *log_det_q, T *log_det_p) {
  T *t = plus(c, pn_add(c, trace_of_p, far), -(double)last_size(q->param[LOC]));
  return times(c, pn_add(c, t, pn_sub(c, log_det_q, log_det_p)), 0.5);
}

static T *shift(C *c, D *p, D *q) { return pn_sub(c, q->param[LOC], p->param[LOC]); }

/* diag(sqrt D) as a matrix */
static T *root(C *c, D *d) { return pn_diag_embed(c, pn_sqrt(c, diag)); }

T *pni_kl_low_rank_multivariate_normal_low_rank_multivariate_normal(C *c, D *p, D *q) {
  T *l = capacitance(c, q), *from_factor = trace(c, q, l, p->param[FACTOR]);
  T *from_diagonal = trace(c, q, l, root(c, p));
  return half_sum(c, q, pn_add(c, from_factor, from_diagonal), distance(c, q, l, shift(c, p, q)), log_det(c, q, l),
                  log_det(c, p, capacitance(c, p)));
}

T *pni_kl_low_rank_multivariate_normal_multivariate_normal(C *c, D *p, D *q) {
  T *l = q->param[FULL_TRIL], *from_factor = square_norm(c, unscale(c, l, p->param[FACTOR]));
  T *from_diagonal = square_norm(c, unscale(c, l, root(c, p)));
  return half_sum(c, q, pn_add(c, from_factor, from_diagonal), distance_from(c, l, shift(c, p, q)),
                  times(c, log_diagonal(c, l), 2), log_det(c, p, capacitance(c, p)));
}

T *pni_kl_multivariate_normal_low_rank_multivariate_normal(C *c, D *p, D *q) {
  T *l = capacitance(c, q), *own = p->param[FULL_TRIL];
  return half_sum(c, q, trace(c, q, l, own), distance(c, q, l, shift(c, p, q)), log_det(c, q, l),
                  times(c, log_diagonal(c, own), 2));
}

const pni_distribution pni_dist_low_rank_multivariate_normal = {
    .name = "low_rank_multivariate_normal",
    .doc = "normal on vectors with mean loc and covariance S = W W^T + diag(cov_diag), W = cov_factor [n, r]: "
           "log p(x) = -(x - loc)^T S^-1 (x - loc) / 2 - log(det(S)) / 2 - n log(2 pi) / 2",
    .source = "Woodbury 1950; Harville, Matrix Algebra From a Statistician's Perspective, theorem 18.1.1",
    .moments = "mean and mode loc, variance the diagonal of S",
    .param = {{.name = "loc", .constraint = &pni_constraint_real_vector, .axes = "n"},
              {.name = "cov_factor", .constraint = &pni_constraint_real_matrix, .axes = "nr"},
              {.name = "cov_diag", .constraint = &pni_constraint_positive_vector, .axes = "n"}},
    .support = &pni_constraint_real_vector,
    .event = "n",
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mean,
    .entropy = entropy,
    .rsample = rsample};
