/*
** op_reported.c: one number that reports one thing and improves another: the value of a bound with the gradient of
** a surrogate, whose own value means nothing (it may be NaN where weights are 0).
*/
#include "infer_op.h"

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = (pni_spec){.dtype = call->in[0]->dtype};
  return pni_require_axes(c, call, "0 0");
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) { return pni_copy(c, out, call->in[0]); }

static pn_tensor *vjp(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return k == 1 ? g : pni_like(c, pni_in(y, 0), 0);
}

pn_tensor *pni_reported(pn_context *c, pn_tensor *value, pn_tensor *surrogate) {
  if (!value || !surrogate) return NULL;
  return pni_apply2(c, &pni_infer_op_reported, pn_detach(c, value), surrogate, NULL);
}

const pni_op pni_infer_op_reported = {.name = "reported",
                                      .args = "value:t surrogate:t",
                                      .doc = "the value of one number with the gradient of another",
                                      .flags = PNI_OP_HIDDEN,
                                      .infer = infer,
                                      .eval = eval,
                                      .vjp = vjp};
