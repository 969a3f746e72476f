/*
** op_matmul.c: the matrix product, d(XY) = dX Y + X dY: gradients are g Y^T and X^T g.
*/
#include "op.h"
#include "../tensor/blas.h"

static pn_status infer_matmul(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *y = call->in[1];
  char a[160], b[160];
  if (x->ndim < 2 || y->ndim < 2 || x->shape[x->ndim - 1] != y->shape[y->ndim - 2])
    return pni_fail(c, PN_SHAPE, "matmul: inner sizes must agree, got %s and %s", pni_shape_text(x->ndim, x->shape, a),
                    pni_shape_text(y->ndim, y->shape, b));
  pn_tensor lx = {.ndim = x->ndim - 2}, ly = {.ndim = y->ndim - 2};
  for (int i = 0; i < lx.ndim; i++) lx.shape[i] = x->shape[i];
  for (int i = 0; i < ly.ndim; i++) ly.shape[i] = y->shape[i];
  out->dtype = x->dtype;
  if (pni_broadcast(c, "matmul", &lx, &ly, out)) return c->status;
  out->shape[out->ndim++] = x->shape[x->ndim - 2];
  out->shape[out->ndim++] = y->shape[y->ndim - 1];
  return PN_OK;
}

static pn_status eval_matmul(pn_context *c, const pni_call *call, pn_tensor *out) {
  return pni_matmul(c, call->in[0], call->in[1], out);
}

/* Rows of all batches under each other: [..., n, m] -> [N, m]. */
static pn_tensor *rows(pn_context *c, pn_tensor *t) {
  return pn_reshape(c, t, 2, (int64_t[]){-1, t ? t->shape[t->ndim - 1] : 0});
}

static pn_tensor *vjp_matmul(pn_context *c, pn_tensor *node, pn_tensor *g, int k) {
  pn_tensor *x = pni_in(node, 0), *y = pni_in(node, 1);
  if (k == 0) return pni_sum_to(c, pn_matmul(c, g, pn_transpose(c, y, -2, -1)), x);
  if (y->ndim == 2 && x->ndim > 2 && node->numel) return pn_matmul(c, pn_transpose(c, rows(c, x), 0, 1), rows(c, g));
  return pni_sum_to(c, pn_matmul(c, pn_transpose(c, x, -2, -1), g), y);
}

pn_tensor *pn_matmul(pn_context *c, pn_tensor *x, pn_tensor *y) {
  if (!x || !y) return NULL;
  if (x->ndim == 0 || y->ndim == 0) {
    pni_fail(c, PN_SHAPE, "matmul: operands must have an axis, got a 0-d tensor (use *)");
    return NULL;
  }
  bool vx = x->ndim == 1, vy = y->ndim == 1;
  if (vx) x = pn_unsqueeze(c, x, 0);
  if (vy) y = pn_unsqueeze(c, y, 1);
  pn_tensor *r = pni_apply2(c, &pni_op_matmul, x, y, NULL);
  if (vx && r) r = pn_squeeze(c, r, r->ndim - 2);
  if (vy && r) r = pn_squeeze(c, r, r->ndim - 1);
  return r;
}

const pni_op pni_op_matmul = {.name = "matmul",
                              .args = "x:t y:t",
                              .doc = "matrix product over the last two axes, [..., n, k] [..., k, m] -> [..., n, m]; "
                                     "leading axes broadcast, 1-d operands as in NumPy",
                              .infer = infer_matmul,
                              .eval = eval_matmul,
                              .vjp = vjp_matmul};
