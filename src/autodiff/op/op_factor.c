/*
** op_factor.c: QR, symmetric eigenproblem and singular values, over batches. A factorisation with several
** results is one hidden row that packs them, [..., size]; the public builders slice it. Gradients: Walter and
** Lehmann (2013), arXiv:1001.1654 (QR), Giles (2008) (eigenvectors), Townsend (2016), "Differentiating the
** singular value decomposition". Eigenvectors and singular vectors of equal values are not unique, so they
** have no derivative: the terms that divide by a difference of equal values are left out. That is exact for
** functions of the values alone and for functions that treat equal ones alike; other gradients are meaningless
** there and large near there. Second derivatives need distinct values.
*/
#include "op.h"
#include "../../tensor/lapack/factor.h"

typedef pn_tensor T;
typedef pn_context C;

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }

static pn_status infer(C *c, const pni_call *call, int kind, pni_spec *out) {
  const T *x = call->in[0];
  char s[PNI_SHAPE_TEXT];
  if (x->ndim < 2)
    return pni_fail(c, PN_SHAPE, "%s: matrix must have at least 2 axes, got %s", call->op->name + sizeof "packed",
                    pni_shape_text(x->ndim, x->shape, s));
  int64_t m = x->shape[x->ndim - 2], n = x->shape[x->ndim - 1];
  if (kind == PNI_FACTOR_EIGH && m != n)
    return pni_fail(c, PN_SHAPE, "eigh: matrix must have shape [..., n, n], got %s",
                    pni_shape_text(x->ndim, x->shape, s));
  *out = pni_spec_of(x);
  out->ndim--;
  out->shape[out->ndim - 1] = pni_factor_size(kind, m, n);
  return PN_OK;
}

/* Elements from `start` of each packed row, as [..., rows, cols], or [..., cols] for rows < 0. */
static T *part(C *c, T *packed, int64_t start, int64_t rows, int64_t cols) {
  if (!packed) return NULL;
  int64_t shape[PN_MAX_DIMS + 1];
  int n = packed->ndim - 1;
  for (int i = 0; i < n; i++) shape[i] = packed->shape[i];
  T *flat = pn_slice(c, packed, -1, start, rows < 0 ? cols : rows * cols, 1);
  if (rows < 0) return flat;
  shape[n++] = rows;
  shape[n++] = cols;
  return pn_reshape(c, flat, n, shape);
}

typedef struct {
  int64_t m, n, k;
} sizes;

static sizes sizes_of(const T *x) {
  sizes s = {x->shape[x->ndim - 2], x->shape[x->ndim - 1], 0};
  s.k = s.m < s.n ? s.m : s.n;
  return s;
}

/* ---- qr ---- */

static pn_status infer_qr(C *c, const pni_call *call, pni_spec *out) { return infer(c, call, PNI_FACTOR_QR, out); }
static pn_status eval_qr(C *c, const pni_call *call, T *out) {
  return pni_factor(c, "qr", PNI_FACTOR_QR, call->in[0], out);
}

/* m >= n: with M = R dR^T - dQ^T Q and S the symmetric matrix of its lower triangle, dA = (dQ + Q S) R^-T. */
static T *tall_qr(C *c, T *q, T *r, T *gq, T *gr) {
  T *m = pn_sub(c, pn_matmul(c, r, mt(c, pn_triu(c, gr, 0))), pn_matmul(c, mt(c, gq), q));
  T *s = pn_add(c, pn_tril(c, m, 0), mt(c, pn_tril(c, m, -1)));
  T *b = pn_add(c, gq, pn_matmul(c, q, s));
  return mt(c, pn_solve_triangular(c, r, mt(c, b), 1, 0));
}

