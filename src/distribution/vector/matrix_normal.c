/*
** matrix_normal.c: MatrixNormal(loc M, row covariance U = A A^T, column covariance V = B B^T) on n x m matrices: the
** covariance of X_ij and X_kl is U_ik V_jl. With Z = A^-1 (X - M) B^-T,
**   log p(X) = -|Z|^2 / 2 - m sum log diag A - n sum log diag B - n m log(2 pi) / 2
** U and V are determined up to a factor that one may pass to the other.
*/
#include "matrix.h"

enum { LOC, ROW, ROW_TRIL, COLUMN, COLUMN_TRIL };
#define loc d->param[LOC]
#define A   d->param[ROW_TRIL]
#define B   d->param[COLUMN_TRIL]

static T *derive_row(C *c, D *d) { return outer(c, A); }
static T *derive_row_tril(C *c, D *d) { return pn_cholesky(c, d->param[ROW]); }
static T *derive_column(C *c, D *d) { return outer(c, B); }
static T *derive_column_tril(C *c, D *d) { return pn_cholesky(c, d->param[COLUMN]); }

/* |A^-1 Y B^-T|^2 */
static T *distance(C *c, D *d, T *y) { return square_norm(c, unscale(c, B, mt(c, unscale(c, A, y)))); }

/* m sum log diag A + n sum log diag B: half of log det of the covariance of all entries */
static T *log_det(C *c, D *d) {
  return pn_add(c, times(c, log_diagonal(c, A), (double)last_size(B)),
                times(c, log_diagonal(c, B), (double)last_size(A)));
}

static double count(D *d) { return (double)(last_size(d->param[ROW_TRIL]) * last_size(d->param[COLUMN_TRIL])); }

static T *log_prob(C *c, D *d, T *x) {
  T *t = pn_sub(c, times(c, distance(c, d, pn_sub(c, x, loc)), -0.5), log_det(c, d));
  return plus(c, t, -count(d) * LOG_ROOT_TWO_PI);
}

static T *mean(C *c, D *d) { return (void)c, loc; }
static T *variance(C *c, D *d) {
  T *row = pn_sum(c, pn_square(c, A), LAST, 1), *column = pn_sum(c, pn_square(c, B), LAST, 0);
  return pn_mul(c, row, pn_unsqueeze(c, column, -2));
}
static T *entropy(C *c, D *d) { return plus(c, log_det(c, d), count(d) * (0.5 + LOG_ROOT_TWO_PI)); }

/* M + A Z B^T */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  T *z = pn_matmul(c, pn_matmul(c, A, normal_draw(c, rng, out)), mt(c, B));
  return pn_add(c, loc, z);
}

/* (tr(U_q^-1 U_p) tr(V_q^-1 V_p) + |M_p - M_q|^2_q - n m) / 2 + log det of q less that of p */
T *pni_kl_matrix_normal_matrix_normal(C *c, D *p, D *d) {
  T *row = square_norm(c, unscale(c, A, p->param[ROW_TRIL]));
  T *trace = pn_mul(c, row, square_norm(c, unscale(c, B, p->param[COLUMN_TRIL])));
  T *t = plus(c, pn_add(c, trace, distance(c, d, pn_sub(c, p->param[LOC], loc))), -count(d));
  return pn_add(c, times(c, t, 0.5), pn_sub(c, log_det(c, d), log_det(c, p)));
}

#define COVARIANCE(id, letters, number, from)                                                                          \
  { .name = id, .constraint = &pni_constraint_positive_definite, .axes = letters, .choice = number, .derive = from }
#define FACTOR(id, letters, number, from)                                                                              \
  {                                                                                                                    \
    .name = id, .constraint = &pni_constraint_lower_cholesky, .axes = letters, .choice = number, .derive = from,       \
    .kept = true                                                                                                       \
  }

const pni_distribution pni_dist_matrix_normal = {
    .name = "matrix_normal",
    .doc = "normal on n x m matrices with mean loc, cov(X_ij, X_kl) = U_ik V_jl, U = covariance_row = A A^T, "
           "V = covariance_column = B B^T: log p(X) = -|A^-1 (X - loc) B^-T|^2 / 2 - m sum log diag(A) - "
           "n sum log diag(B) - n m log(2 pi) / 2",
    .source = "Gupta & Nagar 2000, Matrix Variate Distributions, ch. 2",
    .moments = "mean and mode loc, variance U_ii V_jj",
    .param = {{.name = "loc", .constraint = &pni_constraint_real_matrix, .axes = "nm"},
              COVARIANCE("covariance_row", "nn", 1, derive_row),
              FACTOR("scale_tril_row", "nn", 1, derive_row_tril),
              COVARIANCE("covariance_column", "mm", 2, derive_column),
              FACTOR("scale_tril_column", "mm", 2, derive_column_tril)},
    .support = &pni_constraint_real_matrix,
    .event = "nm",
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mean,
    .entropy = entropy,
    .rsample = rsample};
