/*
** op_tria.c: square roots of covariances. tria takes a matrix x to the lower triangle l with l l^T = x x^T by
** rotations, without forming the product, so that l has all digits where x x^T has lost half of them. Sums of
** covariances are tria of roots beside each other: Särkkä (2013), "Bayesian Filtering and Smoothing".
*/
#include "op.h"
#include "../../tensor/lapack/linalg.h"

typedef pn_tensor T;
typedef pn_context C;

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }
static int64_t side(const T *x, int back) { return x->shape[x->ndim - back]; }

static pn_status infer_tria(C *c, const pni_call *call, pni_spec *out) {
  const T *x = call->in[0];
  char s[PNI_SHAPE_TEXT];
  int dtype;
  if (pni_same_float(c, call, &dtype)) return c->status;
  if (x->ndim < 2 || side(x, 1) < side(x, 2))
    return pni_fail(c, PN_SHAPE, "tria: matrix must have shape [..., n, k] with k at least n, got %s",
                    pni_shape_text(x->ndim, x->shape, s));
  *out = pni_spec_of(x);
  out->shape[out->ndim - 1] = side(x, 2);
  return PN_OK;
}

static pn_status eval_tria(C *c, const pni_call *call, T *out) {
  return pni_linalg(c, "tria", PNI_PATH_CHOICE, PNI_LANE_TRIA, 0, call->in[0], NULL, out);
}

/* x = l Q with Q Q^T = I. With M = l^T dl and S the symmetric matrix of its lower triangle, dx = l^-T S Q: the
 * gradient of a QR factorisation (op_factor.c) that has none for Q. */
static T *vjp_tria(C *c, T *y, T *g, int k) {
  (void)k;
  T *q = pn_solve_triangular(c, y, pni_in(y, 0), 0, 0), *m = pn_matmul(c, mt(c, y), pn_tril(c, g, 0));
  T *s = pn_add(c, pn_tril(c, m, 0), mt(c, pn_tril(c, m, -1)));
  return pn_solve_triangular(c, y, pn_matmul(c, s, q), 0, 1);
}

T *pn_tria(C *c, T *x) {
  if (!x || x->ndim < 2 || (side(x, 2) <= PNI_LANE_MAX && side(x, 1) <= PNI_LANE_COLUMNS))
    return pni_apply1(c, &pni_op_tria, x, NULL);
  T *q = NULL, *r = NULL;
  pni_call call = {.op = &pni_op_tria, .in = &x, .nin = 1};
  pni_spec spec;
  if (infer_tria(c, &call, &spec) || pn_qr(c, mt(c, x), &q, &r)) return NULL;
  T *d = pn_diagonal(c, r), *one = d ? pni_like(c, d, 1) : NULL;
  T *sign = pn_where(c, pn_lt(c, d, d ? pni_like(c, d, 0) : NULL), pn_neg(c, one), one);
  return pn_mul(c, mt(c, r), pn_unsqueeze(c, sign, -2));
}

const pni_op pni_op_tria = {.name = "tria",
                            .args = "x:t",
                            .doc = "lower triangle l with l l^T = x x^T and diagonal not negative, by rotations: "
                                   "[..., n, k], k >= n -> [..., n, n]",
                            .infer = infer_tria,
                            .eval = eval_tria,
                            .vjp = vjp_tria};