/* m < n: A = [X Y], R = [U V], X = Q U, V = Q^T Y: dY = Q dV, dX is that of X = Q U with dQ + Y dV^T. */
static T *vjp_qr(C *c, T *y, T *g, int k) {
  (void)k;
  T *x = pni_in(y, 0);
  sizes s = sizes_of(x);
  T *q = part(c, y, 0, s.m, s.k), *r = part(c, y, s.m * s.k, s.k, s.n);
  T *gq = part(c, g, 0, s.m, s.k), *gr = part(c, g, s.m * s.k, s.k, s.n);
  if (s.m >= s.n) return tall_qr(c, q, r, gq, gr);
  T *gv = pn_slice(c, gr, -1, s.m, s.n - s.m, 1), *rest = pn_slice(c, x, -1, s.m, s.n - s.m, 1);
  T *all = pn_add(c, gq, pn_matmul(c, rest, mt(c, gv)));
  T *gx = tall_qr(c, q, pn_slice(c, r, -1, 0, s.m, 1), all, pn_slice(c, gr, -1, 0, s.m, 1));
  T *gy = pn_matmul(c, q, gv);
  return gx && gy ? pn_concatenate(c, 2, (T *[]){gx, gy}, -1) : NULL;
}

pn_status pn_qr(C *c, T *x, T **q, T **r) {
  if (!PNI_GIVEN(c, "qr", q, r)) return c->status;
  T *packed = pni_apply1(c, &pni_op_packed_qr, x, NULL);
  if (!packed) return c->status;
  sizes s = sizes_of(x);
  T *first = part(c, packed, 0, s.m, s.k), *second = part(c, packed, s.m * s.k, s.k, s.n);
  if (!first || !second) return c->status;
  *q = first;
  *r = second;
  return PN_OK;
}

/* ---- eigh ---- */

static pn_status infer_eigh(C *c, const pni_call *call, pni_spec *out) { return infer(c, call, PNI_FACTOR_EIGH, out); }
static pn_status eval_eigh(C *c, const pni_call *call, T *out) {
  return pni_factor(c, "eigh", PNI_FACTOR_EIGH, call->in[0], out);
}

/* Element [i, j] is 1 / (v[j] - v[i]), 0 where the two are equal. */
static T *inverse_gaps(C *c, T *v) {
  T *gap = pn_sub(c, pn_unsqueeze(c, v, -2), pn_unsqueeze(c, v, -1));
  T *zero = gap ? pn_cast(c, pn_eq(c, gap, pni_like(c, gap, 0)), (pn_dtype)gap->dtype) : NULL;
  return zero ? pn_div(c, pn_sub(c, pni_like(c, gap, 1), zero), pn_add(c, gap, zero)) : NULL;
}

/* dA = V (diag(dw) + F o V^T dV) V^T, F[i, j] = 1 / (w[j] - w[i]); its symmetric part. */
static T *vjp_eigh(C *c, T *y, T *g, int k) {
  (void)k;
  int64_t n = sizes_of(pni_in(y, 0)).n;
  T *w = part(c, y, 0, -1, n), *v = part(c, y, n, n, n), *gw = part(c, g, 0, -1, n), *gv = part(c, g, n, n, n);
  T *inner = pn_add(c, pn_diag_embed(c, gw), pn_mul(c, inverse_gaps(c, w), pn_matmul(c, mt(c, v), gv)));
  T *ga = pn_matmul(c, pn_matmul(c, v, inner), mt(c, v));
  return pn_mul(c, pn_add(c, ga, mt(c, ga)), pni_like(c, y, 0.5));
}

pn_status pn_eigh(C *c, T *x, T **values, T **vectors) {
  if (!PNI_GIVEN(c, "eigh", values, vectors)) return c->status;
  T *packed = pni_apply1(c, &pni_op_packed_eigh, x, NULL);
  if (!packed) return c->status;
  int64_t n = sizes_of(x).n;
  T *first = part(c, packed, 0, -1, n), *second = part(c, packed, n, n, n);
  if (!first || !second) return c->status;
  *values = first;
  *vectors = second;
  return PN_OK;
}

/* ---- svd ---- */

static pn_status infer_svd(C *c, const pni_call *call, pni_spec *out) { return infer(c, call, PNI_FACTOR_SVD, out); }
static pn_status eval_svd(C *c, const pni_call *call, T *out) {
  return pni_factor(c, "svd", PNI_FACTOR_SVD, call->in[0], out);
}

static T *skew(C *c, T *x) { return pn_sub(c, x, mt(c, x)); }

/* x minus its projection on the columns of the orthonormal u. */
static T *beside(C *c, T *u, T *x) { return pn_sub(c, x, pn_matmul(c, u, pn_matmul(c, mt(c, u), x))); }

