/*
** param.c: parameters, the only tensors that change. Their storage is their own and counts versions, so
** a graph that used old values is noticed.
*/
#include <string.h>
#include "op/op.h"

pn_tensor *pn_param(pn_context *c, pn_tensor *t) {
  if (!PNI_GIVEN(c, "param", t)) return NULL;
  if (!pni_is_float(t)) {
    pni_fail(c, PN_DTYPE, "param: tensor must be float64 or float32, got %s", pn_dtype_name((pn_dtype)t->dtype));
    return NULL;
  }
  if (pni_refuse_capture(c, "param", "make parameters outside")) return NULL;
  pni_spec s = pni_spec_of(t);
  pn_tensor *p = pni_tensor_new(c, &s);
  if (!p) return NULL;
  if (pni_copy(c, p, t)) {
    pn_tensor_unref(p);
    return NULL;
  }
  p->flags = PNI_REQUIRES_GRAD | PNI_PARAM;
  p->storage->version = 1;
  return pni_scoped(c, p);
}

int pn_tensor_requires_grad(const pn_tensor *t) { return t ? (t->flags & PNI_REQUIRES_GRAD) != 0 : 0; }
pn_status pn_tensor_set_requires_grad(pn_context *c, pn_tensor *t, int on) {
  if (pni_failed(c)) return c->status;
  if (!t) return pni_fail(c, PN_STATE, "requires_grad: x must be a tensor, got NULL");
  if (!pni_is_float(t))
    return pni_fail(c, PN_DTYPE, "requires_grad: x must be float64 or float32, got %s",
                    pn_dtype_name((pn_dtype)t->dtype));
  if (!pni_is_data(t)) {
    if (on) return PN_OK;
    return pni_fail(c, PN_STATE, "requires_grad: x must be data to have none, got %s",
                    t->flags & PNI_PARAM ? "a parameter" : "a tensor that was computed from one (detach it)");
  }
  if (c->recorder && !pni_has_slot(c, t))
    return pni_refuse_capture(c, "x:requires_grad(true) of what the function finds outside",
                              "pass x as an argument, or make it a parameter outside");
  t->flags = on ? t->flags | PNI_REQUIRES_GRAD : t->flags & ~PNI_REQUIRES_GRAD;
  return PN_OK;
}

int pn_tensor_is_param(const pn_tensor *t) { return t ? (t->flags & PNI_PARAM) != 0 : 0; }
pn_tensor *pn_tensor_grad(const pn_tensor *t) { return t ? t->grad : NULL; }

void pn_tensor_clear_grad(pn_tensor *t) {
  if (!t) return;
  pn_tensor_unref(t->grad);
  t->grad = NULL;
}

pn_status pn_param_set(pn_context *c, pn_tensor *param, pn_tensor *t) {
  if (pni_failed(c) || pni_refuse_capture(c, "setting a parameter", "do it outside")) return c->status;
  if (!param || !t || !(param->flags & (PNI_PARAM | PNI_BUFFER)))
    return pni_fail(c, PN_STATE, "param_set: target must be a parameter or a buffer");
  if (param->dtype != t->dtype)
    return pni_fail(c, PN_DTYPE, "param_set: dtype must be %s, got %s", pn_dtype_name((pn_dtype)param->dtype),
                    pn_dtype_name((pn_dtype)t->dtype));
  bool same = param->ndim == t->ndim && memcmp(param->shape, t->shape, (size_t)t->ndim * sizeof *t->shape) == 0;
  if (!same) {
    char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_SHAPE, "param_set: shape must be %s, got %s", pni_shape_text(param->ndim, param->shape, a),
                    pni_shape_text(t->ndim, t->shape, b));
  }
  /* a view of the parameter itself must not be read while it is written */
  pn_tensor *copy = t->storage == param->storage && !pni_is_contiguous(t) ? pni_contiguous(c, t) : pn_tensor_ref(t);
  if (!copy) return c->status;
  if (pni_copy(c, param, copy) == PN_OK) param->storage->version++;
  pn_tensor_unref(copy);
  return c->status;
}
