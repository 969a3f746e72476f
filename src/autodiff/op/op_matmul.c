/*
** op_matmul.c: the matrix product, d(XY) = dX Y + X dY: gradients are g Y^T and X^T g.
*/
#include "op.h"
#include "../../tensor/product/blas.h"

/* A vector on the left is a row, on the right a column; the axis it lacks is absent from the result. */
static pn_tensor as_matrix(const pn_tensor *t, bool left) {
  pn_tensor m = *t;
  if (t->ndim != 1) return m;
  m.ndim = 2;
  m.shape[left] = t->shape[0];
  m.stride[left] = t->stride[0];
  m.shape[!left] = 1;
  m.stride[!left] = 0;
  return m;
}

static pn_status infer_matmul(pn_context *c, const pni_call *call, pni_spec *out) {
  pn_tensor *const *in = call->in;
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  if (in[0]->ndim == 0 || in[1]->ndim == 0)
    return pni_fail(c, PN_SHAPE, "matmul: operands must have an axis, got a 0-d tensor (use *)");
  pn_tensor x = as_matrix(in[0], true), y = as_matrix(in[1], false);
  if (x.shape[x.ndim - 1] != y.shape[y.ndim - 2])
    return pni_fail(c, PN_SHAPE, "matmul: inner sizes must agree, got %s and %s",
                    pni_shape_text(in[0]->ndim, in[0]->shape, a), pni_shape_text(in[1]->ndim, in[1]->shape, b));
  int64_t n = x.shape[x.ndim - 2], m = y.shape[y.ndim - 1];
  x.ndim -= 2;
  y.ndim -= 2;
  out->dtype = x.dtype;
  if (pni_broadcast(c, "matmul", &x, &y, out)) return c->status;
  if (in[0]->ndim > 1) out->shape[out->ndim++] = n;
  if (in[1]->ndim > 1) out->shape[out->ndim++] = m;
  return PN_OK;
}

static pn_status eval_matmul(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor x = as_matrix(call->in[0], true), y = as_matrix(call->in[1], false);
  return pni_matmul(c, &x, &y, NULL, out);
}

static bool prepare_matmul(const pni_call *call, pn_tensor *out, pni_prepared *p) {
  pn_tensor x = as_matrix(call->in[0], true), y = as_matrix(call->in[1], false);
  return pni_product_prepare(&x, &y, NULL, out, &p->product);
}

static pn_status run_matmul(pn_context *c, const pni_prepared *p) { return pni_product_run(c, &p->product); }

static pn_tensor *vjp_matmul(pn_context *c, pn_tensor *node, pn_tensor *g, int k) {
  pn_tensor *x = pni_in(node, 0), *y = pni_in(node, 1), *of = k ? y : x;
  bool row = x->ndim == 1, column = y->ndim == 1;
  if (column) g = pn_unsqueeze(c, g, -1);
  if (row) g = pn_unsqueeze(c, g, -2);
  if (row) x = pn_unsqueeze(c, x, 0);
  if (column) y = pn_unsqueeze(c, y, 1);
  if (!g || !x || !y) return NULL;
  if (k == 0) return pni_sum_to(c, pn_matmul(c, g, pn_transpose(c, y, -2, -1)), of);
  if (of->ndim == 2 && x->ndim > 2 && g->numel)
    return pn_matmul(c, pn_transpose(c, pni_flat_rows(c, x), 0, 1), pni_flat_rows(c, g));
  pn_tensor *d = pn_matmul(c, pn_transpose(c, x, -2, -1), g);
  return pni_sum_to(c, column && d ? pn_squeeze(c, d, -1) : d, of);
}

pn_tensor *pn_matmul(pn_context *c, pn_tensor *x, pn_tensor *y) { return pni_apply2(c, &pni_op_matmul, x, y, NULL); }

const pni_op pni_op_matmul = {.name = "matmul",
                              .args = "x:t y:t",
                              .doc = "matrix product over the last two axes, [..., n, k] [..., k, m] -> [..., n, m]; "
                                     "leading axes broadcast, 1-d operands as in NumPy",
                              .infer = infer_matmul,
                              .eval = eval_matmul,
                              .prepare = prepare_matmul,
                              .run = run_matmul,
                              .vjp = vjp_matmul};
