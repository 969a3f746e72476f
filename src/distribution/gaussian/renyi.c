/*
** renyi.c: the divergence of order a of two Gaussians (Gil, Alajaji & Linder 2013, table 2),
**   D_a(p || q) = a (m_p - m_q) . S^-1 (m_p - m_q) / 2 - (log det S - (1 - a) log det S_p - a log det S_q) / (2 (a -
**   1)), S = a S_q + (1 - a) S_p
** for a > 0, a != 1; infinite where S is not positive (possible for a > 1 alone); a = 1 is the Kullback-Leibler one.
** Near a = 1 the logarithms cancel. With e = a - 1, M = L_q^-1 S_p L_q^-T and X = I - M the second term is
**   (log det(I + e X) / e + log det M) / 2,
** which numbers take as log1p(e x) / e and vectors, where e |X| is small, as
** tr X - e tr X^2 / 2 + e^2 tr X^3 / 3 - e^3 tr X^4 / 4.
*/
#include <string.h>
#include "../formula.h"

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }

static T *of_numbers(C *c, D *p, D *q, double a) {
  double e = a - 1;
  T *vq = pn_dist_variance(c, q), *ratio = pn_div(c, pn_dist_variance(c, p), vq);
  T *rise = times(c, from(c, 1, ratio), e), *ok = above(c, rise, -1), *safe = only(c, ok, rise, 0); /* S / v_q - 1 */
  T *apart =
      pn_div(c, pn_square(c, pn_sub(c, pn_dist_mean(c, p), pn_dist_mean(c, q))), pn_mul(c, vq, plus(c, safe, 1)));
  T *logs = pn_add(c, times(c, pn_log1p(c, safe), 1 / e), pn_log(c, ratio));
  return only(c, ok, times(c, pn_sub(c, times(c, apart, a), logs), 0.5), INFINITY);
}

/* 2 sum log diag L = log det S */
static T *log_det(C *c, T *lower) { return times(c, pn_sum(c, pn_log(c, pn_diagonal(c, lower)), LAST, 0), 2); }

#define MATRIX ((pn_axes){2, {-2, -1}})
static T *inner(C *c, T *x, T *y) { return pn_sum(c, pn_mul(c, x, y), MATRIX, 0); }

/* log det(I + e X) / e out of the Cholesky factor of I + e X, or by the series where |e X|_F < 1e-3 and its next term
 * is below 1e-12 of the first. */
static T *log_det_over(C *c, T *lower, T *x, double e) {
  T *far = times(c, log_det(c, lower), 1 / e), *x2 = pn_matmul(c, x, x), *size = inner(c, x, x);
  T *small = below(c, times(c, size, e * e), 1e-6), *over = pn_unsqueeze(c, pn_unsqueeze(c, small, -1), -1);
  x = only(c, over, x, 0), x2 = only(c, over, x2, 0);
  T *trace = pn_sum(c, pn_diagonal(c, x), LAST, 0);
  T *t = pn_sub(c, times(c, inner(c, x2, x), e / 3), times(c, inner(c, x2, x2), e * e / 4));
  t = pn_sub(c, t, times(c, inner(c, x, x), 0.5));
  return pn_where(c, small, pn_add(c, trace, times(c, t, e)), far);
}

/* L with L L^T the covariance: given, or of independent normals. */
static T *lower_of(C *c, D *d) {
  if (d->kind == &pni_dist_multivariate_normal) return pn_dist_param(c, d, "scale_tril");
  return pn_diag_embed(c, pn_sqrt(c, pn_dist_variance(c, d)));
}

/* I + e X is positive where all its eigenvalues are; others are replaced by I and then by infinity. */
static T *of_vectors(C *c, D *p, D *q, double a) {
  double e = a - 1;
  T *lp = lower_of(c, p), *lq = lower_of(c, q), *ratio = pn_solve_triangular(c, lq, lp, 0, 0);
  T *m = pn_matmul(c, ratio, mt(c, ratio));
  int64_t n = m ? m->shape[m->ndim - 1] : 0;
  T *eye = pn_eye(c, (pn_dtype)p->dtype, n, n), *x = pn_sub(c, eye, m), *s = pn_add(c, eye, times(c, x, e));
  int old = pn_set_no_grad(c, 1);
  T *ok = pni_constraint_mask(c, &pni_constraint_positive_definite, s);
  T *over = pn_unsqueeze(c, pn_unsqueeze(c, ok, -1), -1);
  pn_set_no_grad(c, old);
  T *l = pn_cholesky(c, pn_where(c, over, s, eye));
  T *shift = pn_unsqueeze(c, pn_sub(c, pn_dist_mean(c, p), pn_dist_mean(c, q)), -1);
  T *white = pn_solve_triangular(c, l, pn_solve_triangular(c, lq, shift, 0, 0), 0, 0);
  T *apart = pn_sum(c, pn_square(c, white), MATRIX, 0);
  T *logs = pn_add(c, log_det_over(c, l, x, e), log_det(c, ratio));
  return only(c, ok, times(c, pn_sub(c, times(c, apart, a), logs), 0.5), INFINITY);
}

/* Axes of an event that a matrix covers: 0 for a normal, 1 for a multivariate one; -1: no Gaussian. */
static int own_rank(D *d) {
  if (d->kind == &pni_dist_multivariate_normal) return 1;
  return d->kind == &pni_dist_normal ? 0 : -1;
}

pn_tensor *pn_dist_renyi(C *c, D *p, D *q, double a) {
  if (!PNI_GIVEN(c, "dist_renyi", p, q)) return NULL;
  int rp = own_rank(p), rq = own_rank(q), rank = rp > rq ? rp : rq;
  int moved = p->event_ndim - rank;
  const int64_t *ep = p->shape + p->batch_ndim, *eq = q->shape + q->batch_ndim;
  bool same = p->event_ndim == q->event_ndim && memcmp(ep, eq, (size_t)p->event_ndim * sizeof *ep) == 0;
  if (rp < 0 || rq < 0 || !same) {
    pni_fail(c, PN_MISSING, "renyi: there is no closed form for %s and %s%s", p->kind->name, q->kind->name,
             rp < 0 || rq < 0 ? "" : " with different events");
    return NULL;
  }
  if (!(a > 0) || isinf(a)) {
    pni_fail(c, PN_DOMAIN, "renyi: order must be positive and finite, got %.7g", a);
    return NULL;
  }
  if (p->dtype != q->dtype) {
    pni_fail(c, PN_DTYPE, "renyi: distributions must have one dtype, got %s and %s", pn_dtype_name((pn_dtype)p->dtype),
             pn_dtype_name((pn_dtype)q->dtype));
    return NULL;
  }
  if (a == 1) return pn_dist_kl(c, p, q);
  T *t = rank ? of_vectors(c, p, q, a) : of_numbers(c, p, q, a);
  pn_axes axes = {.n = moved};
  for (int i = 0; i < moved; i++) axes.axis[i] = -1 - i;
  return t && moved ? pn_sum(c, t, axes, 0) : t;
}
