/*
** lkj_cholesky.c: LKJCholesky(dimension n, concentration h): Cholesky factors L of n x n correlation matrices R with
** density proportional to det R^(h - 1) (Lewandowski, Kurowicka & Joe 2009). Row i = 1 .. n - 1 (from 0) of L is a
** unit vector; with b_i = h + (n - 1 - i)/2 and s = h + (n - 1)/2
**   log p(L) = sum_i 2 (b_i - 1) log L_ii - sum_i (i/2 log pi + lgamma(b_i) - lgamma(s)),  L_ii^2 ~ Beta(b_i, i/2)
** a density of the entries below the diagonal. Draws: row i is a vector of i standard normals and sqrt(2 G),
** G ~ Gamma(b_i), divided by its length (the onion method with its beta draw written as gammas).
*/
#include "matrix.h"

enum { DIMENSION, CONCENTRATION };
#define h d->param[CONCENTRATION]

static int64_t size(D *d) { return d->shape[pni_dist_base_ndim(d)]; }
/* rows that are drawn */
static int64_t rows(D *d) { return size(d) > 1 ? size(d) - 1 : 0; }

/* b_i as a last axis, and s */
static T *second(C *c, D *d) {
  T *falling = plus(c, count_by(c, d, rows(d), -0.5), ((double)size(d) - 2) / 2);
  return pn_add(c, beside_vector(c, h), falling);
}
static T *sum_of_two(C *c, D *d) { return plus(c, h, ((double)size(d) - 1) / 2); }

static T *sum(C *c, T *v) { return pn_sum(c, v, LAST, 0); }

static T *log_norm(C *c, D *d) {
  double n = (double)size(d), m = (double)rows(d);
  T *t = pn_sub(c, sum(c, pn_lgamma(c, second(c, d))), times(c, pn_lgamma(c, sum_of_two(c, d)), m));
  return plus(c, t, n * m / 4 * LOG_PI);
}

/* v [..., n - 1] with `first` before it: a diagonal */
static T *after(C *c, D *d, T *v, double first) { return size(d) ? pn_pad(c, v, -1, 1, 0, first) : v; }
/* the diagonal without its first entry */
static T *drawn(C *c, D *d, T *x) {
  T *diagonal = pn_diagonal(c, x);
  return size(d) ? pn_slice(c, diagonal, -1, 1, rows(d), 1) : diagonal;
}

static T *log_prob(C *c, D *d, T *x) {
  T *power = times(c, plus(c, second(c, d), -1), 2);
  return pn_sub(c, sum(c, pn_mul(c, power, pn_log(c, drawn(c, d, x)))), log_norm(c, d));
}

/* log of E L_ii / sqrt(b_i / s), E L_ii = B(b_i + 1/2, i/2) / B(b_i, i/2), as a vector of n - 1 */
static T *log_shrinkage(C *c, D *d) {
  T *total = pni_lgamma_half_step(c, sum_of_two(c, d));
  return pn_sub(c, pni_lgamma_half_step(c, second(c, d)), beside_vector(c, total));
}
/* E L_ii^2 */
static T *square(C *c, D *d) { return pn_div(c, second(c, d), beside_vector(c, sum_of_two(c, d))); }

static T *mean(C *c, D *d) {
  T *diagonal = pn_mul(c, pn_sqrt(c, square(c, d)), pn_exp(c, log_shrinkage(c, d)));
  return pn_diag_embed(c, after(c, d, diagonal, 1));
}

/* Below the diagonal E L_ij^2 = 1 / (2 s); on it E L_ii^2 - (E L_ii)^2. */
static T *variance(C *c, D *d) {
  int64_t n = size(d);
  T *diagonal = pn_neg(c, pn_mul(c, square(c, d), pn_expm1(c, times(c, log_shrinkage(c, d), 2))));
  T *lower = pn_tril(c, pn_full(c, (pn_dtype)d->dtype, 2, (const int64_t[]){n, n}, 0.5), -1);
  lower = pn_div(c, lower, beside_matrix(c, sum_of_two(c, d)));
  return pn_add(c, lower, pn_diag_embed(c, after(c, d, diagonal, 0)));
}

/* The identity for h >= 1; below that the density has poles. */
static T *mode(C *c, D *d) {
  T *eye = pn_eye(c, (pn_dtype)d->dtype, size(d), size(d));
  return but(c, beside_matrix(c, below(c, h, 1)), NAN, eye);
}

/* E log L_ii = (digamma(b_i) - digamma(s)) / 2, as a vector of n - 1 */
static T *expected_log(C *c, D *d) {
  T *t = pn_sub(c, pn_digamma(c, second(c, d)), beside_vector(c, pn_digamma(c, sum_of_two(c, d))));
  return times(c, t, 0.5);
}

static T *entropy(C *c, D *d) {
  T *power = times(c, plus(c, second(c, d), -1), 2);
  return pn_sub(c, log_norm(c, d), sum(c, pn_mul(c, power, expected_log(c, d))));
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  pni_spec one = *out;
  one.shape[--one.ndim - 1] = rows(d);
  T *below_diagonal = pn_tril(c, normal_draw(c, rng, out), -1);
  T *log_square = plus(c, log_gamma(c, rng, second(c, d), &one), LOG_2);
  T *diagonal = pn_exp(c, times(c, pn_clamp(c, log_square, log(tiny(out->dtype)), INFINITY), 0.5));
  T *x = pn_add(c, below_diagonal, pn_diag_embed(c, after(c, d, diagonal, 1)));
  return pn_div(c, x, pn_sqrt(c, pn_sum(c, pn_square(c, x), LAST, 1)));
}

/* 2 (h_p - h_q) sum_i E_p log L_ii + log norm of q less that of p */
T *pni_kl_lkj_cholesky_lkj_cholesky(C *c, D *p, D *q) {
  T *more = times(c, pn_sub(c, p->param[CONCENTRATION], q->param[CONCENTRATION]), 2);
  T *t = pn_mul(c, more, sum(c, expected_log(c, p)));
  return pn_add(c, t, pn_sub(c, log_norm(c, q), log_norm(c, p)));
}

const pni_distribution pni_dist_lkj_cholesky = {
    .name = "lkj_cholesky",
    .doc = "Cholesky factors L of correlation matrices R = L L^T, n = dimension, with density of R proportional to "
           "det(R)^(concentration - 1): log p(L) = sum (n - i + 2 concentration - 2) log(L_ii) + const, i = 2 .. n, a "
           "density of the entries below the diagonal",
    .source = "Lewandowski, Kurowicka & Joe 2009; Stan functions reference, Cholesky LKJ",
    .moments = "mean diagonal, E[L_ii^2] = b / (b + (i - 1) / 2), b = concentration + (n - i) / 2; mode the unit "
               "matrix for concentration >= 1",
    .param =
        {{.name = "dimension",
          .constraint = &pni_constraint_nonnegative_integer,
          .axes = "",
          .size = 'n',
          .example = 3},
         {.name = "concentration", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1}},
    .support = &pni_constraint_correlation_cholesky,
    .event = "nn",
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
