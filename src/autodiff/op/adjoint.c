/* adjoint.c: gradients in several inputs by one kernel. */
#include <string.h>
#include "adjoint.h"

pn_status pni_adjoint_infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *first = call->in[0];
  pni_spec all = pni_spec_of(first);
  for (int k = 1; k < call->nin; k++) {
    pn_tensor wide = {.dtype = first->dtype, .ndim = all.ndim};
    memcpy(wide.shape, all.shape, sizeof wide.shape);
    if (pni_broadcast(c, call->op->name, &wide, call->in[k], &all)) return c->status;
  }
  out->dtype = first->dtype;
  out->ndim = all.ndim + 1;
  out->shape[0] = 0;
  for (int64_t w = call->attr->i[0]; w; w >>= 1) out->shape[0] += w & 1;
  memcpy(out->shape + 1, all.shape, (size_t)all.ndim * sizeof *all.shape);
  return PN_OK;
}

pn_status pni_adjoint_eval(pn_context *c, const pni_call *call, pn_tensor *out, const pni_map_kernel row[2]) {
  pn_tensor first = *out;
  first.ndim--;
  first.numel = out->shape[0] ? out->numel / out->shape[0] : 0;
  memmove(first.shape, first.shape + 1, (size_t)first.ndim * sizeof *first.shape);
  pni_set_contiguous_strides(&first);
  pni_adjoint a = {call->attr->i[0], first.numel, call->attr->i + 1};
  pni_loop l;
  pni_loop_init(&l, &first, call->nin, call->in);
  return first.numel ? pni_loop_run(c, &l, row[out->dtype], &a) : PN_OK;
}

pn_status pni_adjoint_apply(pn_context *c, const pni_op *adjoint, pn_tensor *y, pn_tensor *g, const bool *wanted,
                            pn_tensor **out) {
  pn_tensor *in[PNI_OPERANDS];
  int64_t bits = 0, at = 0;
  if (y->nin + 2 > PNI_OPERANDS || (y->attr && y->attr->ni >= PNI_ATTR_INTS))
    return pni_fail(c, PN_DOMAIN, "%s: at most %d inputs are possible, got %d", adjoint->name, PNI_OPERANDS - 2,
                    y->nin);
  for (int k = 0; k < y->nin; k++) {
    in[k] = pni_in(y, k);
    if (wanted[k]) bits |= (int64_t)1 << k;
  }
  in[y->nin] = g;
  pni_attr attr = {.ni = 1, .i = {bits}};
  for (int i = 0; y->attr && i < y->attr->ni; i++) attr.i[attr.ni++] = y->attr->i[i];
  bool fits = y->ndim < PN_MAX_DIMS;
  pn_tensor *all = fits ? pni_apply(c, adjoint, y->nin + 1, in, &attr) : NULL;
  for (int k = 0; k < y->nin; k++) {
    if (!wanted[k]) continue;
    out[k] = fits ? pn_select(c, all, 0, at++) : y->op->vjp(c, y, g, k);
    if (!out[k]) return c->status;
  }
  return PN_OK;
}
