/*
** cached_inverse.c: a draw of a flow with a slow inverse knows what it was drawn from, so that its density takes one
** pass of each network and not one for each number. Two operations that change no number:
**   came_from(y, x)    y, computed from x; attr: the bijector's serial number, version of its parameters, direction
**   went_to(x, y)      x for the inverse of such a y
** The gradient of went_to goes to x: along with that of y it is the total one, of a function of what x and the
** parameters are made of, as the one in the slow inverse would be. What it does not have is the gradient in y alone,
** which is refused.
*/
#include "bijector.h"

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  (void)c;
  *out = pni_spec_of(call->in[0]);
  return PN_OK;
}

static bool view(const pni_call *call, pn_tensor *out) {
  for (int i = 0; i < out->ndim; i++) out->stride[i] = call->in[0]->stride[i];
  return true;
}

static pn_tensor *vjp_came(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *x = pni_in(y, k);
  return k == 0 ? g : pn_zeros(c, (pn_dtype)x->dtype, x->ndim, x->shape);
}

static pn_tensor *vjp_went(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)y;
  if (k == 0) return g;
  pni_fail(c, PN_MISSING,
           "inverse: its gradient in a draw of the same bijector is not kept; take the draw as a parameter: "
           "pn.param(y:detach())");
  return NULL;
}

static const pni_op came_from = {
    .name = "came_from", .flags = PNI_OP_HIDDEN | PNI_OP_ASIDE, .infer = infer, .view = view, .vjp = vjp_came};
static const pni_op went_to = {
    .name = "went_to", .flags = PNI_OP_HIDDEN | PNI_OP_ASIDE, .infer = infer, .view = view, .vjp = vjp_went};

static bool slow(const pn_bijector *b, bool forward) {
  if (!b->nparts) return (b->kind->flags & (forward ? PNI_BIJECTOR_SLOW_FORWARD : PNI_BIJECTOR_SLOW_INVERSE)) != 0;
  bool backwards = b->kind->parts > 0;
  for (int i = 0; i < b->nparts; i++)
    if (slow(b->part[i], backwards ? !forward : forward)) return true;
  return false;
}

pn_tensor *pni_bijector_mark(pn_context *c, const pn_bijector *b, pn_tensor *x, pn_tensor *y, bool forward,
                             uint64_t version) {
  if (!y || !pn_tensor_requires_grad(y) || c->no_grad || !slow(b, !forward)) return y;
  pni_attr a = {.ni = 3, .i = {b->serial, (int64_t)version, forward}};
  return pni_apply2(c, &came_from, y, x, &a);
}

pn_tensor *pni_bijector_kept(pn_context *c, const pn_bijector *b, pn_tensor *t, bool forward, uint64_t version) {
  const pn_tensor *y = t;
  while (y->op == &went_to) y = y->in[0].t;
  if (y->op != &came_from || !slow(b, forward)) return NULL;
  const int64_t *i = y->attr->i;
  if (i[0] != b->serial || (uint64_t)i[1] != version || (i[2] != 0) == forward) return NULL;
  return pni_apply2(c, &went_to, y->in[1].t, t, NULL);
}
