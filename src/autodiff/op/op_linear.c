/*
** op_linear.c: the affine map of a layer, y = x W + b, one node instead of two. Its gradients are
** g W^T for x, x^T g for W and the column sums of g for b.
*/
#include "op.h"
#include "../../tensor/product/blas.h"

static pn_status infer_linear(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *w = call->in[1], *b = call->in[2];
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT], u[PNI_SHAPE_TEXT];
  bool fits = x->ndim >= 2 && w->ndim == 2 && b->ndim == 1 && x->shape[x->ndim - 1] == w->shape[0] &&
              b->shape[0] == w->shape[1];
  if (!fits)
    return pni_fail(c, PN_SHAPE, "linear: shapes must be [..., n, in], [in, out], [out], got %s, %s, %s",
                    pni_shape_text(x->ndim, x->shape, s), pni_shape_text(w->ndim, w->shape, t),
                    pni_shape_text(b->ndim, b->shape, u));
  *out = pni_spec_of(x);
  out->shape[out->ndim - 1] = w->shape[1];
  return PN_OK;
}

static pn_status eval_linear(pn_context *c, const pni_call *call, pn_tensor *out) {
  return pni_matmul(c, call->in[0], call->in[1], call->in[2], out);
}

static bool prepare_linear(const pni_call *call, pn_tensor *out, pni_prepared *p) {
  return pni_product_prepare(call->in[0], call->in[1], call->in[2], out, &p->product);
}

static pn_status run_linear(pn_context *c, const pni_prepared *p) { return pni_product_run(c, &p->product); }

static pn_tensor *vjp_linear(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  if (k == 0) return pn_matmul(c, g, pn_transpose(c, pni_in(y, 1), 0, 1));
  pn_tensor *flat = pni_flat_rows(c, g);
  if (k == 1) return pn_matmul(c, pn_transpose(c, pni_flat_rows(c, pni_in(y, 0)), 0, 1), flat);
  return pn_sum(c, flat, (pn_axes){1, {0}}, 0);
}

pn_tensor *pn_linear(pn_context *c, pn_tensor *x, pn_tensor *weight, pn_tensor *bias) {
  if (!PNI_GIVEN(c, "linear", x, weight, bias)) return NULL;
  if (x->ndim >= 2 && weight->ndim == 2 && bias->ndim == 1)
    return pni_apply(c, &pni_op_linear, 3, (pn_tensor *[]){x, weight, bias}, NULL);
  return pn_add(c, pn_matmul(c, x, weight), bias);
}

const pni_op pni_op_linear = {.name = "linear",
                              .args = "x:t weight:t bias:t",
                              .doc = "x W + b: [..., n, in], [in, out], [out] -> [..., n, out]",
                              .flags = PNI_OP_HIDDEN,
                              .infer = infer_linear,
                              .eval = eval_linear,
                              .prepare = prepare_linear,
                              .run = run_linear,
                              .vjp = vjp_linear};
