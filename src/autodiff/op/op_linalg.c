/*
** op_linalg.c: triangular and general systems, determinants, over batches. Gradients are those of Giles (2008),
** "Collected matrix derivative results for forward and reverse mode algorithmic differentiation".
*/
#include "op.h"
#include "../../tensor/lapack/linalg.h"

typedef pn_tensor T;
typedef pn_context C;

/* X^T over the last two axes. */
static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }

static pn_status needs_square(C *c, const pni_call *call) {
  const T *x = call->in[0];
  char s[PNI_SHAPE_TEXT];
  if (x->ndim >= 2 && x->shape[x->ndim - 1] == x->shape[x->ndim - 2]) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: matrix must have shape [..., n, n], got %s", call->op->name,
                  pni_shape_text(x->ndim, x->shape, s));
}

static pn_status infer_square(C *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  return needs_square(c, call);
}

static pn_status infer_scalar(C *c, const pni_call *call, pni_spec *out) {
  if (needs_square(c, call)) return c->status;
  *out = pni_spec_of(call->in[0]);
  out->ndim -= 2;
  return PN_OK;
}

/* ---- systems: b is [..., n, k], or [n] ---- */

/* A vector b is one column. */
static T as_columns(const T *b) {
  T m = *b;
  if (b->ndim != 1) return m;
  m.ndim = 2;
  m.shape[1] = 1;
  m.stride[1] = 1;
  return m;
}

static pn_status infer_solve(C *c, const pni_call *call, pni_spec *out) {
  if (needs_square(c, call)) return c->status;
  T a = *call->in[0], b = as_columns(call->in[1]);
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  int64_t n = a.shape[a.ndim - 1], k = b.ndim ? b.shape[b.ndim - 1] : 0;
  if (b.ndim == 0 || b.shape[b.ndim - 2] != n)
    return pni_fail(c, PN_SHAPE, "%s: right side of a matrix %s must be [..., %lld, k] or [%lld], got %s",
                    call->op->name, pni_shape_text(a.ndim, a.shape, s), (long long)n, (long long)n,
                    pni_shape_text(call->in[1]->ndim, call->in[1]->shape, t));
  a.ndim -= 2;
  b.ndim -= 2;
  out->dtype = a.dtype;
  if (pni_broadcast(c, call->op->name, &a, &b, out)) return c->status;
  out->shape[out->ndim++] = n;
  /* a vector against a batch of matrices gives a batch of vectors */
  if (call->in[1]->ndim > 1) out->shape[out->ndim++] = k;
  return PN_OK;
}

static pn_status eval_system(C *c, const pni_call *call, T *out, int kind, int flags) {
  T b = as_columns(call->in[1]), columns = *out;
  if (call->in[1]->ndim == 1) {
    columns.ndim = out->ndim + 1;
    columns.shape[out->ndim] = 1;
    columns.stride[out->ndim] = 1;
  }
  return pni_linalg(c, call->op->name, PNI_PATH_CHOICE, kind, flags, call->in[0], &b, &columns);
}

/* Columns of all batches beside each other, as rows: [..., n, k] -> [N k, n]. */
static T *rows_of(C *c, T *x) {
  int64_t n = x->shape[x->ndim - 2];
  return pn_reshape(c, mt(c, x), 2, (int64_t[]){n ? x->numel / n : 0, n});
}

/* u v^T, of shapes that are alike, summed down to the shape of a. */
static T *outer_to(C *c, T *u, T *v, const T *a) {
  if (!u || !v) return NULL;
  if (a->ndim == 2) return pn_matmul(c, mt(c, rows_of(c, u)), rows_of(c, v));
  return pni_sum_to(c, pn_matmul(c, u, mt(c, v)), a);
}

/* y and g with vectors as columns. */
static bool columns_of(C *c, const T *y, T **x, T **g) {
  *x = (T *)(uintptr_t)y;
  if (pni_in(y, 1)->ndim > 1) return *g != NULL;
  *x = pn_unsqueeze(c, *x, -1);
  *g = pn_unsqueeze(c, *g, -1);
  return *x && *g;
}