/* 1 / s, 0 for s = 0. */
static T *pseudo_reciprocal(C *c, T *s) {
  T *zero = s ? pn_cast(c, pn_eq(c, s, pni_like(c, s, 0)), (pn_dtype)s->dtype) : NULL;
  return zero ? pn_div(c, pn_sub(c, pni_like(c, s, 1), zero), pn_add(c, s, zero)) : NULL;
}

/* With F[i, j] = 1 / (s[j]^2 - s[i]^2) and skew(X) = X - X^T:
 * dA = U (F o skew(U^T dU) S + S F o skew(V^T dV) + diag(ds)) V^T
 *      + (I - U U^T) dU S^-1 V^T + U S^-1 dV^T (I - V V^T). */
static T *vjp_svd(C *c, T *y, T *g, int index) {
  (void)index;
  sizes z = sizes_of(pni_in(y, 0));
  int64_t m = z.m, n = z.n, k = z.k, at = m * k;
  T *u = part(c, y, 0, m, k), *s = part(c, y, at, -1, k), *vt = part(c, y, at + k, k, n);
  T *gu = part(c, g, 0, m, k), *gs = part(c, g, at, -1, k), *gvt = part(c, g, at + k, k, n);
  T *f = inverse_gaps(c, pn_square(c, s)), *row = pn_unsqueeze(c, s, -2), *column = pn_unsqueeze(c, s, -1);
  T *left = pn_mul(c, pn_mul(c, f, skew(c, pn_matmul(c, mt(c, u), gu))), row);
  T *right = pn_mul(c, pn_mul(c, f, skew(c, pn_matmul(c, vt, mt(c, gvt)))), column);
  T *inner = pn_add(c, pn_add(c, left, right), pn_diag_embed(c, gs));
  T *ga = pn_matmul(c, pn_matmul(c, u, inner), vt), *inverse = pseudo_reciprocal(c, s);
  if (m > k) ga = pn_add(c, ga, pn_matmul(c, pn_mul(c, beside(c, u, gu), pn_unsqueeze(c, inverse, -2)), vt));
  if (n > k) {
    T *gv = mt(c, beside(c, mt(c, vt), mt(c, gvt)));
    ga = pn_add(c, ga, pn_matmul(c, pn_mul(c, u, pn_unsqueeze(c, inverse, -2)), gv));
  }
  return ga;
}

pn_status pn_svd(C *c, T *x, T **u, T **s, T **vt) {
  if (!PNI_GIVEN(c, "svd", u, s, vt)) return c->status;
  T *packed = pni_apply1(c, &pni_op_packed_svd, x, NULL);
  if (!packed) return c->status;
  sizes z = sizes_of(x);
  T *first = part(c, packed, 0, z.m, z.k), *second = part(c, packed, z.m * z.k, -1, z.k);
  T *third = part(c, packed, z.m * z.k + z.k, z.k, z.n);
  if (!first || !second || !third) return c->status;
  *u = first;
  *s = second;
  *vt = third;
  return PN_OK;
}

/* ---- rows ---- */

const pni_op pni_op_packed_qr = {.name = "packed_qr",
                                 .args = "x:t",
                                 .doc = "qr: q [m, k] and r [k, n] of [..., m, n] in one row [..., m k + k n]",
                                 .flags = PNI_OP_HIDDEN,
                                 .infer = infer_qr,
                                 .eval = eval_qr,
                                 .vjp = vjp_qr};

const pni_op pni_op_packed_eigh = {.name = "packed_eigh",
                                   .args = "x:t",
                                   .doc =
                                       "eigh: values [n] and vectors [n, n] of [..., n, n] in one row [..., n + n n]",
                                   .flags = PNI_OP_HIDDEN,
                                   .infer = infer_eigh,
                                   .eval = eval_eigh,
                                   .vjp = vjp_eigh};

const pni_op pni_op_packed_svd = {.name = "packed_svd",
                                  .args = "x:t",
                                  .doc = "svd: u [m, k], s [k] and vt [k, n] of [..., m, n] in one row "
                                         "[..., m k + k + k n]",
                                  .flags = PNI_OP_HIDDEN,
                                  .infer = infer_svd,
                                  .eval = eval_svd,
                                  .vjp = vjp_svd};
