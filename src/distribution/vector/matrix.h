/*
** matrix.h: short names for formulas over vectors and matrices, beside those of formula.h. Include it in a .c file
** only. Matrices are the last two axes; lower triangular ones are called l.
*/
#ifndef PN_DISTRIBUTION_VECTOR_MATRIX_H
#define PN_DISTRIBUTION_VECTOR_MATRIX_H

#include "../formula.h"
#include "../kernel/density.h"

#define LAST_TWO ((pn_axes){2, {-2, -1}})

/* X^T */
static inline T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }
/* Size of the last axis of x, 0 after a failure. */
static inline int64_t last_size(const T *x) { return x ? x->shape[x->ndim - 1] : 0; }
static inline T *identity_like(C *c, const T *x) {
  int64_t n = last_size(x);
  return x ? pn_eye(c, (pn_dtype)x->dtype, n, n) : NULL;
}

/* |v|^2 and |X|_F^2 */
static inline T *square_length(C *c, T *v) { return pn_sum(c, pn_square(c, v), LAST, 0); }
static inline T *square_norm(C *c, T *x) { return pn_sum(c, pn_square(c, x), LAST_TWO, 0); }

/* log det L = half of log det L L^T */
static inline T *log_diagonal(C *c, T *l) { return pn_sum(c, pn_log(c, pn_diagonal(c, l)), LAST, 0); }

/* L^-1 X */
static inline T *unscale(C *c, T *l, T *x) { return pn_solve_triangular(c, l, x, 0, 0); }

/* M y for vectors y [..., n], M [..., m, n]. One matrix serves all vectors as rows of one product. */
static inline T *apply(C *c, T *m, T *y) {
  if (!m || !y) return NULL;
  if (m->ndim == 2) return pn_matmul(c, y, mt(c, m));
  return pn_squeeze(c, pn_matmul(c, m, pn_unsqueeze(c, y, -1)), -1);
}

/* L^-1 y for vectors y [..., n]. One matrix serves all vectors as columns of one system. */
static inline T *whiten(C *c, T *l, T *y) {
  if (!l || !y) return NULL;
  if (l->ndim > 2) return pn_squeeze(c, unscale(c, l, pn_unsqueeze(c, y, -1)), -1);
  int64_t rows[2] = {pni_count(y->ndim - 1, y->shape), y->shape[y->ndim - 1]};
  return pn_reshape(c, mt(c, unscale(c, l, mt(c, pn_reshape(c, y, 2, rows)))), y->ndim, y->shape);
}

/* |L^-1 y|^2 for vectors y [..., n]: one matrix by a kernel of its own, or whitened columns are summed where they
 * stand. */
static inline T *distance_from(C *c, T *l, T *y) {
  if (!l || !y || l->ndim > 2) return square_length(c, whiten(c, l, y));
  T *at_once = pni_distance_from(c, l, y, NULL);
  if (at_once || pni_failed(c)) return at_once;
  int64_t rows[2] = {pni_count(y->ndim - 1, y->shape), y->shape[y->ndim - 1]};
  T *columns = unscale(c, l, mt(c, pn_reshape(c, y, 2, rows)));
  return pn_reshape(c, pn_sum(c, pn_square(c, columns), (pn_axes){1, {-2}}, 0), y->ndim - 1, y->shape);
}

/* L L^T */
static inline T *outer(C *c, T *l) { return pn_matmul(c, l, mt(c, l)); }

/* v [...] as [..., 1] and [..., 1, 1], to stand beside vectors and matrices */
static inline T *beside_vector(C *c, T *v) { return pn_unsqueeze(c, v, -1); }
static inline T *beside_matrix(C *c, T *v) { return pn_unsqueeze(c, pn_unsqueeze(c, v, -1), -1); }

/* 0, step, 2 step ... : n numbers of the dtype of the parameters */
static inline T *count_by(C *c, D *d, int64_t n, double step) {
  return times(c, pn_cast(c, pn_arange(c, PN_FLOAT64, 0, (double)n, 1), (pn_dtype)d->dtype), step);
}

/* lgamma(h + 1/2) - lgamma(h) - log(h)/2 and digamma(h + 1/2) - digamma(h), also for large h */
T *pni_lgamma_half_step(C *c, T *h);
T *pni_digamma_half_step(C *c, T *h);

#endif