/* The gradient of the right side from its columns. */
static T *to_right_side(C *c, T *gb, const T *b) { return pni_sum_to(c, b->ndim == 1 ? pn_squeeze(c, gb, -1) : gb, b); }

/* attr: upper, transpose */
static pn_status eval_solve_triangular(C *c, const pni_call *call, T *out) {
  const int64_t *i = call->attr->i;
  int flags = (i[0] ? PNI_UPPER : 0) | (i[1] ? PNI_TRANSPOSE : 0);
  return eval_system(c, call, out, PNI_LANE_TRIANGULAR, flags);
}

/* dB = op(A)^-T G; dA = -dB X^T, transposed for op(A) = A^T, within the triangle. */
static T *vjp_solve_triangular(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *x;
  int upper = y->attr->i[0] != 0, transpose = y->attr->i[1] != 0;
  if (!columns_of(c, y, &x, &g)) return NULL;
  T *gb = pn_solve_triangular(c, a, g, upper, !transpose);
  if (k == 1) return to_right_side(c, gb, pni_in(y, 1));
  T *ga = pn_neg(c, transpose ? outer_to(c, x, gb, a) : outer_to(c, gb, x, a));
  return upper ? pn_triu(c, ga, 0) : pn_tril(c, ga, 0);
}

T *pn_solve_triangular(C *c, T *a, T *b, int upper, int transpose) {
  return pni_apply2(c, &pni_op_solve_triangular, a, b, &(pni_attr){.ni = 2, .i = {upper != 0, transpose != 0}});
}

static pn_status eval_cholesky_solve(C *c, const pni_call *call, T *out) {
  return eval_system(c, call, out, PNI_LANE_CHOLESKY_SOLVE, 0);
}

/* A = L L^T: dB = A^-1 G; dA = -dB X^T, so dL = -tril((dB X^T + X dB^T) L). */
static T *vjp_cholesky_solve(C *c, T *y, T *g, int k) {
  T *l = pni_in(y, 0), *x;
  if (!columns_of(c, y, &x, &g)) return NULL;
  T *gb = pn_cholesky_solve(c, l, g);
  if (k == 1) return to_right_side(c, gb, pni_in(y, 1));
  T *ga = outer_to(c, gb, x, l);
  T *lower = pn_tril(c, l, 0);
  return pn_neg(c, pn_tril(c, pn_matmul(c, pn_add(c, ga, mt(c, ga)), lower), 0));
}

T *pn_cholesky_solve(C *c, T *l, T *b) { return pni_apply2(c, &pni_op_cholesky_solve, l, b, NULL); }

static pn_status eval_solve(C *c, const pni_call *call, T *out) { return eval_system(c, call, out, PNI_LANE_SOLVE, 0); }

/* dB = A^-T G, dA = -dB X^T. */
static T *vjp_solve(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *x;
  if (!columns_of(c, y, &x, &g)) return NULL;
  T *gb = pn_solve(c, mt(c, a), g);
  if (k == 1) return to_right_side(c, gb, pni_in(y, 1));
  return pn_neg(c, outer_to(c, gb, x, a));
}

T *pn_solve(C *c, T *a, T *b) { return pni_apply2(c, &pni_op_solve, a, b, NULL); }

/* ---- inverse and determinants ---- */

static pn_status eval_inverse(C *c, const pni_call *call, T *out) {
  return pni_linalg(c, "inverse", PNI_PATH_CHOICE, PNI_LANE_INVERSE, 0, call->in[0], NULL, out);
}

/* dA = -Y^T G Y^T */
static T *vjp_inverse(C *c, T *y, T *g, int k) {
  (void)k;
  T *yt = mt(c, y);
  return pn_neg(c, pn_matmul(c, pn_matmul(c, yt, g), yt));
}

T *pn_inverse(C *c, T *x) { return pni_apply1(c, &pni_op_inverse, x, NULL); }

static pn_status eval_logdet(C *c, const pni_call *call, T *out) {
  return pni_linalg(c, "logdet", PNI_PATH_CHOICE, PNI_LANE_LOGDET, 0, call->in[0], NULL, out);
}
static pn_status eval_det(C *c, const pni_call *call, T *out) {
  return pni_linalg(c, "det", PNI_PATH_CHOICE, PNI_LANE_DET, 0, call->in[0], NULL, out);
}
static pn_status eval_det_sign(C *c, const pni_call *call, T *out) {
  return pni_linalg(c, "det_sign", PNI_PATH_CHOICE, PNI_LANE_DET_SIGN, 0, call->in[0], NULL, out);
}

