/*
** renyi.c: the divergence of order a of two Gaussians (Gil, Alajaji & Linder 2013, table 2),
**   D_a(p || q) = a (m_p - m_q) . S^-1 (m_p - m_q) / 2 - (log det S - (1 - a) log det S_p - a log det S_q) / (2 (a - 1)),
**   S = a S_q + (1 - a) S_p
** for a > 0, a != 1; infinite where S is not positive (possible for a > 1 alone); a = 1 is the Kullback-Leibler one.
*/
#include "../formula.h"

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }

/* log((1 - a) v_p + a v_q) etc. for numbers */
static T *of_numbers(C *c, D *p, D *q, double a) {
  T *vp = pn_dist_variance(c, p), *vq = pn_dist_variance(c, q);
  T *s = pn_add(c, times(c, vq, a), times(c, vp, 1 - a));
  T *ok = above(c, s, 0), *safe = only(c, ok, s, 1);
  T *apart = pn_div(c, pn_square(c, pn_sub(c, pn_dist_mean(c, p), pn_dist_mean(c, q))), safe);
  T *logs = pn_sub(c, pn_log(c, safe), pn_add(c, times(c, pn_log(c, vp), 1 - a), times(c, pn_log(c, vq), a)));
  T *d = pn_sub(c, times(c, apart, a / 2), times(c, logs, 1 / (2 * (a - 1))));
  return only(c, ok, d, INFINITY);
}

/* 2 sum log diag L = log det S */
static T *log_det(C *c, T *lower) { return times(c, pn_sum(c, pn_log(c, pn_diagonal(c, lower)), LAST, 0), 2); }

/* S is positive where all eigenvalues of L_q^-1 S L_q^-T are; others are replaced by S_q and then by infinity. */
static T *of_vectors(C *c, D *p, D *q, double a) {
  T *lp = pn_dist_param(c, p, "scale_tril"), *lq = pn_dist_param(c, q, "scale_tril");
  T *sp = pn_matmul(c, lp, mt(c, lp)), *sq = pn_matmul(c, lq, mt(c, lq));
  T *s = pn_add(c, times(c, sq, a), times(c, sp, 1 - a));
  int old = pn_set_no_grad(c, 1);
  T *ok = pni_constraint_mask(c, &pni_constraint_positive_definite, s);
  T *over = pn_unsqueeze(c, pn_unsqueeze(c, ok, -1), -1);
  pn_set_no_grad(c, old);
  T *l = pn_cholesky(c, pn_where(c, over, s, sq));
  T *m = pn_unsqueeze(c, pn_sub(c, pn_dist_mean(c, p), pn_dist_mean(c, q)), -1);
  T *apart = pn_sum(c, pn_square(c, pn_solve_triangular(c, l, m, 0, 0)), (pn_axes){2, {-2, -1}}, 0);
  T *logs = pn_sub(c, log_det(c, l), pn_add(c, times(c, log_det(c, lp), 1 - a), times(c, log_det(c, lq), a)));
  T *d = pn_sub(c, times(c, apart, a / 2), times(c, logs, 1 / (2 * (a - 1))));
  return only(c, ok, d, INFINITY);
}

pn_tensor *pn_dist_renyi(C *c, D *p, D *q, double a) {
  if (!p || !q || pni_failed(c)) return NULL;
  bool numbers = p->kind == &pni_dist_normal && q->kind == p->kind && p->moved == q->moved;
  bool vectors = p->kind == &pni_dist_multivariate_normal && q->kind == p->kind && p->moved == q->moved;
  if (!numbers && !vectors) {
    pni_fail(c, PN_MISSING, "renyi: there is no closed form for %s and %s", p->kind->name, q->kind->name);
    return NULL;
  }
  if (!(a > 0) || isinf(a)) {
    pni_fail(c, PN_DOMAIN, "renyi: order must be positive and finite, got %.7g", a);
    return NULL;
  }
  if (a == 1) return pn_dist_kl(c, p, q);
  return pni_dist_sum_moved(c, p, numbers ? of_numbers(c, p, q, a) : of_vectors(c, p, q, a));
}
