/*
** multivariate_student_t.c: MultivariateStudentT(df v, loc m, scale S = L L^T) on R^n, z = L^-1 (x - m),
**   log p(x) = lgamma((v + n)/2) - lgamma(v/2) - n/2 log(v pi) - sum log diag L - (v + n)/2 log(1 + |z|^2 / v)
**   mean m (v > 1, else NaN), variance diag(S) v / (v - 2) (v > 2; inf down to 1, NaN from there)
** Kullback-Leibler from a normal law by its moments (v > 2, else inf).
** Draws are m + L e / sqrt(G / (v/2)) with e normal and one G ~ Gamma(v/2) for all components.
*/
#include "matrix.h"

enum { DF, LOC, SCALE, TRIL };
#define df  d->param[DF]
#define loc d->param[LOC]
#define L   d->param[TRIL]

static T *derive_tril(C *c, D *d) { return pn_cholesky(c, d->param[SCALE]); }
static T *derive_scale(C *c, D *d) { return outer(c, L); }

/* lgamma(h + n/2) - lgamma(h) - n/2 log(2 pi h), h = v/2, without the two large numbers: sum over k < n/2 of
 * log(1 + k / h), and for odd n the step of a half from h + (n - 1)/2. */
static T *log_factor(C *c, D *d) {
  int64_t n = last_size(loc), m = n / 2;
  T *h = times(c, df, 0.5);
  T *t = pn_sum(c, pn_log1p(c, pn_div(c, count_by(c, d, m, 1), beside_vector(c, h))), LAST, 0);
  if (n % 2) {
    T *half_log = times(c, pn_log1p(c, pn_div(c, constant(c, d, (double)m), h)), 0.5);
    t = pn_add(c, t, pn_add(c, pni_lgamma_half_step(c, plus(c, h, (double)m)), half_log));
  }
  return plus(c, t, -(double)n * LOG_ROOT_TWO_PI);
}

/* digamma(h + n/2) - digamma(h) in the same way */
static T *slope(C *c, D *d) {
  int64_t n = last_size(loc), m = n / 2;
  T *h = times(c, df, 0.5);
  T *t = pn_sum(c, pn_reciprocal(c, pn_add(c, count_by(c, d, m, 1), beside_vector(c, h))), LAST, 0);
  return n % 2 ? pn_add(c, t, pni_digamma_half_step(c, plus(c, h, (double)m))) : t;
}

static T *log_prob(C *c, D *d, T *x) {
  T *far = pn_log1p(c, pn_div(c, distance_from(c, L, pn_sub(c, x, loc)), df));
  T *power = times(c, pn_mul(c, plus(c, df, (double)last_size(loc)), far), -0.5);
  return pn_add(c, power, pn_sub(c, log_factor(c, d), log_diagonal(c, L)));
}

static T *mean(C *c, D *d) { return only(c, beside_vector(c, above(c, df, 1)), loc, NAN); }

static T *variance(C *c, D *d) {
  T *exists = above(c, df, 2), *v = only(c, exists, df, 3), *ratio = pn_div(c, v, plus(c, v, -2));
  T *other = only(c, above(c, df, 1), pni_like(c, df, INFINITY), NAN);
  T *own = pn_sum(c, pn_square(c, L), LAST, 0);
  return pn_where(c, beside_vector(c, exists), pn_mul(c, own, beside_vector(c, ratio)), beside_vector(c, other));
}

static T *mode(C *c, D *d) { return (void)c, loc; }

/* (v + n)/2 (digamma((v + n)/2) - digamma(v/2)) + sum log diag L less the log of the factor */
static T *entropy(C *c, D *d) {
  T *t = times(c, pn_mul(c, plus(c, df, (double)last_size(loc)), slope(c, d)), 0.5);
  return pn_add(c, t, pn_sub(c, log_diagonal(c, L), log_factor(c, d)));
}

/* n/2 log(2 pi) + log det L_q + (v / (v - 2) |L_q^-1 L_p|^2 + |L_q^-1 (m_p - m_q)|^2) / 2 - entropy; inf for v <= 2 */
T *pni_kl_multivariate_student_t_multivariate_normal(C *c, D *d, D *q) {
  enum { Q_LOC, Q_TRIL = 3 };
  T *exists = above(c, df, 2), *v = only(c, exists, df, 3), *spread = pn_div(c, v, plus(c, v, -2));
  T *l = q->param[Q_TRIL], *trace = pn_mul(c, spread, square_norm(c, unscale(c, l, L)));
  T *shift = distance_from(c, l, pn_sub(c, loc, q->param[Q_LOC]));
  T *cross = pn_add(c, log_diagonal(c, l), times(c, pn_add(c, trace, shift), 0.5));
  T *value = pn_sub(c, plus(c, cross, (double)last_size(loc) * LOG_ROOT_TWO_PI), entropy(c, d));
  return only(c, exists, value, INFINITY);
}

/* Kept finite where v is so small that a draw would overflow. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  pni_spec one = *out;
  one.ndim--;
  T *h = times(c, df, 0.5), *e = apply(c, L, normal_draw(c, rng, out));
  T *stretch = times(c, pn_sub(c, pn_log(c, h), log_gamma(c, rng, h, &one)), 0.5);
  T *s = pn_exp(c, pn_clamp(c, stretch, -INFINITY, log(huge_number(out->dtype)) / 2 - 4));
  return pn_add(c, loc, pn_mul(c, e, beside_vector(c, s)));
}

const pni_distribution pni_dist_multivariate_student_t = {
    .name = "multivariate_student_t",
    .doc = "Student's t on vectors around loc, S = scale_matrix = L L^T, L = scale_tril: log p(x) = "
           "lgamma((df + n) / 2) - lgamma(df / 2) - n / 2 log(df pi) - sum log diag(L) - "
           "(df + n) / 2 log(1 + |L^-1 (x - loc)|^2 / df)",
    .source = "Kotz & Nadarajah 2004, Multivariate t Distributions and Their Applications",
    .moments = "mean loc for df > 1, variance the diagonal of S df / (df - 2) for df > 2, mode loc",
    .param = {{.name = "df", .constraint = &pni_constraint_positive, .axes = ""},
              {.name = "loc", .constraint = &pni_constraint_real_vector, .axes = "n"},
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
    .support = &pni_constraint_real_vector,
    .event = "n",
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .rsample = rsample};