/* A^-T times one number per matrix, which stands on the right side: an inverse may overflow where this does not. */
static T *times_inverse(C *c, T *g, T *a) {
  int64_t n = a->shape[a->ndim - 1];
  T *right = pn_mul(c, pn_unsqueeze(c, pn_unsqueeze(c, g, -1), -1), pn_eye(c, (pn_dtype)a->dtype, n, n));
  return pn_solve(c, mt(c, a), right);
}

static T *vjp_logdet(C *c, T *y, T *g, int k) { return (void)k, times_inverse(c, g, pni_in(y, 0)); }
static T *vjp_det(C *c, T *y, T *g, int k) { return (void)k, times_inverse(c, pn_mul(c, g, y), pni_in(y, 0)); }
static T *vjp_det_sign(C *c, T *y, T *g, int k) {
  return (void)g, (void)k, pn_zeros(c, (pn_dtype)y->dtype, pni_in(y, 0)->ndim, pni_in(y, 0)->shape);
}

T *pn_logdet(C *c, T *x) { return pni_apply1(c, &pni_op_logdet, x, NULL); }
T *pn_det(C *c, T *x) { return pni_apply1(c, &pni_op_det, x, NULL); }
T *pn_det_sign(C *c, T *x) { return pni_apply1(c, &pni_op_det_sign, x, NULL); }

/* ---- rows ---- */

const pni_op pni_op_solve_triangular = {
    .name = "solve_triangular",
    .args = "a:t b:t upper:b=false transpose:b=false",
    .doc = "x with a x = b (a^T x = b), from the lower (upper) triangle of a alone: [..., n, n], [..., n, k] or [n]; "
           "leading axes broadcast; nil, message, code for a singular matrix",
    .infer = infer_solve,
    .eval = eval_solve_triangular,
    .vjp = vjp_solve_triangular};

const pni_op pni_op_cholesky_solve = {
    .name = "cholesky_solve",
    .args = "l:t b:t",
    .doc = "x with l l^T x = b for the lower triangle of l, a Cholesky factor: [..., n, n], [..., n, k] or [n]; "
           "leading axes broadcast; nil, message, code for a singular matrix",
    .infer = infer_solve,
    .eval = eval_cholesky_solve,
    .vjp = vjp_cholesky_solve};

const pni_op pni_op_solve = {.name = "solve",
                             .args = "a:t b:t",
                             .doc = "x with a x = b, by elimination with row exchanges: [..., n, n], [..., n, k] or "
                                    "[n]; leading axes broadcast; nil, message, code for a singular matrix",
                             .infer = infer_solve,
                             .eval = eval_solve,
                             .vjp = vjp_solve};

const pni_op pni_op_inverse = {
    .name = "inverse",
    .args = "x:t",
    .doc = "inverse matrix, [..., n, n] -> [..., n, n]; nil, message, code for a singular matrix",
    .infer = infer_square,
    .eval = eval_inverse,
    .vjp = vjp_inverse};

const pni_op pni_op_logdet = {.name = "logdet",
                              .args = "x:t",
                              .doc = "log |det x|, [..., n, n] -> [...]; -inf for a singular x, which has no gradient",
                              .infer = infer_scalar,
                              .eval = eval_logdet,
                              .vjp = vjp_logdet};

const pni_op pni_op_det = {.name = "det",
                           .args = "x:t",
                           .doc = "determinant, [..., n, n] -> [...]; the gradient needs an invertible x",
                           .infer = infer_scalar,
                           .eval = eval_det,
                           .vjp = vjp_det};

const pni_op pni_op_det_sign = {.name = "det_sign",
                                .args = "x:t",
                                .doc = "sign of the determinant: -1, 0 or 1, [..., n, n] -> [...]; gradient zero",
                                .infer = infer_scalar,
                                .eval = eval_det_sign,
                                .vjp = vjp_det_sign};
